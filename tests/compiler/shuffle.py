"""Runs a program in a random order that its semaphores allow: what no schedule of the engines may change.

Every engine has a few tiles under way. A tile's whole effect happens at a random moment between its start and its
post, so reads come late and writes early, as far as they may. Only what hardware keeps in order on its own is
kept: starts, posts, and the row statistics of the GEMM engine.
"""

import random
from collections import Counter, deque

from bertha.compiler.check.fields import unpack_semaphore
from bertha.compiler.interpret import Interpreter
from bertha.rtl.isa import Engine

__all__ = ["run_shuffled"]

UNDER_WAY = 4


def run_shuffled(program, pieces, *, seed):
    """The interpreter after a program whose engines raced each other.

    A barrier lets everything before it finish.
    """
    print(f"shuffle seed {seed}")
    chance = random.Random(seed)
    machine = Interpreter(program.config, window=program.window)
    for address, content in program.pieces + pieces:
        machine.write(address, content)
    units = Counter()
    parts = [[]]
    for command in program.commands:
        if command.engine == Engine.SEQUENCER:
            parts.append([])
        else:
            parts[-1].append(command)
    for part in parts:
        _run_part(part, machine, units, chance)
    return machine


def _run_part(commands, machine, units, chance):
    queues = {engine: deque() for engine in Engine}
    for command in commands:
        for tile in range(command.tiles):
            queues[command.engine].append((command, tile))
    busy = {engine: deque() for engine in Engine}  # [command, tile, effect has happened]

    def full(command):
        # An absent field is zero in the command's bytes.
        return _Fields(command.fields)

    def happen(entry):
        if not entry[2]:
            machine.execute(entry[0].opcode, full(entry[0]), entry[1])
            entry[2] = True

    def post(command, name):
        number, amount = unpack_semaphore(command.get(name))
        units[number] += amount

    while any(queues.values()) or any(busy.values()):
        moves = []
        for engine, queue in queues.items():
            if queue and len(busy[engine]) < UNDER_WAY and _ready(*queue[0], units):
                moves.append((engine, "start"))
            moves.extend((engine, "happen", entry) for entry in busy[engine] if not entry[2])
            if busy[engine]:
                moves.append((engine, "finish"))
        assert moves, "deadlock"
        engine, move, *entry = chance.choice(moves)
        if move == "start":
            command, tile = queues[engine].popleft()
            for number, amount in _waits(command, tile):
                units[number] -= amount
            busy[engine].append([command, tile, False])
        elif move == "happen":
            if entry[0][0].get("statistics"):  # the GEMM engine's own, in order
                for earlier in busy[engine]:
                    happen(earlier)
                    if earlier is entry[0]:
                        break
            happen(entry[0])
        else:
            command, tile, _ = entry = busy[engine].popleft()
            happen(entry)
            last = tile == command.tiles - 1
            for name in ("post0", "post1"):
                if command.get(name) and (last or command.get(f"{name}_each")):
                    post(command, name)


class _Fields(dict):
    def __missing__(self, name):
        return 0


def _waits(command, tile):
    for name in ("wait0", "wait1"):
        if command.get(name) and (tile == 0 or (name == "wait1" and command.get("wait1_each"))):
            yield unpack_semaphore(command.get(name))


def _ready(command, tile, units):
    wanted = Counter()
    for number, amount in _waits(command, tile):
        wanted[number] += amount
    return all(units[number] >= amount for number, amount in wanted.items())
