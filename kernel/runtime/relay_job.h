// SPDX-License-Identifier: Apache-2.0
//
// A job of the relay: what was issued together and is done once. Used by two threads: who issues gives the device its
// commands, the progress thread drives the pieces. Who is done last gives the job back.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "kernel/engine/work.h"
#include "kernel/runtime/relay_pieces.h"
#include "sl_device.h"

namespace sl::kernel {

class Relay;

class RelayJob final : public Work {
 public:
  explicit RelayJob(Relay* relay);
  RelayJob(const RelayJob&) = delete;
  RelayJob& operator=(const RelayJob&) = delete;

  // Cuts, and selects a plan for every part.   owns: the operations, from Submit() on
  Status Prepare(std::span<Pending* const> ops, uint64_t first_turn, sl_stream_t* stream);
  // Hands it to the progress thread.
  Status Submit();
  // It was not handed over after all.
  void DropPlans() { pieces_.DropPlans(); }
  // One of the two threads is done with it.
  void Release();

  sl_status_t Poll(sl_wait_t* wait) override { return pieces_.Poll(wait); }
  bool moved() const override { return pieces_.moved(); }
  bool awaits_device() const override { return pieces_.awaits_device(); }

  const RelayPieces& pieces() const { return pieces_; }
  sl_stream_t* stream() const { return stream_; }
  uint32_t* step() { return &step_; }

 private:
  static sl_status_t Check(void* job, const sl_wait_t* wait, uint64_t waited_ns);
  static void Done(void* job, sl_status_t status);
  void End(sl_status_t status);

  Relay* const relay_;
  RelayPieces pieces_;
  sl_stream_t* stream_ = nullptr;
  uint32_t step_ = 0;  // of who issues
  std::atomic<uint32_t> users_{0};
};

}  // namespace sl::kernel
