"""The counting semaphores between the engines."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from bertha.rtl.isa import FaultReason
from bertha.rtl.signatures import SemaphoreUnits, fault_reason_bits

__all__ = ["Semaphores"]

_COUNTER_BITS = 8


class Semaphores(wiring.Component):
    """Counters of 8 bits that posters add to and waiters take from.

    One operation a cycle: a post if there is one, else the wait whose turn it is, so that takes and
    posts can't miss each other and the counters fit in one small memory. A wait has its turn in the
    cycle after it came at the earliest and is granted one cycle later, if its counter holds at least
    its amount; a wait that isn't granted is tried again on its next turn, every `waiters` cycles at
    most while nobody posts. A post is taken in the
    cycle of its turn. The counters are cleared in the first `config.semaphores` cycles after reset,
    in which nothing is granted or taken.

    A post that would carry a counter above 255 faults with SEMAPHORE_OVERFLOW, a number that is no
    semaphore's with ILLEGAL_COMMAND; neither changes a counter.

    Ports
    -----
    wait : In(stream of SemaphoreUnits) x waiters
    post : In(stream of SemaphoreUnits) x posters
    fault_valid : Out(1)
    fault_reason : Out(FaultReason)
    fault_port : Out
        Which poster or waiter was at fault.
    granted : Out(1)
        A wait was granted in this cycle.
    idle : Out(1)
        No post is being added or wants to be.

    Parameters
    ----------
    config : Config
    waiters, posters : int
    """

    def __init__(self, config, *, waiters, posters):
        self._config = config
        self._waiters = waiters
        self._posters = posters
        super().__init__(
            {
                "wait": In(stream.Signature(SemaphoreUnits)).array(waiters),
                "post": In(stream.Signature(SemaphoreUnits)).array(posters),
                "fault_valid": Out(1),
                "fault_reason": Out(fault_reason_bits),
                "fault_port": Out(range(max(waiters, posters))),
                "granted": Out(1),
                "idle": Out(1),
            }
        )

    @staticmethod
    def _pick(m, requests, name) -> tuple[Value, Signal, Signal]:
        """Round-robin choice among `requests` (bits): a valid flag and the number chosen."""
        count = len(requests)
        last = Signal(range(count), name=f"last_{name}")
        chosen = Signal(range(count), name=f"chosen_{name}")
        with m.Switch(last):
            for previous in range(count):
                with m.Case(previous):
                    order = [(previous + 1 + step) % count for step in range(count)]
                    for number in reversed(order):
                        with m.If(requests[number]):
                            m.d.comb += chosen.eq(number)
        return requests.any(), chosen, last

    def elaborate(self, platform) -> Module:
        m = Module()
        semaphores = self._config.semaphores
        m.submodules.counters = counters = memory.Memory(shape=_COUNTER_BITS, depth=semaphores, init=[])
        write_port = counters.write_port()
        read_port = counters.read_port(domain="comb")

        # The operation under way, chosen in the cycle before.
        valid, is_post = Signal(), Signal()
        units = Signal(SemaphoreUnits)
        port = Signal(range(max(self._waiters, self._posters)))

        clearing = Signal(range(semaphores + 1))
        is_clear = Signal()
        m.d.comb += is_clear.eq(clearing != semaphores)
        with m.If(is_clear):
            m.d.sync += clearing.eq(clearing + 1)

        posts = Signal(self._posters)
        waits = Signal(self._waiters)
        m.d.comb += posts.eq(Cat(stream_.valid for stream_ in self.post))
        under_way = Signal(self._waiters)  # of the waits
        m.d.sync += under_way.eq(0)
        for number, wait in enumerate(self.wait):
            # Registered: who wants something takes the engine long enough to find out.
            wanted = Signal(name=f"wanted_{number}")
            m.d.sync += wanted.eq(wait.valid & ~wait.ready)
            m.d.comb += waits[number].eq(wanted & ~under_way[number])
        any_post, chosen_post, last_post = self._pick(m, posts, "post")
        any_wait, chosen_wait, last_wait = self._pick(m, waits, "wait")
        m.d.sync += valid.eq(0)
        with m.If(~is_clear & any_post):
            m.d.comb += Array(self.post)[chosen_post].ready.eq(1)
            m.d.sync += [
                valid.eq(1),
                is_post.eq(1),
                port.eq(chosen_post),
                last_post.eq(chosen_post),
                units.eq(Array(post.payload for post in self.post)[chosen_post]),
            ]
        with m.Elif(~is_clear & any_wait):
            m.d.sync += [
                valid.eq(1),
                is_post.eq(0),
                port.eq(chosen_wait),
                under_way.bit_select(chosen_wait, 1).eq(1),
                last_wait.eq(chosen_wait),
                units.eq(Array(wait.payload for wait in self.wait)[chosen_wait]),
            ]

        known, enough, overflow = Signal(), Signal(), Signal()
        total, rest = Signal(_COUNTER_BITS + 1), Signal(_COUNTER_BITS + 1)
        m.d.comb += [
            known.eq(units.semaphore < semaphores),
            read_port.addr.eq(units.semaphore),
            total.eq(read_port.data + units.amount),
            rest.eq(read_port.data - units.amount),
            overflow.eq(total[-1]),
            enough.eq(~rest[-1]),
            self.granted.eq(valid & ~is_post & known & enough),
            self.idle.eq(~any_post & ~(valid & is_post)),
            write_port.addr.eq(Mux(is_clear, clearing, units.semaphore)),
            write_port.data.eq(Mux(is_clear, 0, Mux(is_post, total, rest))),
            write_port.en.eq(is_clear | self.granted | (valid & is_post & known & ~overflow)),
        ]
        with m.If(self.granted):
            m.d.comb += Array(self.wait)[port].ready.eq(1)

        m.d.sync += self.fault_valid.eq(valid & (~known | (is_post & overflow)))
        with m.If(valid):
            m.d.sync += [
                self.fault_reason.eq(Mux(known, FaultReason.SEMAPHORE_OVERFLOW, FaultReason.ILLEGAL_COMMAND)),
                self.fault_port.eq(port),
            ]
        return m
