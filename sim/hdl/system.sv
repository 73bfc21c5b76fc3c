// The accelerator with its memory, as the benches simulate it. With `external_memory` a bench is the memory
// at the m_axi ports instead.
`include "axi.svh"

module system #(
    parameter int ADDR_BITS = 32,
    parameter int DATA_BITS = 64,
    parameter int ID_BITS = 2
) (
    input  logic                   clk,
    input  logic                   rst,
    input  logic [7:0]             s_axil_awaddr,
    input  logic [2:0]             s_axil_awprot,
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
    input  logic [2:0]             s_axil_arprot,
    input  logic                   s_axil_arvalid,
    output logic                   s_axil_arready,
    output logic [31:0]            s_axil_rdata,
    output logic [1:0]             s_axil_rresp,
    output logic                   s_axil_rvalid,
    input  logic                   s_axil_rready,
    output logic                   irq,

    input  logic                   external_memory,
    `AXI_PORTS(output, input)
);
    logic awready, wready, bvalid, arready, rlast, rvalid;
    logic [ID_BITS-1:0]   bid, rid;
    logic [1:0]           bresp, rresp;
    logic [DATA_BITS-1:0] rdata;
    logic [3:0]           trace_active;
    logic [3:0][23:0]     trace_index;
    logic                 trace_classified;
    logic [3:0][3:0]      trace_class;

    // What the accelerator gets comes from the memory or the bench; all else has the ports' names.
    bertha bertha (
        .*,
        .m_axi_awready(external_memory ? m_axi_awready : awready),
        .m_axi_wready(external_memory ? m_axi_wready : wready),
        .m_axi_bid(external_memory ? m_axi_bid : bid),
        .m_axi_bresp(external_memory ? m_axi_bresp : bresp),
        .m_axi_bvalid(external_memory ? m_axi_bvalid : bvalid),
        .m_axi_arready(external_memory ? m_axi_arready : arready),
        .m_axi_rid(external_memory ? m_axi_rid : rid),
        .m_axi_rdata(external_memory ? m_axi_rdata : rdata),
        .m_axi_rresp(external_memory ? m_axi_rresp : rresp),
        .m_axi_rlast(external_memory ? m_axi_rlast : rlast),
        .m_axi_rvalid(external_memory ? m_axi_rvalid : rvalid),
        .trace_load_active(trace_active[0]), .trace_load_index(trace_index[0]),
        .trace_store_active(trace_active[1]), .trace_store_index(trace_index[1]),
        .trace_gemm_active(trace_active[2]), .trace_gemm_index(trace_index[2]),
`ifdef CYCLE_CLASSES
        .trace_load_class(trace_class[0]), .trace_store_class(trace_class[1]),
        .trace_gemm_class(trace_class[2]), .trace_vector_class(trace_class[3]),
`endif
        .trace_vector_active(trace_active[3]), .trace_vector_index(trace_index[3])
    );
`ifdef CYCLE_CLASSES
    assign trace_classified = 1;
`else
    assign trace_classified = 0;
    assign trace_class = '0;
`endif

    axi_memory #(.ADDR_BITS, .DATA_BITS, .ID_BITS) memory (
        .*,
        .m_axi_awvalid(m_axi_awvalid && !external_memory),
        .m_axi_wvalid(m_axi_wvalid && !external_memory),
        .m_axi_arvalid(m_axi_arvalid && !external_memory),
        .m_axi_awready(awready), .m_axi_wready(wready),
        .m_axi_bid(bid), .m_axi_bresp(bresp), .m_axi_bvalid(bvalid),
        .m_axi_arready(arready),
        .m_axi_rid(rid), .m_axi_rdata(rdata), .m_axi_rresp(rresp), .m_axi_rlast(rlast), .m_axi_rvalid(rvalid)
    );
endmodule
