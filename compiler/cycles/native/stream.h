// Queues between the parts of the model, with the timing of rtl/stream.py.
//
// What is put in or taken out in a cycle is seen in the next one: parts look at `count`, which stays as it is until
// `Clock::tick`. So the order in which parts are evaluated doesn't matter.
#pragma once

#include <cstdint>

struct QueueState {
    uint32_t head = 0, count = 0, depth = 0;
    bool pushed = false, popped = false;

    bool valid() const { return count != 0; }
    bool ready() const { return count != depth; }
};

// Collects the queues that change in a cycle.
class Clock {
public:
    void changes(QueueState& queue) {
        if (!queue.pushed && !queue.popped) m_changed[m_count++] = &queue;
    }
    // Ends the cycle; whether any queue changed.
    bool tick(uint32_t mask) {
        const bool any = m_count != 0;
        for (unsigned i = 0; i < m_count; ++i) {
            QueueState& queue = *m_changed[i];
            queue.head = (queue.head + queue.popped) & mask;
            queue.count += queue.pushed - queue.popped;
            queue.pushed = queue.popped = false;
        }
        m_count = 0;
        return any;
    }

private:
    QueueState* m_changed[64];
    unsigned m_count = 0;
};

constexpr uint32_t queue_places = 64;  // the deepest queue of a configuration

// A queue of payloads (rtl/stream.py: Queue; Register is one of depth 2).
template <typename T>
struct Queue : QueueState {
    T items[queue_places];

    T& front() { return items[head]; }
    const T& front() const { return items[head]; }
    void push(Clock& clock, const T& item) {
        clock.changes(*this);
        items[(head + count) & (queue_places - 1)] = item;
        pushed = true;
    }
    void pop(Clock& clock) {
        clock.changes(*this);
        popped = true;
    }
};

// A queue whose payloads don't matter.
struct Tokens : QueueState {
    void push(Clock& clock) {
        clock.changes(*this);
        pushed = true;
    }
    void pop(Clock& clock) {
        clock.changes(*this);
        popped = true;
    }
};

// A queue in block RAM (Queue with `buffered`): a register behind a memory of one place less.
struct BufferedTokens {
    uint32_t inner = 0, inner_depth = 0;
    bool out = false;

    bool valid() const { return out; }
    bool ready() const { return inner != inner_depth; }
    // Whether nothing changes while nothing goes in or out.
    bool settled() const { return inner == 0 || out; }
    void tick(bool push, bool pop) {
        const bool read = inner != 0 && (!out || pop);
        inner += push - read;
        if (read) out = true;
        else if (pop) out = false;
    }
};
