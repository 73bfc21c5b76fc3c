// The vector engine (rtl/vector/) without its arithmetic.
#pragma once

#include <cstdint>

#include "gemm.h"
#include "scratchpad.h"
#include "stream.h"
#include "types.h"

class Vector {
public:
    LineReader source, params;
    LineWriter writer;

    void configure(const Parameters& p, const Command* program, const int32_t* flagged) {
        m_p = p;
        m_program = program;
        m_flagged = flagged;
        source.configure(p);
        params.configure(p);
        m_records.configure(p.array_n / 4);
        m_results.depth = 2;
    }
    bool takes_command() const { return m_state == FETCH; }
    bool busy() const { return m_state != FETCH; }
    bool active() const { return busy(); }
    uint32_t active_command() const { return m_number; }
    bool still() const { return m_state == FETCH; }
    Activity stands = FILLING;  // what the command in work does in this cycle

    // Returns whether the command ends in this cycle and is to be posted.
    bool step(Clock& clock, bool start, uint32_t number, bool posts_ready) {
        if (m_state == FETCH && !start) return false;
        const Command& c = m_program[m_number];
        const bool softmax = c.opcode == SOFTMAX, layernorm = c.opcode == LAYERNORM, quantize = c.opcode == QUANTIZE;
        const bool streaming = softmax || layernorm || quantize, table = c.opcode == TABLE;
        const bool begins = m_state == CHECK;
        const bool packing = m_left != 0, writing = writer.valid();
        const bool scaled = m_scale_running && m_scale_left == 0;
        stands = FILLING;

        // Packer: a line a cycle, so a word takes as many as it completes.
        bool pop_result = false;
        if (m_results.valid()) {
            const bool final = m_left == 1, write16 = c.write16, write8 = layernorm ? c.write8 : 1;
            const bool residue = c.wide || (c.residue && is_flagged(c, m_packed));
            bool complete[3] = {layernorm && write16, final ? m_half8 || write8 : m_half8 && write8,
                                final ? m_half_residue || residue : m_half_residue && residue};
            unsigned left = 0;
            int first = -1;
            for (int line = 0; line < 3; ++line) {
                if (!complete[line] || (m_written_lines >> line & 1)) continue;
                if (first < 0) first = line;
                ++left;
            }
            const bool writes = left != 0 && writer.ready();
            pop_result = left == 0 || (left == 1 && writes);
            if (writes) {
                const int64_t base = first == 0 ? c.dst16_addr : first == 1 ? c.dst8_addr : c.residue_addr;
                writer.push(clock, static_cast<uint32_t>(base + m_offset[first]));
            }
            if (left && !writes) stands = SCRATCHPAD;
            if (pop_result) {
                m_results.pop(clock);
                m_half8 = !final && m_half8 != write8;
                m_half_residue = !final && m_half_residue != residue;
                for (int line = 0; line < 3; ++line) m_offset[line] = final ? 0 : m_offset[line] + complete[line];
                m_written_lines = 0;
                ++m_packed;
                --m_left;
            } else if (writes) m_written_lines |= 1u << first;
        }
        if (writer.valid() && writer.granted) writer.pop(clock);

        // Lanes: all stages move together. Bit k of `m_stages`: stage k holds a word.
        const unsigned stages = 1 + (softmax ? m_p.softmax_stages
                                             : (layernorm ? m_p.normalise_stages : 0) + m_p.requantise_stages);
        bool pop_source = false, pop_record = false;
        if (streaming) {
            const bool open = layernorm ? m_open : m_closed == 0, counting = m_rounds != 0;
            const bool finished = m_stages >> (stages - 1) & 1;
            const bool wants_record = layernorm ? m_stages >> m_p.gamma_stage & 1 : quantize && (m_stages & 1);
            const bool starved = wants_record && !m_records.records.valid();
            const bool advance = (!finished || m_results.ready()) && !starved;
            pop_source = source.lines.valid() && open && advance;
            pop_record = wants_record && advance;
            if (finished && !starved && m_results.ready()) m_results.push(clock, 0);
            if (advance) m_stages = (m_stages << 1 | (pop_source && !counting)) & ((1u << stages) - 1);
            if (pop_source) stands = WORKING;
            else if (!open) stands = SCALING;
            else if (starved || (advance && m_asked && (counting || m_entered < c.words))) stands = SCRATCHPAD;
            m_entered += pop_source;
            if (m_closed) --m_closed;
            if (counting && m_entered == c.words) {  // a round is over: the row's words come once more
                m_entered = 0;
                m_closed = m_p.threshold_wait;
                --m_rounds;
            }
        } else if (table) {
            const bool loading = m_table_left != 0;
            m_table_done = loading && m_entry == (c.table ? m_p.segments : m_p.exp2_entries) - 1 ? 2 : m_table_done;
            if (loading) {
                stands = WORKING;
                --m_table_left;
                ++m_entry;
            } else if (source.lines.valid()) {
                pop_source = true;
                m_table_left = c.table ? m_p.array_n / 2 : m_p.array_n;
            }
        } else if (source.lines.valid()) {  // factors or ranges: two lines
            pop_source = true;
            stands = WORKING;
            if (m_second) m_rows_done = 2;
            m_second = !m_second;
        }
        const bool rows_written = m_rows_done == 1, table_written = m_table_done == 1;
        if (m_rows_done) --m_rows_done;
        if (m_table_done) --m_table_done;

        source.step(clock, pop_source);
        params.step(clock, begins ? m_records.restart() : m_records.step(clock, params.lines.valid(), pop_record));

        // The row scale: started a cycle after the sequencer says so.
        if (scaled) {
            m_scale_running = false;
            if (softmax) m_rows_done = 1;
            else m_open = true;
        } else if (m_scale_running) --m_scale_left;
        if (m_scale) {
            m_scale_running = true;
            m_scale_left = (softmax ? m_p.softmax_scale_cycles : m_p.layernorm_scale_cycles) - 1;
        }
        m_scale = false;

        bool ends = false;
        switch (m_state) {
            case FETCH:
                m_number = number;
                m_state = CHECK;
                break;
            case CHECK:
                m_left = streaming ? static_cast<uint32_t>(c.words) : 0;
                m_open = m_asked = false;
                m_packed = m_entered = m_entry = 0;
                m_next_flagged = 0;
                m_rounds = m_more_reads = c.kept ? m_p.threshold_rounds : 0;
                m_closed = 0;
                m_scale = layernorm;
                m_state = READ_SOURCE;
                break;
            case READ_SOURCE:
                if (!source.ranges.ready()) break;
                source.ranges.push(clock, {static_cast<uint32_t>(c.src_addr), source_lines(c)});
                m_asked = true;
                if (m_more_reads) {
                    --m_more_reads;
                    break;
                }
                m_state = layernorm || quantize ? READ_PARAMS : WORK;
                break;
            case READ_PARAMS:
                if (!params.ranges.ready()) break;
                params.ranges.push(clock, {static_cast<uint32_t>(c.param_addr), record_lines(c)});
                m_state = WORK;
                break;
            case WORK:
                if (softmax && !packing) {
                    m_scale = true;
                    m_state = INVERT;
                } else if (streaming && !packing) m_state = DRAIN;
                else if (rows_written || table_written) m_state = POST;
                break;
            case INVERT:
                stands = SCALING;
                if (rows_written) m_state = DRAIN;
                break;
            case DRAIN:
                if (!writing) m_state = POST;
                break;
            case POST:
                if (!posts_ready) break;
                ends = true;
                m_state = FETCH;
                break;
        }
        return ends;
    }

private:
    enum State { FETCH, CHECK, READ_SOURCE, READ_PARAMS, WORK, INVERT, DRAIN, POST };

    uint32_t source_lines(const Command& c) const {
        switch (c.opcode) {
            case TABLE:
                return (c.table ? 32 * m_p.segments : 16 * m_p.exp2_entries) / (8 * m_p.line_bytes);
            case FACTORS:
            case RANGES: return 2;
            default: return static_cast<uint32_t>(c.words);
        }
    }
    uint32_t record_lines(const Command& c) const {
        const uint32_t per_line = m_p.line_bytes / 8;
        return (static_cast<uint32_t>(c.words) + per_line - 1) / per_line;
    }
    // Words come in their order, and so do the flagged ones.
    bool is_flagged(const Command& c, uint32_t word) {
        if (c.flagged < 0) return false;
        const int32_t* list = m_flagged + c.flagged;
        while (m_next_flagged < list[0] && static_cast<uint32_t>(list[1 + m_next_flagged]) < word) ++m_next_flagged;
        return m_next_flagged < list[0] && static_cast<uint32_t>(list[1 + m_next_flagged]) == word;
    }

    Parameters m_p{};
    const Command* m_program = nullptr;
    const int32_t* m_flagged = nullptr;
    State m_state = FETCH;
    RecordReader m_records;
    Queue<uint8_t> m_results;
    int32_t m_next_flagged = 0;
    uint32_t m_number = 0, m_left = 0, m_packed = 0, m_entered = 0, m_stages = 0, m_written_lines = 0;
    uint32_t m_offset[3] = {};
    uint32_t m_rounds = 0, m_more_reads = 0, m_closed = 0;  // of a search for a threshold
    uint32_t m_scale_left = 0, m_table_left = 0, m_entry = 0, m_rows_done = 0, m_table_done = 0;
    bool m_half8 = false, m_half_residue = false, m_open = false, m_asked = false, m_second = false;
    bool m_scale = false, m_scale_running = false;
};
