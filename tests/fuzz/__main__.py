"""Random programs on the simulated chip: `python -m tests.fuzz --programs 10000`."""

import argparse
import os
import secrets
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tests.fuzz.harness import CHUNK, Failure, run_chunk, simulation

SECONDS_BETWEEN_LINES = 10  # where there is no terminal for the bar


def _arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first program (default: 0)")
    parser.add_argument("--seed", type=int, help="default: a new one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    options = parser.parse_args()
    if options.programs < 1 or options.jobs < 1 or options.first < 0:
        parser.error("programs and jobs must be at least 1, and first at least 0")
    return options


def _chunks(first, programs):
    end = first + programs
    while first < end:
        size = min(CHUNK - first % CHUNK, end - first)
        yield first, size
        first += size


def main():
    options = _arguments()
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    simulation()  # before there are several processes
    tally, cycles, failures = Counter(), 0, []
    done, start = 0, time.monotonic()
    told = start
    columns = (
        TextColumn("programs"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with ProcessPoolExecutor(options.jobs) as pool, Progress(*columns) as progress:
        task = progress.add_task("programs", total=options.programs)
        running = {
            pool.submit(run_chunk, seed, first, size): size
            for first, size in _chunks(options.first, options.programs)
        }
        for chunk in as_completed(running):
            try:
                found, ran = chunk.result()
            except Failure as failure:
                failures.append(str(failure))
                progress.console.print(failures[-1], markup=False, highlight=False, soft_wrap=True)
            else:
                tally += found
                cycles += ran
            progress.advance(task, running[chunk])
            done += running[chunk]
            if not progress.console.is_terminal and time.monotonic() - told > SECONDS_BETWEEN_LINES:
                told = time.monotonic()
                print(f"{done:,} of {options.programs:,} programs after {told - start:.0f} s", flush=True)
    for column, what in enumerate(("programs", "hosts", "ends")):
        counts = Counter()
        for key, count in tally.items():
            counts[key[column]] += count
        print(f"{what}: " + ", ".join(f"{name} {count:,}" for name, count in counts.most_common()))
    seconds = time.monotonic() - start
    print(
        f"{tally.total():,} programs passed, {len(failures)} of {len(running)} chunks failed, "
        f"{cycles:,} cycles, {seconds:.0f} s, seed {seed}"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
