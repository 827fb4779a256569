// The encoder of BERT-like models, for CPUs that multiply bfloat16 matrices (AMX).
//
// Values are float32. A product of matrices splits each factor into two bfloat16 numbers, high + low, and adds three
// products of them (high * high, high * low, low * high) in float32: 16 bits of each value count, where bfloat16 alone
// keeps eight, at a third of its speed, which is still several times that of float32 arithmetic.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace polyvec {

enum class Activation : int { gelu = 0, gelu_tanh = 1, relu = 2 };

// Weights [outputs][inputs], split and in the order in which they are multiplied; and the bias.
struct Linear {
    std::vector<std::uint8_t> packed;
    std::vector<float> bias;
    std::size_t inputs = 0, outputs = 0;
};

struct Norm {
    std::vector<float> scale, shift;
};

struct Layer {
    Linear attention, context, inner, outer;  // attention: query, key and value, one below the other
    Norm attended, closed;
};

struct Encoder {
    std::size_t width = 0, heads = 0, inner = 0;
    float epsilon = 0;
    Activation activation = Activation::gelu;
    Norm embedded;
    std::vector<Layer> layers;
};

constexpr std::size_t encoder_step = 32;  // widths are multiples of it

// Whether this machine can, and the system lets us. Asks for permission on first use.
bool encoder_available();

constexpr std::size_t packed_bytes(std::size_t outputs, std::size_t inputs) { return 4 * outputs * inputs; }

// weights: [outputs][inputs], row by row, both multiples of encoder_step; packed: packed_bytes of them.
void pack_weights(const float *weights, std::size_t outputs, std::size_t inputs, std::uint8_t *packed);

// rows [tokens][width]: the sum of the embeddings on entry, the last layer's token vectors on return. Text i has the
// rows starts[i] to starts[i + 1]. Nothing is padded.
void run_encoder(const Encoder &encoder, float *rows, const std::int64_t *starts, std::size_t texts);

}  // namespace polyvec
