// Which instruction set a call uses (POLYVEC_CPU, kernels.use_path), and how its threads round.
#pragma once
#include <cstdint>

#if (defined(__x86_64__) || defined(_M_X64)) && (defined(__GNUC__) || defined(__clang__))
#define POLYVEC_X86 1
#include <cpuid.h>
#include <xmmintrin.h>
#else
#define POLYVEC_X86 0
#endif

#if defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#define POLYVEC_NEON 1
#else
#define POLYVEC_NEON 0
#endif

// One function, compiled for several instruction sets and chosen when the module is loaded; needs glibc's resolver.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__)
#define POLYVEC_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define POLYVEC_CLONES
#endif

namespace polyvec {

// Ordered: a machine that has one of the x86 paths has every path below it.
enum class Cpu : int { portable = 0, neon = 1, avx2 = 2, avx512 = 3 };

// The widest path of this machine.
Cpu detect_cpu();

// The path of the calling context. Ask with the GIL held, once a call, and hand the answer to threads.
Cpu current_cpu();

// The thread's control word; mode 0 is the plain one.
inline unsigned float_mode() {
#if POLYVEC_X86
    return _mm_getcsr();
#elif POLYVEC_NEON
    uint64_t word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return static_cast<unsigned>(word);
#else
    return 0;
#endif
}

inline void set_float_mode(unsigned mode) {
#if POLYVEC_X86
    _mm_setcsr(mode ? mode : 0x1f80);
#elif POLYVEC_NEON
    if (mode == float_mode()) return;  // writing the word waits for all that is under way
    __asm__ volatile("msr fpcr, %0" : : "r"(static_cast<uint64_t>(mode)));
#else
    (void)mode;
#endif
}

// Round-to-nearest, subnormals kept, for the life of this object: another library may have changed the
// thread's control word (-ffast-math start-up code does), and the bits must not depend on it.
class PlainFloats {
  public:
    PlainFloats() : saved_(float_mode()) { set_float_mode(0); }
    ~PlainFloats() { set_float_mode(saved_); }
    PlainFloats(const PlainFloats &) = delete;
    PlainFloats &operator=(const PlainFloats &) = delete;

  private:
    unsigned saved_;
};

// Streaming stores are weakly ordered: fence before another thread may read what was written.
inline void fence_streams() {
#if POLYVEC_X86
    _mm_sfence();
#endif
}

}  // namespace polyvec
