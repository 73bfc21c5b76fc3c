"""Turns events that commands wait for into semaphore numbers, units and WAIT commands."""

from collections import defaultdict

import numpy as np

from bertha.compiler.program import Command
from bertha.compiler.synchronise.counters import MOST_UNITS, Counters
from bertha.rtl.isa import Engine, Opcode, semaphore

__all__ = ["WAIT_ONLY", "count_units"]

WAIT_ONLY = {
    Engine.LOAD: Opcode.LOAD_WAIT,
    Engine.STORE: Opcode.STORE_WAIT,
    Engine.GEMM: Opcode.GEMM_WAIT,
    Engine.VECTOR: Opcode.VECTOR_WAIT,
}


def count_units(steps, config) -> list[Command]:
    """The commands of `steps` (see `bertha.compiler.synchronise.synchronise`) with their waits and posts filled in.

    Raises
    ------
    ValueError
        If the semaphores of the configuration don't suffice.
    """
    streams = sorted({stream for step in steps for stream, _ in step.posts.values()})
    if len(streams) > config.semaphores:
        raise ValueError(
            f"the program needs {len(streams)} semaphores, the configuration has {config.semaphores}"
        )
    numbers = {stream: number for number, stream in enumerate(streams)}
    posted, units = _post(steps, numbers)
    taken = defaultdict(int)
    counters = Counters()
    result = []
    for step in steps:
        full = counters.full_streams(step)
        if full:
            # Nobody may know by then that what was posted has been taken: take it all, and wait for that.
            for stream in full:
                for wait in _units_of(numbers[stream], counters.posted[stream] - taken[stream]):
                    command = Command(opcode=WAIT_ONLY[stream[2]], fields={"wait0": wait}, name="full")
                    result.append(command)
                taken[stream] = max(taken[stream], counters.posted[stream])
            result.append(Command(opcode=Opcode.BARRIER, fields={}, name="barrier"))
            counters.barrier(taken)
        if step.command.opcode == Opcode.BARRIER:
            counters.barrier(taken)
        waits, each = _waits_of(step, numbers, units, taken)
        counters.take(step, taken)
        counters.post(step)
        result.extend(_with_waits(step.command, waits, each))
    for stream in streams:
        # Units of tiles that nobody waited for: the next program has to find none.
        for wait in _units_of(numbers[stream], posted[stream] - taken[stream]):
            result.append(Command(opcode=WAIT_ONLY[stream[2]], fields={"wait0": wait}, name="end"))
    return result


def _post(steps, numbers):
    """Fills in the posts; units posted by stream, and up to each event."""
    posted = defaultdict(int)
    units = {}
    for step in steps:
        last = step.command.tiles - 1
        for post, (stream, wanted) in step.posts.items():
            each = wanted != {last}
            for tile in range(step.command.tiles):
                posted[stream] += each or tile == last
                units[stream, id(step), tile] = posted[stream]
            step.command.fields[post] = semaphore(numbers[stream])
            if each:
                step.command.fields[f"{post}_each"] = 1
    return posted, units


def _waits_of(step, numbers, units, taken):
    """Wait fields that a command takes once, and the one it takes before every tile."""
    waits = []

    def take(stream, target):
        waits.extend(_units_of(numbers[stream], target - taken[stream]))
        taken[stream] = max(target, taken[stream])

    for stream, source, tile in step.once:
        take(stream, units[stream, id(source), tile])
    if not step.each:
        return waits, None
    stream = step.each[0][0]
    targets = [units[stream, id(source), tile] for _, source, tile in step.each]
    if np.any(np.diff(targets) != 1) or taken[stream] >= targets[0]:
        take(stream, targets[-1])
        return waits, None
    take(stream, targets[0] - 1)
    taken[stream] = targets[-1]
    return waits, semaphore(numbers[stream])


def _units_of(number, amount):
    """Wait fields that take `amount` units."""
    fields = []
    while amount > 0:
        fields.append(semaphore(number, min(amount, MOST_UNITS)))
        amount -= MOST_UNITS
    return fields


def _with_waits(command, waits, each):
    """The command with its waits, after WAIT commands for those that it has no room for."""
    fields = {}
    if each is not None:
        fields["wait1"], fields["wait1_each"] = each, 1
    room = 1 if each is not None else 2
    before, own = waits[: max(0, len(waits) - room)], waits[max(0, len(waits) - room) :]
    for name, wait in zip(("wait0", "wait1"), own, strict=False):
        fields[name] = wait
    result = []
    for start in range(0, len(before), 2):
        pair = dict(zip(("wait0", "wait1"), before[start : start + 2], strict=False))
        result.append(Command(opcode=WAIT_ONLY[command.engine], fields=pair, name=command.name))
    command.fields.update(fields)
    result.append(command)
    return result
