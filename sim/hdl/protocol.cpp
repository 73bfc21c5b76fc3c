#include "protocol.h"

void ProtocolChecker::check_stable(const ManagerSignals& in, bool awready, bool wready, bool arready,
                                   const uint8_t* wdata, const uint32_t* wstrb, uint32_t bus_bytes,
                                   const Report& report) {
    m_in_reset = false;
    if (m_aw_waits) {
        if (!in.awvalid) report("awvalid was withdrawn before awready");
        else if (!(in.aw == m_aw)) report("the write address changed while it waited for awready");
    }
    if (m_ar_waits) {
        if (!in.arvalid) report("arvalid was withdrawn before arready");
        else if (!(in.ar == m_ar)) report("the read address changed while it waited for arready");
    }
    const uint32_t strobe_bytes = (bus_bytes + 7) / 8;
    if (m_w_waits) {
        if (!in.wvalid) report("wvalid was withdrawn before wready");
        else if (in.wlast != m_wlast || std::memcmp(wdata, m_wdata.data(), bus_bytes) != 0
                 || std::memcmp(wstrb, m_wstrb.data(), strobe_bytes) != 0)
            report("write data changed while it waited for wready");
    }
    m_aw_waits = in.awvalid && !awready;
    m_ar_waits = in.arvalid && !arready;
    m_w_waits = in.wvalid && !wready;
    if (m_aw_waits) m_aw = in.aw;
    if (m_ar_waits) m_ar = in.ar;
    if (m_w_waits) {
        m_wlast = in.wlast;
        m_wdata.assign(wdata, wdata + bus_bytes);
        const auto* strobe = reinterpret_cast<const uint8_t*>(wstrb);
        m_wstrb.assign(strobe, strobe + strobe_bytes);
    }
}

void ProtocolChecker::check_address(const char* channel, const AddressSignals& address, uint32_t bus_bytes,
                                    const Report& report) {
    const std::string name(channel);
    if (address.burst != 1) report(name + "burst must be INCR, not " + std::to_string(address.burst));
    if ((1u << address.size) != bus_bytes)
        report(name + "size must be the width of the bus, not " + std::to_string(1u << address.size) + " bytes");
    if (address.addr % bus_bytes != 0)
        report(name + "addr must be a multiple of the bus width, not " + std::to_string(address.addr));
    if (address.addr % 4096 + (address.len + 1u) * bus_bytes > 4096)
        report(name + " burst of " + std::to_string(address.len + 1) + " beats from "
               + std::to_string(address.addr) + " crosses a 4 KiB boundary");
}

void ProtocolChecker::check_reset(const ManagerSignals& in, const Report& report) {
    if (m_in_reset && (in.awvalid || in.wvalid || in.arvalid)) report("a valid is high during reset");
    m_in_reset = true;
    m_aw_waits = m_w_waits = m_ar_waits = false;
}
