// Ranges of a file into one buffer, by many threads, with the CRC-32 of each range taken while its bytes are still in
// the cache. What the GPU pipeline fills its pinned buffers with: Python threads would wait for each other's lock.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <unistd.h>

#include "buffers.hpp"
#include "dispatch.hpp"

#if POLYVEC_X86
#include <immintrin.h>
#endif

namespace nb = nanobind;

namespace polyvec {
namespace {

constexpr std::uint32_t polynomial = 0xEDB88320u;
constexpr std::size_t stretch = 256 << 10;  // read, then summed out of the L2 cache

constexpr std::array<std::uint32_t, 256> make_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t c = i;
        for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ (c & 1 ? polynomial : 0);
        table[i] = c;
    }
    return table;
}

constexpr auto table = make_table();

// Registers here are plain remainders: the customary complements are the caller's.
std::uint32_t step_bytes(std::uint32_t crc, const std::uint8_t *p, std::size_t n) {
    for (; n; --n) crc = (crc >> 8) ^ table[(crc ^ *p++) & 0xff];
    return crc;
}

#if POLYVEC_X86
// Folding by carry-less multiplication: 64 bytes a step in four lanes. The constants are x^(n) modulo the polynomial,
// bit-reflected, for n = 4*128 +- 32 and 128 +- 32. What is left, 16 bytes, goes through the table.
__attribute__((target("pclmul,sse4.1"))) std::uint32_t fold(std::uint32_t crc, const std::uint8_t *p, std::size_t n) {
    if (n < 128) return step_bytes(crc, p, n);
    const __m128i far = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4), near = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const auto load = [](const std::uint8_t *at) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(at)); };
    __m128i lane[4];
    for (int i = 0; i < 4; ++i) lane[i] = load(p + 16 * i);
    lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
    p += 64;
    n -= 64;
    for (; n >= 64; p += 64, n -= 64)
        for (int i = 0; i < 4; ++i)
            lane[i] = _mm_xor_si128(load(p + 16 * i), _mm_xor_si128(_mm_clmulepi64_si128(lane[i], far, 0x00),
                                                                   _mm_clmulepi64_si128(lane[i], far, 0x11)));
    __m128i all = lane[0];
    for (int i = 1; i < 4; ++i)
        all = _mm_xor_si128(lane[i], _mm_xor_si128(_mm_clmulepi64_si128(all, near, 0x00), _mm_clmulepi64_si128(all, near, 0x11)));
    alignas(16) std::uint8_t rest[16];
    _mm_store_si128(reinterpret_cast<__m128i *>(rest), all);
    return step_bytes(step_bytes(0, rest, 16), p, n);
}

bool has_fold() {
    static const bool found = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    return found;
}
#endif

std::uint32_t crc32_of(const std::uint8_t *p, std::size_t n) {
#if POLYVEC_X86
    if (current_cpu() != Cpu::portable && has_fold()) return ~fold(~0u, p, n);
#endif
    return ~step_bytes(~0u, p, n);
}

std::uint32_t multiply(std::uint32_t one, std::uint32_t other) {
    std::uint32_t product = 0;
    for (; one; one <<= 1) {
        if (one & 0x80000000u) product ^= other;
        other = (other >> 1) ^ (other & 1 ? polynomial : 0);
    }
    return product;
}

std::uint32_t power(std::size_t bytes) {  // x^(8 * bytes)
    std::uint32_t result = 0x80000000u, square = 0x40000000u;
    for (std::size_t e = 8 * bytes; e; e >>= 1) {
        if (e & 1) result = multiply(square, result);
        square = multiply(square, square);
    }
    return result;
}

struct Piece {
    std::int64_t offset;
    std::uint8_t *target;
    std::size_t size;
    std::uint32_t crc;
};

// 0, or the errno of the read that failed, or -1 at the end of the file.
int read_all(int fd, std::uint8_t *target, std::size_t size, std::int64_t offset) {
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

// One buffer to fill: its ranges cut into stretches, and what became of them.
struct Job {
    Job(nb::handle loads_object, nb::handle out_object, nb::handle sums_object, bool checked)
        : out(out_object, true), sums(sums_object, true), check(checked) {
        const Buffer loads(loads_object, false);
        const std::size_t count = loads.size() / 24;
        if (sums.size() < 4 * count) throw nb::value_error("sums must hold one uint32 a range");
        for (std::size_t i = 0; i < count; ++i) {
            std::int64_t load[3];
            std::memcpy(load, loads.data() + 24 * i, 24);
            const bool inside = load[0] >= 0 && load[1] >= 0 && load[2] >= 0 &&
                                static_cast<std::uint64_t>(load[2]) + static_cast<std::uint64_t>(load[1]) <= out.size();
            if (!inside) throw nb::value_error("a range does not fit the buffer");
            first.push_back(pieces.size());
            for (std::int64_t at = 0; at < load[1]; at += stretch)
                pieces.push_back({load[0] + at, out.data() + load[2] + at,
                                  static_cast<std::size_t>(std::min<std::int64_t>(stretch, load[1] - at)), 0});
        }
        first.push_back(pieces.size());
        left = pieces.size();
        done = pieces.empty();
    }

    // Reads one stretch; the thread that ends the last one puts the sums together, and is told that it was.
    bool work(int fd, std::size_t number) {
        Piece &piece = pieces[number];
        if (!failed.load(std::memory_order_relaxed)) {
            if (const int error = read_all(fd, piece.target, piece.size, piece.offset))
                failed.store(error, std::memory_order_relaxed);
            else if (check)
                piece.crc = crc32_of(piece.target, piece.size);
        }
        if (left.fetch_sub(1) != 1) return false;
        finish();
        return true;
    }

    void finish() {
        if (!check || failed.load()) return;
        const std::uint32_t shift = power(stretch);
        for (std::size_t i = 0; i + 1 < first.size(); ++i) {
            std::uint32_t total = 0;
            for (std::size_t p = first[i]; p < first[i + 1]; ++p)
                total = multiply(pieces[p].size == stretch ? shift : power(pieces[p].size), total) ^ pieces[p].crc;
            std::memcpy(sums.data() + 4 * i, &total, 4);
        }
    }

    Buffer out, sums;
    bool check;
    std::vector<Piece> pieces;
    std::vector<std::size_t> first;
    std::size_t next = 0;
    std::atomic<std::size_t> left{0};
    std::atomic<int> failed{0};
    bool done = false;  // guarded by the filler's lock: only then may the job be dropped
};

// Threads that fill one buffer after the other, without a pause between them, for as long as a load takes.
class Filler {
  public:
    Filler(int fd, int threads) : fd_(fd) {
        for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { run(); });
    }

    ~Filler() {
        {
            std::lock_guard lock(mutex_);
            ended_ = true;
        }
        wake_.notify_all();
        nb::gil_scoped_release release;
        for (std::thread &thread : threads_) thread.join();
    }

    // loads: int64 [n][3], offset in the file, bytes, place in out; sums: uint32 [n]. The arrays stay borrowed until `wait`.
    std::size_t submit(nb::object loads, nb::object out, nb::object sums, bool check) {
        auto job = std::make_unique<Job>(loads, out, sums, check);
        const std::size_t ticket = tickets_++;
        {
            std::lock_guard lock(mutex_);
            queue_.push_back(job.get());
            jobs_.emplace(ticket, std::move(job));
        }
        wake_.notify_all();
        return ticket;
    }

    // 0, or the errno of the read that failed, or -1 at the end of the file.
    int wait(std::size_t ticket) {
        const auto found = jobs_.find(ticket);
        if (found == jobs_.end()) throw nb::value_error("no such ticket");
        Job &job = *found->second;
        {
            nb::gil_scoped_release release;
            std::unique_lock lock(mutex_);
            done_.wait(lock, [&] { return job.done; });
        }
        const int failed = job.failed.load();
        std::lock_guard lock(mutex_);
        std::erase(queue_, &job);
        jobs_.erase(ticket);
        return failed;
    }

  private:
    void run() {
        std::unique_lock lock(mutex_);
        while (true) {
            wake_.wait(lock, [&] { return ended_ || ready() != nullptr; });
            Job *job = ready();
            if (ended_ || job == nullptr) return;
            const std::size_t number = job->next++;
            lock.unlock();
            const bool last = job->work(fd_, number);
            lock.lock();
            if (last) {
                job->done = true;
                done_.notify_all();
            }
        }
    }

    Job *ready() {
        while (!queue_.empty() && queue_.front()->next >= queue_.front()->pieces.size()) queue_.pop_front();
        return queue_.empty() ? nullptr : queue_.front();
    }

    int fd_;
    std::vector<std::thread> threads_;
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    std::deque<Job *> queue_;
    std::map<std::size_t, std::unique_ptr<Job>> jobs_;
    std::size_t tickets_ = 0;
    bool ended_ = false;
};

}  // namespace
}  // namespace polyvec

void bind_reads(nb::module_ &m) {
    nb::class_<polyvec::Filler>(m, "Filler", "Threads that fill buffers from ranges of a file.")
        .def(nb::init<int, int>(), nb::arg("fd"), nb::arg("threads"))
        .def("submit", &polyvec::Filler::submit, nb::arg("loads"), nb::arg("out"), nb::arg("sums"), nb::arg("check"))
        .def("wait", &polyvec::Filler::wait, nb::arg("ticket"));
}
