// SPDX-License-Identifier: Apache-2.0
//
// The kernel's own settings, typed. Which keys there are, their ranges, defaults and words stand in keys.cc alone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sl_algorithm.h"

namespace sl::kernel {

enum class ProgressMode : uint32_t { kInline, kThread };
enum class NetFamily : uint32_t { kAny, kIpv4, kIpv6 };

// Values of every key; Profile fills all of them.
struct Settings {
  uint32_t determinism = SL_DETERMINISM_NONE;  // least class an algorithm must declare

  struct Comm {
    uint64_t bootstrap_timeout_ms = 0;
    uint64_t operation_timeout_ms = 0;
    uint64_t report_wait_ms = 0;
    std::string interface;  // "": chosen by the kernel
    NetFamily socket_family = NetFamily::kAny;
    uint64_t silence_ms = 0;
    bool tls = false;
    uint64_t reach_mib = 0;
    std::string rendezvous;     // "": ids say themselves where ranks meet
    uint64_t direct_ranks = 0;  // 0: whoever can
    bool host_heap = true;
    uint64_t relay_bytes = 0;
    uint32_t sm_budget = 0;   // 0: not bound
    bool is_sm_free = false;  // what holds no SM goes before all others
    uint32_t sm_weight = 0;   // in thousandths
  } comm;

  struct Link {
    uint64_t chunk_bytes = 0;
    uint32_t slots = 0;
    uint32_t lanes = 0;
    uint64_t resend_ms = 0;
    uint32_t connections = 0;
  } link;

  struct Engine {
    uint64_t spin_us = 0;
    ProgressMode progress = ProgressMode::kInline;
  } engine;

  struct Events {
    bool observers = true;
    uint32_t ring_records = 0;
    uint64_t drain_ms = 0;
  } events;

  struct Roles {
    std::string device;  // provider's name, or "auto"
    std::string fault;   // provider's name, "auto" or "none"
  } roles;
};

// Kinds of devices as profiles name them, by SL_DEVICE_….
inline constexpr std::array<const char*, 2> kDeviceKindNames = {"host", "cuda"};

// One [[select]] rule. It applies to an operation when everything it states holds; of several that apply the first
// that pins decides, else the first that prefers, and what any of them forbids is forbidden. Limits are inclusive.
struct SelectRule {
  std::vector<sl_op_kind_t> ops;  // empty: every operation
  uint64_t min_bytes = 0;         // of the operation
  uint64_t max_bytes = UINT64_MAX;
  uint64_t min_ranks = 0;  // of the communicator
  uint64_t max_ranks = UINT32_MAX;
  uint64_t min_hosts = 0;  // that it spans
  uint64_t max_hosts = UINT32_MAX;
  uint64_t min_ranks_per_host = 0;           // no host has fewer
  uint64_t max_ranks_per_host = UINT32_MAX;  // no host has more
  std::optional<uint32_t> device_kind;       // SL_DEVICE_…; without it: any
  std::string algorithm;                     // pinned provider; "": none
  std::string prefer;                        // provider chosen in place of others of its module; "": none
  std::vector<std::string> forbid;           // providers not to be chosen
  std::string place;                         // file:line:column of the rule
};

}  // namespace sl::kernel
