// The whole accelerator with its memory: only wires the parts, a cycle at a time.
#pragma once

#include <cstdint>

#include "control.h"
#include "dma.h"
#include "gemm.h"
#include "memory.h"
#include "vector.h"

class Chip {
public:
    Chip(const Parameters& p, const MemoryTiming& timing, const Command* program, uint32_t length,
         const int32_t* flagged, CommandResult* results, Snapshot* snapshots)
        : m_p(p),
          m_program(program),
          m_memory(timing, p.axi_data_bytes),
          m_fetcher(p, length),
          m_semaphores(p),
          m_arbiter(p),
          m_results(results),
          m_snapshots(snapshots) {
        for (Border& border : m_borders) border.configure(p, program);
        m_load.configure(p, program);
        m_store.configure(p, program);
        m_gemm.configure(p, program, flagged);
        m_vector.configure(p, program, flagged);
        m_ar.depth = m_r.depth = 2;
        // Whose units a semaphore counts: the engine that posts it.
        for (unsigned& poster : m_poster) poster = LOAD;
        for (uint32_t number = 0; number < length; ++number)
            for (const int64_t field : {program[number].post0, program[number].post1})
                if (units(field).enable && program[number].engine() < ENGINES)
                    m_poster[units(field).semaphore] = program[number].engine();
    }

    bool finished() const { return m_finished; }
    uint64_t now() const { return m_now; }

    void cycle() {
        const unsigned grant = m_semaphores.granted();
        m_borders[LOAD].begin(false, false, {});
        m_borders[STORE].begin(false, false, {});
        m_borders[VECTOR].begin(false, false, {});
        const bool gemm_wants = m_gemm.wants();
        m_borders[GEMM].begin(m_gemm.hold(), gemm_wants, gemm_wants ? m_gemm.wanted() : Units{});

        bool starts[ENGINES];
        starts[LOAD] = m_load.planner.ready() && m_borders[LOAD].offers();
        starts[STORE] = m_store.planner.ready() && m_borders[STORE].offers();
        starts[GEMM] = m_gemm.takes_command() && m_borders[GEMM].offers();
        starts[VECTOR] = m_vector.takes_command() && m_borders[VECTOR].offers();
        uint32_t commands[ENGINES];
        for (unsigned e = 0; e < ENGINES; ++e) commands[e] = starts[e] ? m_borders[e].command() : 0;

        // Whether the engines have something to do, for the border's register, from this cycle's state.
        const bool busy[ENGINES] = {m_load.busy(), m_gemm.busy(), m_vector.busy(), m_store.busy()};
        bool posts_ready[ENGINES];
        for (unsigned e = 0; e < ENGINES; ++e) posts_ready[e] = m_borders[e].posts.ready();
        const bool all_idle = m_borders[LOAD].idle && m_borders[GEMM].idle && m_borders[VECTOR].idle &&
                              m_borders[STORE].idle;

        arbitrate(posts_ready[LOAD]);

        // What the bus does in this cycle.
        const bool ar_valid = m_ar.valid(), r_ready = m_r.ready();
        const bool aw_valid = m_store.aw.valid(), w_valid = m_store.w.valid();
        const bool ar_taken = ar_valid && m_memory.arready;
        const bool aw_taken = aw_valid && m_memory.awready, w_taken = w_valid && m_memory.wready;
        const bool b_ready = m_store.takes_responses(posts_ready[STORE]);
        const bool response = m_memory.bvalid && b_ready;
        const Address address = ar_valid ? m_ar.front() : Address{};
        const uint32_t aw_beats = aw_valid ? m_store.aw.front() : 0;

        // The read arbiter: fetch first. Beats go on to whom they belong.
        const bool fetch_asks = m_fetcher.asks(), fetch_issued = fetch_asks && m_ar.ready();
        const bool load_issued = !fetch_asks && m_load.ar.valid() && m_ar.ready();
        bool to_fetch = false, to_load = false;
        if (m_r.valid()) {
            to_fetch = m_r.front();
            to_load = !to_fetch && m_load.takes_beats();
            if (to_fetch || to_load) m_r.pop(m_clock);
        }
        if (fetch_issued) m_ar.push(m_clock, {true, m_fetcher.burst_beats()});
        if (load_issued) m_ar.push(m_clock, {false, m_load.ar.front()});
        if (ar_taken) m_ar.pop(m_clock);
        if (m_memory.rvalid && r_ready) m_r.push(m_clock, m_memory.rid != 0);

        // Dispatch: a command is looked at in one cycle and goes in the next.
        bool dispatched = false;
        const bool fetched = m_fetcher.valid();
        if (fetched && m_checked) {
            const uint32_t number = m_fetcher.index();
            const unsigned engine = m_program[number].engine();
            if (engine == SEQUENCER) dispatched = m_settled == m_p.settle_cycles;
            else if (m_borders[engine].commands.ready()) {
                m_borders[engine].commands.push(m_clock, number);
                dispatched = true;
            }
        }
        m_checked = fetched && !dispatched;

        // Semaphores.
        unsigned posts = 0, waits = 0;
        Units post_units[ENGINES], wait_units[ENGINES];
        for (unsigned e = 0; e < ENGINES; ++e) {
            if (m_borders[e].post.valid()) {
                posts |= 1u << e;
                post_units[e] = m_borders[e].post.front();
            }
            if (m_borders[e].wants) {
                waits |= 1u << e;
                wait_units[e] = m_borders[e].wanted;
            }
        }
        const bool quiet_semaphores = m_semaphores.idle(posts);
        const unsigned posted = m_semaphores.step(posts, waits, post_units, wait_units);
        if (posted != ENGINES) m_borders[posted].post.pop(m_clock);

        // Engines.
        const bool data_waits = m_load.flight.valid(), responses_wait = m_store.flight.valid();
        const bool sends = m_store.sending.valid(), store_stalls = sends && !m_store.reader.lines.valid();
        const bool load_lines = m_load.holds_lines(), load_plans = !m_load.planner.idle();
        const bool gemm_idle = !busy[GEMM], store_plans = !m_store.planner.idle();
        uint32_t ended = 0;
        if (m_load.step(m_clock, starts[LOAD], commands[LOAD], to_load, load_issued, posts_ready[LOAD], &ended))
            post(LOAD, ended);
        if (m_store.step(m_clock, starts[STORE], commands[STORE], aw_taken, w_taken, response, &ended))
            post(STORE, ended);
        m_borders[GEMM].add_posts(m_clock, m_gemm.step(m_clock, m_now, starts[GEMM], commands[GEMM],
                                                       gemm_wants && grant == GEMM, m_borders[GEMM].posts.count,
                                                       m_borders[GEMM].posts.depth));
        const bool vector_works = m_vector.active();
        const uint32_t vector_command = m_vector.active_command();
        if (m_vector.step(m_clock, starts[VECTOR], commands[VECTOR], posts_ready[VECTOR]))
            post(VECTOR, vector_command);

        // What the cycle went to.
        account(LOAD, m_load.active, m_load.command,
                load_lines ? SCRATCHPAD : data_waits ? DRAM : load_plans ? FILLING : ENDED);
        account(STORE, m_store.active, m_store.command,
                store_stalls ? SCRATCHPAD : sends || responses_wait ? DRAM : store_plans ? FILLING : ENDED);
        account(GEMM, m_gemm.active, m_gemm.active_command, gemm_idle && m_gemm.stands != WAIT ? ENDED : m_gemm.stands);
        account(VECTOR, vector_works, vector_command, vector_works ? m_vector.stands : ENDED);

        for (unsigned e = 0; e < ENGINES; ++e) {
            m_borders[e].note_idle(busy[e]);
            if (!m_borders[e].inert()) m_borders[e].step(m_clock, starts[e], grant == e);
        }
        if (aw_valid || w_valid || ar_valid || m_memory.changes(m_now) <= m_now)
            m_memory.clock(m_now, aw_valid, aw_beats, w_valid, ar_valid, address.is_fetch, address.beats, r_ready, b_ready);

        // The end: everything dispatched, and quiet for some cycles.
        m_finished = m_fetcher.finished() && m_settled == m_p.settle_cycles;
        if (!(all_idle && quiet_semaphores && !dispatched)) m_settled = 0;
        else if (m_settled != m_p.settle_cycles) ++m_settled;
        if (!m_fetcher.still() || to_fetch || dispatched) m_fetcher.step(fetch_issued, to_fetch, dispatched);
        m_clock.tick(queue_places - 1);
        ++m_now;
        if (m_gemm.active && m_gemm.active_final && m_program[m_gemm.active_command].mark)
            take_snapshot(m_snapshots[m_program[m_gemm.active_command].mark - 1]);
    }

    // Passes over cycles in which the array works through a long tile and nothing else changes, as far as every cycle of
    // them is known: as if `cycle` had been called so often. Called between cycles.
    void skip() {
        if (!still()) {
            m_has_phase = false;
            return;
        }
        const uint64_t period = Semaphores::retries;
        if (m_has_phase && m_now < m_phase_cycle + period) return;
        const Gemm::Phase phase = m_gemm.phase();
        const uint32_t lines = m_gemm.a.left;
        const bool repeats = m_has_phase && m_phase_cycle + period == m_now && phase == m_phase &&
                             m_phase_left[0] - m_gemm.a.left == period / 2 && m_phase_left[1] - m_gemm.b.left == period / 2 &&
                             m_phase_left[2] - m_gemm.words_left() == period;
        m_has_phase = true;
        m_phase = phase;
        m_phase_cycle = m_now;
        m_phase_left[0] = lines;
        m_phase_left[1] = m_gemm.b.left;
        m_phase_left[2] = m_gemm.words_left();
        if (!repeats) return;
        uint64_t cycles = std::min<uint64_t>(m_gemm.words_left() - 2, m_memory.changes(m_now) - m_now);
        for (const uint32_t left : {m_gemm.a.left, m_gemm.b.left}) cycles = std::min<uint64_t>(cycles, left < 3 ? 0 : 2 * (left - 3));
        cycles -= cycles % period;
        if (!cycles) return;
        m_gemm.skip(static_cast<uint32_t>(cycles));
        m_now += cycles;
        m_passed_over += cycles;
        m_has_phase = false;
    }

    void finish(Result* result) {
        for (unsigned e = 0; e < ENGINES; ++e) end_stretch(e);
        result->cycles = static_cast<int64_t>(m_now);
        result->bytes_read = static_cast<int64_t>(m_memory.beats_read * m_p.axi_data_bytes);
        result->bytes_written = static_cast<int64_t>(m_memory.beats_written * m_p.axi_data_bytes);
        result->passed_over = static_cast<int64_t>(m_passed_over);
        for (unsigned e = 0; e < ENGINES; ++e)
            for (unsigned a = 0; a < ACTIVITIES; ++a) {
                result->activity[e][a] = m_activity[e][a];
                result->tail[e][a] = m_pending[e][a];
            }
    }

private:
    struct Address {
        bool is_fetch;
        uint32_t beats;
    };

    void take_snapshot(Snapshot& snapshot) {
        snapshot.cycles = static_cast<int64_t>(m_now);
        snapshot.bytes_read = static_cast<int64_t>(m_memory.beats_read * m_p.axi_data_bytes);
        snapshot.bytes_written = static_cast<int64_t>(m_memory.beats_written * m_p.axi_data_bytes);
        for (unsigned e = 0; e < ENGINES; ++e) {
            for (unsigned a = 0; a < ACTIVITIES; ++a) snapshot.activity[e][a] = m_activity[e][a];
            snapshot.activity[e][m_stretches[e].activity] += static_cast<int64_t>(m_now - m_stretches[e].first);
        }
    }
    // Whether the next cycles change nothing but what `Gemm::skip` and the memory's times account for.
    bool still() const {
        if (!m_gemm.only_feeds(m_now, m_borders[GEMM].commands.valid() && !m_borders[GEMM].waiting)) return false;
        for (unsigned e = 0; e < ENGINES; ++e) {
            const Border& border = m_borders[e];
            if (!border.posts_nothing() || (e != GEMM && border.commands.valid() && !border.waiting && takes_command(e)))
                return false;
        }
        return m_fetcher.still() && !dispatches() && m_semaphores.still() && m_memory.changes(m_now) > m_now &&
               !m_ar.valid() && !m_r.valid() && m_load.still() && m_store.still() && m_vector.still();
    }
    bool takes_command(unsigned engine) const {
        return engine == LOAD ? m_load.planner.ready() : engine == STORE ? m_store.planner.ready() : m_vector.takes_command();
    }
    bool dispatches() const {
        if (!m_fetcher.valid()) return false;
        if (!m_checked) return true;
        const unsigned engine = m_program[m_fetcher.index()].engine();
        return engine == SEQUENCER ? false : m_borders[engine].commands.ready();
    }

    void post(unsigned engine, uint32_t number) {
        const Command& command = m_program[number];
        m_borders[engine].add_posts(m_clock, {units(command.post0), units(command.post1)});
    }

    void arbitrate(bool load_posts_ready) {
        m_arbiter.begin();
        const auto read = [this](LineReader& reader) {
            reader.granted = reader.requesting && m_arbiter.ask(reader.addr);
        };
        read(m_gemm.a);
        read(m_gemm.b);
        read(m_gemm.residual);
        read(m_gemm.params);
        read(m_vector.source);
        read(m_vector.params);
        read(m_store.reader);
        m_load.writer.granted = m_load.writes(load_posts_ready) && m_arbiter.ask(m_load.writer.front());
        m_gemm.writer.granted = m_gemm.writer.valid() && m_arbiter.ask(m_gemm.writer.front());
        m_vector.writer.granted = m_vector.writer.valid() && m_arbiter.ask(m_vector.writer.front());
    }

    // `otherwise`: what an engine that moved nothing did; ENDED if it has no command in work.
    void account(unsigned engine, bool active, uint32_t command, Activity otherwise) {
        Activity activity = otherwise;
        const Border& border = m_borders[engine];
        if (engine != VECTOR && active) activity = WORKING;
        else if (otherwise == WAIT) activity = static_cast<Activity>(WAIT + m_poster[border.wanted.semaphore]);
        else if (otherwise == ENDED || otherwise == FILLING) {
            if (border.waiting && (otherwise == ENDED || engine != VECTOR))
                activity = static_cast<Activity>(WAIT + m_poster[border.wanted.semaphore]);
            else if (border.commands.valid() || otherwise == FILLING) activity = FILLING;
            else if (!m_fetcher.finished()) activity = COMMAND;
        }
        Stretch& stretch = m_stretches[engine];
        if (activity == stretch.activity && active == stretch.active && (!active || command == stretch.command)) return;
        end_stretch(engine);
        stretch = {activity, active, command, m_now};
    }
    // Adds up the cycles that an engine spent in the same way.
    void end_stretch(unsigned engine) {
        const Stretch& stretch = m_stretches[engine];
        const int64_t cycles = static_cast<int64_t>(m_now - stretch.first);
        if (!cycles) return;
        m_activity[engine][stretch.activity] += cycles;
        m_pending[engine][stretch.activity] += cycles;
        if (!stretch.active) return;
        CommandResult& result = m_results[stretch.command];
        if (!result.busy) result.first = static_cast<int64_t>(stretch.first);
        result.busy += cycles;
        result.last = static_cast<int64_t>(m_now) - 1;
        for (unsigned a = 0; a < ACTIVITIES; ++a) {
            result.activity[a] += m_pending[engine][a];
            m_pending[engine][a] = 0;
        }
    }

    // Cycles from `first` on in which an engine did the same.
    struct Stretch {
        Activity activity;
        bool active;
        uint32_t command;
        uint64_t first;
    };

    const Parameters m_p;
    const Command* const m_program;
    Clock m_clock;
    Memory m_memory;
    Fetcher m_fetcher;
    Semaphores m_semaphores;
    Arbiter m_arbiter;
    Border m_borders[ENGINES];
    Load m_load;
    Store m_store;
    Gemm m_gemm;
    Vector m_vector;
    Queue<Address> m_ar;
    Queue<bool> m_r;
    uint64_t m_now = 0;
    uint32_t m_settled = 0;
    bool m_checked = false, m_finished = false;
    unsigned m_poster[32] = {};
    int64_t m_activity[ENGINES][ACTIVITIES] = {};
    int64_t m_pending[ENGINES][ACTIVITIES] = {};
    Stretch m_stretches[ENGINES] = {};
    uint64_t m_phase_cycle = 0, m_passed_over = 0;
    bool m_has_phase = false;
    Gemm::Phase m_phase{};
    uint32_t m_phase_left[3] = {};
    CommandResult* const m_results;
    Snapshot* const m_snapshots;
};
