// The signals of an AXI4 port as ports of a module: FROM is the direction of what the manager drives,
// TO of what the subordinate drives. The module has the parameters ADDR_BITS, DATA_BITS and ID_BITS.
`define AXI_PORTS(FROM, TO)                        \
    FROM logic [ID_BITS-1:0]     m_axi_awid,       \
    FROM logic [ADDR_BITS-1:0]   m_axi_awaddr,     \
    FROM logic [7:0]             m_axi_awlen,      \
    FROM logic [2:0]             m_axi_awsize,     \
    FROM logic [1:0]             m_axi_awburst,    \
    FROM logic                   m_axi_awlock,     \
    FROM logic [3:0]             m_axi_awcache,    \
    FROM logic [2:0]             m_axi_awprot,     \
    FROM logic [3:0]             m_axi_awqos,      \
    FROM logic                   m_axi_awvalid,    \
    TO   logic                   m_axi_awready,    \
    FROM logic [DATA_BITS-1:0]   m_axi_wdata,      \
    FROM logic [DATA_BITS/8-1:0] m_axi_wstrb,      \
    FROM logic                   m_axi_wlast,      \
    FROM logic                   m_axi_wvalid,     \
    TO   logic                   m_axi_wready,     \
    TO   logic [ID_BITS-1:0]     m_axi_bid,        \
    TO   logic [1:0]             m_axi_bresp,      \
    TO   logic                   m_axi_bvalid,     \
    FROM logic                   m_axi_bready,     \
    FROM logic [ID_BITS-1:0]     m_axi_arid,       \
    FROM logic [ADDR_BITS-1:0]   m_axi_araddr,     \
    FROM logic [7:0]             m_axi_arlen,      \
    FROM logic [2:0]             m_axi_arsize,     \
    FROM logic [1:0]             m_axi_arburst,    \
    FROM logic                   m_axi_arlock,     \
    FROM logic [3:0]             m_axi_arcache,    \
    FROM logic [2:0]             m_axi_arprot,     \
    FROM logic [3:0]             m_axi_arqos,      \
    FROM logic                   m_axi_arvalid,    \
    TO   logic                   m_axi_arready,    \
    TO   logic [ID_BITS-1:0]     m_axi_rid,        \
    TO   logic [DATA_BITS-1:0]   m_axi_rdata,      \
    TO   logic [1:0]             m_axi_rresp,      \
    TO   logic                   m_axi_rlast,      \
    TO   logic                   m_axi_rvalid,     \
    FROM logic                   m_axi_rready
