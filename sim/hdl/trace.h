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
