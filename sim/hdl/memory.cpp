#include "memory.h"

#include <algorithm>
#include <cstring>

namespace {
// Violations beyond these are counted, but not described.
constexpr size_t described_violations = 100;
}  // namespace

void Memory::stall(uint64_t seed, const Stalls& odds) {
    m_stalls = odds;
    m_random = seed * 2 + 1;
}

void Memory::add_error(uint64_t low, uint64_t high, Response response, bool on_read, bool on_write) {
    m_errors.push_back({low, high, response, on_read, on_write});
}

bool Memory::stands_still(double odds) {
    if (odds <= 0) return false;
    // xorshift64*: the same stalls on every machine.
    m_random ^= m_random >> 12;
    m_random ^= m_random << 25;
    m_random ^= m_random >> 27;
    return static_cast<double>((m_random * 0x2545F4914F6CDD1DULL) >> 11) < odds * 9007199254740992.0;
}

Response Memory::check(uint64_t addr, uint32_t size, bool write) const {
    for (const ErrorRange& range : m_errors) {
        if ((write ? range.on_write : range.on_read) && addr < range.high && addr + size > range.low)
            return range.response;
    }
    const bool inside = addr >= base && addr - base + size <= bytes.size();
    return inside ? Response::okay : Response::decode_error;
}

void Memory::reset() {
    m_out = SubordinateSignals();
    m_reads.clear();
    m_writes.clear();
    m_responses.clear();
    m_credit = 0;
}

void Memory::take_write_beat(const ManagerSignals& in, uint32_t bus_bytes, const uint8_t* wdata,
                             const uint32_t* wstrb) {
    Burst& burst = m_writes.front();
    const Response response = check(burst.addr, bus_bytes, true);
    burst.response = std::max(burst.response, response);
    for (uint32_t i = 0; i < bus_bytes; ++i) {
        if (!(wstrb[i / 32] >> (i % 32) & 1)) continue;
        ++counters.bytes_written;
        if (response == Response::okay) bytes[burst.addr - base + i] = wdata[i];
    }
    burst.addr += bus_bytes;
    --burst.beats_left;
    m_credit -= bus_bytes;
    if (burst.beats_left == 0) {
        burst.due = counters.cycle + write_latency;
        m_responses.push_back(burst);
        m_writes.pop_front();
    }
}

void Memory::put_read_beat(uint32_t bus_bytes, uint8_t* rdata) {
    Burst& burst = m_reads.front();
    m_out.rvalid = true;
    m_out.rid = burst.id;
    m_out.rresp = check(burst.addr, bus_bytes, false);
    m_out.rlast = burst.beats_left == 1;
    if (m_out.rresp == Response::okay) std::memcpy(rdata, bytes.data() + (burst.addr - base), bus_bytes);
    else std::memset(rdata, 0, bus_bytes);
    burst.addr += bus_bytes;
    m_credit -= bus_bytes;
    if (--burst.beats_left == 0) m_reads.pop_front();
}

void Memory::clock(const ManagerSignals& in, uint32_t bus_bytes, const uint8_t* wdata, const uint32_t* wstrb,
                   uint8_t* rdata) {
    ++counters.cycle;
    const auto report = [this](const std::string& what) {
        ++counters.violations;
        if (violations.size() < described_violations)
            violations.push_back("cycle " + std::to_string(counters.cycle) + ": " + what);
    };
    if (in.reset) {
        m_checker.check_reset(in, report);
        reset();
        return;
    }
    m_checker.check_stable(in, m_out.awready, m_out.wready, m_out.arready, wdata, wstrb, bus_bytes, report);

    // What was transferred at this edge.
    const uint64_t cycle = counters.cycle;
    if (in.wvalid && m_out.wready) {
        if (in.wlast != (m_writes.front().beats_left == 1))
            report(in.wlast ? "wlast before the last beat" : "no wlast with the last beat");
        take_write_beat(in, bus_bytes, wdata, wstrb);
    }
    if (in.awvalid && m_out.awready) {
        ProtocolChecker::check_address("aw", in.aw, bus_bytes, report);
        m_writes.push_back({in.aw.id, in.aw.addr, in.aw.len + 1u, 0, Response::okay});
    }
    if (in.arvalid && m_out.arready) {
        ProtocolChecker::check_address("ar", in.ar, bus_bytes, report);
        m_reads.push_back({in.ar.id, in.ar.addr, in.ar.len + 1u, cycle + read_latency, Response::okay});
    }
    if (m_out.rvalid && in.rready) {
        counters.bytes_read += bus_bytes;
        m_out.rvalid = false;
    }
    if (m_out.bvalid && in.bready) m_out.bvalid = false;

    // What the bus shows at the next edge.
    m_credit = std::min(m_credit + bandwidth, std::max<double>(bandwidth, bus_bytes));
    m_out.awready = m_writes.size() < outstanding && !stands_still(m_stalls.aw);
    m_out.arready = m_reads.size() < outstanding && !stands_still(m_stalls.ar);
    const bool may_move = m_credit > 0;
    m_out.wready = may_move && !m_writes.empty() && !stands_still(m_stalls.w);
    if (!m_out.rvalid && may_move && !m_reads.empty() && m_reads.front().due <= cycle + 1
        && !stands_still(m_stalls.r))
        put_read_beat(bus_bytes, rdata);
    if (!m_out.bvalid && !m_responses.empty() && m_responses.front().due <= cycle + 1
        && !stands_still(m_stalls.b)) {
        m_out.bvalid = true;
        m_out.bid = m_responses.front().id;
        m_out.bresp = m_responses.front().response;
        m_responses.pop_front();
    }
}
