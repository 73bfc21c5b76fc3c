// Every line that is written to the scratchpad, in order, once it is asked to keep them.
#pragma once

#include <cstdint>
#include <vector>

struct WriteRow {
    uint64_t cycle;
    uint32_t line;
    uint32_t port;  // of the scratchpad's
};

class WriteLog {
public:
    void add(const WriteRow& row, const uint8_t* content, unsigned bytes) {
        if (!m_keeps) return;
        m_rows.push_back(row);
        m_contents.insert(m_contents.end(), content, content + bytes);
    }
    void keep(bool keeps) {
        m_keeps = keeps;
        m_rows.clear();
        m_contents.clear();
    }
    const std::vector<WriteRow>& rows() const { return m_rows; }
    // The lines' bytes, one line behind the other.
    const std::vector<uint8_t>& contents() const { return m_contents; }

private:
    std::vector<WriteRow> m_rows;
    std::vector<uint8_t> m_contents;
    bool m_keeps = false;
};
