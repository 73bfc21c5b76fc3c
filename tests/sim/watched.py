"""The accelerator with the signals of its parts' ports on one vector, which a bench samples at every clock edge."""

import json
from pathlib import Path

from amaranth.hdl import Cat, Signal, Value

from bertha import rtl
from bertha.rtl.generate import TOP, ports_of
from bertha.rtl.top import Bertha
from bertha.rtl.verilog import convert
from bertha.sim.build import Design, generate_verilog

__all__ = ["VECTOR", "design", "fields"]

VECTOR = "watched_ports"


class _Watched(Bertha):
    """`fields` are the signals' names and widths, from the lowest bit on, once it is elaborated."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        signals = {}
        parts = {name: _parts(m.submodules[name], platform) for name in ("load", "store", "gemm", "vector")}
        control = _parts(m.submodules.control, platform)
        signals["counting"] = control.supervisor.busy
        signals["start"] = control.supervisor.start
        _add_stream(signals, "fetched", control.fetcher.o)
        for name, part in parts.items():
            engine = m.submodules[name]
            border = _parts(part.border, platform)
            _add_stream(signals, f"{name}.command", engine.control.command)
            signals[f"{name}.wants"] = engine.control.wait.valid
            signals[f"{name}.semaphore"] = engine.control.wait.payload.semaphore
            signals[f"{name}.active"] = engine.control.active
            _add_stream(signals, f"{name}.unqueued", border.waits.i)
            _add_stream(signals, f"{name}.post", engine.control.post)
            _add_stream(signals, f"{name}.posts", border.posts.i)
            for post in ("post0", "post1"):
                signals[f"{name}.{post}"] = border.posts.i.payload[post].enable
            for port in engine.READS:
                _add_stream(signals, f"{name}.{port}", getattr(engine, port).request)
                signals[f"{name}.{port}.line"] = getattr(engine, port).data_valid
            for port in engine.WRITES:
                _add_stream(signals, f"{name}.{port}", getattr(engine, port))
        for name in ("load", "store"):
            _add_stream(signals, f"{name}.accepted", parts[name].planner.i)
            _add_stream(signals, f"{name}.burst", parts[name].planner.o)
            signals[f"{name}.burst.lines"] = parts[name].planner.o.payload.lines
        signals["load.beat"] = parts["load"].beats.o.valid
        _add_stream(signals, "store.answer", m.submodules.store.dram.b)
        gemm, vector = parts["gemm"], parts["vector"]
        _add_stream(signals, "gemm.accepted", gemm.sequencer.command)
        _add_stream(signals, "gemm.tile", gemm.sequencer.feeder)
        signals["gemm.tile.k"] = gemm.sequencer.feeder.payload.k
        signals["gemm.between"] = gemm.sequencer.wait.valid
        _add_stream(signals, "gemm.finished", gemm.epilogue.post)
        _add_stream(signals, "vector.accepted", vector.sequencer.command)
        _add_stream(signals, "vector.finished", vector.sequencer.post)
        _add_stream(signals, "vector.range", vector.sequencer.source)
        signals["vector.range.count"] = vector.sequencer.source.payload.count
        signals["vector.line.ready"] = vector.source.o.ready
        _add_stream(signals, "vector.result", vector.writer.i)
        signals["vector.scale"] = vector.row_scale.start
        signals["vector.scaled"] = vector.row_scale.done
        signals["vector.exp2"] = vector.table_loader.exp2.enable
        signals["vector.segments"] = vector.table_loader.segments.enable

        values = {name: Value.cast(signal) for name, signal in signals.items()}
        self.fields = {name: len(value) for name, value in values.items()}
        vector_signal = Signal(sum(self.fields.values()), name=VECTOR)
        m.d.comb += vector_signal.eq(Cat(values.values()))
        return m


def _parts(component, platform):
    """The submodules of a component, which from now on is elaborated as it is here."""
    module = component.elaborate(platform)
    component.elaborate = lambda platform: module
    return getattr(module, "_elaboratable_", module).submodules


def _add_stream(signals, name, stream):
    signals[f"{name}.valid"], signals[f"{name}.ready"] = stream.valid, stream.ready


def fields(config) -> dict[str, tuple[int, int]]:
    """Lowest bit and width of every signal in the vector, by its name."""
    manifest = generate_verilog(config, design=design()) / "manifest.json"
    places, start = {}, 0
    for name, width in json.loads(manifest.read_text())["fields"].items():
        places[name] = start, width
        start += width
    return places


def _generate(config, folder):
    top = _Watched(config)
    ports = ports_of(top)
    text = convert(top, name=TOP, ports={name: (signal, None) for name, (signal, _) in ports.items()})
    # What isn't public, Verilator may do without.
    wire = f"{VECTOR};"
    if text.count(wire) != 1:
        raise ValueError(f"the Verilog must declare {VECTOR} once, not {text.count(wire)} times")
    text = text.replace(wire, f"{VECTOR} /* verilator public_flat_rd */;")
    manifest = {
        "ports": [{"name": name, "width": len(signal)} for name, (signal, _) in ports.items()],
        "fields": top.fields,
    }
    (folder / f"{TOP}.v").write_text(text)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def design() -> Design:
    """The accelerator with the vector, for `bertha.sim.build.build`."""
    return Design("watched", _generate, (Path(rtl.__file__).parent, Path(__file__)))
