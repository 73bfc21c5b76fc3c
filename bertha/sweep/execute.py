"""Runs a sweep's points on Dask: processes of this machine, or a scheduler that is there already."""

import contextlib
import itertools
import os

from bertha.errors import ToolError
from bertha.sweep.work import predict_points

__all__ = ["CHUNK", "run_points"]

CHUNK = 8
"""Points, at most, that a worker takes at once: points of one program, which is then compiled once."""


def run_points(
    points, finished, *, function=predict_points, address=None, workers=None, together=CHUNK, patience="10s"
) -> None:
    """Runs points and tells of each as it is finished.

    Parameters
    ----------
    points : list of Point
    finished : function of (Point, dict)
        Called with each point's result, in any order; one that failed has an `error`.
    function : function of a list of Point
        Their results, a list of dict; by default what is predicted (`bertha.sweep.work`).
    address : str, optional
        Of a Dask scheduler, such as tcp://host:8786. Its workers need this package.
    workers : int, optional
        Processes, without an address; by default as many as there are processors.
    together : int
        Points, at most, that a worker takes at once.
    patience : str
        How long a scheduler may take to answer.

    Raises
    ------
    ToolError
        If the scheduler can't be reached.
    """
    from distributed import as_completed

    with _client(address, workers, patience) as client:
        futures = {}
        for chunk in _chunks(points, together):
            futures[client.submit(function, chunk, pure=False)] = chunk
        for future in as_completed(futures):
            chunk = futures[future]
            if future.status == "finished":
                results = future.result()
            else:  # the worker itself, or what the point was sent with
                error = future.exception() if future.status == "error" else future.status
                results = [{"error": f"{type(error).__name__}: {error}"}] * len(chunk)
            for point, result in zip(chunk, results, strict=True):
                finished(point, result)
            future.release()


def _chunks(points, size):
    """Points that have a program in common, a few at a time."""

    def program(point):
        same = {"latency": 100, "bandwidth": None}
        return repr(sorted({**point.as_dict(), **same}.items(), key=str))

    for _, group in itertools.groupby(sorted(points, key=program), key=program):
        group = list(group)
        for start in range(0, len(group), size):
            yield group[start : start + size]


@contextlib.contextmanager
def _client(address, workers, patience):
    import dask
    from distributed import Client, LocalCluster

    if address is not None:
        try:
            client = Client(address, timeout=patience)
        except (OSError, ValueError, TimeoutError) as error:
            raise ToolError(f"the Dask scheduler {address} can't be reached: {error}") from None
        with client:
            yield client
        return
    with (
        dask.config.set({"distributed.worker.memory.terminate": False}),
        LocalCluster(
            n_workers=workers or os.cpu_count() or 1,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
