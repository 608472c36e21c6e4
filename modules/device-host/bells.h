// SPDX-License-Identifier: Apache-2.0
//
// Sleeping on several doorbells at once; sdk/doorbell.h has the argument why no ring is lost, and the ringing side.
#ifndef STARLING_MODULES_DEVICE_HOST_BELLS_H_
#define STARLING_MODULES_DEVICE_HOST_BELLS_H_

#include <cstdint>

#include "sl_device.h"

namespace sl::device_host {

// A set of doorbells. Usage: Add them; Arm; look for news once more; Sleep. The destructor disarms. Lives on a stack,
// used by one thread.
class BellSet {
 public:
  static constexpr uint32_t kCapacity = 128;  // the kernel's limit for one wait

  BellSet() = default;
  ~BellSet();
  BellSet(const BellSet&) = delete;
  BellSet& operator=(const BellSet&) = delete;

  // False when the set is full.
  bool Add(sl_doorbell_t* bell);
  uint32_t size() const { return count_; }

  // Announces the sleeper to everyone who rings one of the bells. News after this is either seen by the next look or
  // ends Sleep.
  void Arm();
  // Returns when a bell rang since Arm, at the latest after `max_ns`, or on a signal. False when this system cannot
  // wait for several words; nothing was waited for then.
  bool Sleep(uint64_t max_ns);

 private:
  sl_doorbell_t* bells_[kCapacity];
  uint32_t seen_[kCapacity];
  uint32_t count_ = 0;
  bool armed_ = false;
};

}  // namespace sl::device_host

#endif  // STARLING_MODULES_DEVICE_HOST_BELLS_H_
