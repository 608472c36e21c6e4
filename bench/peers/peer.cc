// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/peer.h"

#include <unistd.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/starling/bench_error.h"
#include "tools/starling/bench_oracle.h"
#include "tools/starling/bench_worker.h"
#include "tools/starling/launch_identity.h"
#include "tools/starling/launch_local.h"
#include "tools/starling/launch_segment.h"

namespace sl::bench {
namespace {

using tools::Collective;
using tools::DataType;
using tools::Oracle;
using tools::RedOp;
using tools::Shape;

// Aligned like the buffers of `starling bench`.
class Buffer {
 public:
  explicit Buffer(size_t bytes) : bytes_((bytes + 4095) & ~size_t{4095}) {
    if (posix_memalign(&data_, bytes_ >= (2u << 20) ? 2u << 20 : 4096, bytes_) != 0) throw std::bad_alloc();
    std::memset(data_, 0xa5, bytes_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(data_); }
  float* floats() { return static_cast<float*>(data_); }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

size_t CheckResult(Collective collective, const Shape& shape, Oracle& oracle, int rank, int ranks, const float* got) {
  const size_t block = shape.param_count;
  const size_t me = static_cast<size_t>(rank);
  size_t wrong = 0;
  switch (collective) {
    case Collective::kAllReduce:
      return oracle.CheckReduced(0, shape.recv_count, got);
    case Collective::kReduceScatter:
      return oracle.CheckReduced(me * block, block, got);
    case Collective::kSendRecv:
      return oracle.CheckInput((rank + ranks - 1) % ranks, 0, block, got);
    default:
      for (size_t peer = 0; peer < static_cast<size_t>(ranks); ++peer) {
        const size_t first = collective == Collective::kAlltoAll ? me * block : 0;
        wrong += oracle.CheckInput(static_cast<int>(peer), first, block, got + peer * block);
      }
      return wrong;
  }
}

struct Measured {
  tools::LoopResult loop;
  size_t wrong = 0;
};

Measured MeasurePoint(const PeerOptions& options, tools::Coordinator& coordinator, Peer& peer, Collective collective,
                      const Shape& shape, Buffer& send, Buffer& recv) {
  const std::function<void()> body = peer.Prepare(collective, shape, send.floats(), recv.floats());
  const int rank = coordinator.worker(), ranks = coordinator.workers();
  Oracle oracle(DataType::kFloat, tools::Reduces(collective) ? RedOp::kSum : RedOp::kNone, ranks, shape.bytes,
                std::max(shape.send_count, shape.recv_count));
  coordinator.Doing(std::string(tools::Name(collective)) + " of " + std::to_string(shape.bytes) + " bytes");
  oracle.Fill(rank, 0, shape.send_count, send.floats());
  std::memset(recv.floats(), 0xa5, shape.recv_count * sizeof(float));
  coordinator.Barrier(false);
  body();
  const bool in_place = peer.ReducesInPlace(collective);
  Measured measured;
  measured.wrong = CheckResult(collective, shape, oracle, rank, ranks, in_place ? send.floats() : recv.floats());
  coordinator.Barrier(false);
  tools::LoopSpec spec;
  spec.iterations = tools::IterationsForSize(shape.bytes);
  spec.warmups = tools::WarmupsForSize(shape.bytes);
  spec.repeat = options.repeat;
  spec.budget_ms = options.budget_ms;
  spec.average = tools::Average::kMax;
  measured.loop = tools::TimeLoop(coordinator, spec, body);
  size_t wrong = 0;
  for (size_t part : coordinator.GatherValues(measured.wrong)) wrong += part;
  measured.wrong = wrong;
  return measured;
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

PeerOptions ParsePeerOptions(int argc, char** argv) {
  PeerOptions options;
  std::string collectives = "all_reduce", sizes = "8";
  CLI::App app("Measures a peer library as `starling bench` measures ours; sums of floats.");
  app.add_option("--collectives", collectives,
                 "separated by commas: all_reduce, all_gather, reduce_scatter, alltoall, "
                 "sendrecv");
  app.add_option("--sizes", sizes, "separated by commas, with K, M, G");
  app.add_option("--ranks", options.ranks, "local processes to start")->check(CLI::Range(1, tools::kMaxLocalProcesses));
  app.add_option("--repeat", options.repeat, "samples per size")->check(CLI::Range(1, 1000));
  app.add_flag("--one-machine", options.one_machine, "the launcher's hosts are namespaces of this machine");
  app.add_option("--interface", options.interface, "Gloo's network interface (lo)");
  app.add_option("--budget-ms", options.budget_ms, "fewer iterations where a sample would take longer; 0 = off (0)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw tools::CommandError(tools::kExitGood, app.help());
  } catch (const CLI::ParseError& error) {
    throw tools::CommandError(tools::kExitUsage, error.what());
  }
  for (const std::string& size : Split(sizes)) options.sizes.push_back(tools::ParseSize("--sizes", size));
  for (const std::string& name : Split(collectives)) {
    const Collective collective = tools::ParseCollective(name);
    if (tools::HasRoot(collective)) {
      throw tools::CommandError(tools::kExitUsage, name + " is not compared with peers");
    }
    options.collectives.push_back(collective);
  }
  return options;
}

int MeasurePeer(const PeerOptions& options, const std::string& name, tools::Coordinator& coordinator,
                const PeerFactory& make) {
  const int ranks = coordinator.workers();
  size_t bytes = 0;
  for (size_t size : options.sizes) bytes = std::max(bytes, size + static_cast<size_t>(ranks) * sizeof(float));
  Buffer send(bytes), recv(bytes);
  std::unique_ptr<Peer> peer = make(coordinator);
  size_t wrong = 0;
  for (Collective collective : options.collectives) {
    for (size_t size : options.sizes) {
      const Shape shape = tools::ShapeOf(collective, size, DataType::kFloat, ranks);
      const Measured measured = MeasurePoint(options, coordinator, *peer, collective, shape, send, recv);
      wrong += measured.wrong;
      if (coordinator.worker() != 0) continue;
      nlohmann::json line = {{"library", name},
                             {"collective", tools::Name(collective)},
                             {"ranks", ranks},
                             {"size", shape.bytes},
                             {"type", "float"},
                             {"redop", tools::Reduces(collective) ? "sum" : "none"},
                             {"iterations", measured.loop.iterations},
                             {"samples_us", measured.loop.samples_us},
                             {"nwrong", measured.wrong}};
      printf("%s\n", line.dump().c_str());
      fflush(stdout);
    }
  }
  coordinator.Barrier(false);
  return wrong ? tools::kExitFailure : tools::kExitGood;
}

int RunPeerProcess(const PeerOptions& options, const std::string& name, const PeerFactory& make) {
  const tools::Identity identity = tools::DetectIdentity();
  std::optional<tools::SharedSegment> segment;
  if (identity.from_starling()) {
    segment.emplace(tools::SharedSegment::Adopt(identity.segment_fd));
  } else if (identity.processes == 1) {
    segment.emplace(tools::SharedSegment::Create(1));
  } else if (!identity.one_host && !options.one_machine) {
    throw tools::CommandError(tools::kExitUsage, "peers are compared on one host");
  } else if (identity.process == 0) {
    segment.emplace(tools::SharedSegment::CreateNamed(identity.key, identity.processes));
  } else {
    segment.emplace(tools::SharedSegment::OpenNamed(identity.key, identity.processes, options.timeout_s));
  }
  auto coordinator = tools::MakeSegmentCoordinator(segment->get(), identity.process, options.timeout_s);
  try {
    coordinator->Barrier(false);
    segment->Unlink();
    return MeasurePeer(options, name, *coordinator, make);
  } catch (const std::exception& error) {
    coordinator->Fail();
    fprintf(stderr, "%s: process %d: %s\n", name.c_str(), identity.process, error.what());
    fflush(stdout);
    _exit(tools::kExitFailure);  // the library's own clean-up would wait for the others
  }
}

}  // namespace sl::bench
