// The GEMM engine (rtl/gemm/) without its arithmetic: who has room for how many words when.
#pragma once

#include <cstdint>

#include "scratchpad.h"
#include "stream.h"
#include "types.h"

// rtl/lanes/record_reader.py: a line holds several records.
class RecordReader {
public:
    Tokens records;

    void configure(uint32_t per_line) {
        m_per_line = per_line;
        records.depth = 2;
    }
    // Whether a line is taken in this cycle.
    bool step(Clock& clock, bool line, bool pop) {
        if (pop) records.pop(clock);
        if (!line || !records.ready()) return false;
        records.push(clock);
        if (++m_place < m_per_line) return false;
        m_place = 0;
        return true;
    }
    // As `step`, in a cycle in which everything held is dropped.
    bool restart() {
        const bool takes = m_place != 0;
        records.count = 0;
        m_place = 0;
        return takes;
    }

private:
    uint32_t m_per_line = 1, m_place = 0;
};

class Gemm {
public:
    LineReader a, b, residual, params;
    LineWriter writer;

    void configure(const Parameters& p, const Command* program, const int32_t* flagged) {
        m_p = p;
        m_program = program;
        m_flagged = flagged;
        for (LineReader* reader : {&a, &b, &residual, &params}) reader->configure(p);
        for (auto* ranges : {&m_a_ranges, &m_b_ranges, &m_residual_ranges, &m_param_ranges})
            ranges->depth = p.tiles_ahead;
        m_feeder_tiles.depth = p.tiles_ahead;
        m_epilogue_tiles.depth = m_packer_tiles.depth = p.tiles_in_flight;
        m_drain.depth = m_room = p.array_n * 2 > 16 ? p.array_n * 2 : 16;
        m_records.configure(p.array_n / 4);
        m_residuals.depth = m_results.depth = m_place_room = p.words_in_flight;
        m_result_lines.depth = m_residue_lines.depth = m_finished.depth = p.packer_depth;
        m_highest = p.packer_depth - p.room_latency;
    }

    // The border's side of the sequencer, from registers.
    bool takes_command() const { return m_state == IDLE; }
    bool hold() const { return m_state != IDLE && command().wait1_each; }
    bool wants() const {
        return m_state == CHECK && m_started && !m_second && command().wait1_each && units(command().wait1).enable;
    }
    Units wanted() const { return units(command().wait1); }
    bool busy() const { return (m_state != IDLE && !wants()) || m_unfinished; }
    bool asleep() const { return m_state == IDLE && !m_unfinished && m_quiet; }

    // Whether word pairs enter the array and nothing else happens.
    bool only_feeds(uint64_t now, bool command_offered) const {
        return m_feeder_valid && m_left > 1 && m_stepped && !m_spacing && !m_drain_starts && !m_drain_left &&
               m_back_empty && back_empty(now) && sequencer_still(command_offered) && ranges_still(m_a_ranges, a) &&
               ranges_still(m_b_ranges, b) && ranges_still(m_residual_ranges, residual) &&
               ranges_still(m_param_ranges, params) && residual.still() && params.still() &&
               !(params.lines.valid() && m_records.records.ready());
    }
    // Of that, what repeats.
    struct Phase {
        LineReader::Phase a, b;
        bool odd, may_end;
        bool operator==(const Phase& o) const { return a == o.a && b == o.b && odd == o.odd && may_end == o.may_end; }
    };
    Phase phase() const { return {a.phase(), b.phase(), m_odd, m_may_end}; }
    uint32_t words_left() const { return m_left; }
    void skip(uint32_t words) {
        m_left -= words;
        a.skip(words / 2);
        b.skip(words / 2);
    }

    bool active = false;  // a word pair enters the array
    uint32_t active_command = 0;
    bool active_final = false;  // it is the command's last one
    // What keeps the array from working, if it isn't: FILLING, DRAINING, SCRATCHPAD; WAIT if it waits for units.
    Activity stands = FILLING;

    // `posts_level`: pairs in the border's queue. Gives what is to be posted.
    PostPair step(Clock& clock, uint64_t now, bool start, uint32_t number, bool more_granted, uint32_t posts_level,
                  uint32_t posts_depth) {
        PostPair posts{};
        active = m_stepped;
        active_command = m_stepped_command;
        active_final = m_stepped_final;
        if (asleep() && !start) {
            m_stepped = false;
            stands = FILLING;
            return posts;
        }
        const bool posts_ready = posts_level != posts_depth, posts_have_room = posts_level + 2 <= posts_depth;
        if (back_empty(now)) {
            if (!m_back_empty) {
                // Words are found again by the cycle in which they passed: what is left of the last ones goes.
                for (Word& word : m_way) word = {};
                for (Word& word : m_popped) word = {};
                m_back_empty = true;
            }
            m_take = m_pop_record = m_pop_residual = false;
            m_next_known = m_epilogue_tiles.valid();
        } else {
            m_back_empty = false;
            step_packer(clock, now, posts_ready, &posts);
            step_epilogue(clock, now);
        }
        step_feeder(clock, now, posts_have_room, &posts);
        pass_ranges(clock);
        // Everything that may_issue and the packer's room are made of was looked at in this cycle.
        step_sequencer(clock, start, number, more_granted);
        m_quiet = !m_stepped && !m_drain_starts && !m_drain_left && !m_feeder_valid && m_back_empty;
        return posts;
    }

private:
    enum State { IDLE, LOAD_FIELDS, CHECK, ISSUE };
    struct FeederTile {
        uint32_t k, command;
        bool wide_high;
        uint8_t records;
        Units post0;
        bool final;  // of its command
    };
    struct EpilogueTile {
        uint32_t command, flagged;
    };
    struct PackerTile {
        uint32_t addr, residue_addr;
        Units post1;
    };
    struct Word {
        bool valid, final, out16, residue, residual;
    };
    struct Line {
        uint32_t addr, tile;
    };
    struct Finished {
        Units post1;
        uint32_t count;
    };

    const Command& command() const { return m_program[m_number]; }

    // Whether no word is in the epilogue or the packer, and what they know about their room is settled.
    bool back_empty(uint64_t now) const {
        return !m_drain.valid() && !m_results.valid() && !m_finished.valid() && !m_result_lines.valid() &&
               !m_residue_lines.valid() && !writer.valid() && now - m_last_word > settled &&
               (m_tile_valid || !m_epilogue_tiles.valid()) && !(residual.lines.valid() && m_residuals.ready());
    }
    static constexpr uint64_t settled = 15;  // cycles, more than the arithmetic takes

    // Whether the sequencer can't do anything: it has no command, waits for units, or for room.
    bool sequencer_still(bool command_offered) const {
        if (m_state == IDLE) return !command_offered;
        if (m_state == CHECK) return wants();
        return m_state == ISSUE && !m_may_issue && !room_to_issue();
    }
    static bool ranges_still(const Queue<LineRange>& ranges, const LineReader& reader) {
        return !ranges.valid() || !reader.ranges.ready();
    }
    bool room_to_issue() const {
        const Command& c = command();
        return m_a_ranges.ready() && m_b_ranges.ready() && m_feeder_tiles.ready() &&
               ((c.wide && !m_second) ||
                (m_epilogue_tiles.ready() && m_packer_tiles.ready() && (!c.residual || m_residual_ranges.ready()) &&
                 (!c.params || m_param_ranges.ready())));
    }

    void step_sequencer(Clock& clock, bool start, uint32_t number, bool more_granted) {
        const bool may_issue = m_may_issue;
        if (m_state != IDLE) m_may_issue = room_to_issue();
        switch (m_state) {
            case IDLE:
                m_started = m_second = false;
                if (start) {
                    m_number = number;
                    m_state = LOAD_FIELDS;
                }
                break;
            case LOAD_FIELDS:
                m_tile = 0;
                m_state = CHECK;
                break;
            case CHECK:
                if (!wants() || more_granted) m_state = ISSUE;
                break;
            case ISSUE:
                if (may_issue) issue(clock);
                break;
        }
    }

    void issue(Clock& clock) {
        const Command& c = command();
        const bool high = c.wide && !m_second, last = m_tile + 1 == c.count;
        const auto place = [this](int64_t addr, int64_t stride) {
            return static_cast<uint32_t>(addr + m_tile * stride);
        };
        const uint32_t lines = static_cast<uint32_t>(c.k / 2), low = static_cast<uint32_t>(c.low_offset);
        m_a_ranges.push(clock, {place(c.a_addr, c.a_stride) + (m_second && c.wide == 1 ? low : 0), lines});
        m_b_ranges.push(clock, {place(c.b_addr, c.b_stride) + (m_second && c.wide == 2 ? low : 0), lines});
        if (!high && c.params) ++m_record_tiles;
        const Units none{};
        m_feeder_tiles.push(clock, {static_cast<uint32_t>(c.k), m_number, high, m_record_tiles,
                                    (last || c.post0_each) && !high ? units(c.post0) : none,
                                    last && !high});
        m_state = CHECK;
        if (high) {
            m_second = true;
            return;
        }
        if (c.residual)
            m_residual_ranges.push(clock, {place(c.residual_addr, c.residual_stride), static_cast<uint32_t>(c.columns)});
        if (c.params) m_param_ranges.push(clock, {place(c.param_addr, c.param_stride), m_p.param_lines});
        uint32_t flagged = 0;
        if (c.out_wide) flagged = static_cast<uint32_t>(c.columns);
        else if (c.residue && c.params && c.flagged >= 0) flagged = m_flagged[c.flagged + m_tile];
        m_epilogue_tiles.push(clock, {m_number, flagged});
        m_packer_tiles.push(clock, {place(c.c_addr, c.c_stride), place(c.residue_addr, c.residue_stride),
                                    last || c.post1_each ? units(c.post1) : none});
        ++m_unfinished;
        m_second = false;
        m_started = true;
        ++m_tile;
        if (last) m_state = IDLE;
    }

    void pass_ranges(Clock& clock) {
        const auto pass = [&clock](Queue<LineRange>& ranges, LineReader& reader) {
            if (ranges.valid() && reader.ranges.ready()) {
                reader.ranges.push(clock, ranges.front());
                ranges.pop(clock);
            }
        };
        pass(m_a_ranges, a);
        pass(m_b_ranges, b);
        pass(m_residual_ranges, residual);
        pass(m_param_ranges, params);
        m_param_lines += params.requesting && params.granted;
        a.step(clock, m_pop_operands);
        b.step(clock, m_pop_operands);
        residual.step(clock, m_pop_residual);
        params.step(clock, m_records.step(clock, params.lines.valid(), m_pop_record));
    }

    void step_feeder(Clock& clock, uint64_t now, bool posts_have_room, PostPair* posts) {
        const bool lines = a.lines.valid() && b.lines.valid();
        const bool last = m_left == 0 && m_feeder_valid;
        const bool step = m_feeder_valid && lines && !(last && !m_may_end);
        stands = !m_feeder_valid ? FILLING : !lines ? SCRATCHPAD : DRAINING;
        if (!m_feeder_valid && (m_state == CHECK && wants())) stands = WAIT;
        const uint8_t ahead = (m_param_lines / m_p.param_lines - m_feeder.records) & 63;
        const bool may_end = (m_room >= m_p.array_n || m_feeder.wide_high) && posts_have_room && !(ahead & 32) &&
                             m_spacing <= 1;
        const bool ends = step && last, load = !m_feeder_valid || ends;
        m_stepped = step;
        m_stepped_command = m_feeder.command;
        m_stepped_final = ends && m_feeder.final;
        m_pop_operands = step && m_odd;
        if (ends) {
            posts->post0 = m_feeder.post0;
            m_spacing = m_p.array_n - 1;
            if (!m_feeder.wide_high) {
                m_room -= m_p.array_n;
                // The step is registered, then it takes the array's latency until column 0 is there.
                m_drain_start[(m_drain_head + m_drain_starts++) % 8] = now + 1 + m_p.array_latency;
            }
        } else if (m_spacing) --m_spacing;
        if (step) {
            m_odd = !m_odd;
            --m_left;
        }
        if (load) {
            m_feeder_valid = m_feeder_tiles.valid();
            if (m_feeder_valid) {
                m_feeder = m_feeder_tiles.front();
                m_left = m_feeder.k - 1;
                m_feeder_tiles.pop(clock);
            }
        }
        m_may_end = may_end;
        // Words that leave the array in this cycle.
        if (!m_drain_left && m_drain_starts && m_drain_start[m_drain_head] == now) {
            m_drain_left = m_p.array_n;
            m_drain_head = (m_drain_head + 1) % 8;
            --m_drain_starts;
        }
        if (m_drain_left) {
            m_drain.push(clock);
            --m_drain_left;
        }
        m_room += m_take;
    }

    Word& on_its_way(uint64_t cycle) { return m_way[cycle & 31]; }

    void step_epilogue(Clock& clock, uint64_t now) {
        const uint32_t n = m_p.array_n;
        const Command* c = m_tile_valid ? &m_program[m_epilogue.command] : nullptr;
        const bool within = m_within;
        const bool may_take = m_tile_valid && m_has_room && (!c->params || m_records.records.valid()) &&
                              (!c->residual || !within || m_has_residual);
        m_take = may_take && m_drain.valid();
        m_pop_record = m_take && c->params;
        const bool is_last = m_column == n - 1;
        const bool may_load = !m_tile_valid || (m_take && is_last);
        Word taken{};
        bool promise = false;
        if (m_take) {
            m_last_word = now;
            m_drain.pop(clock);
            taken.valid = within;
            taken.final = m_column + 1 == static_cast<uint32_t>(c->columns);
            taken.out16 = c->out16;
            taken.residue = m_column < m_epilogue.flagged;
            taken.residual = c->residual;
            promise = within && c->residual;
            m_within = is_last || m_column + 1 < static_cast<uint32_t>(c->columns);
            m_column = is_last ? 0 : m_column + 1;
        }
        if (may_load) {
            m_tile_valid = m_next_known;
            m_within = true;
            if (m_next_known) {
                m_epilogue = m_epilogue_tiles.front();
                m_epilogue_tiles.pop(clock);
            }
        }
        m_next_known = m_epilogue_tiles.valid();

        // Through the arithmetic: the residual is added behind the piecewise function, a cycle before the end.
        on_its_way(now) = taken;
        const uint32_t latency = m_p.requantise_latency + m_p.piecewise_latency;
        const bool entered = now && on_its_way(now - 1).valid;
        const Word& summing = on_its_way(now - latency);
        const Word& summed = on_its_way(now - latency - 1);
        if (summing.valid && summing.residual) m_residuals.pop(clock);
        m_pop_residual = residual.lines.valid() && m_residuals.ready();
        if (m_pop_residual) m_residuals.push(clock);
        m_has_residual = m_pop_residual || m_free_residuals > 1 || (m_free_residuals == 1 && !promise);
        m_free_residuals += m_pop_residual - promise;
        const bool pop = m_results.valid() && m_packer_has_room_before;
        if (summed.valid) m_results.push(clock, summed);
        m_popped[now & 15] = pop ? m_results.front() : Word{};
        if (pop) {
            m_last_word = now;
            m_results.pop(clock);
        }
        m_has_room = m_place_room > 2;
        m_place_room += pop - entered;
    }

    void step_packer(Clock& clock, uint64_t now, bool posts_ready, PostPair* posts) {
        m_packer_has_room_before = m_packer_has_room;
        m_packer_has_room = m_result_lines.count <= m_highest && m_residue_lines.count <= m_highest &&
                            m_finished.count <= m_highest;
        const bool written = writer.valid() && writer.granted;
        // A line leaves for the writer: results of a tile before its residues, but not the next tile's.
        if (writer.ready() && (m_result_lines.valid() || m_residue_lines.valid())) {
            const bool residue_first =
                m_residue_lines.valid() &&
                (!m_result_lines.valid() ||
                 static_cast<int32_t>(m_residue_lines.front().tile - m_result_lines.front().tile) < 0);
            Queue<Line>& lines = residue_first ? m_residue_lines : m_result_lines;
            writer.push(clock, lines.front().addr);
            lines.pop(clock);
        }
        if (written) writer.pop(clock);
        if (m_finished.valid() && static_cast<int32_t>(m_written - m_finished.front().count) >= 0 && posts_ready) {
            posts->post1 = m_finished.front().post1;
            m_finished.pop(clock);
            --m_unfinished;
        }
        m_written += written;
        const Word& word = m_popped[(now - m_p.word_latency) & 15];
        if (!word.valid) return;
        const PackerTile& tile = m_packer_tiles.front();
        const bool result = word.out16 || word.final || m_half[0];
        // 16-bit words toggle the half as well, as in rtl/lanes/panel_packer.py; it is clear behind the last one.
        if (result) m_result_lines.push(clock, {tile.addr + m_offset[0], m_number_packed});
        const bool residue = word.final ? m_half[1] || word.residue : m_half[1] && word.residue;
        if (residue) m_residue_lines.push(clock, {tile.residue_addr + m_offset[1], m_number_packed});
        m_half[0] = !word.final && !m_half[0];
        m_half[1] = !word.final && m_half[1] != word.residue;
        m_offset[0] = word.final ? 0 : m_offset[0] + result;
        m_offset[1] = word.final ? 0 : m_offset[1] + residue;
        m_made += result + residue;
        if (word.final) {
            m_finished.push(clock, {tile.post1, m_made});
            m_packer_tiles.pop(clock);
            ++m_number_packed;
        }
    }

    Parameters m_p{};
    const Command* m_program = nullptr;
    const int32_t* m_flagged = nullptr;

    // Sequencer
    State m_state = IDLE;
    uint32_t m_number = 0, m_tile = 0, m_unfinished = 0;
    uint8_t m_record_tiles = 0;
    bool m_started = false, m_second = false, m_may_issue = false;
    Queue<LineRange> m_a_ranges, m_b_ranges, m_residual_ranges, m_param_ranges;
    Queue<FeederTile> m_feeder_tiles;
    Queue<EpilogueTile> m_epilogue_tiles;
    Queue<PackerTile> m_packer_tiles;

    // Feeder and array
    FeederTile m_feeder{};
    uint32_t m_left = 0, m_spacing = 0, m_room = 0, m_param_lines = 0, m_stepped_command = 0;
    bool m_stepped_final = false, m_feeder_valid = false, m_odd = false, m_may_end = false, m_stepped = false, m_pop_operands = false;
    uint64_t m_drain_start[8] = {};
    uint32_t m_drain_head = 0, m_drain_starts = 0, m_drain_left = 0;
    Tokens m_drain;

    // Epilogue
    RecordReader m_records;
    EpilogueTile m_epilogue{};
    Word m_way[32] = {}, m_popped[16] = {};
    uint32_t m_column = 0, m_free_residuals = 0, m_place_room = 0;
    uint64_t m_last_word = 0;  // taken from the drain or by the packer
    bool m_tile_valid = false, m_within = true, m_next_known = false, m_has_room = false, m_has_residual = false;
    bool m_back_empty = true, m_take = false, m_pop_record = false, m_pop_residual = false, m_quiet = true;
    Tokens m_residuals;
    Queue<Word> m_results;

    // Packer
    Queue<Line> m_result_lines, m_residue_lines;
    Queue<Finished> m_finished;
    uint32_t m_highest = 0, m_made = 0, m_written = 0, m_number_packed = 0;
    uint32_t m_offset[2] = {};
    bool m_half[2] = {}, m_packer_has_room = false, m_packer_has_room_before = false;
};
