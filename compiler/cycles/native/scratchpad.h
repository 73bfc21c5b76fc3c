// Banks behind a crossbar, and who streams lines out of them and into them (rtl/scratchpad/).
#pragma once

#include <cstdint>

#include "stream.h"
#include "types.h"

struct LineRange {
    uint32_t addr, count;
};

// rtl/scratchpad/reader.py: ranges of lines become lines.
struct LineReader {
    Queue<LineRange> ranges;
    Tokens lines;
    uint32_t addr = 0, left = 0, room = 0, flight = 0;
    bool busy = false, last = false, requesting = false, granted = false;

    void configure(const Parameters& p) {
        ranges.depth = 2;
        lines.depth = room = m_depth = p.reader_depth;
        m_arrives = 1u << (p.scratchpad_latency - 1);
    }
    bool idle() const { return !busy && !ranges.valid() && room == m_depth; }
    // Whether nothing changes while no line is taken and no range comes.
    bool still() const { return !flight && !requesting && !(busy && room) && (busy || !ranges.valid()); }

    // What repeats while lines are taken at a constant rate.
    struct Phase {
        uint32_t room, flight, lines;
        bool busy, last, requesting;
        bool operator==(const Phase& o) const {
            return room == o.room && flight == o.flight && lines == o.lines && busy == o.busy && last == o.last &&
                   requesting == o.requesting;
        }
    };
    Phase phase() const { return {room, flight, lines.count, busy, last, requesting}; }
    void skip(uint32_t count) {
        addr += count;
        left -= count;
    }

    // `pop`: a line is taken at the output in this cycle.
    void step(Clock& clock, bool pop) {
        if (pop) lines.pop(clock);
        if (!busy && !flight && !pop && !ranges.valid()) {
            requesting = false;
            return;
        }
        if (flight & m_arrives) lines.push(clock);
        const bool request = requesting && granted;
        const bool ends = request && last;
        const bool accept = ranges.valid() && (!busy || ends);
        const bool room_next = pop || room > 1 || (room == 1 && !request);
        flight = (flight << 1 | request) & (2 * m_arrives - 1);
        room += pop - request;
        if (request) {
            ++addr;
            last = left == 2;
            --left;
        }
        busy = accept || (busy && !ends);
        requesting = busy && room_next;
        if (accept) {
            addr = ranges.front().addr;
            left = ranges.front().count;
            last = left == 1;
            ranges.pop(clock);
        }
    }

private:
    uint32_t m_depth = 0, m_arrives = 0;
};

// rtl/scratchpad/writer.py holds two lines' addresses.
struct LineWriter : Queue<uint32_t> {
    LineWriter() { depth = 2; }
    bool granted = false;
};

// One access a bank and cycle, in the order in which ports ask.
class Arbiter {
public:
    explicit Arbiter(const Parameters& p) : m_mask(p.scratchpad_banks - 1) {}
    void begin() { m_taken = 0; }
    bool ask(uint32_t addr) {
        const uint32_t bank = 1u << (addr & m_mask);
        const bool granted = !(m_taken & bank);
        m_taken |= bank;
        return granted;
    }

private:
    const uint32_t m_mask;
    uint32_t m_taken = 0;
};
