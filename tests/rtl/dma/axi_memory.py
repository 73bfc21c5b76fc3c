"""An AXI4 memory for Amaranth's simulator that checks the protocol as it goes."""

import random
from collections import deque

from tests.rtl.streams import Pace

__all__ = ["AxiMemory"]

_OKAY = 0


class AxiMemory:
    """Memory behind an AXI4 manager's port, with latency, stalls and errors.

    Asserts that bursts are whole beats, INCR, within 4 KiB and `window`, that payloads are stable
    while they wait, that `wlast` is where it must be, and that strobes are all or nothing. Read
    beats of different IDs come back in any order, interleaved, and must always be taken at once.

    Parameters
    ----------
    axi : interface of axi4_signature
    config : Config
    size : int
        Bytes, from address `base` on.
    window : tuple of int
        First byte that may be accessed, and the first after it.
    latency : tuple of int
        Least and greatest cycles from an address to its data, or from last data to the response.
    pattern : str
        Of `tests.rtl.streams.PATTERNS`: how willing each channel is.
    errors : dict of int to int
        Response by address of the beat it concerns.
    ends : dict of int to int
        Beats that the read burst with this first address has too many, or too few where negative.
    """

    def __init__(self, axi, config, *, size, window, base=0, latency=(1, 12), pattern="often", seed=0):
        self.axi = axi
        self.config = config
        self.base = base
        self.window = window
        self.latency = latency
        self.data = bytearray(random.Random(seed).randbytes(size))
        self.errors = {}
        self.ends = {}
        self.cycle = 0
        self.written = set()
        self.bursts = []
        self._random = random.Random(seed + 1)
        self._pace = {name: Pace(pattern, seed + n) for n, name in enumerate(("ar", "r", "aw", "w", "b"))}
        self._reads = {}
        self._writes = deque()
        self._responses = deque()
        self._early_beats = deque()
        self._held = {}

    @property
    def quiet(self):
        """Nothing is owed to the manager or by it."""
        return not (any(self._reads.values()) or self._writes or self._responses or self._early_beats)

    def _due(self):
        return self.cycle + self._random.randint(*self.latency)

    def _check_stable(self, channel, valid, ready, payload):
        held = self._held.get(channel)
        if held is not None:
            assert valid, f"{channel}valid fell before {channel}ready"
            assert payload == held, f"{channel} payload changed while it waited"
        self._held[channel] = payload if valid and not ready else None

    def _check_burst(self, addr, length, size, burst):
        beat = self.config.axi_data_bytes
        total = (length + 1) * beat
        assert 1 << size == beat and burst == 1
        assert addr % beat == 0
        assert addr // 4096 == (addr + total - 1) // 4096, "burst crosses 4 KiB"
        assert length + 1 <= self.config.burst_beats
        assert self.window[0] <= addr and addr + total <= self.window[1], "burst outside the window"
        self.bursts.append((addr, length + 1))
        return [addr + n * beat for n in range(length + 1)]

    def _response(self, addrs):
        return max((self.errors.get(addr, _OKAY) for addr in addrs), default=_OKAY)

    def _write(self, addr, data, strb):
        size = self.config.axi_data_bytes
        assert strb in (0, (1 << size) - 1)
        if strb:
            at = addr - self.base
            self.data[at : at + size] = data.to_bytes(size, "little")
            self.written.add(addr)

    async def bench(self, ctx):
        """Serves the port for ever; a background bench."""
        axi = self.axi
        size = self.config.axi_data_bytes
        ready = {"ar": 0, "aw": 0, "w": 0}
        r_beat = b_beat = None
        for channel, cache in (("aw", self.config.axi_write_cache), ("ar", self.config.axi_read_cache)):
            assert ctx.get(getattr(axi, channel + "cache")) == cache
            assert ctx.get(getattr(axi, channel + "prot")) == self.config.axi_prot
            assert ctx.get(getattr(axi, channel + "lock")) == 0
        while True:
            (
                _,
                _,
                arvalid,
                *ar,
                awvalid,
                awaddr,
                awlen,
                awsize,
                awburst,
                awid,
                wvalid,
                wdata,
                wstrb,
                wlast,
                rready,
                bready,
            ) = await ctx.tick().sample(
                axi.arvalid,
                axi.araddr,
                axi.arlen,
                axi.arsize,
                axi.arburst,
                axi.arid,
                axi.awvalid,
                axi.awaddr,
                axi.awlen,
                axi.awsize,
                axi.awburst,
                axi.awid,
                axi.wvalid,
                axi.wdata,
                axi.wstrb,
                axi.wlast,
                axi.rready,
                axi.bready,
            )
            self.cycle += 1
            aw = [awaddr, awlen, awsize, awburst, awid]
            self._check_stable("ar", arvalid, ready["ar"], ar)
            self._check_stable("aw", awvalid, ready["aw"], aw)
            self._check_stable("w", wvalid, ready["w"], (wdata, wstrb, wlast))
            if arvalid and ready["ar"]:
                beats = self._check_burst(*ar[:4])
                change = self.ends.get(beats[0], 0)
                beats = beats[:change] if change < 0 else beats + beats[-1:] * change
                self._reads.setdefault(ar[4], deque()).append((self._due(), deque(beats)))
            if awvalid and ready["aw"]:
                beats = self._check_burst(*aw[:4])
                self._writes.append((deque(beats), list(beats), aw[4]))
            if wvalid and ready["w"]:
                self._early_beats.append((wdata, wstrb, wlast))
            while self._early_beats and self._writes:
                data, strb, last = self._early_beats.popleft()
                left, addrs, number = self._writes[0]
                self._write(left.popleft(), data, strb)
                assert last == (not left), "wlast is not at the last beat"
                if last:
                    self._writes.popleft()
                    due = max(self._due(), self._responses[-1][0] if self._responses else 0)
                    self._responses.append((due, self._response(addrs), number))
            assert rready or not r_beat or self.ends, "read data are held up"
            if rready:
                r_beat = None
            if b_beat and bready:
                b_beat = None

            heads = [i for i, reads in self._reads.items() if reads and reads[0][0] <= self.cycle]
            if not r_beat and heads and self._pace["r"].willing():
                number = self._random.choice(heads)
                left = self._reads[number][0][1]
                addr = left.popleft()
                at = addr - self.base
                r_beat = (
                    number,
                    int.from_bytes(self.data[at : at + size], "little"),
                    self._response([addr]),
                    not left,
                )
                if not left:
                    self._reads[number].popleft()
            answers = not b_beat and self._responses and self._responses[0][0] <= self.cycle
            if answers and self._pace["b"].willing():
                b_beat = self._responses.popleft()[1:]
            ctx.set(axi.rvalid, r_beat is not None)
            if r_beat:
                for signal, value in zip((axi.rid, axi.rdata, axi.rresp, axi.rlast), r_beat):
                    ctx.set(signal, value)
            ctx.set(axi.bvalid, b_beat is not None)
            if b_beat:
                ctx.set(axi.bresp, b_beat[0])
                ctx.set(axi.bid, b_beat[1])
            for channel in ("ar", "aw", "w"):
                ready[channel] = self._pace[channel].willing()
                ctx.set(getattr(axi, channel + "ready"), ready[channel])
