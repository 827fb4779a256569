// A contiguous buffer borrowed from a Python object (an array, bytes, a memory map), released on scope exit.
// Buffers carry their size, so that every kernel checks its lengths before it touches memory, and they need
// no alignment, unlike typed array casters.
#pragma once
#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>

namespace polyvec {

class Buffer {
  public:
    Buffer(nanobind::handle object, bool writable) {
        if (PyObject_GetBuffer(object.ptr(), &view_, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0)
            throw nanobind::python_error();
    }
    ~Buffer() { PyBuffer_Release(&view_); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    std::uint8_t *data() const { return static_cast<std::uint8_t *>(view_.buf); }
    std::size_t size() const { return static_cast<std::size_t>(view_.len); }

  private:
    Py_buffer view_{};
};

}  // namespace polyvec
