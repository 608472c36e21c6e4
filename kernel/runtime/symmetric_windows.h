// SPDX-License-Identifier: Apache-2.0
//
// The windows of a communicator whose memory every rank's device sees on every rank, for operations that look whether
// their buffers lie in one. Registering is rare and may go on beside an operation; looking takes no lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

struct sl_comm_window_t;

namespace sl::kernel {

struct Pending;

class SymmetricWindows {
 public:
  // `mark`: where the word of the communicator is that is not 0 while a call looks; who looks sets it first (InCall).
  explicit SymmetricWindows(const std::atomic<uint32_t*>& mark) : mark_(mark) {}
  ~SymmetricWindows() { delete newest_.load(); }
  SymmetricWindows(const SymmetricWindows&) = delete;
  SymmetricWindows& operator=(const SymmetricWindows&) = delete;

  // One load.   [data]
  bool empty() const { return newest_.load(std::memory_order_seq_cst) == nullptr; }
  // The first registered that [memory, memory + bytes) lies in, or NULL; it stays until the call ends.   [data]
  const sl_comm_window_t* Find(const void* memory, uint64_t bytes) const;

  // The window stays until it is taken out, which waits until no call looks.   [any]
  void Add(const sl_comm_window_t* window);
  void TakeOut(const sl_comm_window_t* window);

 private:
  using List = std::vector<const sl_comm_window_t*>;
  void Replace(std::unique_ptr<const List> list);

  const std::atomic<uint32_t*>& mark_;
  std::mutex mutex_;                          // held to replace the list
  std::atomic<const List*> newest_{nullptr};  // NULL: no window
};

// Which buffers of the collective lie in symmetric windows on all ranks: fills symmetric of its operation, and the
// windows.   [data]
void FindSymmetricBuffers(Pending* pending);

}  // namespace sl::kernel
