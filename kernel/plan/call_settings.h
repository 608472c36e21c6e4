// SPDX-License-Identifier: Apache-2.0
//
// What single calls want otherwise than their communicator (sl_call_settings_t): bounds on processors, which algorithms
// may serve them, a rule of their own. Equal settings have one number, a hash of what they say, so that all ranks name
// them alike without asking each other; operations carry the number (sl_op_t::settings).
//
// The parts of a sequence are held to the bounds alone: their number is kPartBit | the whole's, which names the same
// settings.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/profile/settings.h"
#include "sdk/status.h"
#include "sl_runtime.h"

namespace sl::kernel {

constexpr uint32_t kPartBit = 1;

// Names joined by , (or) + (and) ^ (not), each of which may be several, joined by |; see sl_call_settings_t::ways.
class WayExpression {
 public:
  // returns: SL_ERR_INVALID with what is wrong
  static Result<WayExpression> Parse(std::string_view text);
  // `way` may be "": of the algorithm as a whole.
  bool Allows(std::string_view algorithm, std::string_view way) const;
  bool is_any() const { return terms_.empty(); }

 private:
  struct Name {
    bool is_excluded;
    std::vector<std::string> any;  // lower case
  };
  std::vector<std::vector<Name>> terms_;
};

struct CallSettings {
  sl_op_settings_t shown{};  // in place of what the shape says
  bool binds = false;        // `shown` is not what the shape says
  bool is_forced = false;
  WayExpression ways;
  std::string ways_text;           // "": any
  std::optional<SelectRule> rule;  // goes before the profile's
};

// One communicator has one. thread: [any]
class CallSettingsTable {
 public:
  // Settings a communicator may have, so that a program that makes up new ones for every call cannot take all memory.
  static constexpr size_t kMost = 4096;

  // `shape` outlives the table; its bounds are looked at when settings are first seen.
  explicit CallSettingsTable(const sl_comm_shape_t* shape) : shape_(shape) {}

  // As sl_runtime_ops_t::call_settings.
  Result<uint32_t> NumberOf(const sl_call_settings_t& wanted);
  // NULL: no such number. Lives as long as the table.
  const CallSettings* Find(uint32_t number) const;

 private:
  struct Kept {
    std::string content;
    CallSettings settings;
  };
  const sl_comm_shape_t* const shape_;
  mutable std::mutex mutex_;
  std::map<uint32_t, std::unique_ptr<const Kept>> kept_;  // guarded by mutex_; by number
};

// The table as an algorithm sees it: the sl_settings_t of its environment.
class SettingsView {
 public:
  SettingsView(const CallSettingsTable* table, std::string algorithm)
      : table_(table), algorithm_(std::move(algorithm)) {}
  static const sl_settings_ops_t* Ops();
  sl_settings_t* handle() { return reinterpret_cast<sl_settings_t*>(this); }

  // How often the algorithm has asked for a way: one that asks is responsible for its ways.
  uint32_t times_asked() const { return asked_.load(std::memory_order_relaxed); }

 private:
  static sl_status_t Get(sl_settings_t* settings, uint32_t number, sl_op_settings_t* out_settings);
  static int32_t Allows(sl_settings_t* settings, uint32_t number, const char* way);

  const CallSettingsTable* const table_;
  const std::string algorithm_;
  std::atomic<uint32_t> asked_{0};
};

}  // namespace sl::kernel
