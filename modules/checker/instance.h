// SPDX-License-Identifier: Apache-2.0
//
// One opened checker: around one provider of an interface, or of several.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

#include "modules/checker/reporter.h"
#include "sl_module.h"

namespace sl::checker {

enum class Interface : uint32_t { kDevice, kTransport, kAlgorithm, kFault, kObserver, kTopology, kCount };
constexpr size_t kInterfaces = static_cast<size_t>(Interface::kCount);

// What allocate() handed out; by device instance, since any of its devices may release it.   thread: any
class Allocations {
 public:
  using Entry = std::set<const void*>::node_type;

  // Room for one more, taken before there is something to put there.
  static Entry Room() {
    std::set<const void*> one = {nullptr};
    return one.extract(one.begin());
  }
  void Add(Entry entry, const void* memory) {
    entry.value() = memory;
    const std::lock_guard lock(mutex_);
    memory_.insert(std::move(entry));
  }
  // Empty: nothing was handed out there.
  Entry Take(const void* memory) {
    const std::lock_guard lock(mutex_);
    return memory_.extract(memory);
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return memory_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::set<const void*> memory_;  // guarded by mutex_
};

}  // namespace sl::checker

struct sl_instance_t {
  sl_instance_t(const sl_host_t* host, sl::checker::Reporter::Mode mode, uint64_t lines_per_rule)
      : reporter(host, mode, lines_per_rule) {}

  sl::checker::Reporter reporter;
  // The modules below, by interface; NULL: none is wrapped.
  std::array<const void*, sl::checker::kInterfaces> ops = {};
  std::array<sl_instance_t*, sl::checker::kInterfaces> inner = {};
  bool looks_for_waits = true;
  std::atomic<bool> quiesced{false};
  sl::checker::Allocations allocations;
};

namespace sl::checker {

// The newest open instance of an interface, which reports calls whose handle belongs to none; NULL: none.
sl_instance_t* NewestOf(Interface interface);

}  // namespace sl::checker
