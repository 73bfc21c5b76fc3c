// Tells C++ (writes.h) of every line that enters the scratchpad. It is in the simulated system alone, not in the
// accelerator.
module scratchpad_monitor #(
    parameter int PAYLOAD_BITS = 1  // a line and, below it, the line's address
) (
    input logic                         clk,
    input logic [2:0]                   valid,
    input logic [2:0]                   ready,
    input logic [2:0][PAYLOAD_BITS-1:0] payload
);
    // Lines are a power of two wide and wider than their addresses.
    localparam int LINE_BITS = 1 << ($clog2(PAYLOAD_BITS) - 1);
    localparam int ADDR_BITS = PAYLOAD_BITS - LINE_BITS;

    import "DPI-C" function void scratchpad_write(
        input int port, input int line, input int bytes, input bit [LINE_BITS-1:0] content);

    always @(posedge clk)
        for (int port = 0; port < 3; ++port)
            if (valid[port] && ready[port])
                scratchpad_write(
                    port, 32'(payload[port][ADDR_BITS-1:0]), LINE_BITS / 8, payload[port][PAYLOAD_BITS-1:ADDR_BITS]);
endmodule

bind \bertha.scratchpad  scratchpad_monitor #(.PAYLOAD_BITS($bits(write__0__payload))) monitor (
    .clk(clk),
    .valid({write__2__valid, write__1__valid, write__0__valid}),
    .ready({write__2__ready, write__1__ready, write__0__ready}),
    .payload({write__2__payload, write__1__payload, write__0__payload}));
