// The accelerator with its memory, as the benches simulate it. The host's side are the ports.
module system #(
    parameter int ADDR_BITS = 32,
    parameter int DATA_BITS = 64,
    parameter int ID_BITS = 2
) (
    input  logic        clk,
    input  logic        rst,
    input  logic [7:0]  s_axil_awaddr,
    input  logic        s_axil_awvalid,
    output logic        s_axil_awready,
    input  logic [31:0] s_axil_wdata,
    input  logic [3:0]  s_axil_wstrb,
    input  logic        s_axil_wvalid,
    output logic        s_axil_wready,
    output logic [1:0]  s_axil_bresp,
    output logic        s_axil_bvalid,
    input  logic        s_axil_bready,
    input  logic [7:0]  s_axil_araddr,
    input  logic        s_axil_arvalid,
    output logic        s_axil_arready,
    output logic [31:0] s_axil_rdata,
    output logic [1:0]  s_axil_rresp,
    output logic        s_axil_rvalid,
    input  logic        s_axil_rready,
    output logic        irq
);
    logic [ID_BITS-1:0]     awid, bid, arid, rid;
    logic [ADDR_BITS-1:0]   awaddr, araddr;
    logic [7:0]             awlen, arlen;
    logic [2:0]             awsize, arsize;
    logic [1:0]             awburst, arburst, bresp, rresp;
    logic [DATA_BITS-1:0]   wdata, rdata;
    logic [DATA_BITS/8-1:0] wstrb;
    logic awvalid, awready, wvalid, wready, wlast, bvalid, bready, arvalid, arready, rvalid, rready, rlast;
    logic [3:0]             trace_active;
    logic [3:0][23:0]       trace_index;

    bertha bertha (
        .clk, .rst,
        .s_axil_awaddr, .s_axil_awvalid, .s_axil_awready, .s_axil_wdata, .s_axil_wstrb, .s_axil_wvalid,
        .s_axil_wready, .s_axil_bresp, .s_axil_bvalid, .s_axil_bready, .s_axil_araddr, .s_axil_arvalid,
        .s_axil_arready, .s_axil_rdata, .s_axil_rresp, .s_axil_rvalid, .s_axil_rready,
        .m_axi_awid(awid), .m_axi_awaddr(awaddr), .m_axi_awlen(awlen), .m_axi_awsize(awsize),
        .m_axi_awburst(awburst), .m_axi_awvalid(awvalid), .m_axi_awready(awready),
        .m_axi_wdata(wdata), .m_axi_wstrb(wstrb), .m_axi_wlast(wlast), .m_axi_wvalid(wvalid),
        .m_axi_wready(wready),
        .m_axi_bid(bid), .m_axi_bresp(bresp), .m_axi_bvalid(bvalid), .m_axi_bready(bready),
        .m_axi_arid(arid), .m_axi_araddr(araddr), .m_axi_arlen(arlen), .m_axi_arsize(arsize),
        .m_axi_arburst(arburst), .m_axi_arvalid(arvalid), .m_axi_arready(arready),
        .m_axi_rid(rid), .m_axi_rdata(rdata), .m_axi_rresp(rresp), .m_axi_rlast(rlast),
        .m_axi_rvalid(rvalid), .m_axi_rready(rready),
        .irq,
        .trace_load_active(trace_active[0]), .trace_load_index(trace_index[0]),
        .trace_store_active(trace_active[1]), .trace_store_index(trace_index[1]),
        .trace_gemm_active(trace_active[2]), .trace_gemm_index(trace_index[2]),
        .trace_vector_active(trace_active[3]), .trace_vector_index(trace_index[3])
    );

    axi_memory #(.ADDR_BITS, .DATA_BITS, .ID_BITS) memory (.*);
endmodule
