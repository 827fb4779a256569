// Which instruction set the kernels use: detected once, changeable for tests (POLYVEC_CPU, kernels.use_path).
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>

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

inline constexpr const char *cpu_names[] = {"portable", "neon", "avx2", "avx512"};

inline const char *cpu_name(Cpu cpu) { return cpu_names[static_cast<int>(cpu)]; }

// The widest path of this machine. __builtin_cpu_supports also asks whether the system saves the registers.
inline Cpu detect_cpu() {
#if POLYVEC_X86
    __builtin_cpu_init();
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & (1u << 29));
    if (!f16c || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Cpu::portable;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return Cpu::avx512;
    return Cpu::avx2;
#elif POLYVEC_NEON
    return Cpu::neon;
#else
    return Cpu::portable;
#endif
}

inline bool cpu_supports(Cpu cpu) {
    const Cpu best = detect_cpu();
    if (cpu == Cpu::portable || cpu == best) return true;
    return cpu == Cpu::avx2 && best == Cpu::avx512;
}

inline std::atomic<int> &cpu_slot() {
    static std::atomic<int> slot{static_cast<int>(detect_cpu())};
    return slot;
}

// The path in use now; every dispatching function reads it once a call.
inline Cpu current_cpu() { return static_cast<Cpu>(cpu_slot().load(std::memory_order_relaxed)); }

// False where the name is unknown or this machine lacks it.
inline bool set_cpu(const char *name) {
    for (int i = 0; i < 4; ++i)
        if (std::strcmp(name, cpu_names[i]) == 0 && cpu_supports(static_cast<Cpu>(i))) {
            cpu_slot().store(i, std::memory_order_relaxed);
            return true;
        }
    return false;
}

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
