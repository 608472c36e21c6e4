// SPDX-License-Identifier: Apache-2.0
//
// Sleeping on several doorbells at once; sdk/doorbell.h has the argument why no ring is lost. Usage: Add them; Arm;
// look for news once more; Sleep; Disarm. Doorbells must live from Arm to Disarm. One thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sl_device.h"

namespace sl {

class BellSet {
 public:
  static constexpr size_t kCapacity = 128;  // the limit of one wait

  BellSet() = default;
  ~BellSet() { Disarm(); }
  BellSet(const BellSet&) = delete;
  BellSet& operator=(const BellSet&) = delete;

  void Clear() { count_ = 0; }
  // Adds a bell once. False: the set is full, so its rings may go unheard.
  bool Add(sl_doorbell_t* bell);
  bool Has(const sl_doorbell_t* bell) const;
  void Arm();
  // Until a bell rings, a signal comes or `max_ns` are over. Where the system cannot wait for several words (before
  // Linux 5.16) it only hears the first and sleeps at most 100 us.
  void Sleep(uint64_t max_ns);
  void Disarm();

 private:
  sl_doorbell_t* bells_[kCapacity];
  uint32_t seen_[kCapacity];
  size_t count_ = 0;
  bool armed_ = false;
};

}  // namespace sl
