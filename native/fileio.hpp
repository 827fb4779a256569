// Whole reads and writes at an offset of a file.
#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <unistd.h>

namespace polyvec {

// 0, or the errno of the read that failed, or -1 at the end of the file.
inline int read_all(int fd, std::uint8_t *target, std::size_t size, std::int64_t offset) {
    while (size) {
        const ssize_t got = pread(fd, target, size, offset);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got < 0 ? errno : -1;
        target += got;
        offset += got;
        size -= static_cast<std::size_t>(got);
    }
    return 0;
}

// 0, or the errno of the write that failed.
inline int write_all(int fd, const std::uint8_t *source, std::size_t size, std::int64_t offset) {
    while (size) {
        const ssize_t done = pwrite(fd, source, size, offset);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return done < 0 ? errno : EIO;
        source += done;
        offset += done;
        size -= static_cast<std::size_t>(done);
    }
    return 0;
}

}  // namespace polyvec
