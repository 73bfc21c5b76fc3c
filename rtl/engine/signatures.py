"""The two sides of every engine's border, and what their signals mean."""

from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.engine.posts import PostPair
from bertha.rtl.signatures import INDEX_BITS, EngineCommand, FaultSignature, SemaphoreUnits

__all__ = ["ControlSide", "EngineSide"]

ControlSide = wiring.Signature(
    {
        "command": Out(stream.Signature(EngineCommand)),
        "wait": In(stream.Signature(SemaphoreUnits)),
        "post": In(stream.Signature(SemaphoreUnits)),
        "abort": Out(1),
        "abandon": Out(1),
        "fault": In(FaultSignature),
        "idle": In(1),
        "working": In(1),
        "waiting": In(1),
        "waiting_index": In(INDEX_BITS),
        "active": In(1),
        "index": In(INDEX_BITS),
    }
)
"""An engine as the control part sees it.

command : stream of EngineCommand
    Checked by the dispatcher; the engine's border queues them.
wait, post : streams of SemaphoreUnits
    Units wanted (ready means that they are taken), units to be added.
abort : 1
    Level, 32 cycles at least. All that the engine holds is dropped, but for bursts that are on the
    bus: they are completed without effect, and the engine is `working` until they are.
abandon : 1
    The last cycle of an abort in which answers of the bus are given up: they won't come.
fault : FaultSignature
    The first fault, for one cycle. From then on nothing is started or posted until `abort`.
idle : 1
    No command is queued or in work, no result or post is outstanding.
working : 1
    A command in work goes on, or a result or post is outstanding. A command that has started and
    stands still until it gets units is not working.
waiting : 1
    The oldest command that hasn't started, or one that has and can't go on, wants units that it
    hasn't got.
waiting_index : 24
    That command's position in the program, while `waiting`.
active : 1
    Counted as busy: in this cycle a beat, word or step of command `index` moved.
index : 24
    The command that was `active` last.

`idle`, `working` and `waiting` are a cycle old.
"""

EngineSide = wiring.Signature(
    {
        "command": Out(stream.Signature(EngineCommand)),
        "hold": In(1),
        "wait": In(stream.Signature(SemaphoreUnits)),
        "wait_index": In(INDEX_BITS),
        "post": In(stream.Signature(PostPair)),
        "has_room": Out(1),
        "stopped": Out(1),
        "fault": In(FaultSignature),
        "busy": In(1),
        "active": In(1),
        "index": In(INDEX_BITS),
    }
)
"""The border as an engine sees it. What an engine has no use for stays 0.

command : stream of EngineCommand
    Commands whose waits are taken; those that only wait don't come.
hold : 1
    The command in work may want more units: none of the next one's are taken before.
wait, wait_index : stream of SemaphoreUnits, 24
    Units that a command in work wants, and its position; only with `hold`.
post : stream of PostPair
    Fields that aren't to be posted have `enable` clear.
has_room : 1
    `post` is ready in this cycle and, whatever is posted now, in the next one.
stopped : 1
    There was a fault: nothing may be started or written any more.
fault : FaultSignature
    Looked at in every cycle, registered here.
busy : 1
    A command in work goes on or a result is outstanding; not set by `wait`.
active, index : 1, 24
    As in `ControlSide`.
"""
