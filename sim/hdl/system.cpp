// Ties the memory and the trace to the simulated system (DPI) and to the bench (a C interface that
// Python reaches with ctypes, in the process that simulates).

#include <cstring>

#include "Vtop__Dpi.h"
#include "memory.h"
#include "trace.h"
#include "writes.h"

namespace {
Memory memory;
Trace trace;
WriteLog writes;
ClassifiedTrace classified_trace;
}  // namespace

// Called at every rising clock edge; arguments as in axi_memory.sv.
void system_clock(svBit reset, int bus_bytes,
                  svBit awvalid, int awid, long long awaddr, char awlen, char awsize, char awburst,
                  svBit wvalid, const svBitVecVal* wdata, const svBitVecVal* wstrb, svBit wlast, svBit bready,
                  svBit arvalid, int arid, long long araddr, char arlen, char arsize, char arburst, svBit rready,
                  char trace_active, int load_index, int store_index, int gemm_index, int vector_index,
                  svBit trace_classified, int trace_classes,
                  svBit* awready, svBit* wready, svBit* bvalid, int* bid, char* bresp, svBit* arready,
                  svBit* rvalid, int* rid, svBitVecVal* rdata, char* rresp, svBit* rlast) {
    ManagerSignals in;
    in.reset = reset;
    in.awvalid = awvalid;
    in.wvalid = wvalid;
    in.wlast = wlast;
    in.bready = bready;
    in.arvalid = arvalid;
    in.rready = rready;
    const auto byte = [](char value) { return static_cast<uint8_t>(value); };
    in.aw = {static_cast<uint64_t>(awaddr), static_cast<uint32_t>(awid), byte(awlen), byte(awsize), byte(awburst)};
    in.ar = {static_cast<uint64_t>(araddr), static_cast<uint32_t>(arid), byte(arlen), byte(arsize), byte(arburst)};
    static uint8_t read_beat[128];
    memory.clock(in, bus_bytes, reinterpret_cast<const uint8_t*>(wdata), wstrb, read_beat);
    const SubordinateSignals& out = memory.outputs();
    *awready = out.awready;
    *wready = out.wready;
    *bvalid = out.bvalid;
    *bid = out.bid;
    *bresp = static_cast<char>(out.bresp);
    *arready = out.arready;
    *rvalid = out.rvalid;
    *rid = out.rid;
    std::memcpy(rdata, read_beat, bus_bytes);
    *rresp = static_cast<char>(out.rresp);
    *rlast = out.rlast;
    const uint32_t index[trace_engines] = {
        static_cast<uint32_t>(load_index), static_cast<uint32_t>(store_index),
        static_cast<uint32_t>(gemm_index), static_cast<uint32_t>(vector_index)};
    if (trace_active)
        for (unsigned engine = 0; engine < trace_engines; ++engine)
            if (trace_active >> engine & 1) trace.active(engine, index[engine], memory.counters.cycle);
    if (trace_classified && classified_trace.recording)
        classified_trace.clock(static_cast<unsigned>(trace_active), index, static_cast<unsigned>(trace_classes),
                               memory.counters.cycle);
}

extern "C" {

// Called at a rising clock edge at which a line enters the scratchpad (scratchpad_monitor.sv).
void scratchpad_write(int port, int line, int bytes, const svBitVecVal* content) {
    const WriteRow row{memory.counters.cycle, static_cast<uint32_t>(line), static_cast<uint32_t>(port)};
    writes.add(row, reinterpret_cast<const uint8_t*>(content), bytes);
}

// Makes the memory `size` zero bytes from address `base` on; the result is their place here.
uint8_t* memory_allocate(uint64_t base, uint64_t size) {
    memory.base = base;
    memory.bytes.assign(size, 0);
    return memory.bytes.data();
}

void memory_set_timing(uint32_t read_latency, uint32_t write_latency, double bandwidth, uint32_t outstanding) {
    memory.read_latency = read_latency;
    memory.write_latency = write_latency;
    memory.bandwidth = bandwidth;
    memory.outstanding = outstanding;
}

void memory_set_stalls(uint64_t seed, double aw, double w, double b, double ar, double r) {
    memory.stall(seed, Stalls{{aw, w, b, ar, r}});
}

// What AXI allows and some interconnects do; see Manners and AddressWaits.
void memory_set_manners(int interleave, uint8_t address_waits, uint32_t early_beats, double silence,
                        uint32_t silence_cycles) {
    memory.manners = {interleave != 0, static_cast<AddressWaits>(address_waits), early_beats, silence, silence_cycles};
}

void memory_add_error(uint64_t low, uint64_t high, uint8_t response, int on_read, int on_write) {
    memory.add_error(low, high, static_cast<Response>(response), on_read, on_write);
}

void memory_clear_errors() { memory.clear_errors(); }

// Lets bursts that touch the addresses be answered against the rules of AXI; see Misdeed.
void memory_add_misdeed(uint8_t misdeed, uint64_t low, uint64_t high, uint32_t beats) {
    memory.add_misdeed(static_cast<Misdeed>(misdeed), low, high, beats);
}

void memory_clear_misdeeds() { memory.clear_misdeeds(); }

const MemoryCounters* memory_counters() { return &memory.counters; }

const char* memory_violation(uint32_t number) {
    return number < memory.violations.size() ? memory.violations[number].c_str() : nullptr;
}

const TraceRow* trace_rows(uint32_t engine, uint64_t* count) {
    *count = trace.rows(engine).size();
    return trace.rows(engine).data();
}

uint32_t trace_newest(uint32_t engine) { return trace.newest(engine); }

const WriteRow* writes_rows(uint64_t* count) {
    *count = writes.rows().size();
    return writes.rows().data();
}

const uint8_t* writes_contents() { return writes.contents().data(); }

// Forgets what was written, and from now on keeps what is, or doesn't.
void writes_keep(int keeps) { writes.keep(keeps != 0); }

void trace_clear() {
    trace.clear();
    classified_trace.clear(memory.counters.cycle);
}

// Whether cycles are recorded by class from now on: by command, and by stretch of time.
void trace_record_classes(int on) { classified_trace.recording = on != 0; }

// Cycles by class of each of the engine's commands, those since its command before among them.
const ClassCounts* trace_command_classes(uint32_t engine, uint64_t* count) {
    *count = classified_trace.commands(engine).size();
    return classified_trace.commands(engine).data();
}

// Cycles by class of each engine in stretches of `trace_stretch` cycles since the trace was cleared.
const StretchCounts* trace_stretches(uint64_t* count, uint64_t* start) {
    *count = classified_trace.stretches().size();
    *start = classified_trace.start();
    return classified_trace.stretches().data();
}
}
