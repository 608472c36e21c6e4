// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_session.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <thread>

#include "tools/launch/share.h"
#include "tools/starling/bench_error.h"
#include "tools/starling/bench_rank.h"
#include "tools/starling/bench_result.h"
#include "tools/starling/bench_worker.h"
#include "tools/starling/launch_coordinator.h"

namespace sl::tools {
namespace {

size_t BufferBytes(const BenchOptions& options, int ranks) {
  size_t bytes = 0;
  for (DataType type : options.types) {
    for (size_t size : SizesOf(options)) {
      const Shape shape = ShapeOf(options.collective, size, type, ranks);
      bytes = std::max(bytes, std::max(shape.send_count, shape.recv_count) * SizeOf(type));
    }
  }
  return bytes + options.misalign * 8 + kGuardBytes;
}

// Anonymous and shared memory of this process that is in use.
double ResidentKib() {
  std::ifstream file("/proc/self/status");
  double total = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("RssAnon:", 0) == 0 || line.rfind("RssShmem:", 0) == 0) total += std::atof(line.c_str() + 9);
  }
  return total;
}

class Session {
 public:
  Session(const BenchOptions& options, const Identity& identity)
      : options_(options),
        identity_(identity),
        workers_(identity.processes * options.threads),
        ranks_(workers_ * options.ranks_per_thread),
        api_(LoadNccl(options.libraries.front())),
        segment_(JoinSegment()),
        share_(MakeShare()) {}

  int Run() {
    std::vector<std::thread> others;
    for (int thread = 1; thread < options_.threads; ++thread) {
      others.emplace_back([this, thread] { Guarded(thread); });
    }
    Guarded(0);
    for (std::thread& other : others) other.join();
    return wrong_ ? kExitFailure : kExitGood;
  }

 private:
  // Nothing where processes have no memory in common, or shall do as if.
  std::optional<SharedSegment> JoinSegment() {
    if (identity_.from_starling()) {
      SharedSegment segment = SharedSegment::Adopt(identity_.segment_fd);
      if (segment.get()->workers != static_cast<uint32_t>(workers_)) {
        throw CommandError(kExitUsage, "STARLING_TOOL_LAUNCH does not fit -t; it is set by starling itself, unset it");
      }
      return segment;
    }
    if (identity_.processes == 1) return SharedSegment::Create(workers_);
    if (identity_.one_host && options_.id_file.empty()) {
      return identity_.process == 0 ? SharedSegment::CreateNamed(identity_.key, workers_)
                                    : SharedSegment::OpenNamed(identity_.key, workers_, options_.timeout_s);
    }
    if (options_.RanksPerProcess() != 1) {
      throw CommandError(kExitUsage, "-t and -g are for ranks of one host; across hosts start one process per rank");
    }
    return std::nullopt;
  }

  // Nobody else shall find the segment, since all have it or the measurement has failed.
  void ForgetName() {
    if (segment_ && !forgotten_.exchange(true)) segment_->Unlink();
  }

  std::unique_ptr<launch::Share> MakeShare() const {
    if (segment_) return nullptr;
    try {
      return std::make_unique<launch::Share>(*identity_.place, options_.id_file);
    } catch (const launch::EnvironmentError& error) {
      throw CommandError(kExitUsage, error.what());
    }
  }

  // Nothing may escape a thread, and nobody may wait for a thread that is stuck: a failure ends the process.
  void Guarded(int thread) {
    std::unique_ptr<Coordinator> coordinator;
    try {
      Main(thread, coordinator);
    } catch (const std::exception& error) {
      if (coordinator) coordinator->Fail();
      ForgetName();
      fflush(stdout);
      fprintf(stderr, "starling bench: process %d worker %d: %s\n", identity_.process,
              identity_.process * options_.threads + thread, error.what());
      const auto* command = dynamic_cast<const CommandError*>(&error);
      _exit(command ? command->exit_code() : kExitFailure);
    }
  }

  void Main(int thread, std::unique_ptr<Coordinator>& coordinator) {
    const int worker = identity_.process * options_.threads + thread;
    if (segment_) coordinator = MakeSegmentCoordinator(segment_->get(), worker, options_.timeout_s);
    if (coordinator) coordinator->Doing("ncclCommInitRank");
    std::vector<Rank> ranks;
    ranks.reserve(static_cast<size_t>(options_.ranks_per_thread));
    for (int i = 0; i < options_.ranks_per_thread; ++i)
      ranks.emplace_back(api_, worker * options_.ranks_per_thread + i, ranks_);
    const NcclUniqueId id = ShareId(worker, coordinator.get());
    BenchReport report;
    const double kib_before = ResidentKib();
    const int64_t start = MonotonicNs();
    InGroup(ranks, [&](Rank& rank) { rank.Init(id); });
    report.init_ms = static_cast<double>(MonotonicNs() - start) / 1e6;
    report.init_kib = std::max(ResidentKib() - kib_before, 0.0) / options_.RanksPerProcess();
    if (!coordinator) coordinator = OverLibrary(worker, ranks.front());
    coordinator->Barrier(false);
    if (worker == 0) ForgetName();
    if (!segment_) share_.reset();  // all have the id: its file goes
    const size_t bytes = BufferBytes(options_, ranks_);
    for (Rank& rank : ranks) rank.Allocate(bytes, options_.local_register == 2);
    InGroup(ranks, [&](Rank& rank) { rank.Register(options_.local_register); });
    for (double ms : coordinator->GatherValues(report.init_ms)) report.init_ms = std::max(report.init_ms, ms);
    for (double kib : coordinator->GatherValues(report.init_kib)) report.init_kib = std::max(report.init_kib, kib);
    Measure(*coordinator, ranks, report);
    coordinator->Doing("ncclCommDestroy");
    coordinator->Barrier(false);
    for (Rank& rank : ranks) rank.Close();
  }

  template <typename Body>
  void InGroup(std::vector<Rank>& ranks, Body body) {
    const bool group = ranks.size() > 1;
    if (group) CheckNccl(api_, api_.GroupStart(), "ncclGroupStart", nullptr);
    for (Rank& rank : ranks) body(rank);
    if (group) CheckNccl(api_, api_.GroupEnd(), "ncclGroupEnd", nullptr);
  }

  NcclUniqueId ShareId(int worker, Coordinator* coordinator) {
    NcclUniqueId id = {};
    if (worker == 0) CheckNccl(api_, api_.GetUniqueId(&id), "ncclGetUniqueId", nullptr);
    if (coordinator) return coordinator->GatherValues(id).front();
    share_->FromFirst(std::as_writable_bytes(std::span(&id, 1)), std::chrono::seconds(options_.timeout_s));
    return id;
  }

  // Across hosts the workers agree through the library itself.
  std::unique_ptr<Coordinator> OverLibrary(int worker, const Rank& rank) {
    NcclComm comm = rank.comm();
    auto gather = [this, comm](const void* mine, size_t bytes) {
      std::vector<unsigned char> all(bytes * static_cast<size_t>(ranks_));
      CheckNccl(api_, api_.AllGather(mine, all.data(), bytes, static_cast<int>(DataType::kUint8), comm, nullptr),
                "ncclAllGather", comm);
      return all;
    };
    return MakeRemoteCoordinator(worker, workers_, gather);
  }

  void Measure(Coordinator& coordinator, std::vector<Rank>& ranks, BenchReport& report) {
    const bool prints = coordinator.worker() == 0;
    report.library = api_.path;
    report.ranks = ranks_;
    CheckNccl(api_, api_.GetVersion(&report.nccl_version), "ncclGetVersion", nullptr);
    for (const Device& device : coordinator.GatherValues(ThisDevice(ranks.front().rank()))) {
      for (int i = 0; i < options_.ranks_per_thread; ++i) {
        report.devices.push_back(device);
        report.devices.back().rank = device.rank + i;
      }
    }
    if (prints) Print(HeaderText(options_, report));
    Worker worker(options_, api_, coordinator, ranks);
    worker.WarmUp();
    for (int cycle = 0; cycle < options_.cycles; ++cycle) {
      worker.MeasureAll([&](const Point& point) {
        report.points.push_back(point);
        if (prints) Print(RowText(options_, point));
      });
    }
    if (report.Wrong()) wrong_ = true;
    if (!prints) return;
    Print(FooterText(options_, report));
    if (!options_.json_file.empty()) WriteJson(ToJson(options_, report));
  }

  Device ThisDevice(int rank) const {
    Device device = {rank, getpid(), {}};
    gethostname(device.host, sizeof device.host - 1);
    return device;
  }

  static void Print(const std::string& text) {
    fputs(text.c_str(), stdout);
    fflush(stdout);
  }

  void WriteJson(const nlohmann::json& json) const {
    std::ofstream file(options_.json_file);
    file << json.dump(1) << "\n";
    file.close();
    if (!file) throw CommandError(kExitFailure, "cannot write " + options_.json_file + " (-J)");
  }

  const BenchOptions& options_;
  const Identity& identity_;
  const int workers_;
  const int ranks_;
  const NcclApi api_;
  std::optional<SharedSegment> segment_;
  std::atomic<bool> forgotten_ = false;
  std::unique_ptr<launch::Share> share_;  // where there is no segment
  std::atomic<bool> wrong_ = false;
};

}  // namespace

int RunBenchProcess(const BenchOptions& options, const Identity& identity) { return Session(options, identity).Run(); }

}  // namespace sl::tools
