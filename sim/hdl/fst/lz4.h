// The two functions of LZ4 that Verilator's FST writer calls, so that waves need no system library.
// The output is a standard LZ4 block (https://github.com/lz4/lz4, doc/lz4_Block_format.md).
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

// Greedy matching with one hash table; the result is the compressed size.
inline int LZ4_compress_default(const char* source, char* target, int size, int /*capacity*/) {
    constexpr int hash_bits = 14, shortest = 4, tail = 12;  // the format ends in at least 12 literal bytes
    const auto* in = reinterpret_cast<const uint8_t*>(source);
    auto* out = reinterpret_cast<uint8_t*>(target);
    std::vector<int> places(1 << hash_bits, -1);
    const auto read32 = [in](int at) {
        uint32_t value;
        std::memcpy(&value, in + at, 4);
        return value;
    };
    const auto put_length = [&out](int length) {
        for (; length >= 255; length -= 255) *out++ = 255;
        *out++ = static_cast<uint8_t>(length);
    };
    const auto put_literals = [&](int from, int count, int match) {
        *out++ = static_cast<uint8_t>((count < 15 ? count : 15) << 4 | (match < 15 ? match : 15));
        if (count >= 15) put_length(count - 15);
        std::memcpy(out, in + from, count);
        out += count;
    };
    int anchor = 0;
    for (int at = 0; at + tail < size;) {
        const uint32_t word = read32(at);
        int& place = places[word * 2654435761u >> (32 - hash_bits)];
        const int candidate = place;
        place = at;
        if (candidate < 0 || at - candidate > 65535 || read32(candidate) != word) {
            ++at;
            continue;
        }
        int length = shortest;
        while (at + length < size - 5 && in[candidate + length] == in[at + length]) ++length;
        put_literals(anchor, at - anchor, length - shortest);
        *out++ = static_cast<uint8_t>(at - candidate);
        *out++ = static_cast<uint8_t>((at - candidate) >> 8);
        if (length - shortest >= 15) put_length(length - shortest - 15);
        at += length;
        anchor = at;
    }
    put_literals(anchor, size - anchor, 0);
    return static_cast<int>(out - reinterpret_cast<uint8_t*>(target));
}
