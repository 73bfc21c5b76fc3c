// Host memory behind an AXI4 port, as a subordinate that is clocked once a cycle.
//
// All outputs are registered: what clock() computes from the signals of one clock edge is on the
// bus until the next. Reads and writes are each answered in the order of their addresses.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "protocol.h"

enum class Response : uint8_t { okay = 0, subordinate_error = 2, decode_error = 3 };

// What the subordinate drives.
struct SubordinateSignals {
    bool awready = false, wready = false, arready = false;
    bool bvalid = false, rvalid = false, rlast = false;
    uint32_t bid = 0, rid = 0;
    Response bresp = Response::okay, rresp = Response::okay;
};

struct MemoryCounters {
    uint64_t cycle = 0;          // clock edges so far
    uint64_t bytes_read = 0;     // of beats that the manager took
    uint64_t bytes_written = 0;  // with their strobe set
    uint64_t violations = 0;     // of the AXI protocol
};

// Odds that a channel stands still in a cycle, 0 to 1.
struct Stalls {
    double aw = 0, w = 0, b = 0, ar = 0, r = 0;
};

class Memory {
public:
    // First address and contents; addresses outside answer DECERR.
    uint64_t base = 0;
    std::vector<uint8_t> bytes;

    // Cycles from an address (or the last write beat) to the first data (or the response).
    uint32_t read_latency = 1, write_latency = 1;
    // Most bytes a cycle on average, reads and writes together.
    double bandwidth = 1e9;
    // Bursts of each direction that are accepted before the first is finished.
    uint32_t outstanding = 64;

    MemoryCounters counters;
    std::vector<std::string> violations;

    void stall(uint64_t seed, const Stalls& odds);
    void add_error(uint64_t low, uint64_t high, Response response, bool on_read, bool on_write);
    void clear_errors() { m_errors.clear(); }

    // One rising clock edge. `wdata` and `rdata` are `bus_bytes` long.
    void clock(const ManagerSignals& in, uint32_t bus_bytes, const uint8_t* wdata,
               const uint32_t* wstrb, uint8_t* rdata);
    const SubordinateSignals& outputs() const { return m_out; }

private:
    struct Burst {
        uint32_t id;
        uint64_t addr;
        uint32_t beats_left;
        uint64_t due;  // cycle of the first data
        Response response;
    };
    struct ErrorRange {
        uint64_t low, high;
        Response response;
        bool on_read, on_write;
    };

    bool stands_still(double odds);
    Response check(uint64_t addr, uint32_t size, bool write) const;
    void take_write_beat(const ManagerSignals& in, uint32_t bus_bytes, const uint8_t* wdata,
                         const uint32_t* wstrb);
    void put_read_beat(uint32_t bus_bytes, uint8_t* rdata);
    void reset();

    SubordinateSignals m_out;
    ProtocolChecker m_checker;
    std::deque<Burst> m_reads, m_writes, m_responses;
    std::vector<ErrorRange> m_errors;
    Stalls m_stalls;
    uint64_t m_random = 1;
    double m_credit = 0;  // bytes that may still be moved
};
