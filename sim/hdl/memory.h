// Host memory behind an AXI4 port, as a subordinate that is clocked once a cycle.
//
// All outputs are registered: what clock() computes from the signals of one clock edge is on the
// bus until the next. Reads and writes are each answered in the order of their addresses, unless
// `Manners` say otherwise.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "protocol.h"

enum class Response : uint8_t { okay = 0, exclusive_okay = 1, subordinate_error = 2, decode_error = 3 };

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

enum Channel : unsigned { channel_aw, channel_w, channel_b, channel_ar, channel_r, channels };

// Odds that a channel stands still in a cycle, 0 to 1.
struct Stalls {
    double odds[channels] = {};
};

// What AWREADY waits for.
enum class AddressWaits : uint8_t { nothing = 0, data_valid = 1, data_taken = 2 };

// What AXI allows and some interconnects do.
struct Manners {
    bool interleave = false;  // read beats of different IDs come in any order; those of an ID stay in theirs
    AddressWaits address_waits = AddressWaits::nothing;
    uint32_t early_beats = 0;  // write beats that are taken before their address
    double silence = 0;        // odds a cycle that a channel falls silent, for 1 to `silence_cycles` cycles
    uint32_t silence_cycles = 0;
};

// What AXI doesn't allow.
enum class Misdeed : uint8_t {
    none = 0,
    last_early = 1,      // a read burst is over some beats before its length, with RLAST
    last_late = 2,       // it goes on for some beats after its length, and only then has RLAST
    last_twice = 3,      // RLAST comes some beats before the end and again at the end
    last_missing = 4,    // a read burst is over in time, but without RLAST
    response_early = 5,  // BVALID doesn't wait for the write data
    response_twice = 6,  // a write burst is answered twice
    other_id = 7,        // the answer has another ID
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
    Manners manners;

    MemoryCounters counters;
    std::vector<std::string> violations;

    void stall(uint64_t seed, const Stalls& odds);
    void add_error(uint64_t low, uint64_t high, Response response, bool on_read, bool on_write);
    void clear_errors() { m_errors.clear(); }
    // Bursts that touch an address from `low` up to, not including, `high` are answered wrongly.
    void add_misdeed(Misdeed misdeed, uint64_t low, uint64_t high, uint32_t beats) {
        m_misdeeds.push_back({low, high, misdeed, beats});
    }
    void clear_misdeeds() { m_misdeeds.clear(); }

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
        Misdeed misdeed;
        uint32_t misdeed_beats;
    };
    struct ErrorRange {
        uint64_t low, high;
        Response response;
        bool on_read, on_write;
    };
    struct MisdeedRange {
        uint64_t low, high;
        Misdeed misdeed;
        uint32_t beats;
    };
    struct WriteBeat {
        bool last;
        std::vector<uint8_t> data;
        std::vector<uint32_t> strobes;
    };

    uint64_t random();
    bool happens(double odds);
    bool stands_still(Channel channel);
    Response check(uint64_t addr, uint32_t size, bool write) const;
    Burst accept(const AddressSignals& address, uint32_t bus_bytes, bool is_write) const;
    void start_write(Burst burst, uint32_t bus_bytes);
    void take_write_beat(bool last, uint32_t bus_bytes, const uint8_t* wdata, const uint32_t* wstrb);
    bool address_may_come(bool data_waits) const;
    void put_read_beat(uint32_t bus_bytes, uint8_t* rdata);
    void put_response();
    void report(const std::string& what);
    void reset();

    SubordinateSignals m_out;
    ProtocolChecker m_checker;
    std::deque<Burst> m_reads, m_writes, m_responses;
    std::deque<WriteBeat> m_early;  // without an address yet
    std::vector<ErrorRange> m_errors;
    std::vector<MisdeedRange> m_misdeeds;
    Stalls m_stalls;
    uint32_t m_silent[channels] = {};  // cycles for which the channel says nothing
    uint64_t m_random = 1;
    double m_credit = 0;  // bytes that may still be moved
};
