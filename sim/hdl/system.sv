// The accelerator with its memory, as the benches simulate it. With `external_memory` a bench is the memory
// at the m_axi ports instead.
module system #(
    parameter int ADDR_BITS = 32,
    parameter int DATA_BITS = 64,
    parameter int ID_BITS = 2
) (
    input  logic                   clk,
    input  logic                   rst,
    input  logic [7:0]             s_axil_awaddr,
    input  logic                   s_axil_awvalid,
    output logic                   s_axil_awready,
    input  logic [31:0]            s_axil_wdata,
    input  logic [3:0]             s_axil_wstrb,
    input  logic                   s_axil_wvalid,
    output logic                   s_axil_wready,
    output logic [1:0]             s_axil_bresp,
    output logic                   s_axil_bvalid,
    input  logic                   s_axil_bready,
    input  logic [7:0]             s_axil_araddr,
    input  logic                   s_axil_arvalid,
    output logic                   s_axil_arready,
    output logic [31:0]            s_axil_rdata,
    output logic [1:0]             s_axil_rresp,
    output logic                   s_axil_rvalid,
    input  logic                   s_axil_rready,
    output logic                   irq,

    input  logic                   external_memory,
    output logic [ID_BITS-1:0]     m_axi_awid,
    output logic [ADDR_BITS-1:0]   m_axi_awaddr,
    output logic [7:0]             m_axi_awlen,
    output logic [2:0]             m_axi_awsize,
    output logic [1:0]             m_axi_awburst,
    output logic                   m_axi_awvalid,
    input  logic                   m_axi_awready,
    output logic [DATA_BITS-1:0]   m_axi_wdata,
    output logic [DATA_BITS/8-1:0] m_axi_wstrb,
    output logic                   m_axi_wlast,
    output logic                   m_axi_wvalid,
    input  logic                   m_axi_wready,
    input  logic [ID_BITS-1:0]     m_axi_bid,
    input  logic [1:0]             m_axi_bresp,
    input  logic                   m_axi_bvalid,
    output logic                   m_axi_bready,
    output logic [ID_BITS-1:0]     m_axi_arid,
    output logic [ADDR_BITS-1:0]   m_axi_araddr,
    output logic [7:0]             m_axi_arlen,
    output logic [2:0]             m_axi_arsize,
    output logic [1:0]             m_axi_arburst,
    output logic                   m_axi_arvalid,
    input  logic                   m_axi_arready,
    input  logic [ID_BITS-1:0]     m_axi_rid,
    input  logic [DATA_BITS-1:0]   m_axi_rdata,
    input  logic [1:0]             m_axi_rresp,
    input  logic                   m_axi_rlast,
    input  logic                   m_axi_rvalid,
    output logic                   m_axi_rready
);
    logic awready, wready, bvalid, arready, rlast, rvalid;
    logic [ID_BITS-1:0]   bid, rid;
    logic [1:0]           bresp, rresp;
    logic [DATA_BITS-1:0] rdata;
    logic [3:0]           trace_active;
    logic [3:0][23:0]     trace_index;

    bertha bertha (
        .clk, .rst,
        .s_axil_awaddr, .s_axil_awvalid, .s_axil_awready, .s_axil_wdata, .s_axil_wstrb, .s_axil_wvalid,
        .s_axil_wready, .s_axil_bresp, .s_axil_bvalid, .s_axil_bready, .s_axil_araddr, .s_axil_arvalid,
        .s_axil_arready, .s_axil_rdata, .s_axil_rresp, .s_axil_rvalid, .s_axil_rready,
        .m_axi_awid, .m_axi_awaddr, .m_axi_awlen, .m_axi_awsize, .m_axi_awburst, .m_axi_awvalid,
        .m_axi_awready(external_memory ? m_axi_awready : awready),
        .m_axi_wdata, .m_axi_wstrb, .m_axi_wlast, .m_axi_wvalid,
        .m_axi_wready(external_memory ? m_axi_wready : wready),
        .m_axi_bid(external_memory ? m_axi_bid : bid),
        .m_axi_bresp(external_memory ? m_axi_bresp : bresp),
        .m_axi_bvalid(external_memory ? m_axi_bvalid : bvalid),
        .m_axi_bready,
        .m_axi_arid, .m_axi_araddr, .m_axi_arlen, .m_axi_arsize, .m_axi_arburst, .m_axi_arvalid,
        .m_axi_arready(external_memory ? m_axi_arready : arready),
        .m_axi_rid(external_memory ? m_axi_rid : rid),
        .m_axi_rdata(external_memory ? m_axi_rdata : rdata),
        .m_axi_rresp(external_memory ? m_axi_rresp : rresp),
        .m_axi_rlast(external_memory ? m_axi_rlast : rlast),
        .m_axi_rvalid(external_memory ? m_axi_rvalid : rvalid),
        .m_axi_rready,
        .irq,
        .trace_load_active(trace_active[0]), .trace_load_index(trace_index[0]),
        .trace_store_active(trace_active[1]), .trace_store_index(trace_index[1]),
        .trace_gemm_active(trace_active[2]), .trace_gemm_index(trace_index[2]),
        .trace_vector_active(trace_active[3]), .trace_vector_index(trace_index[3])
    );

    axi_memory #(.ADDR_BITS, .DATA_BITS, .ID_BITS) memory (
        .clk, .rst,
        .awid(m_axi_awid), .awaddr(m_axi_awaddr), .awlen(m_axi_awlen), .awsize(m_axi_awsize),
        .awburst(m_axi_awburst), .awvalid(m_axi_awvalid && !external_memory), .awready,
        .wdata(m_axi_wdata), .wstrb(m_axi_wstrb), .wlast(m_axi_wlast),
        .wvalid(m_axi_wvalid && !external_memory), .wready,
        .bid, .bresp, .bvalid, .bready(m_axi_bready),
        .arid(m_axi_arid), .araddr(m_axi_araddr), .arlen(m_axi_arlen), .arsize(m_axi_arsize),
        .arburst(m_axi_arburst), .arvalid(m_axi_arvalid && !external_memory), .arready,
        .rid, .rdata, .rresp, .rlast, .rvalid, .rready(m_axi_rready),
        .trace_active, .trace_index
    );
endmodule
