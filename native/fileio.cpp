// Ranges of a file into one buffer, by many threads, with the CRC-32 of each range taken while its bytes are still in
// the cache. What the GPU pipeline fills its pinned buffers with: Python threads would wait for each other's lock.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "buffers.hpp"
#include "crc.hpp"
#include "fileio.hpp"

namespace nb = nanobind;

namespace polyvec {
namespace {

constexpr std::size_t stretch = 256 << 10;  // read, then summed out of the L2 cache

struct Piece {
    std::int64_t offset;
    std::uint8_t *target;
    std::size_t size;
    std::uint32_t crc;
};

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
    bool work(int fd, std::size_t number, Cpu cpu) {
        Piece &piece = pieces[number];
        if (!failed.load(std::memory_order_relaxed)) {
            if (const int error = read_all(fd, piece.target, piece.size, piece.offset))
                failed.store(error, std::memory_order_relaxed);
            else if (check)
                piece.crc = crc32(piece.target, piece.size, 0, cpu);
        }
        if (left.fetch_sub(1) != 1) return false;
        finish();
        return true;
    }

    void finish() {
        if (!check || failed.load()) return;
        const std::uint32_t shift = crc32_shift(stretch);
        for (std::size_t i = 0; i + 1 < first.size(); ++i) {
            std::uint32_t total = 0;
            for (std::size_t p = first[i]; p < first[i + 1]; ++p)
                total = crc32_multiply(pieces[p].size == stretch ? shift : crc32_shift(pieces[p].size), total) ^ pieces[p].crc;
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
    Filler(int fd, int threads) : fd_(fd), cpu_(current_cpu()) {
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
            const bool last = job->work(fd_, number, cpu_);
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
    Cpu cpu_;  // of the context that asked: the threads have none
    std::vector<std::thread> threads_;
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    std::deque<Job *> queue_;
    std::map<std::size_t, std::unique_ptr<Job>> jobs_;
    std::size_t tickets_ = 0;
    bool ended_ = false;
};

}  // namespace

void bind_fileio(nb::module_ &m) {
    nb::class_<Filler>(m, "Filler", "Threads that fill buffers from ranges of a file.")
        .def(nb::init<int, int>(), nb::arg("fd"), nb::arg("threads"))
        .def("submit", &Filler::submit, nb::arg("loads"), nb::arg("out"), nb::arg("sums"), nb::arg("check"))
        .def("wait", &Filler::wait, nb::arg("ticket"));
}

}  // namespace polyvec
