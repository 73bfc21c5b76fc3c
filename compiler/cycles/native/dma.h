// Load and store engines (rtl/dma/).
#pragma once

#include <algorithm>
#include <cstdint>

#include "scratchpad.h"
#include "stream.h"
#include "types.h"

struct Burst {
    uint32_t addr, scratchpad_addr, lines, command;
    bool last;
};

// rtl/dma/planner.py and checker.py: commands become bursts.
class Planner {
public:
    Queue<Burst> bursts;

    void configure(const Parameters& p, const Command* program) {
        m_p = p;
        m_program = program;
        bursts.depth = 4;
    }
    bool ready() const { return !m_busy; }
    bool idle() const { return !m_busy && !m_checking && !bursts.valid(); }
    // Whether nothing changes while nobody takes a burst and no command comes.
    bool still() const {
        if (m_checking) return m_judged && !bursts.ready() && (!m_busy || m_sized);
        return !m_busy;
    }

    void step(Clock& clock, bool start, uint32_t number) {
        if (!start && !m_busy && !m_checking) return;
        const bool done = m_judged && bursts.ready();
        const bool checks = m_busy && m_sized && (!m_checking || done);
        if (done) bursts.push(clock, m_checked);
        m_judged = m_checking && !done;
        if (done) m_checking = false;
        if (checks) {
            m_checking = true;
            const Command& command = m_program[m_number];
            const bool row_ends = m_left == m_count;
            m_checked = {m_addr, m_line, m_count, m_number, row_ends && m_rows_left == 1};
            m_sized = false;
            m_addr += m_count * m_p.line_bytes;
            m_line += m_count;
            m_left -= m_count;
            if (row_ends) {
                m_busy = m_rows_left != 1;
                --m_rows_left;
                m_addr = m_row_addr += static_cast<uint32_t>(command.dram_stride);
                m_line = m_row_line += static_cast<uint32_t>(command.scratchpad_stride);
                m_left = static_cast<uint32_t>(command.lines);
            }
        } else if (m_busy && !m_sized) {
            m_sized = true;
            const uint32_t in_page = (4096 - m_addr % 4096) / m_p.line_bytes;
            m_count = std::min(m_left, std::min(in_page, m_p.burst_lines));
        }
        if (start) {
            const Command& command = m_program[number];
            m_number = number;
            m_busy = true;
            m_sized = false;
            m_addr = m_row_addr = static_cast<uint32_t>(command.dram_addr);
            m_line = m_row_line = static_cast<uint32_t>(command.scratchpad_addr);
            m_left = static_cast<uint32_t>(command.lines);
            m_rows_left = static_cast<uint32_t>(command.rows);
        }
    }

private:
    Parameters m_p{};
    const Command* m_program = nullptr;
    Burst m_checked{};
    uint32_t m_number = 0, m_addr = 0, m_row_addr = 0, m_line = 0, m_row_line = 0, m_left = 0, m_rows_left = 0;
    uint32_t m_count = 0;
    bool m_busy = false, m_sized = false, m_checking = false, m_judged = false;
};

// rtl/dma/load.py
class Load {
public:
    Planner planner;
    Queue<Burst> flight;
    Queue<uint32_t> ar;  // beats of a burst whose address is to go out
    LineWriter writer;

    void configure(const Parameters& p, const Command* program) {
        m_p = p;
        planner.configure(p, program);
        flight.depth = p.outstanding_bursts;
        ar.depth = 2;
        const uint32_t capacity = p.outstanding_bursts * p.burst_lines * p.beats_per_line;
        m_buffered = capacity >= p.block_ram_depth;
        m_beats.inner_depth = capacity - 1;
        m_plain.depth = capacity;
        m_marks.depth = 4;
        m_mark.depth = 2;
    }
    bool takes_beats() const { return m_buffered ? m_beats.ready() : m_plain.ready(); }
    bool holds_beats() const { return m_buffered ? m_beats.valid() : m_plain.valid(); }
    // Whether a line is offered to the scratchpad.
    bool writes(bool posts_ready) const {
        return writer.valid() && m_mark.valid() && (!m_mark.front().last || posts_ready);
    }
    bool busy() const {
        return !planner.idle() || flight.valid() || m_marks.valid() || m_mark.valid() || writer.valid();
    }
    bool asleep() const { return !busy() && !ar.valid() && !holds_beats(); }
    // Whether nothing changes until a beat or a command comes.
    bool still() const {
        return planner.still() && !(planner.bursts.valid() && flight.ready()) && !ar.valid() && !holds_beats() &&
               !m_marks.valid() && !m_mark.valid() && !writer.valid();
    }
    bool holds_lines() const { return writer.valid() && !writer.granted; }
    // A beat was moved in this cycle, of that command.
    bool active = false;
    uint32_t command = 0;

    // Returns whether a command ends in this cycle: it is `*ended`.
    bool step(Clock& clock, bool start, uint32_t number, bool arrives, bool ar_taken, bool posts_ready,
              uint32_t* ended) {
        active = false;
        if (asleep() && !start && !arrives) return false;
        if (planner.bursts.valid() && ar.ready() && flight.ready()) {
            const Burst& burst = planner.bursts.front();
            ar.push(clock, burst.lines * m_p.beats_per_line);
            flight.push(clock, burst);
            planner.bursts.pop(clock);
        }
        if (ar_taken) ar.pop(clock);

        bool do_beat = false;
        if (holds_beats() && flight.valid()) {
            const Burst& head = flight.front();
            const bool last_beat = m_beat + 1 == m_p.beats_per_line;
            do_beat = !last_beat || (writer.ready() && m_marks.ready());
            if (do_beat) {
                active = true;
                command = head.command;
                ++m_beat;
                if (last_beat) {
                    m_beat = 0;
                    const bool last_line = m_line + 1 == head.lines;
                    writer.push(clock, head.scratchpad_addr + m_line);
                    m_marks.push(clock, {head.last && last_line, head.command});
                    ++m_line;
                    if (last_line) {
                        m_line = 0;
                        flight.pop(clock);
                    }
                }
            }
        }
        if (m_buffered) m_beats.tick(arrives, do_beat);
        else {
            if (arrives) m_plain.push(clock);
            if (do_beat) m_plain.pop(clock);
        }
        if (m_marks.valid() && m_mark.ready()) {
            m_mark.push(clock, m_marks.front());
            m_marks.pop(clock);
        }
        bool ends = false;
        if (writes(posts_ready) && writer.granted) {
            ends = m_mark.front().last;
            *ended = m_mark.front().command;
            writer.pop(clock);
            m_mark.pop(clock);
        }
        planner.step(clock, start, number);
        return ends;
    }

private:
    struct Mark {
        bool last;
        uint32_t command;
    };
    Parameters m_p{};
    BufferedTokens m_beats;
    Tokens m_plain;
    Queue<Mark> m_marks, m_mark;
    uint32_t m_beat = 0, m_line = 0;
    bool m_buffered = false;
};

// rtl/dma/store.py
class Store {
public:
    Planner planner;
    LineReader reader;
    Queue<Burst> flight, sending;
    Queue<uint32_t> aw;  // beats of a burst whose address is to go out
    Tokens w;

    void configure(const Parameters& p, const Command* program) {
        m_p = p;
        planner.configure(p, program);
        reader.configure(p);
        flight.depth = sending.depth = p.outstanding_bursts;
        aw.depth = w.depth = 2;
    }
    bool busy() const { return !planner.idle() || !reader.idle() || flight.valid(); }
    // Whether nothing changes until a response or a command comes.
    bool still() const {
        return planner.still() && !(planner.bursts.valid() && flight.ready()) && !sending.valid() && !aw.valid() &&
               !w.valid() && reader.idle();
    }
    bool takes_responses(bool posts_ready) const {
        return !flight.valid() || !flight.front().last || posts_ready;
    }
    bool active = false;
    uint32_t command = 0;

    bool step(Clock& clock, bool start, uint32_t number, bool aw_taken, bool w_taken, bool response,
              uint32_t* ended) {
        active = false;
        if (!start && !busy() && !sending.valid() && !aw.valid() && !w.valid()) return false;
        if (planner.bursts.valid() && aw.ready() && sending.ready() && flight.ready() && reader.ranges.ready()) {
            const Burst& burst = planner.bursts.front();
            planner.bursts.pop(clock);
            aw.push(clock, burst.lines * m_p.beats_per_line);
            sending.push(clock, burst);
            flight.push(clock, burst);
            reader.ranges.push(clock, {burst.scratchpad_addr, burst.lines});
        }
        if (aw_taken) aw.pop(clock);
        if (w_taken) w.pop(clock);
        bool pop_line = false;
        if (sending.valid() && reader.lines.valid() && w.ready()) {
            const Burst& head = sending.front();
            active = true;
            command = head.command;
            w.push(clock);
            if (++m_beat == m_p.beats_per_line) {
                m_beat = 0;
                pop_line = true;
                if (++m_line == head.lines) {
                    m_line = 0;
                    sending.pop(clock);
                }
            }
        }
        reader.step(clock, pop_line);
        bool ends = false;
        if (response && flight.valid()) {
            ends = flight.front().last;
            *ended = flight.front().command;
            flight.pop(clock);
        }
        planner.step(clock, start, number);
        return ends;
    }

private:
    Parameters m_p{};
    uint32_t m_beat = 0, m_line = 0;
};
