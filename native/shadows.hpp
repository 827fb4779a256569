// What the shadow of one row is, for the kernels that measure it.
#pragma once

#include <cstdint>

namespace polyvec {

constexpr float TINY = 1e-30f;  // below it a scale would lose its precision: such rows keep no codes

struct Row {
    float scale, residue;       // residue: sum of (y / scale - code)^2, in float32 lanes
    int32_t squares;            // sum of code^2
    double norm2, centred2, along;
    float peak;                 // max |y|; infinity where a value is not finite
};

}  // namespace polyvec
