// SPDX-License-Identifier: Apache-2.0
//
// One opened checker: around one provider of an interface, or of several.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "modules/checker/reporter.h"
#include "sl_module.h"

namespace sl::checker {

enum class Interface : uint32_t { kDevice, kTransport, kAlgorithm, kFault, kObserver, kTopology, kCount };
constexpr size_t kInterfaces = static_cast<size_t>(Interface::kCount);

// What allocate() handed out; by device instance, since any of its devices may release it.
struct Allocations {
  std::mutex mutex;
  std::map<const void*, uint64_t> bytes;  // guarded by mutex
};

}  // namespace sl::checker

struct sl_instance_t {
  sl_instance_t(const sl_host_t* host, sl::checker::Reporter::Mode mode, uint64_t lines_per_rule)
      : reporter(host, mode, lines_per_rule) {}

  sl::checker::Reporter reporter;
  // The modules below, by interface; NULL: none is wrapped.
  std::array<const void*, sl::checker::kInterfaces> ops = {};
  std::array<sl_instance_t*, sl::checker::kInterfaces> inner = {};
  std::atomic<bool> quiesced{false};
  sl::checker::Allocations allocations;
};

namespace sl::checker {

// The newest open instance of an interface, which reports calls whose handle belongs to none; NULL: none.
sl_instance_t* NewestOf(Interface interface);

}  // namespace sl::checker
