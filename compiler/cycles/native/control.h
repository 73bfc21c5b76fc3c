// Fetch, dispatch, semaphores and the engines' borders (rtl/control/, rtl/engine/).
#pragma once

#include <cstdint>
#include <vector>

#include "stream.h"
#include "types.h"

// rtl/control/fetcher.py
class Fetcher {
public:
    Fetcher(const Parameters& p, uint32_t length)
        : m_command_beats(p.command_bytes / p.axi_data_bytes),
          m_burst_beats(std::min(m_command_beats, p.burst_beats)),
          m_length(length) {
        const uint32_t capacity = p.prefetched_commands * m_command_beats;
        m_beats.inner_depth = capacity - 1;
        m_room = capacity;
        m_bursts_left = uint64_t{length} * (m_command_beats / m_burst_beats);
    }
    bool asks() const { return m_checked && m_room >= m_burst_beats; }
    uint32_t burst_beats() const { return m_burst_beats; }
    bool valid() const { return m_gathered == m_command_beats; }
    uint32_t index() const { return m_index; }
    bool finished() const { return m_index == m_length; }
    // Whether nothing changes until its command is taken.
    bool still() const { return finished() || (valid() && !asks() && m_checked == (m_bursts_left != 0) && m_beats.settled()); }

    void step(bool issued, bool arrives, bool taken) {
        if (finished()) return;
        const bool beat = m_beats.valid() && !valid();
        m_room += beat - (issued ? m_burst_beats : 0);
        if (issued) {
            --m_bursts_left;
            m_checked = false;
        } else if (!m_checked && m_bursts_left) m_checked = true;
        if (taken) {
            m_gathered = 0;
            ++m_index;
        } else if (beat) ++m_gathered;
        m_beats.tick(arrives, beat);
    }

private:
    const uint32_t m_command_beats, m_burst_beats, m_length;
    BufferedTokens m_beats;
    uint32_t m_room = 0, m_gathered = 0, m_index = 0;
    uint64_t m_bursts_left = 0;
    bool m_checked = false;
};

// rtl/control/semaphores.py: one operation a cycle, decided on in the cycle before.
class Semaphores {
public:
    explicit Semaphores(const Parameters& p) : m_clearing(p.semaphores) {}

    // Whether all that it does is to look again and again whether waits can be granted, and none can. Those that wait
    // have their turn every 2, 3 or 4 cycles.
    static constexpr uint64_t retries = 12;
    bool still() const { return !m_clearing && !(m_valid && m_is_post) && granted() == ENGINES; }

    // The engine whose wait is granted in this cycle, ENGINES if none is.
    unsigned granted() const {
        return m_valid && !m_is_post && m_counters[m_units.semaphore] >= m_units.amount ? m_port : ENGINES;
    }
    // Whether no post is being added or wants to be.
    bool idle(unsigned posts) const { return !posts && !(m_valid && m_is_post); }

    // `posts`, `waits`: bits of the engines that have units to add, or want some (with those granted now).
    // Returns the engine whose post is taken, ENGINES if none is.
    unsigned step(unsigned posts, unsigned waits, const Units post_units[], const Units wait_units[]) {
        unsigned taken = ENGINES;
        if (!m_valid && !m_wanted && !posts && !waits && !m_clearing) return taken;
        const unsigned grant = granted();
        if (m_valid) {
            uint8_t& counter = m_counters[m_units.semaphore];
            if (m_is_post) counter += m_units.amount;
            else if (grant != ENGINES) counter -= m_units.amount;
        }
        const unsigned candidates = m_wanted & ~m_under_way;
        m_under_way = 0;
        m_valid = false;
        if (m_clearing) --m_clearing;
        else if (posts) {
            taken = m_port = m_last_post = next(posts, m_last_post);
            m_valid = m_is_post = true;
            m_units = post_units[m_port];
        } else if (candidates) {
            m_port = m_last_wait = next(candidates, m_last_wait);
            m_under_way = 1u << m_port;
            m_valid = true;
            m_is_post = false;
            m_units = wait_units[m_port];
        }
        m_wanted = waits & ~(grant == ENGINES ? 0 : 1u << grant);
        return taken;
    }

private:
    static unsigned next(unsigned requests, unsigned last) {
        for (unsigned step = 1; step <= ENGINES; ++step)
            if (requests >> ((last + step) % ENGINES) & 1) return (last + step) % ENGINES;
        return ENGINES;
    }

    uint8_t m_counters[32] = {};
    uint32_t m_clearing;
    bool m_valid = false, m_is_post = false;
    unsigned m_port = 0, m_last_post = 0, m_last_wait = 0, m_wanted = 0, m_under_way = 0;
    Units m_units{};
};

// rtl/engine/border.py: an engine's commands, their waits, its posts.
class Border {
public:
    Queue<uint32_t> commands;
    Queue<PostPair> posts;
    Queue<Units> post;

    void configure(const Parameters& p, const Command* program) {
        commands.depth = p.queue_depth;
        posts.depth = 4;
        post.depth = 2;
        m_program = program;
    }

    // Looks at the command in front. `hold`, `more`: see rtl/engine/signatures.py.
    void begin(bool hold, bool wants_more, Units more) {
        m_hold = hold;
        m_wants_more = wants_more;
        if (!commands.valid()) waiting = m_known = false;
        else if (!m_known) look();
        wanted = wants_more ? more : m_own;
        wants = (waiting && !hold) || wants_more;
    }
    // Whether a command can start now.
    bool offers() const { return commands.valid() && !waiting && !m_only_waits; }
    uint32_t command() const { return commands.front(); }

    // `start`: the engine takes the command; `granted`: wanted units are taken.
    void step(Clock& clock, bool start, bool granted) {
        if (commands.valid() && !waiting && (start || m_only_waits)) {
            commands.pop(clock);
            m_taken0 = m_taken1 = m_known = false;
        } else if (waiting && !m_hold && granted) {
            (m_wants0 ? m_taken0 : m_taken1) = true;
            m_known = false;
        }
        if (posts.valid() && post.ready()) {
            const PostPair& pair = posts.front();
            const bool wants0 = pair.post0.enable && !m_posted0;
            post.push(clock, wants0 ? pair.post0 : pair.post1);
            m_posted0 = wants0 && pair.post1.enable;
            if (!m_posted0) posts.pop(clock);
        }
    }
    bool inert() const { return !commands.valid() && !posts.valid() && !post.valid(); }
    bool posts_nothing() const { return !posts.valid() && !post.valid(); }
    void add_posts(Clock& clock, const PostPair& pair) {
        if (pair.post0.enable || pair.post1.enable) posts.push(clock, pair);
    }
    // Registered: nothing to do and nothing outstanding. Called before the queues change.
    void note_idle(bool busy) {
        idle = !busy && !posts.valid() && !post.valid() && !m_wants_more && !commands.valid();
    }

    bool waiting = false;  // the command in front wants units
    bool wants = false;    // `wanted` are asked for
    bool idle = true;
    Units wanted{};

private:
    // What the command in front wants.
    void look() {
        const Command& command = m_program[commands.front()];
        const Units wait0 = units(command.wait0), wait1 = units(command.wait1);
        m_wants0 = wait0.enable && !m_taken0;
        waiting = m_wants0 || (wait1.enable && !m_taken1);
        m_own = m_wants0 ? wait0 : wait1;
        m_only_waits = command.only_waits();
        m_known = true;
    }

    const Command* m_program = nullptr;
    Units m_own{};
    bool m_known = false, m_only_waits = false;
    bool m_taken0 = false, m_taken1 = false, m_posted0 = false, m_hold = false, m_wants0 = false;
    bool m_wants_more = false;
};
