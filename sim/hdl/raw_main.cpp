// Runs one program without Python: the figure that the speed under cocotb is compared with.
//
// raw --image FILE --base ADDRESS --latency CYCLES --bandwidth BYTES --limit CYCLES [--write OFFSET=VALUE]...
//
// Loads the image, makes the register writes, waits for the interrupt, and prints the cycles and
// seconds from the first write to the interrupt, and a checksum of the memory after it.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

extern "C" {
uint8_t* memory_allocate(uint64_t base, uint64_t size);
void memory_set_timing(uint32_t read_latency, uint32_t write_latency, double bandwidth, uint32_t outstanding);
}

namespace {

class Bench {
public:
    explicit Bench(VerilatedContext& context) : m_context(context), m_top(new Vtop{&context, ""}) {}

    Vtop& top() { return *m_top; }
    uint64_t cycles() const { return m_cycles; }

    void cycle() {
        m_top->clk = 0;
        m_top->eval();
        m_context.timeInc(1);
        m_top->clk = 1;
        m_top->eval();
        m_context.timeInc(1);
        ++m_cycles;
    }

    void write(uint32_t offset, uint32_t value) {
        m_top->s_axil_awaddr = offset;
        m_top->s_axil_wdata = value;
        m_top->s_axil_wstrb = 15;
        m_top->s_axil_awvalid = m_top->s_axil_wvalid = m_top->s_axil_bready = 1;
        bool done = false;
        while (!done) {
            m_top->clk = 0;
            m_top->eval();
            const bool address = m_top->s_axil_awvalid && m_top->s_axil_awready;
            const bool data = m_top->s_axil_wvalid && m_top->s_axil_wready;
            done = m_top->s_axil_bvalid;
            cycle();
            if (address) m_top->s_axil_awvalid = 0;
            if (data) m_top->s_axil_wvalid = 0;
        }
        m_top->s_axil_bready = 0;
    }

private:
    VerilatedContext& m_context;
    std::unique_ptr<Vtop> m_top;
    uint64_t m_cycles = 0;
};

}  // namespace

int main(int argc, char** argv) {
    std::string image;
    uint64_t base = 0, limit = ~0ull;
    uint32_t latency = 1;
    double bandwidth = 1e9;
    std::vector<std::pair<uint32_t, uint32_t>> writes;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string option = argv[i], value = argv[i + 1];
        if (option == "--image") image = value;
        else if (option == "--base") base = std::stoull(value, nullptr, 0);
        else if (option == "--latency") latency = std::stoul(value, nullptr, 0);
        else if (option == "--bandwidth") bandwidth = std::stod(value);
        else if (option == "--limit") limit = std::stoull(value, nullptr, 0);
        else if (option == "--write") {
            const size_t equals = value.find('=');
            writes.emplace_back(std::stoul(value.substr(0, equals), nullptr, 0),
                                std::stoul(value.substr(equals + 1), nullptr, 0));
        } else {
            std::fprintf(stderr, "unknown option %s\n", option.c_str());
            return 2;
        }
    }
    std::ifstream file(image, std::ios::binary);
    if (!file) {
        std::fprintf(stderr, "cannot read %s\n", image.c_str());
        return 2;
    }
    const std::vector<char> contents{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    uint8_t* const memory = memory_allocate(base, contents.size());
    std::copy(contents.begin(), contents.end(), memory);
    memory_set_timing(latency, latency, bandwidth, 64);

    VerilatedContext context;
    Bench bench(context);
    bench.top().rst = 1;
    for (int i = 0; i < 4; ++i) bench.cycle();
    bench.top().rst = 0;

    const uint64_t first = bench.cycles();
    const auto start = std::chrono::steady_clock::now();
    for (const auto& [offset, value] : writes) bench.write(offset, value);
    while (!bench.top().irq && bench.cycles() - first < limit) bench.cycle();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (!bench.top().irq) {
        std::fprintf(stderr, "no interrupt after %llu cycles\n", static_cast<unsigned long long>(limit));
        return 1;
    }
    uint64_t checksum = 0xCBF29CE484222325;  // FNV-1a
    for (size_t i = 0; i < contents.size(); ++i) checksum = (checksum ^ memory[i]) * 0x100000001B3;
    std::printf("{\"cycles\": %llu, \"seconds\": %.6f, \"checksum\": \"%016llx\"}\n",
                static_cast<unsigned long long>(bench.cycles() - first), seconds.count(),
                static_cast<unsigned long long>(checksum));
    return 0;
}
