// Host memory as an AXI4 subordinate, and the collector of the accelerator's trace. The work is done
// in C++ (memory.h, trace.h), in one call a clock.
module axi_memory #(
    parameter int ADDR_BITS = 32,
    parameter int DATA_BITS = 64,
    parameter int ID_BITS = 2
) (
    input  logic                   clk,
    input  logic                   rst,
    input  logic [ID_BITS-1:0]     awid,
    input  logic [ADDR_BITS-1:0]   awaddr,
    input  logic [7:0]             awlen,
    input  logic [2:0]             awsize,
    input  logic [1:0]             awburst,
    input  logic                   awvalid,
    output logic                   awready,
    input  logic [DATA_BITS-1:0]   wdata,
    input  logic [DATA_BITS/8-1:0] wstrb,
    input  logic                   wlast,
    input  logic                   wvalid,
    output logic                   wready,
    output logic [ID_BITS-1:0]     bid,
    output logic [1:0]             bresp,
    output logic                   bvalid,
    input  logic                   bready,
    input  logic [ID_BITS-1:0]     arid,
    input  logic [ADDR_BITS-1:0]   araddr,
    input  logic [7:0]             arlen,
    input  logic [2:0]             arsize,
    input  logic [1:0]             arburst,
    input  logic                   arvalid,
    output logic                   arready,
    output logic [ID_BITS-1:0]     rid,
    output logic [DATA_BITS-1:0]   rdata,
    output logic [1:0]             rresp,
    output logic                   rlast,
    output logic                   rvalid,
    input  logic                   rready,
    // Per engine (load, store, GEMM, vector): whether it works on a command, and on which.
    input  logic [3:0]             trace_active,
    input  logic [3:0][23:0]       trace_index
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
        input int vector_index,
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
            awvalid, 32'(awid), 64'(awaddr), awlen, 8'(awsize), 8'(awburst),
            wvalid, wdata, wstrb, wlast, bready,
            arvalid, 32'(arid), 64'(araddr), arlen, 8'(arsize), 8'(arburst), rready,
            8'(trace_active), 32'(trace_index[0]), 32'(trace_index[1]), 32'(trace_index[2]),
            32'(trace_index[3]),
            next_awready, next_wready, next_bvalid, next_bid, next_bresp, next_arready,
            next_rvalid, next_rid, next_rdata, next_rresp, next_rlast);
        awready <= next_awready;
        wready <= next_wready;
        bvalid <= next_bvalid;
        bid <= next_bid[ID_BITS-1:0];
        bresp <= next_bresp[1:0];
        arready <= next_arready;
        rvalid <= next_rvalid;
        rid <= next_rid[ID_BITS-1:0];
        rdata <= next_rdata;
        rresp <= next_rresp[1:0];
        rlast <= next_rlast;
    end
endmodule
