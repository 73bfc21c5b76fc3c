// Host memory as an AXI4 subordinate, and the collector of the accelerator's trace. The work is done
// in C++ (memory.h, trace.h), in one call a clock.
`include "axi.svh"

module axi_memory #(
    parameter int ADDR_BITS = 32,
    parameter int DATA_BITS = 64,
    parameter int ID_BITS = 2
) (
    input  logic                   clk,
    input  logic                   rst,
    `AXI_PORTS(input, output),
    // Per engine (load, store, GEMM, vector): whether it works on a command, and on which.
    input  logic [3:0]             trace_active,
    input  logic [3:0][23:0]       trace_index,
    // What each was in (CycleClass), two cycles before; nothing without `trace_classified`.
    input  logic                   trace_classified,
    input  logic [3:0][3:0]        trace_class
);
    import "DPI-C" function void system_clock(
        input bit reset, input int bus_bytes,
        input bit awvalid, input int awid, input longint awaddr, input byte awlen, input byte awsize,
        input byte awburst,
        input bit wvalid, input bit [DATA_BITS-1:0] wdata, input bit [DATA_BITS/8-1:0] wstrb, input bit wlast,
        input bit bready,
        input bit arvalid, input int arid, input longint araddr, input byte arlen, input byte arsize,
        input byte arburst, input bit rready,
        input byte trace_active, input int load_index, input int store_index, input int gemm_index,
        input int vector_index, input bit trace_classified, input int trace_classes,
        output bit awready, output bit wready, output bit bvalid, output int bid, output byte bresp,
        output bit arready, output bit rvalid, output int rid, output bit [DATA_BITS-1:0] rdata,
        output byte rresp, output bit rlast);

    bit next_awready, next_wready, next_bvalid, next_arready, next_rvalid, next_rlast;
    int next_bid, next_rid;
    byte next_bresp, next_rresp;
    bit [DATA_BITS-1:0] next_rdata;

    always @(posedge clk) begin
        system_clock(
            rst, DATA_BITS / 8,
            m_axi_awvalid, 32'(m_axi_awid), 64'(m_axi_awaddr), m_axi_awlen, 8'(m_axi_awsize),
            8'(m_axi_awburst),
            m_axi_wvalid, m_axi_wdata, m_axi_wstrb, m_axi_wlast, m_axi_bready,
            m_axi_arvalid, 32'(m_axi_arid), 64'(m_axi_araddr), m_axi_arlen, 8'(m_axi_arsize),
            8'(m_axi_arburst), m_axi_rready,
            8'(trace_active), 32'(trace_index[0]), 32'(trace_index[1]), 32'(trace_index[2]),
            32'(trace_index[3]), trace_classified, 32'(trace_class),
            next_awready, next_wready, next_bvalid, next_bid, next_bresp, next_arready,
            next_rvalid, next_rid, next_rdata, next_rresp, next_rlast);
        m_axi_awready <= next_awready;
        m_axi_wready <= next_wready;
        m_axi_bvalid <= next_bvalid;
        m_axi_bid <= next_bid[ID_BITS-1:0];
        m_axi_bresp <= next_bresp[1:0];
        m_axi_arready <= next_arready;
        m_axi_rvalid <= next_rvalid;
        m_axi_rid <= next_rid[ID_BITS-1:0];
        m_axi_rdata <= next_rdata;
        m_axi_rresp <= next_rresp[1:0];
        m_axi_rlast <= next_rlast;
    end
endmodule
