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

uint64_t Memory::random() {
    // xorshift64*: the same on every machine.
    m_random ^= m_random >> 12;
    m_random ^= m_random << 25;
    m_random ^= m_random >> 27;
    return (m_random * 0x2545F4914F6CDD1DULL) >> 11;
}

bool Memory::happens(double odds) { return odds > 0 && static_cast<double>(random()) < odds * 9007199254740992.0; }

bool Memory::stands_still(Channel channel) {
    if (manners.silence > 0) {
        uint32_t& silent = m_silent[channel];
        if (silent > 0) --silent;
        else if (happens(manners.silence)) silent = random() % std::max(manners.silence_cycles, 1u) + 1;
        if (silent > 0) return true;
    }
    return happens(m_stalls.odds[channel]);
}

Response Memory::check(uint64_t addr, uint32_t size, bool write) const {
    for (const ErrorRange& range : m_errors) {
        if ((write ? range.on_write : range.on_read) && addr < range.high && addr + size > range.low)
            return range.response;
    }
    const bool inside = addr >= base && addr - base + size <= bytes.size();
    return inside ? Response::okay : Response::decode_error;
}

void Memory::report(const std::string& what) {
    ++counters.violations;
    if (violations.size() < described_violations)
        violations.push_back("cycle " + std::to_string(counters.cycle) + ": " + what);
}

void Memory::reset() {
    m_out = SubordinateSignals();
    m_reads.clear();
    m_writes.clear();
    m_responses.clear();
    m_early.clear();
    std::fill_n(m_silent, channels, 0);
    m_credit = 0;
}

Memory::Burst Memory::accept(const AddressSignals& address, uint32_t bus_bytes, bool is_write) const {
    Burst burst{address.id,     address.addr,  address.len + 1u, counters.cycle + read_latency,
                Response::okay, Misdeed::none, 0};
    const uint64_t end = burst.addr + burst.beats_left * bus_bytes;
    for (const MisdeedRange& range : m_misdeeds) {
        if (burst.addr >= range.high || end <= range.low) continue;
        burst.misdeed = range.misdeed;
        burst.misdeed_beats = range.beats;
    }
    if (burst.misdeed == Misdeed::other_id) burst.id ^= 1;
    if (is_write) return burst;  // its length is the manager's affair
    if (burst.misdeed == Misdeed::last_early)
        burst.beats_left -= std::min(burst.misdeed_beats, burst.beats_left - 1);
    if (burst.misdeed == Misdeed::last_late) burst.beats_left += burst.misdeed_beats;
    return burst;
}

void Memory::start_write(Burst burst, uint32_t bus_bytes) {
    if (burst.misdeed == Misdeed::response_early) {
        for (uint32_t beat = 0; beat < burst.beats_left; ++beat)
            burst.response = std::max(burst.response, check(burst.addr + beat * bus_bytes, bus_bytes, true));
        burst.due = counters.cycle + write_latency;
        m_responses.push_back(burst);
    }
    m_writes.push_back(burst);
    while (!m_early.empty() && !m_writes.empty()) {
        const WriteBeat beat = std::move(m_early.front());
        m_early.pop_front();
        take_write_beat(beat.last, bus_bytes, beat.data.data(), beat.strobes.data());
    }
}

void Memory::take_write_beat(bool last, uint32_t bus_bytes, const uint8_t* wdata, const uint32_t* wstrb) {
    Burst& burst = m_writes.front();
    if (last != (burst.beats_left == 1)) report(last ? "wlast before the last beat" : "no wlast with the last beat");
    const Response response = check(burst.addr, bus_bytes, true);
    burst.response = std::max(burst.response, response);
    for (uint32_t i = 0; i < bus_bytes; ++i) {
        if (!(wstrb[i / 32] >> (i % 32) & 1)) continue;
        ++counters.bytes_written;
        if (response == Response::okay) bytes[burst.addr - base + i] = wdata[i];
    }
    burst.addr += bus_bytes;
    --burst.beats_left;
    if (burst.beats_left == 0) {
        burst.due = counters.cycle + write_latency;
        if (burst.misdeed != Misdeed::response_early) m_responses.push_back(burst);
        if (burst.misdeed == Misdeed::response_twice) m_responses.push_back(burst);
        m_writes.pop_front();
    }
}

// Whether AWREADY has what it waits for; `data_waits`: WVALID is high and the beat wasn't taken.
bool Memory::address_may_come(bool data_waits) const {
    const auto is_last = [](const WriteBeat& beat) { return beat.last; };
    if (manners.address_waits == AddressWaits::data_taken)
        return std::any_of(m_early.begin(), m_early.end(), is_last);
    return !m_early.empty() || (data_waits && m_writes.empty());
}

void Memory::put_read_beat(uint32_t bus_bytes, uint8_t* rdata) {
    auto chosen = m_reads.begin();
    if (manners.interleave) {
        // The oldest burst of any ID; each of them with the same odds.
        uint32_t candidates = 0;
        for (auto burst = m_reads.begin(); burst != m_reads.end(); ++burst) {
            const auto same_id = [burst](const Burst& other) { return other.id == burst->id; };
            if (burst->due > counters.cycle + 1 || std::any_of(m_reads.begin(), burst, same_id)) continue;
            if (random() % ++candidates == 0) chosen = burst;
        }
    }
    Burst& burst = *chosen;
    const uint32_t ahead = burst.misdeed_beats + 1;  // of the end, where a misdeed shows
    m_out.rvalid = true;
    m_out.rid = burst.id;
    m_out.rresp = check(burst.addr, bus_bytes, false);
    m_out.rlast = (burst.beats_left == 1 && burst.misdeed != Misdeed::last_missing)
                  || (burst.misdeed == Misdeed::last_twice && burst.beats_left == ahead);
    if (m_out.rresp == Response::okay) std::memcpy(rdata, bytes.data() + (burst.addr - base), bus_bytes);
    else std::memset(rdata, 0, bus_bytes);
    // What comes too late repeats the last beat.
    if (burst.misdeed != Misdeed::last_late || burst.beats_left > ahead) burst.addr += bus_bytes;
    m_credit -= bus_bytes;
    if (--burst.beats_left == 0) m_reads.erase(chosen);
}

void Memory::put_response() {
    m_out.bvalid = true;
    m_out.bid = m_responses.front().id;
    m_out.bresp = m_responses.front().response;
    m_responses.pop_front();
}

void Memory::clock(const ManagerSignals& in, uint32_t bus_bytes, const uint8_t* wdata, const uint32_t* wstrb,
                   uint8_t* rdata) {
    ++counters.cycle;
    const auto reporter = [this](const std::string& what) { report(what); };
    if (in.reset) {
        m_checker.check_reset(in, reporter);
        reset();
        return;
    }
    m_checker.check_stable(in, m_out.awready, m_out.wready, m_out.arready, wdata, wstrb, bus_bytes, reporter);

    // What was transferred at this edge.
    if (in.wvalid && m_out.wready) {
        m_credit -= bus_bytes;
        if (m_writes.empty())
            m_early.push_back({in.wlast, {wdata, wdata + bus_bytes}, {wstrb, wstrb + (bus_bytes + 31) / 32}});
        else take_write_beat(in.wlast, bus_bytes, wdata, wstrb);
    }
    if (in.awvalid && m_out.awready) {
        ProtocolChecker::check_address("aw", in.aw, bus_bytes, reporter);
        start_write(accept(in.aw, bus_bytes, true), bus_bytes);
    }
    if (in.arvalid && m_out.arready) {
        ProtocolChecker::check_address("ar", in.ar, bus_bytes, reporter);
        m_reads.push_back(accept(in.ar, bus_bytes, false));
    }
    if (m_out.rvalid && in.rready) {
        counters.bytes_read += bus_bytes;
        m_out.rvalid = false;
    }
    if (m_out.bvalid && in.bready) m_out.bvalid = false;

    // What the bus shows at the next edge.
    const uint64_t next = counters.cycle + 1;
    const bool data_waits = in.wvalid && !m_out.wready;
    const bool may_address = manners.address_waits == AddressWaits::nothing || address_may_come(data_waits);
    m_credit = std::min(m_credit + bandwidth, std::max<double>(bandwidth, bus_bytes));
    m_out.awready = m_writes.size() < outstanding && may_address && !stands_still(channel_aw);
    m_out.arready = m_reads.size() < outstanding && !stands_still(channel_ar);
    const bool may_move = m_credit > 0;
    const bool may_take = !m_writes.empty() || m_early.size() < manners.early_beats;
    m_out.wready = may_move && may_take && !stands_still(channel_w);
    if (!m_out.rvalid && may_move && !m_reads.empty() && m_reads.front().due <= next && !stands_still(channel_r))
        put_read_beat(bus_bytes, rdata);
    if (!m_out.bvalid && !m_responses.empty() && m_responses.front().due <= next && !stands_still(channel_b))
        put_response();
}
