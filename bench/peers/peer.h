// SPDX-License-Identifier: Apache-2.0
// Measures another library's collectives exactly as `starling bench` measures ours: the same inputs, shapes, warm-ups,
// iterations, barrier, clock and check; only the call differs. Prints one JSON line per point.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/starling/bench_types.h"
#include "tools/starling/launch_coordinator.h"

namespace sl::bench {

// One library in one process. Sums of floats only.
class Peer {
 public:
  virtual ~Peer() = default;
  // Returns the operation on these buffers, ready to be called again and again; null when the library has none.
  virtual std::function<void()> Prepare(tools::Collective collective, const tools::Shape& shape, float* send,
                                        float* recv) = 0;
  // The operation leaves its result in `send` and destroys its input (so check it on its first call only).
  virtual bool ReducesInPlace(tools::Collective) const { return false; }
};

struct PeerOptions {
  std::vector<tools::Collective> collectives;
  std::vector<size_t> sizes;
  int ranks = 0;                 // --ranks; processes that this program starts itself
  bool one_machine = false;      // --one-machine: the launcher's hosts are namespaces of this machine
  std::string interface = "lo";  // --interface, of Gloo
  double budget_ms = 0;          // --budget-ms, as of `starling bench`
  int repeat = 1;
  int timeout_s = 60;
};

// Throws tools::CommandError.
PeerOptions ParsePeerOptions(int argc, char** argv);

// Makes the library's side once the process knows its rank.
using PeerFactory = std::function<std::unique_ptr<Peer>(tools::Coordinator& coordinator)>;

// Measures everything and prints; returns an exit code. `name` is the library's in the output.
int MeasurePeer(const PeerOptions& options, const std::string& name, tools::Coordinator& coordinator,
                const PeerFactory& make);

// Joins the measurement as DetectIdentity() says and calls MeasurePeer. Errors end the process.
int RunPeerProcess(const PeerOptions& options, const std::string& name, const PeerFactory& make);

}  // namespace sl::bench
