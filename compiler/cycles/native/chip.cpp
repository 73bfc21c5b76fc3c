// The C interface of the cycle model (bertha.compiler.cycles.model).

#include <memory>

#include "chip.h"

extern "C" {

uint32_t model_sizes(uint32_t which) {
    const uint32_t sizes[] = {sizeof(Parameters), sizeof(MemoryTiming), sizeof(Command), sizeof(CommandResult),
                              sizeof(Result), sizeof(Snapshot)};
    return sizes[which];
}

// Runs a program of `length` commands; `results` has as many, `snapshots` as are marked. `skips`: whether cycles that repeat may be passed over. Returns whether it ended within `most` cycles.
int model_run(const Parameters* parameters, const MemoryTiming* timing, const Command* program, uint32_t length,
              const int32_t* flagged, uint64_t most, int skips, CommandResult* results, Snapshot* snapshots,
              Result* result) {
    const auto chip = std::make_unique<Chip>(*parameters, *timing, program, length, flagged, results, snapshots);
    while (!chip->finished() && chip->now() < most) {
        chip->cycle();
        if (skips) chip->skip();
    }
    chip->finish(result);
    return chip->finished();
}
}
