// SPDX-License-Identifier: Apache-2.0
//
// A workbench: device 0 of the provider under test, open, and what tests do with it all the time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sl_device.h"
#include "tests/conformance/kit/subject.h"

namespace sl::conform::device {

// A word that somebody waits for and somebody writes.
struct alignas(64) Word {
  uint64_t value = 0;
  uint64_t Load() const { return __atomic_load_n(&value, __ATOMIC_ACQUIRE); }
  void Store(uint64_t to) { __atomic_store_n(&value, to, __ATOMIC_RELEASE); }
};

class Bench {
 public:
  // Skips the test when there is no device.
  explicit Bench(Trial& trial);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Trial& trial;
  Subject<sl_device_ops_t> subject;
  const sl_device_ops_t& ops;
  sl_device_t* device = nullptr;
  sl_device_info_t info{};

  bool Can(uint64_t capability) const { return (info.capabilities & capability) != 0; }
  // Skips the test unless the device has it.
  void Need(uint64_t capability, const char* name) const;

  // Each ends the test when the device fails. Everything made here is released with the bench.
  uint8_t* Allocate(uint64_t bytes, uint32_t kind = SL_MEMORY_PLAIN);
  void Release(void* memory);
  // All that Allocate made here: between tasks, since opening a device again takes long.
  void ReleaseMemory();
  sl_stream_t* MakeStream();
  sl_event_t* MakeEvent();
  // A word for streams: 0, in host memory that the device reaches.
  Word& MakeWord();
  // Waits for a stream's work, at most 5 s.
  void Wait(sl_stream_t* stream);
  // From and to memory of the device, whatever it is; complete on return.
  void Write(void* to, const void* from, uint64_t bytes);
  std::vector<uint8_t> Read(const void* from, uint64_t bytes);

  // A status that must be SL_OK; ends the test.
  void Good(sl_status_t status, const char* what) const;

 private:
  std::vector<void*> memory_;
  std::vector<sl_stream_t*> streams_;
  std::vector<sl_event_t*> events_;
};

// Until `holds()`, at most 5 s; returns whether it does.
template <typename Condition>
bool Eventually(Condition holds) {
  const uint64_t deadline = DeadlineIn(5000);
  while (!holds()) {
    if (DeadlineIn(0) > deadline) return false;
    const timespec pause{0, 100'000};
    nanosleep(&pause, nullptr);
  }
  return true;
}

}  // namespace sl::conform::device
