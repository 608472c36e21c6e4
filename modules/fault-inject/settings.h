// SPDX-License-Identifier: Apache-2.0
//
// What to inject. One table gives the options of the profile and the words of the control file, so that they cannot
// differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sl::fault_inject {

constexpr uint32_t kMillion = 1'000'000;

// Numbers as a profile states them.
struct Settings {
  uint64_t seed = 1;
  // Chances, out of a million puts.
  uint64_t drop_per_million = 0;
  uint64_t duplicate_per_million = 0;
  uint64_t reorder_per_million = 0;
  uint64_t truncate_per_million = 0;
  uint64_t corrupt_per_million = 0;
  // The line.
  uint64_t delay_us = 0;
  uint64_t rate_bytes_per_second = 0;  // 0: no limit
  uint64_t slow_us = 0;                // between the starts of two puts
  // Events. Those by count follow from the order of puts alone.
  uint64_t kill_after_puts = 0;  // of a connection; 0: never
  uint64_t kill_limit = 1;       // of a transport
  uint64_t stall_after_puts = 0;
  uint64_t stall_ms = 100;
  uint64_t port_down_after_puts = 0;  // of a transport
  uint64_t port_down_ms = 100;
  // States and counts that a control file sets.
  uint64_t stalled = 0;
  uint64_t port_down = 0;
  uint64_t resets = 0;  // a connection is reset whenever it grows

  bool operator==(const Settings&) const = default;
  // Puts have to wait for the clock.
  bool HasLine() const { return delay_us != 0 || rate_bytes_per_second != 0 || slow_us != 0; }
  // Something may be held back, or happen by itself.
  bool MayHold() const {
    return HasLine() || duplicate_per_million != 0 || reorder_per_million != 0 || corrupt_per_million != 0 ||
           stall_after_puts != 0 || port_down_after_puts != 0;
  }
};

struct Setting {
  const char* name;
  const char* unit;
  const char* doc;
  const char* default_text;
  double maximum;
  uint64_t Settings::*value;
  bool in_profile;  // else only the control file has it
  bool at_run_time;
};

inline constexpr double kMany = 1e9;
inline constexpr double kHourMs = 3600e3;

inline constexpr Setting kSettings[] = {
    {"seed", "", "faults are a function of it and of the order of puts", "1", 4294967295, &Settings::seed, true, false},
    {"drop_per_million", "", "puts lost out of a million, with their signals", "0", kMillion,
     &Settings::drop_per_million, true, true},
    {"duplicate_per_million", "", "puts that arrive twice", "0", kMillion, &Settings::duplicate_per_million, true,
     true},
    {"reorder_per_million", "", "puts without a signal that the next such put overtakes", "0", kMillion,
     &Settings::reorder_per_million, true, true},
    {"truncate_per_million", "", "puts whose end does not arrive, though their signal does", "0", kMillion,
     &Settings::truncate_per_million, true, true},
    {"corrupt_per_million", "", "puts that arrive with one bit flipped", "0", kMillion, &Settings::corrupt_per_million,
     true, true},
    {"delay_us", "us", "every put arrives so much later, in order, however many are under way", "0", 10e6,
     &Settings::delay_us, true, true},
    {"rate_bytes_per_second", "bytes/s", "a connection carries no more; 0: no limit", "0", 1e12,
     &Settings::rate_bytes_per_second, true, true},
    {"slow_us", "us", "least time between two puts of a connection", "0", 10e6, &Settings::slow_us, true, true},
    {"kill_after_puts", "", "reset a connection after so many puts; 0: never", "0", kMany, &Settings::kill_after_puts,
     true, false},
    {"kill_limit", "", "at most so many such resets for each rank of a communicator", "1", kMany, &Settings::kill_limit,
     true, false},
    {"stall_after_puts", "", "a connection stands still once, after so many puts; 0: never", "0", kMany,
     &Settings::stall_after_puts, true, false},
    {"stall_ms", "ms", "how long it stands still", "100", kHourMs, &Settings::stall_ms, true, false},
    {"port_down_after_puts", "", "all ports of a rank go down once, after so many puts; 0: never", "0", kMany,
     &Settings::port_down_after_puts, true, false},
    {"port_down_ms", "ms", "how long they are down; 0: for ever", "100", kHourMs, &Settings::port_down_ms, true, false},
    {"stalled", "", "1: connections stand still, nothing is lost", "0", 1, &Settings::stalled, false, true},
    {"port_down", "", "1: all ports of the rank are down", "0", 1, &Settings::port_down, false, true},
    {"resets", "", "a connection is reset whenever this grows", "0", kMany, &Settings::resets, false, true},
};

constexpr size_t CountInProfile() {
  size_t count = 0;
  for (const Setting& setting : kSettings) count += setting.in_profile ? 1 : 0;
  return count;
}

// NULL: there is none of that name.
constexpr const Setting* FindSetting(std::string_view name) {
  for (const Setting& setting : kSettings) {
    if (name == setting.name) return &setting;
  }
  return nullptr;
}

}  // namespace sl::fault_inject
