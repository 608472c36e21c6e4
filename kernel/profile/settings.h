// SPDX-License-Identifier: Apache-2.0
//
// The kernel's own settings, typed. Which keys there are, their ranges, defaults and words stand in keys.cc alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sl_algorithm.h"

namespace sl::kernel {

enum class ProgressMode : uint32_t { kInline, kThread };

// Values of every key; Profile fills all of them.
struct Settings {
  uint32_t determinism = SL_DETERMINISM_NONE;  // least class an algorithm must declare

  struct Comm {
    uint64_t bootstrap_timeout_ms = 0;
    uint64_t operation_timeout_ms = 0;
    uint64_t report_wait_ms = 0;
    std::string interface;  // "": chosen by the kernel
  } comm;

  struct Link {
    uint64_t chunk_bytes = 0;
    uint32_t slots = 0;
    uint32_t lanes = 0;
    uint64_t resend_ms = 0;
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

// One [[select]] rule. It applies to an operation when everything it states holds; of several that apply the first
// that pins decides, and what any of them forbids is forbidden.
struct SelectRule {
  std::vector<sl_op_kind_t> ops;  // empty: every operation
  uint64_t min_bytes = 0;         // of the operation, inclusive
  uint64_t max_bytes = UINT64_MAX;
  uint32_t min_ranks = 0;
  uint32_t max_ranks = UINT32_MAX;
  std::string algorithm;            // pinned provider; "": none
  std::vector<std::string> forbid;  // providers not to be chosen
  std::string place;                // file:line:column of the rule
};

}  // namespace sl::kernel
