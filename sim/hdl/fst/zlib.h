// The two functions of zlib that Verilator's FST writer calls, so that waves need no system library.
// The output is a standard zlib stream (RFC 1950) of stored, uncompressed blocks (RFC 1951).
#pragma once

#include <cstdint>
#include <cstring>

using uLong = unsigned long;
using uLongf = uLong;
using Bytef = unsigned char;
constexpr int Z_OK = 0;

constexpr uLong stored_block = 65535;

inline uLong compressBound(uLong size) { return size + (size / stored_block + 1) * 5 + 6; }

inline int compress2(Bytef* target, uLongf* target_size, const Bytef* source, uLong size, int /*level*/) {
    Bytef* out = target;
    *out++ = 0x78;
    *out++ = 0x01;
    uLong at = 0;
    do {
        const uLong length = size - at < stored_block ? size - at : stored_block;
        *out++ = at + length == size;
        *out++ = length & 0xFF;
        *out++ = length >> 8;
        *out++ = ~length & 0xFF;
        *out++ = ~length >> 8 & 0xFF;
        if (length) std::memcpy(out, source + at, length);
        out += length;
        at += length;
    } while (at < size);
    uint32_t low = 1, high = 0;  // Adler-32
    for (uLong i = 0; i < size; ++i) {
        low = (low + source[i]) % 65521;
        high = (high + low) % 65521;
    }
    for (const uint32_t half : {high, low}) {
        *out++ = half >> 8;
        *out++ = half & 0xFF;
    }
    *target_size = out - target;
    return Z_OK;
}
