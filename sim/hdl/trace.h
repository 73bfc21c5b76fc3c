// Which command each engine worked on, cycle by cycle, gathered by command.
#pragma once

#include <cstdint>
#include <vector>

constexpr unsigned trace_engines = 4;

struct TraceRow {
    uint64_t busy;   // cycles in which the command was active
    uint64_t first;  // first of them
    uint64_t last;   // last of them
};

class Trace {
public:
    void active(unsigned engine, uint32_t index, uint64_t cycle) {
        std::vector<TraceRow>& rows = m_rows[engine];
        if (index >= rows.size()) rows.resize(index + 1 + rows.size(), TraceRow{0, 0, 0});
        TraceRow& row = rows[index];
        if (row.busy++ == 0) row.first = cycle;
        row.last = cycle;
        m_newest[engine] = index;
    }
    void clear() {
        for (auto& rows : m_rows) rows.clear();
        for (auto& index : m_newest) index = 0;
    }
    const std::vector<TraceRow>& rows(unsigned engine) const { return m_rows[engine]; }
    // Position of the command that the engine worked on last.
    uint32_t newest(unsigned engine) const { return m_newest[engine]; }

private:
    std::vector<TraceRow> m_rows[trace_engines];
    uint32_t m_newest[trace_engines] = {};
};

constexpr unsigned trace_classes = 16;   // values of CycleClass (rtl/counters/classes.py)
constexpr unsigned trace_stretch = 256;  // cycles whose classes are counted together
constexpr unsigned class_delay = 2;      // cycles from what an engine is in to its class on the trace ports

struct ClassCounts {
    uint32_t cycles[trace_classes];
};

struct StretchCounts {
    uint16_t cycles[trace_engines][trace_classes];
};

// What each engine was in, cycle by cycle, gathered by command and by stretch of time. A cycle belongs to the
// command that the engine is active for, and if it is for none, to the next one.
class ClassifiedTrace {
public:
    bool recording = true;

    void clock(unsigned active, const uint32_t* index, unsigned classes, uint64_t cycle) {
        // Only now it is known what the engines were in when they did what came so many cycles before.
        Moment& then = m_moments[cycle % class_delay];
        if (++m_clocks > class_delay) {
            const uint64_t stretch = m_cycles++ / trace_stretch;
            if (stretch >= m_stretches.size()) m_stretches.push_back(StretchCounts{});
            StretchCounts& counts = m_stretches.back();
            for (unsigned engine = 0; engine < trace_engines; ++engine) {
                const unsigned now = classes >> 4 * engine & 15;
                ++counts.cycles[engine][now];
                count(engine, now, then);
            }
        }
        then.active = active;
        for (unsigned engine = 0; engine < trace_engines; ++engine) then.index[engine] = index[engine];
    }
    void clear(uint64_t cycle) {
        for (auto& commands : m_commands) commands.clear();
        for (auto& waiting : m_waiting) waiting = {};
        m_stretches.clear();
        m_cycles = m_clocks = 0;
        m_start = cycle + 1;
    }
    const std::vector<ClassCounts>& commands(unsigned engine) const { return m_commands[engine]; }
    const std::vector<StretchCounts>& stretches() const { return m_stretches; }
    // Cycle of the first one counted.
    uint64_t start() const { return m_start; }

private:
    struct Moment {
        unsigned active;
        uint32_t index[trace_engines];
    };
    struct Waiting {
        ClassCounts counts;
        bool any;
    };

    void count(unsigned engine, unsigned now, const Moment& then) {
        Waiting& waiting = m_waiting[engine];
        if (!(then.active >> engine & 1)) {
            ++waiting.counts.cycles[now];
            waiting.any = true;
            return;
        }
        const uint32_t index = then.index[engine];
        std::vector<ClassCounts>& commands = m_commands[engine];
        if (index >= commands.size()) commands.resize(index + 1 + commands.size(), ClassCounts{});
        ClassCounts& counts = commands[index];
        if (waiting.any) {
            for (unsigned i = 0; i < trace_classes; ++i) counts.cycles[i] += waiting.counts.cycles[i];
            waiting = {};
        }
        ++counts.cycles[now];
    }

    std::vector<ClassCounts> m_commands[trace_engines];
    std::vector<StretchCounts> m_stretches;
    Waiting m_waiting[trace_engines] = {};
    Moment m_moments[class_delay] = {};
    uint64_t m_start = 0, m_cycles = 0, m_clocks = 0;
};
