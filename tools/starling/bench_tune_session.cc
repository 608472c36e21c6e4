// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_tune_session.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/starling/bench_error.h"
#include "tools/starling/bench_rank.h"
#include "tools/starling/bench_worker.h"
#include "tools/starling/launch_coordinator.h"
#include "tools/starling/launch_segment.h"

namespace sl::tools {
namespace {

constexpr double kSampleMs = 5;
// Longer than waiting processes spin before they sleep, should they share processors with the set whose turn it is.
constexpr std::chrono::microseconds kQuiet{500};

// What one worker says when a turn is over.
struct Turn {
  int64_t now_ns = 0;
  double time_us = 0;
  uint64_t wrong = 0;
  bool refused = false;
};

BenchOptions OptionsFor(const TuneOptions& tune, Collective collective, bool checks) {
  BenchOptions options;
  options.collective = collective;
  options.types = {tune.type};
  options.ops = {Reduces(collective) ? RedOp::kSum : RedOp::kNone};
  options.iterations = 0;
  options.warmups = -1;
  options.checks = checks ? 1 : 0;
  options.budget_ms = kSampleMs;
  options.average = Average::kMax;
  options.out_of_place_only = true;
  return options;
}

class TuneSession {
 public:
  TuneSession(const TuneOptions& options, const Identity& identity, const TunePart& part)
      : options_(options),
        part_(part),
        set_(identity.process / part.ranks),
        points_(TunePoints(options, part.ranks)),
        cells_(points_.size(), std::vector<TuneCell>(part.algorithms.size())),
        segment_(SharedSegment::Adopt(identity.segment_fd)),
        all_(MakeSegmentCoordinator(segment_.get(), identity.process, options.timeout_s)) {}

  int Run() {
    try {
      Join();
      for (int round = 0; round < options_.repeat && WalkOnce(round == 0); ++round) continue;
      all_->Doing("ncclCommDestroy");
      all_->Barrier(false);
      rank_->Close();
      if (all_->worker() == 0) WriteCells();
      return kExitGood;
    } catch (const std::exception& error) {
      all_->Fail();
      fprintf(stderr, "starling bench --tune: %s, rank %d of %d: %s\n", algorithm().c_str(),
              all_->worker() % part_.ranks, part_.ranks, error.what());
      const auto* command = dynamic_cast<const CommandError*>(&error);
      fflush(stderr);
      _exit(command != nullptr ? command->exit_code() : kExitFailure);
    }
  }

 private:
  const std::string& algorithm() const { return part_.algorithms[static_cast<size_t>(set_)]; }

  // Makes the communicator and buffers of this set.
  void Join() {
    all_->Doing("ncclCommInitRank");
    const int rank = all_->worker() % part_.ranks;
    const std::string key = "tune-" + std::to_string(getppid()) + "-" + std::to_string(set_);
    set_segment_ =
        std::make_unique<SharedSegment>(rank == 0 ? SharedSegment::CreateNamed(key, part_.ranks)
                                                  : SharedSegment::OpenNamed(key, part_.ranks, options_.timeout_s));
    mine_ = MakeSegmentCoordinator(set_segment_->get(), rank, options_.timeout_s);
    mine_->Barrier(false);
    set_segment_->Unlink();
    setenv("STARLING_PROFILE", part_.profiles[static_cast<size_t>(set_)].c_str(), 1);
    api_ = LoadNccl(DefaultLibrary());
    NcclUniqueId id{};
    if (rank == 0) CheckNccl(api_, api_.GetUniqueId(&id), "ncclGetUniqueId", nullptr);
    rank_ = &ranks_.emplace_back(api_, rank, part_.ranks);
    rank_->Init(mine_->GatherValues(id).front());
    size_t bytes = 0;
    for (const TunePoint& point : points_) {
      const Shape shape = ShapeOf(point.collective, point.bytes, options_.type, part_.ranks);
      bytes = std::max(bytes, std::max(shape.send_count, shape.recv_count) * SizeOf(options_.type));
    }
    rank_->Allocate(bytes + kGuardBytes, false);
  }

  // One sample of every point by every algorithm. False when time is up: all processes agree, by the clock of process
  // 0.
  bool WalkOnce(bool checks) {
    for (size_t point = 0; point < points_.size(); ++point) {
      for (size_t set = 0; set < part_.algorithms.size(); ++set) {
        TuneCell& cell = cells_[point][set];
        if (cell.refused) continue;
        Turn turn;
        if (static_cast<int>(set) == set_) turn = Measure(points_[point], checks);
        turn.now_ns = MonotonicNs();
        const std::vector<Turn> turns = all_->GatherValues(turn);
        const Turn& taken = turns[set * static_cast<size_t>(part_.ranks)];
        cell.refused = taken.refused;
        cell.wrong += taken.wrong;
        if (!taken.refused) cell.samples_us.push_back(taken.time_us);
        if (turns.front().now_ns > part_.deadline_ns) return false;
      }
    }
    return true;
  }

  Turn Measure(const TunePoint& point, bool checks) {
    std::this_thread::sleep_for(kQuiet);
    const std::string doing = std::string(Name(point.collective)) + " of " + std::to_string(point.bytes) + " bytes";
    all_->Doing(doing);
    const BenchOptions options = OptionsFor(options_, point.collective, checks);
    Turn turn;
    try {
      const Point measured =
          Worker(options, api_, *mine_, ranks_)
              .MeasurePoint(point.bytes, options_.type, options.ops.front(), HasRoot(point.collective) ? 0 : -1);
      turn.time_us = measured.out_of_place.time_us;
      turn.wrong = measured.out_of_place.wrong;
      if (measured.served.algorithm != algorithm()) {
        throw CommandError(kExitFailure, doing + " was served by \"" + measured.served.algorithm + "\"");
      }
    } catch (const NcclError& error) {
      // Selection is the same on all ranks, so all of this set come here, and nothing was issued.
      if (error.result() != kNcclInvalidUsage) throw;
      turn.refused = true;
    }
    return turn;
  }

  void WriteCells() const {
    nlohmann::json document = nlohmann::json::array();
    for (const std::vector<TuneCell>& row : cells_) {
      nlohmann::json cells = nlohmann::json::array();
      for (const TuneCell& cell : row) {
        cells.push_back({{"refused", cell.refused}, {"wrong", cell.wrong}, {"samples_us", cell.samples_us}});
      }
      document.push_back(std::move(cells));
    }
    std::ofstream file(part_.result_file);
    file << document.dump() << "\n";
    file.close();
    if (!file) throw CommandError(kExitFailure, "cannot write " + part_.result_file);
  }

  const TuneOptions& options_;
  const TunePart& part_;
  const int set_;  // of algorithms
  const std::vector<TunePoint> points_;
  TuneCells cells_;
  SharedSegment segment_;  // of all processes
  std::unique_ptr<Coordinator> all_;
  std::unique_ptr<SharedSegment> set_segment_;
  std::unique_ptr<Coordinator> mine_;  // of this set
  NcclApi api_;
  std::vector<Rank> ranks_;  // one
  Rank* rank_ = nullptr;
};

}  // namespace

std::string TunePart::ToText() const {
  return nlohmann::json{{"ranks", ranks},
                        {"deadline_ns", deadline_ns},
                        {"algorithms", algorithms},
                        {"profiles", profiles},
                        {"result_file", result_file}}
      .dump();
}

TunePart TunePart::FromEnvironment() {
  const char* text = std::getenv(kTunePartVariable);
  try {
    const nlohmann::json part = nlohmann::json::parse(text == nullptr ? "" : text);
    return {part.at("ranks"), part.at("deadline_ns"), part.at("algorithms"), part.at("profiles"),
            part.at("result_file")};
  } catch (const nlohmann::json::exception&) {
    throw CommandError(kExitUsage, std::string(kTunePartVariable) + " is set by starling itself; unset it");
  }
}

TuneCells ReadTuneCells(const std::string& file) {
  TuneCells cells;
  std::ifstream stream(file);
  try {
    for (const nlohmann::json& row : nlohmann::json::parse(stream)) {
      std::vector<TuneCell>& out = cells.emplace_back();
      for (const nlohmann::json& cell : row) {
        out.push_back({cell.at("refused"), cell.at("wrong"), cell.at("samples_us")});
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw CommandError(kExitFailure, file + ": cannot read what was measured: " + error.what());
  }
  return cells;
}

int RunTuneProcess(const TuneOptions& options, const Identity& identity, const TunePart& part) {
  const auto sets = static_cast<int>(part.algorithms.size());
  if (part.ranks < 1 || sets < 1 || part.profiles.size() != part.algorithms.size() ||
      identity.processes != part.ranks * sets) {
    throw CommandError(kExitUsage, std::string(kTunePartVariable) + " is set by starling itself; unset it");
  }
  return TuneSession(options, identity, part).Run();
}

}  // namespace sl::tools
