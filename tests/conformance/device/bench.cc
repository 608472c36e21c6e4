// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/device/bench.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace sl::conform::device {

Bench::Bench(Trial& of) : trial(of), subject(of, SL_DEVICE_ID), ops(subject.ops) {
  uint32_t count = 0;
  const sl_status_t status = ops.count(subject.instance(), &count);
  trial.Require(status == SL_OK, "count gave {}: {}", StatusName(status), ErrorText());
  if (count == 0) trial.Skip("there is no such device here");
  Good(ops.open(subject.instance(), 0, &device), "open");
  info.struct_size = sizeof(info);
  Good(ops.info(device, &info), "info");
}

Bench::~Bench() {
  if (device == nullptr) return;
  for (sl_event_t* event : events_) ops.event_destroy(device, event);
  for (sl_stream_t* stream : streams_) ops.stream_destroy(device, stream);
  for (void* memory : memory_) ops.release(device, memory);
  ops.close(device);
}

void Bench::Good(sl_status_t status, const char* what) const {
  trial.Require(status == SL_OK, "{} gave {}: {}", what, StatusName(status), ErrorText());
}

void Bench::Need(uint64_t capability, const char* name) const {
  if (!Can(capability)) trial.Skip(fmt::format("the device has no {}", name));
}

uint8_t* Bench::Allocate(uint64_t bytes, uint32_t kind) {
  void* memory = nullptr;
  Good(ops.allocate(device, kind, bytes, &memory), "allocate");
  trial.Require(memory != nullptr, "allocate gave SL_OK and no memory");
  memory_.push_back(memory);
  return static_cast<uint8_t*>(memory);
}

void Bench::Release(void* memory) {
  std::erase(memory_, memory);
  Good(ops.release(device, memory), "release");
}

void Bench::ReleaseMemory() {
  while (!memory_.empty()) Release(memory_.back());
}

sl_stream_t* Bench::MakeStream() {
  sl_stream_t* stream = nullptr;
  Good(ops.stream_create(device, &stream), "stream_create");
  streams_.push_back(stream);
  return stream;
}

sl_event_t* Bench::MakeEvent() {
  sl_event_t* event = nullptr;
  Good(ops.event_create(device, &event), "event_create");
  events_.push_back(event);
  return event;
}

Word& Bench::MakeWord() { return *new (Allocate(sizeof(Word), SL_MEMORY_HOST)) Word; }

void Bench::Wait(sl_stream_t* stream) {
  Good(ops.stream_wait_idle(device, stream, DeadlineIn(5000)), "a stream's work");
}

void Bench::Write(void* to, const void* from, uint64_t bytes) {
  if (bytes == 0) return;
  if (Can(SL_DEVICE_MEMORY_IS_HOST)) {
    std::memcpy(to, from, bytes);
    return;
  }
  Good(ops.copy(device, nullptr, to, from, bytes), "copy");
  Wait(nullptr);
}

std::vector<uint8_t> Bench::Read(const void* from, uint64_t bytes) {
  std::vector<uint8_t> to(bytes);
  Write(to.data(), from, bytes);
  return to;
}

}  // namespace sl::conform::device
