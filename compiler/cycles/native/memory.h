// The simulated memory (sim/hdl/memory.cpp) without its data: latency, bandwidth, bursts in the order of their
// addresses. Everything it shows is registered.
#pragma once

#include <algorithm>
#include <cstdint>

#include "types.h"

class Memory {
public:
    struct Burst {
        uint32_t id, beats;
        uint64_t due;
    };

    // What it shows in this cycle.
    bool awready = false, wready = false, arready = false, bvalid = false, rvalid = false, rlast = false;
    uint32_t rid = 0;
    uint64_t beats_read = 0, beats_written = 0;

    Memory(const MemoryTiming& timing, uint32_t bus_bytes) : m_timing(timing), m_bus_bytes(bus_bytes) {
        // It has been idle for long.
        awready = arready = true;
        m_credit = std::max<double>(timing.bandwidth, bus_bytes);
    }

    // The first cycle whose end may change what is shown, if the accelerator asks for nothing: `now` if this one's
    // does, and never (the largest number) if nothing is on its way.
    uint64_t changes(uint64_t now) const {
        if (m_writes.count || rvalid || bvalid || !m_full || wready || !awready || !arready) return now;
        uint64_t due = ~uint64_t{0};
        if (m_reads.count) due = std::min(due, m_items_due(m_reads));
        if (m_responses.count) due = std::min(due, m_items_due(m_responses));
        return due == ~uint64_t{0} ? due : std::max(now, due - std::min<uint64_t>(due, 2));
    }

    // The end of cycle `now`: what was transferred, and what is shown in the next one.
    void clock(uint64_t now, bool aw, uint32_t aw_beats, bool w, bool ar, uint32_t ar_id, uint32_t ar_beats,
               bool rready, bool bready) {
        const uint64_t cycle = now + 1;
        if (w && wready) {
            m_credit -= m_bus_bytes;
            ++beats_written;
            Burst& burst = m_writes.front();
            if (--burst.beats == 0) {
                m_responses.push({0, 0, cycle + m_timing.write_latency});
                m_writes.pop();
            }
        }
        if (aw && awready) m_writes.push({0, aw_beats, 0});
        if (ar && arready) m_reads.push({ar_id, ar_beats, cycle + m_timing.read_latency});
        if (rvalid && rready) rvalid = false;
        if (bvalid && bready) bvalid = false;

        const double most = std::max<double>(m_timing.bandwidth, m_bus_bytes);
        m_credit = std::min(m_credit + m_timing.bandwidth, most);
        m_full = m_credit == most;
        awready = m_writes.count < m_timing.outstanding;
        arready = m_reads.count < m_timing.outstanding;
        const bool may_move = m_credit > 0;
        wready = may_move && m_writes.count;
        if (!rvalid && may_move && m_reads.count && m_reads.front().due <= cycle + 1) {
            Burst& burst = m_reads.front();
            rvalid = true;
            rid = burst.id;
            rlast = burst.beats == 1;
            m_credit -= m_bus_bytes;
            ++beats_read;
            if (--burst.beats == 0) m_reads.pop();
        }
        if (!bvalid && m_responses.count && m_responses.front().due <= cycle + 1) {
            bvalid = true;
            m_responses.pop();
        }
    }

private:
    // Changes at once: what happens in `clock` happens in its order.
    struct Bursts {
        static constexpr uint32_t places = 256;  // bursts that all clients can have in flight
        Burst items[places];
        uint32_t head = 0, count = 0;
        Burst& front() { return items[head]; }
        void push(const Burst& burst) { items[(head + count++) % places] = burst; }
        void pop() {
            head = (head + 1) % places;
            --count;
        }
    };

    static uint64_t m_items_due(const Bursts& bursts) { return bursts.items[bursts.head].due; }

    const MemoryTiming m_timing;
    const uint32_t m_bus_bytes;
    Bursts m_reads, m_writes, m_responses;
    double m_credit;
    bool m_full = true;
};
