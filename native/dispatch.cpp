// Which instruction set a call uses: a context variable of Python's holds it, so no call changes another's.
#include "dispatch.hpp"

#include <nanobind/nanobind.h>

#include <stdexcept>

namespace nb = nanobind;
using namespace nb::literals;

namespace polyvec {
namespace {

constexpr const char *cpu_names[] = {"portable", "neon", "avx2", "avx512"};

bool cpu_supports(Cpu cpu) {
    const Cpu best = detect_cpu();
    return cpu == Cpu::portable || cpu == best || (cpu == Cpu::avx2 && best == Cpu::avx512);
}

// Of polyvec.kernels.paths, which makes it once and never drops it: the number of a Cpu, or less than 0 for NumPy.
PyObject *followed = nullptr;

}  // namespace

// __builtin_cpu_supports also asks whether the system saves the registers.
Cpu detect_cpu() {
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

Cpu current_cpu() {
    if (!PyGILState_Check()) throw std::logic_error("current_cpu is asked without the GIL");
    PyObject *value = nullptr;
    if (followed && PyContextVar_Get(followed, nullptr, &value) < 0) throw nb::python_error();
    static const Cpu best = detect_cpu();
    if (!value) return best;  // nobody has chosen
    const long number = PyLong_AsLong(value);
    Py_DECREF(value);
    if (number == -1 && PyErr_Occurred()) throw nb::python_error();
    return number < 0 ? Cpu::portable : static_cast<Cpu>(number);
}

void bind_dispatch(nb::module_ &m) {
    m.def(
        "available_cpus",
        [] {
            nb::dict numbers;
            for (int i = 0; i < 4; ++i)
                if (cpu_supports(static_cast<Cpu>(i))) numbers[cpu_names[i]] = i;
            return numbers;
        },
        "The paths that this machine has, with the numbers that `follow` expects; the widest comes last.");
    m.def("cpu_path", [] { return cpu_names[static_cast<int>(current_cpu())]; }, "The path that a call from here runs on.");
    m.def(
        "follow",
        [](nb::object variable) {
            if (!PyContextVar_CheckExact(variable.ptr())) throw nb::type_error("follow takes a context variable");
            Py_XDECREF(followed);
            followed = variable.release().ptr();
        },
        "variable"_a, "From now on every call runs on the path whose number this context variable holds.");
}

}  // namespace polyvec
