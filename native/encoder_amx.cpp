// Compiled for AMX and AVX-512 (CMakeLists.txt), called only where the machine has both. Like the other such files it
// makes no standard containers, whose shared code could then reach a machine without them.
#include "encoder.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "dispatch.hpp"

#if POLYVEC_X86 && defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__linux__)
#include <immintrin.h>

#include <sys/syscall.h>
#include <unistd.h>

namespace polyvec {
namespace {

// Left factors lie as tiles of 16 rows x 32 values: for each 16 rows and 32 values the high halves, then the low ones.
// Right factors lie as panels of 32 columns: for each 32 values two tiles of high and two of low halves, in which a row
// holds two values of each of 16 columns side by side.
constexpr std::size_t tile = 1024, step = encoder_step, left_bytes = 2 * tile, right_bytes = 4 * tile;
constexpr std::size_t group_bytes = 1000 << 10, kept_bytes = 8 << 20;

std::size_t up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

// Aligned memory that is kept between calls of a thread.
template <class T>
class Room {
  public:
    ~Room() { std::free(data_); }
    // Frees what is more than most bytes: a long text must not hold its square for ever.
    void shrink(std::size_t most) {
        if (count_ * sizeof(T) <= most) return;
        std::free(data_);
        data_ = nullptr;
        count_ = 0;
    }
    T *need(std::size_t count) {
        if (count > count_) {
            std::free(data_);
            count_ = 0;
            data_ = static_cast<T *>(std::aligned_alloc(4096, up(count * sizeof(T), 4096)));
            if (!data_) throw std::bad_alloc();
            count_ = count;
        }
        return data_;
    }

  private:
    T *data_ = nullptr;
    std::size_t count_ = 0;
};

struct Scratch {
    Room<std::uint8_t> input, context, inner, query, key, value, share;
    Room<float> qkv, sum, scores, parts;
};

inline __m512 widen(__m256i halves) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16)); }

// 32 values as high and low halves.
inline void split(__m512 a, __m512 b, __m512i &high, __m512i &low) {
    high = (__m512i)_mm512_cvtne2ps_pbh(b, a);
    const __m512 rest_a = _mm512_sub_ps(a, widen(_mm512_castsi512_si256(high)));
    const __m512 rest_b = _mm512_sub_ps(b, widen(_mm512_extracti64x4_epi64(high, 1)));
    low = (__m512i)_mm512_cvtne2ps_pbh(rest_b, rest_a);
}

// 32 values of a row of a left factor that has `steps` times 32 values a row.
inline void put_left(std::uint8_t *left, std::size_t steps, std::size_t row, std::size_t at, __m512 a, __m512 b) {
    std::uint8_t *place = left + (row / 16 * steps + at) * left_bytes + row % 16 * 64;
    __m512i high, low;
    split(a, b, high, low);
    _mm512_store_si512(place, high);
    _mm512_store_si512(place + tile, low);
}

// Rows of `inputs` values as the columns of a right factor; columns beyond `count` are zero.
void pack_columns(const float *rows, std::size_t stride, std::size_t count, std::size_t inputs, std::uint8_t *right) {
    const std::size_t steps = inputs / step;
    for (std::size_t column = 0; column < up(count, step); ++column) {
        std::uint8_t *panel = right + column / step * steps * right_bytes + column % step / 16 * tile + column % 16 * 4;
        for (std::size_t at = 0; at < steps; ++at, panel += right_bytes) {
            __m512i high = _mm512_setzero_si512(), low = high;
            if (column < count) {
                const float *values = rows + column * stride + at * step;
                split(_mm512_loadu_ps(values), _mm512_loadu_ps(values + 16), high, low);
            }
            alignas(64) std::uint32_t pairs[2][16];
            _mm512_store_si512(pairs[0], high);
            _mm512_store_si512(pairs[1], low);
            for (std::size_t k = 0; k < 16; ++k) {
                std::memcpy(panel + k * 64, &pairs[0][k], 4);
                std::memcpy(panel + 2 * tile + k * 64, &pairs[1][k], 4);
            }
        }
    }
}

// Rows of `width` values as the rows of a right factor, `count` of them; rows up to a multiple of 32 are zero.
void pack_rows(const float *rows, std::size_t stride, std::size_t count, std::size_t width, std::uint8_t *right) {
    const std::size_t steps = up(count, step) / step;
    const auto halves = [](__m512 value, __m512 &rest) {
        const __m256i high = (__m256i)_mm512_cvtneps_pbh(value);
        rest = _mm512_sub_ps(value, widen(high));
        return _mm512_cvtepu16_epi32(high);
    };
    for (std::size_t pair = 0; pair < steps * step / 2; ++pair) {
        for (std::size_t column = 0; column < width; column += 16) {
            std::uint8_t *place = right + (column / step * steps + pair / 16) * right_bytes + column % step / 16 * tile + pair % 16 * 64;
            const auto load = [&](std::size_t row) { return row < count ? _mm512_loadu_ps(rows + row * stride + column) : _mm512_setzero_ps(); };
            __m512 rest_a, rest_b, none;
            const __m512i a = halves(load(2 * pair), rest_a), b = halves(load(2 * pair + 1), rest_b);
            _mm512_store_si512(place, _mm512_or_si512(a, _mm512_slli_epi32(b, 16)));
            const __m512i c = halves(rest_a, none), d = halves(rest_b, none);
            _mm512_store_si512(place + 2 * tile, _mm512_or_si512(c, _mm512_slli_epi32(d, 16)));
        }
    }
}

struct TileConfig {
    std::uint8_t palette = 1, start = 0, reserved[14] = {};
    std::uint16_t bytes[16] = {};
    std::uint8_t rows[16] = {};
};

class Tiles {
  public:
    Tiles() {
        TileConfig config;
        for (int i = 0; i < 8; ++i) config.bytes[i] = 64, config.rows[i] = 16;
        _tile_loadconfig(&config);
    }
    ~Tiles() { _tile_release(); }
};

// left x right, 32 x 32 sums at a time: take(first row, panel, sums [32][32]). Rows are whole blocks of 32, as many at a
// time as stay in the second-level cache beside a panel.
template <class Take>
inline void multiply(const std::uint8_t *left, std::size_t rows, const std::uint8_t *right, std::size_t steps, std::size_t panels, const Take &take) {
    alignas(64) float sums[step * step];
    const std::size_t blocks = up(rows, step) / step, panel_bytes = steps * right_bytes;
    const std::size_t group = std::max<std::size_t>(1, group_bytes / (2 * steps * left_bytes));
    for (std::size_t work = 0; work < up(blocks, group) / group * panels; ++work) {
        const std::size_t first = work / panels * group, panel = work % panels, last = std::min(blocks, first + group);
        const std::uint8_t *next = right + (panel + 1) % panels * panel_bytes;  // comes from far: asked for while this one is used
        const std::size_t share = up(panel_bytes / (last - first), 64);
        for (std::size_t block = first; block < last; ++block) {
            for (std::size_t at = (block - first) * share; at < std::min(panel_bytes, (block - first + 1) * share); at += 64)
                _mm_prefetch(reinterpret_cast<const char *>(next + at), _MM_HINT_T1);
            const std::uint8_t *a = left + block * 2 * steps * left_bytes, *b = a + steps * left_bytes;
            const std::uint8_t *c = right + panel * panel_bytes;
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
            for (std::size_t at = 0; at < steps; ++at, a += left_bytes, b += left_bytes, c += right_bytes) {
                _tile_loadd(6, c, 64);  // low x high
                _tile_loadd(4, a + tile, 64);
                _tile_dpbf16ps(0, 4, 6);
                _tile_loadd(7, c + tile, 64);
                _tile_dpbf16ps(1, 4, 7);
                _tile_loadd(5, b + tile, 64);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
                _tile_loadd(4, a, 64);  // high x high
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(1, 4, 7);
                _tile_loadd(5, b, 64);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
                _tile_loadd(6, c + 2 * tile, 64);  // high x low
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(2, 5, 6);
                _tile_loadd(7, c + 3 * tile, 64);
                _tile_dpbf16ps(1, 4, 7);
                _tile_dpbf16ps(3, 5, 7);
            }
            _tile_stored(0, sums, 128);
            _tile_stored(1, sums + 16, 128);
            _tile_stored(2, sums + 16 * step, 128);
            _tile_stored(3, sums + 16 * step + 16, 128);
            take(block * step, panel, sums);
        }
    }
}

// exp, to one part in ten million; below -87, where it is next to nothing, it stays there.
inline __m512 exponential(__m512 x) {
    x = _mm512_max_ps(x, _mm512_set1_ps(-87.0f));
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 p = _mm512_set1_ps(1.0f / 720);
    for (const float c : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
    return _mm512_scalef_ps(p, n);
}

// 1 / x: 14 bits, doubled by one of Newton's steps.
inline __m512 reciprocal(__m512 x) {
    const __m512 first = _mm512_rcp14_ps(x);
    return _mm512_mul_ps(first, _mm512_fnmadd_ps(x, first, _mm512_set1_ps(2.0f)));
}

// erf by Abramowitz and Stegun's 7.1.26: 1.5e-7 off at most.
inline __m512 error_function(__m512 x) {
    const __m512 size = _mm512_abs_ps(x);
    const __m512 t = reciprocal(_mm512_fmadd_ps(size, _mm512_set1_ps(0.3275911f), _mm512_set1_ps(1.0f)));
    __m512 p = _mm512_set1_ps(1.061405429f);
    for (const float c : {-1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f}) p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(c));
    const __m512 tail = _mm512_mul_ps(_mm512_mul_ps(p, t), exponential(_mm512_sub_ps(_mm512_setzero_ps(), _mm512_mul_ps(size, size))));
    const __m512 value = _mm512_sub_ps(_mm512_set1_ps(1.0f), tail);
    return _mm512_or_ps(value, _mm512_and_ps(x, _mm512_set1_ps(-0.0f)));
}

inline __m512 activate(__m512 x, Activation kind) {
    if (kind == Activation::relu) return _mm512_max_ps(x, _mm512_setzero_ps());
    __m512 f;
    if (kind == Activation::gelu) {
        f = error_function(_mm512_mul_ps(x, _mm512_set1_ps(0.707106781f)));
    } else {
        const __m512 cubic = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_mul_ps(x, x), x), _mm512_set1_ps(0.044715f), x);
        const __m512 y = _mm512_min_ps(_mm512_mul_ps(cubic, _mm512_set1_ps(2 * 0.797884561f)), _mm512_set1_ps(80.0f));
        const __m512 e = exponential(y);  // tanh(y / 2) = 1 - 2 / (e^y + 1)
        f = _mm512_fnmadd_ps(_mm512_set1_ps(2.0f), reciprocal(_mm512_add_ps(e, _mm512_set1_ps(1.0f))), _mm512_set1_ps(1.0f));
    }
    return _mm512_mul_ps(_mm512_mul_ps(x, _mm512_set1_ps(0.5f)), _mm512_add_ps(f, _mm512_set1_ps(1.0f)));
}

// Each row of `from` to mean 0 and variance 1, scaled and shifted: into `to`, and as a left factor.
void normalize(const float *from, float *to, std::uint8_t *left, std::size_t rows, std::size_t width, const Norm &norm, float epsilon) {
    for (std::size_t row = 0; row < rows; ++row) {
        const float *x = from + row * width;
        __m512 total = _mm512_setzero_ps(), spread = total;
        for (std::size_t i = 0; i < width; i += 16) total = _mm512_add_ps(total, _mm512_loadu_ps(x + i));
        const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(total) / static_cast<float>(width));
        for (std::size_t i = 0; i < width; i += 16) {
            const __m512 off = _mm512_sub_ps(_mm512_loadu_ps(x + i), mean);
            spread = _mm512_fmadd_ps(off, off, spread);
        }
        const float variance = _mm512_reduce_add_ps(spread) / static_cast<float>(width);
        const __m512 factor = _mm512_set1_ps(1.0f / std::sqrt(variance + epsilon));
        for (std::size_t i = 0; i < width; i += step) {
            __m512 out[2];
            for (std::size_t k = 0; k < 2; ++k) {
                const std::size_t at = i + 16 * k;
                const __m512 unit = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(x + at), mean), factor);
                out[k] = _mm512_fmadd_ps(unit, _mm512_loadu_ps(norm.scale.data() + at), _mm512_loadu_ps(norm.shift.data() + at));
                _mm512_storeu_ps(to + row * width + at, out[k]);
            }
            put_left(left, width / step, row, i / step, out[0], out[1]);
        }
    }
}

// One row of scores to what each key gets, not yet divided by their sum, which is returned.
float share_out(const float *scores, std::size_t count, std::uint8_t *left, std::size_t steps, std::size_t row) {
    __m512 most = _mm512_set1_ps(-3.4e38f), total = _mm512_setzero_ps();
    const auto mask = [&](std::size_t at) { return static_cast<__mmask16>(at + 16 <= count ? 0xffff : at < count ? (1u << (count - at)) - 1 : 0); };
    for (std::size_t at = 0; at < count; at += 16) most = _mm512_mask_max_ps(most, mask(at), most, _mm512_loadu_ps(scores + at));
    most = _mm512_set1_ps(_mm512_reduce_max_ps(most));
    for (std::size_t i = 0; i < steps; ++i) {
        __m512 out[2];
        for (std::size_t k = 0; k < 2; ++k) {
            const std::size_t at = i * step + 16 * k;
            out[k] = _mm512_maskz_mov_ps(mask(at), exponential(_mm512_sub_ps(_mm512_loadu_ps(scores + at), most)));
            total = _mm512_add_ps(total, out[k]);
        }
        put_left(left, steps, row, i, out[0], out[1]);
    }
    return _mm512_reduce_add_ps(total);
}

// The heads of one text: qkv holds its rows of queries, keys and values side by side; the result goes into `context`.
void attend(const Encoder &encoder, Scratch &scratch, const float *qkv, std::size_t first, std::size_t tokens, std::uint8_t *context) {
    const std::size_t width = encoder.width, head = width / encoder.heads, steps = head / step, stride = 3 * width;
    const std::size_t padded = up(tokens, step), key_steps = padded / step;
    const __m512 scale = _mm512_set1_ps(1.0f / std::sqrt(static_cast<float>(head)));
    std::uint8_t *query = scratch.query.need(padded / 16 * steps * left_bytes);
    std::uint8_t *key = scratch.key.need(key_steps * steps * right_bytes);
    std::uint8_t *value = scratch.value.need(key_steps * steps * right_bytes);
    std::uint8_t *share = scratch.share.need(padded / 16 * key_steps * left_bytes);
    float *scores = scratch.scores.need(padded * padded), *parts = scratch.parts.need(padded);
    for (std::size_t number = 0; number < encoder.heads; ++number) {
        const float *rows = qkv + first * stride + number * head;
        for (std::size_t row = 0; row < tokens; ++row)
            for (std::size_t at = 0; at < steps; ++at) {
                const float *x = rows + row * stride + at * step;
                put_left(query, steps, row, at, _mm512_mul_ps(_mm512_loadu_ps(x), scale), _mm512_mul_ps(_mm512_loadu_ps(x + 16), scale));
            }
        pack_columns(rows + width, stride, tokens, head, key);
        pack_rows(rows + 2 * width, stride, tokens, head, value);
        multiply(query, tokens, key, steps, key_steps, [&](std::size_t row, std::size_t panel, const float *sums) {
            for (std::size_t i = 0; i < std::min(step, tokens - row); ++i)
                for (std::size_t k = 0; k < 2; ++k)
                    _mm512_store_ps(scores + (row + i) * padded + panel * step + 16 * k, _mm512_load_ps(sums + i * step + 16 * k));
        });
        for (std::size_t row = 0; row < tokens; ++row) parts[row] = 1.0f / share_out(scores + row * padded, tokens, share, key_steps, row);
        multiply(share, tokens, value, key_steps, steps, [&](std::size_t row, std::size_t panel, const float *sums) {
            for (std::size_t i = 0; i < std::min(step, tokens - row); ++i) {
                const __m512 part = _mm512_set1_ps(parts[row + i]);
                put_left(context, width / step, first + row + i, number * steps + panel,
                         _mm512_mul_ps(_mm512_load_ps(sums + i * step), part), _mm512_mul_ps(_mm512_load_ps(sums + i * step + 16), part));
            }
        });
    }
}

bool machine_can() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & (1u << 22)) || !(d & (1u << 24))) return false;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & (1u << 5))) return false;
    constexpr long request_permission = 0x1023, tile_data = 18;
    return detect_cpu() == Cpu::avx512 && syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

bool encoder_available() {
    static const bool can = machine_can();
    return can;
}

void pack_weights(const float *weights, std::size_t outputs, std::size_t inputs, std::uint8_t *packed) {
    pack_columns(weights, inputs, outputs, inputs, packed);
}

void run_encoder(const Encoder &encoder, float *rows, const std::int64_t *starts, std::size_t texts) {
    thread_local Scratch scratch;
    const PlainFloats plain;
    const Tiles tiles;
    const std::size_t tokens = static_cast<std::size_t>(starts[texts]), width = encoder.width, steps = width / step, padded = up(tokens, step);
    std::uint8_t *input = scratch.input.need(padded / 16 * steps * left_bytes), *context = scratch.context.need(padded / 16 * steps * left_bytes);
    const std::size_t inner_steps = encoder.inner / step;
    std::uint8_t *inner = scratch.inner.need(padded / 16 * inner_steps * left_bytes);
    float *qkv = scratch.qkv.need(padded * 3 * width), *sum = scratch.sum.need(padded * width);
    // Writes sums + bias (+ what came in) of the rows that there are.
    const auto place = [&](const Linear &linear, float *out, std::size_t stride, const float *more) {
        return [&linear, out, stride, more, tokens](std::size_t row, std::size_t panel, const float *sums) {
            for (std::size_t i = 0; i < std::min(step, tokens - row); ++i)
                for (std::size_t k = 0; k < 2; ++k) {
                    const std::size_t at = (row + i) * stride + panel * step + 16 * k;
                    __m512 x = _mm512_add_ps(_mm512_load_ps(sums + i * step + 16 * k), _mm512_loadu_ps(linear.bias.data() + panel * step + 16 * k));
                    if (more) x = _mm512_add_ps(x, _mm512_loadu_ps(more + at));
                    _mm512_storeu_ps(out + at, x);
                }
        };
    };
    normalize(rows, rows, input, tokens, width, encoder.embedded, encoder.epsilon);
    for (const Layer &layer : encoder.layers) {
        multiply(input, tokens, layer.attention.packed.data(), steps, 3 * steps, place(layer.attention, qkv, 3 * width, nullptr));
        for (std::size_t text = 0; text < texts; ++text) {
            const std::size_t first = static_cast<std::size_t>(starts[text]), count = static_cast<std::size_t>(starts[text + 1]) - first;
            if (count) attend(encoder, scratch, qkv, first, count, context);
        }
        multiply(context, tokens, layer.context.packed.data(), steps, steps, place(layer.context, sum, width, rows));
        normalize(sum, rows, input, tokens, width, layer.attended, encoder.epsilon);
        multiply(input, tokens, layer.inner.packed.data(), steps, inner_steps, [&](std::size_t row, std::size_t panel, const float *sums) {
            const __m512 low = _mm512_loadu_ps(layer.inner.bias.data() + panel * step), high = _mm512_loadu_ps(layer.inner.bias.data() + panel * step + 16);
            for (std::size_t i = 0; i < std::min(step, tokens - row); ++i)
                put_left(inner, inner_steps, row + i, panel, activate(_mm512_add_ps(_mm512_load_ps(sums + i * step), low), encoder.activation),
                         activate(_mm512_add_ps(_mm512_load_ps(sums + i * step + 16), high), encoder.activation));
        });
        multiply(inner, tokens, layer.outer.packed.data(), inner_steps, steps, place(layer.outer, sum, width, rows));
        normalize(sum, rows, input, tokens, width, layer.closed, encoder.epsilon);
    }
    scratch.scores.shrink(kept_bytes);
    scratch.share.shrink(kept_bytes);
}

}  // namespace polyvec

#else

namespace polyvec {

bool encoder_available() { return false; }
void pack_weights(const float *, std::size_t, std::size_t, std::uint8_t *) {}
void run_encoder(const Encoder &, float *, const std::int64_t *, std::size_t) {}

}  // namespace polyvec
#endif
