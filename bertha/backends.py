"""The two ways to a model's int16 output: the integer model, and the accelerator in simulation."""

import threading

import numpy as np

from bertha.compiler.packing import pack_sentences
from bertha.compiler.predict import default_timing
from bertha.errors import SimulationError
from bertha.golden import integer_model
from bertha.results import AcceleratorRun

__all__ = ["run_accelerator", "run_integers"]

_BATCH = 4096
"""Tokens that go through the integer model together."""

_IN_USE = threading.Lock()
"""A loaded simulation is one: two threads can't use it at once."""


def run_integers(model, inputs, *, progress=None) -> list[np.ndarray]:
    """int16 outputs [s, hidden] of int16 inputs [s, hidden], by the integer model.

    `progress` is called now and then with the sentences that are done, and with all.
    """
    results = [None] * len(inputs)
    done = 0
    for batch in _batches([len(rows) for rows in inputs]):
        outputs = integer_model.run_sentences(model, [inputs[number] for number in batch])
        for number, output in zip(batch, outputs, strict=True):
            results[number] = output
        done += len(batch)
        if progress:
            progress(done, len(inputs))
    return results


def run_accelerator(
    artifact, inputs, *, progress=None, notify=None
) -> tuple[list[np.ndarray], list[AcceleratorRun]]:
    """The same by the accelerator, simulated: outputs, and the runs of the program that it took.

    Sentences are packed into the program's tokens. `progress` is called now and then with cycles so far and
    cycles that are predicted; `notify` with what is being built, if something is.

    Raises
    ------
    ToolError
        If the simulation can't be built.
    DriverError, SimulationError
        If the accelerator stops, breaks AXI4's rules, or writes where it must not.
    """
    from bertha.runtime.session import Session
    from bertha.runtime.transport import complete
    from bertha.sim.build import build
    from bertha.sim.library import LibraryTransport

    program, each = artifact.program, artifact.predicted_cycles
    packings = pack_sentences([len(rows) for rows in inputs], program.tokens)
    simulation = build(program.config, notify=notify)
    results, runs = [None] * len(inputs), []
    with _IN_USE:
        transport = LibraryTransport(simulation)
        try:
            base, end = program.window
            memory = transport.allocate(base, end - base)
            timing = default_timing(program.config)
            memory.set_timing(latency=timing.memory, bandwidth=timing.bandwidth)
            transport.reset()
            session = Session(transport, program, predicted_cycles=each)
            complete(session.load())
            for number, packing in enumerate(packings):
                watch = _watch(progress, number, len(packings), each)
                x16 = packing.gather(inputs, artifact.model.hidden)
                output, counters = complete(session.run(x16, packing.ranges, progress=watch))
                for sentence, place in zip(packing.sentences, packing.places, strict=True):
                    results[sentence] = output[place]
                runs.append(AcceleratorRun(packing.sentences, program.tokens - packing.padding, counters))
            _check_memory(memory, program)
        finally:
            transport.close()
    return results, runs


def _watch(progress, number, count, each):
    """What a driver is to call with the cycles of run `number` so far."""
    if progress is None:
        return None
    progress(number * each, count * each)
    return lambda cycles: progress(number * each + min(cycles, each), count * each)


def _check_memory(memory, program):
    if memory.violations:
        raise SimulationError(f"AXI4 was violated: {'; '.join(memory.violations[:3])}")
    for address, content in program.pieces:
        if memory.view(address, len(content)).tobytes() != content:
            raise SimulationError(
                f"the program must leave its own data alone, but changed some at {address:#x}"
            )


def _batches(lengths):
    """Sentences of like length together, a few thousand tokens each."""
    batch, tokens = [], 0
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and tokens + lengths[number] > _BATCH:
            yield batch
            batch, tokens = [], 0
        batch.append(number)
        tokens += lengths[number]
    if batch:
        yield batch
