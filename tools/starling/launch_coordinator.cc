// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/launch_coordinator.h"

#include <unistd.h>

#include <cstring>

#include "tools/starling/bench_error.h"
#include "tools/starling/launch_blame.h"

namespace sl::tools {
namespace {

class SegmentCoordinator final : public Coordinator {
 public:
  SegmentCoordinator(Segment* segment, int worker, int timeout_s)
      : segment_(segment), slot_(segment->slots[worker]), worker_(worker), timeout_s_(timeout_s) {
    slot_.pid = getpid();
    BlameThrough(&slot_);
  }

  int worker() const override { return worker_; }
  int workers() const override { return static_cast<int>(segment_->workers); }

  void Barrier(bool aligned) override {
    if (SegmentBarrier(segment_, worker_, timeout_s_, aligned)) return;
    int first = static_cast<int>(segment_->failed.load()) - 1;
    if (first == worker_) throw CommandError(kExitFailure, LateText(timeout_s_));
    if (first >= workers()) throw CommandError(kExitFailure, "another process of the measurement ended");
    const std::string doing = GetDoing(segment_->slots[first]);
    throw CommandError(kExitFailure,
                       "worker " + std::to_string(first) + " gave up" + (doing.empty() ? "" : ": " + doing));
  }

  std::vector<unsigned char> Gather(const void* mine, size_t bytes) override {
    if (bytes > kMaxGatherBytes) throw CommandError(kExitFailure, "too much to gather");
    const size_t parity = gathers_++ % 2;
    std::memcpy(slot_.gather[parity], mine, bytes);
    Barrier(false);
    std::vector<unsigned char> all(bytes * segment_->workers);
    for (size_t i = 0; i < segment_->workers; ++i) {
      std::memcpy(&all[i * bytes], segment_->slots[i].gather[parity], bytes);
    }
    return all;
  }

  void Doing(const std::string& text) override { SetDoing(slot_, text); }
  void Tick() override {
    slot_.progress.store(slot_.progress.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void Fail() override { SegmentFail(segment_, worker_); }

 private:
  Segment* const segment_;
  WorkerSlot& slot_;
  const int worker_;
  const int timeout_s_;
  size_t gathers_ = 0;
};

class RemoteCoordinator final : public Coordinator {
 public:
  RemoteCoordinator(int worker, int workers, GatherFunction all_gather)
      : worker_(worker), workers_(workers), all_gather_(std::move(all_gather)) {}

  int worker() const override { return worker_; }
  int workers() const override { return workers_; }
  void Barrier(bool) override { GatherValues<int>(0); }
  std::vector<unsigned char> Gather(const void* mine, size_t bytes) override { return all_gather_(mine, bytes); }
  void Doing(const std::string&) override {}
  void Tick() override {}
  void Fail() override {}

 private:
  const int worker_;
  const int workers_;
  const GatherFunction all_gather_;
};

}  // namespace

std::unique_ptr<Coordinator> MakeSegmentCoordinator(Segment* segment, int worker, int timeout_s) {
  return std::make_unique<SegmentCoordinator>(segment, worker, timeout_s);
}

std::unique_ptr<Coordinator> MakeRemoteCoordinator(int worker, int workers, GatherFunction all_gather) {
  return std::make_unique<RemoteCoordinator>(worker, workers, std::move(all_gather));
}

}  // namespace sl::tools
