// What the model is told: the accelerator, the memory and the commands; and what it tells.
#pragma once

#include <cstdint>

// In the order of rtl/engine/table.py, which is that of the semaphores' ports and of the scratchpad's preference.
enum EngineNumber : unsigned { LOAD, GEMM, VECTOR, STORE, ENGINES, SEQUENCER = ENGINES };

// Sizes and latencies of the hardware, from rtl/ (bertha.compiler.cycles.parameters names them in this order).
struct Parameters {
    uint32_t array_n, scratchpad_banks, axi_data_bytes, line_bytes, beats_per_line, burst_lines, burst_beats;
    uint32_t outstanding_bursts, queue_depth, semaphores;
    uint32_t command_bytes, prefetched_commands, settle_cycles;
    uint32_t tiles_ahead, tiles_in_flight, param_lines, array_latency;
    uint32_t words_in_flight, requantise_latency, piecewise_latency, word_latency, room_latency, packer_depth;
    uint32_t scratchpad_latency, reader_depth;
    uint32_t softmax_stages, normalise_stages, gamma_stage, requantise_stages;
    uint32_t softmax_scale_cycles, layernorm_scale_cycles;
    uint32_t threshold_rounds, threshold_wait;
    uint32_t exp2_entries, segments;
    uint32_t block_ram_depth;
};

// The memory, as sim/hdl/memory.h.
struct MemoryTiming {
    uint32_t read_latency, write_latency, outstanding;
    double bandwidth;
};

enum Opcode : int64_t {
    BARRIER = 0x01,
    GEMM_OPCODE = 0x30,
    SOFTMAX = 0x40,
    LAYERNORM = 0x41,
    QUANTIZE = 0x42,
    FACTORS = 0x43,
    TABLE = 0x44,
    RANGES = 0x45,
};

// A command: fields of rtl/isa.py by their names (bertha.compiler.cycles.parameters has the same order), zero
// where the opcode has no such field. `flagged` is where its counts of flagged words begin in the list of all, or -1.
struct Command {
    int64_t opcode, wait0, wait1, post0, post1;
    int64_t dram_addr, dram_stride, scratchpad_addr, scratchpad_stride, lines, rows;
    int64_t k, count, columns, params, residual, out16, out_wide, residue, wide;
    int64_t wait1_each, post0_each, post1_each;
    int64_t a_addr, b_addr, c_addr, residue_addr, residual_addr, param_addr;
    int64_t a_stride, b_stride, c_stride, residue_stride, residual_stride, param_stride, low_offset;
    int64_t words, src_addr, dst16_addr, dst8_addr, write16, write8, table, kept;
    int64_t flagged;
    int64_t mark;  // of a GEMM: 1 + the number of the snapshot that is taken when the array has worked through it, or 0

    unsigned engine() const {
        switch (opcode >> 4) {
            case 1: return LOAD;
            case 2: return STORE;
            case 3: return GEMM;
            case 4: return VECTOR;
            default: return SEQUENCER;
        }
    }
    bool only_waits() const { return (opcode & 15) == 15; }
};

// A wait or post field.
struct Units {
    bool enable;
    uint8_t semaphore, amount;
};

inline Units units(int64_t field) {
    return {(field >> 15 & 1) != 0, static_cast<uint8_t>(field >> 8 & 31), static_cast<uint8_t>(field & 255)};
}

struct PostPair {
    Units post0, post1;
};

// What an engine's cycle went to. Waits for semaphores follow by poster: WAIT + EngineNumber.
enum Activity : unsigned {
    WORKING,     // a beat, word pair or word moved
    FILLING,     // a command is on its way through the engine's pipeline
    DRAINING,    // GEMM: a tile waits for the drain of the one before
    SCALING,     // VECTOR: the row's 1/sum or 1/deviation, or a digit of its threshold
    SCRATCHPAD,  // lines that were asked of the scratchpad aren't there, or aren't taken
    DRAM,        // beats or responses haven't come, or aren't taken
    COMMAND,     // the next command hasn't come
    ENDED,       // there is none any more
    WAIT,        // + the engine that posts
    ACTIVITIES = WAIT + ENGINES,
};

// By command: cycles in which its engine moved something of it, the first and the last of these, and, of the cycles
// before the first and between, what they went to.
struct CommandResult {
    int64_t busy, first, last;
    int64_t activity[ACTIVITIES];
};

// How far a run was at the end of a command that is marked.
struct Snapshot {
    int64_t cycles, bytes_read, bytes_written;
    int64_t activity[ENGINES][ACTIVITIES];
};

struct Result {
    int64_t cycles;
    int64_t bytes_read, bytes_written;
    int64_t passed_over;                    // cycles that repeated those before
    int64_t activity[ENGINES][ACTIVITIES];  // sums to `cycles` for every engine
    int64_t tail[ENGINES][ACTIVITIES];      // of which behind the engine's last command
};
