// The rules of AXI4 that a subordinate can check on its manager's signals.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

// What the manager drives, apart from write data and strobes.
struct AddressSignals {
    uint64_t addr = 0;
    uint32_t id = 0;
    uint8_t len = 0, size = 0, burst = 0;

    bool operator==(const AddressSignals& other) const {
        return addr == other.addr && id == other.id && len == other.len && size == other.size
               && burst == other.burst;
    }
};

struct ManagerSignals {
    bool reset = false;
    bool awvalid = false, wvalid = false, wlast = false, bready = false, arvalid = false, rready = false;
    AddressSignals aw, ar;
};

class ProtocolChecker {
public:
    using Report = std::function<void(const std::string&)>;

    // A valid that waited must stay, with its payload.
    void check_stable(const ManagerSignals& in, bool awready, bool wready, bool arready,
                      const uint8_t* wdata, const uint32_t* wstrb, uint32_t bus_bytes, const Report& report);
    // Of an address that is taken: 4 KiB boundary, and what the memory supports.
    static void check_address(const char* channel, const AddressSignals& address, uint32_t bus_bytes,
                              const Report& report);
    // Valids must be low from the second cycle of a reset on.
    void check_reset(const ManagerSignals& in, const Report& report);

private:
    bool m_aw_waits = false, m_w_waits = false, m_ar_waits = false, m_in_reset = false;
    AddressSignals m_aw, m_ar;
    bool m_wlast = false;
    std::vector<uint8_t> m_wdata, m_wstrb;
};
