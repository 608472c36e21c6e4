// SPDX-License-Identifier: Apache-2.0
// How the workers of a measurement agree with each other outside the operations they measure.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/starling/launch_segment.h"

namespace sl::tools {

// One per worker, used by that worker's thread alone. Every call throws CommandError when another worker gave up or did
// not come within the time limit.
class Coordinator {
 public:
  virtual ~Coordinator() = default;
  virtual int worker() const = 0;
  virtual int workers() const = 0;
  // With `aligned`, workers that have a core each leave at one common time.
  virtual void Barrier(bool aligned) = 0;
  // `bytes` (at most kMaxGatherBytes) of every worker, concatenated in order.
  virtual std::vector<unsigned char> Gather(const void* mine, size_t bytes) = 0;
  // Says what this worker does now, for the messages of a watchdog.
  virtual void Doing(const std::string& text) = 0;
  // Called between iterations: this worker gets on. Must cost next to nothing.
  virtual void Tick() = 0;
  // Tells the others that this worker gives up.
  virtual void Fail() = 0;

  template <typename T>
  std::vector<T> GatherValues(const T& mine) {
    static_assert(sizeof(T) <= kMaxGatherBytes);
    std::vector<unsigned char> bytes = Gather(&mine, sizeof(T));
    std::vector<T> values(bytes.size() / sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) __builtin_memcpy(&values[i], &bytes[i * sizeof(T)], sizeof(T));
    return values;
  }
};

// Workers of one host, over a segment. The segment outlives the coordinator.
std::unique_ptr<Coordinator> MakeSegmentCoordinator(Segment* segment, int worker, int timeout_s);

// Workers of several hosts, over whatever `all_gather` moves: it must behave like Coordinator::Gather.
using GatherFunction = std::function<std::vector<unsigned char>(const void* mine, size_t bytes)>;
std::unique_ptr<Coordinator> MakeRemoteCoordinator(int worker, int workers, GatherFunction all_gather);

}  // namespace sl::tools
