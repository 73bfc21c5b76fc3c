// The simulated system as a library with a C interface, for a host program in the same process: no cocotb,
// and between two calls nothing but a loop in C++. Memory and trace are reached as in system.cpp, so a
// second system needs a second copy of the library.

#include <cstdint>
#include <memory>

#include "Vtop.h"
#include "verilated.h"

namespace {

// No register access takes longer, in cycles.
constexpr int longest_access = 1000;

class Simulation {
public:
    // Everything that a reset doesn't set starts at random, chosen by the seed.
    explicit Simulation(uint32_t seed) : m_context(new VerilatedContext) {
        m_context->randReset(2);
        m_context->randSeed(seed & 0x7FFFFFFF);
        m_top.reset(new Vtop{m_context.get(), ""});
        m_top->rst = 0;
        m_top->external_memory = 0;
        m_top->s_axil_awvalid = m_top->s_axil_wvalid = m_top->s_axil_bready = 0;
        m_top->s_axil_arvalid = m_top->s_axil_rready = 0;
    }
    ~Simulation() { m_top->final(); }

    uint64_t cycles() const { return m_cycles; }
    bool interrupt() const { return m_top->irq; }

    void reset(uint32_t cycles) {
        m_top->rst = 1;
        while (cycles--) cycle();
        m_top->rst = 0;
        cycle();
    }

    uint64_t run(uint64_t cycles, bool until_interrupt) {
        const uint64_t first = m_cycles;
        while (m_cycles - first < cycles && !(until_interrupt && m_top->irq)) cycle();
        return m_cycles - first;
    }

    // The response, or -1 if there is none.
    int write(uint32_t offset, uint32_t value) {
        m_top->s_axil_awaddr = offset;
        m_top->s_axil_wdata = value;
        m_top->s_axil_wstrb = 15;
        m_top->s_axil_awvalid = m_top->s_axil_wvalid = m_top->s_axil_bready = 1;
        int response = -1;
        for (int i = 0; i < longest_access && response < 0; ++i) {
            settle();
            const bool address = m_top->s_axil_awready, data = m_top->s_axil_wready;
            if (m_top->s_axil_bvalid) response = m_top->s_axil_bresp;
            cycle();
            if (address) m_top->s_axil_awvalid = 0;
            if (data) m_top->s_axil_wvalid = 0;
        }
        m_top->s_axil_awvalid = m_top->s_axil_wvalid = m_top->s_axil_bready = 0;
        return response;
    }

    int read(uint32_t offset, uint32_t* value) {
        m_top->s_axil_araddr = offset;
        m_top->s_axil_arvalid = m_top->s_axil_rready = 1;
        int response = -1;
        for (int i = 0; i < longest_access && response < 0; ++i) {
            settle();
            const bool address = m_top->s_axil_arready;
            if (m_top->s_axil_rvalid) {
                response = m_top->s_axil_rresp;
                *value = m_top->s_axil_rdata;
            }
            cycle();
            if (address) m_top->s_axil_arvalid = 0;
        }
        m_top->s_axil_arvalid = m_top->s_axil_rready = 0;
        return response;
    }

private:
    // Outputs that depend on this cycle's inputs.
    void settle() {
        m_top->clk = 0;
        m_top->eval();
    }

    void cycle() {
        settle();
        m_context->timeInc(1);
        m_top->clk = 1;
        m_top->eval();
        m_context->timeInc(1);
        ++m_cycles;
    }

    std::unique_ptr<VerilatedContext> m_context;
    std::unique_ptr<Vtop> m_top;
    uint64_t m_cycles = 0;
};

}  // namespace

extern "C" {

Simulation* simulation_create(uint32_t seed) { return new Simulation(seed); }

void simulation_destroy(Simulation* simulation) { delete simulation; }

void simulation_reset(Simulation* simulation, uint32_t cycles) { simulation->reset(cycles); }

// Runs so many cycles, or less if the interrupt is there before; the cycles that it ran.
uint64_t simulation_run(Simulation* simulation, uint64_t cycles, int until_interrupt) {
    return simulation->run(cycles, until_interrupt);
}

// Register accesses: the AXI4-Lite response, or -1 if none came.
int simulation_write(Simulation* simulation, uint32_t offset, uint32_t value) {
    return simulation->write(offset, value);
}

int simulation_read(Simulation* simulation, uint32_t offset, uint32_t* value) {
    return simulation->read(offset, value);
}

int simulation_interrupt(const Simulation* simulation) { return simulation->interrupt(); }

uint64_t simulation_cycles(const Simulation* simulation) { return simulation->cycles(); }
}
