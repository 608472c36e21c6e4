// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/pending.h"

#include <mutex>

#include "kernel/runtime/handle.h"
#include "kernel/runtime/op_life.h"

namespace sl::kernel {
namespace {

// Leaked on purpose, with what it holds.
struct WordPool {
  std::mutex mutex;
  std::vector<StreamWords*> free;  // guarded by mutex
};
WordPool* Words() {
  static auto* pool = new WordPool;
  return pool;
}

}  // namespace

StreamWords* TakeStreamWords() {
  std::lock_guard lock(Words()->mutex);
  if (Words()->free.empty()) return new StreamWords;
  StreamWords* words = Words()->free.back();
  Words()->free.pop_back();
  return words;
}

void GiveStreamWords(StreamWords* words) {
  if (words == nullptr) return;
  std::lock_guard lock(Words()->mutex);
  Words()->free.push_back(words);
}

PendingPool::PendingPool() = default;
PendingPool::~PendingPool() {
  for (const auto& pending : all_) GiveStreamWords(pending->words);
}

Pending* PendingPool::Take() {
  Pending* pending = free_.load(std::memory_order_acquire);
  while (pending != nullptr && !free_.compare_exchange_weak(pending, pending->next_free, std::memory_order_acquire)) {
  }
  if (pending == nullptr) pending = all_.emplace_back(std::make_unique<Pending>()).get();
  outstanding_.fetch_add(1, std::memory_order_acq_rel);
  return pending;
}

void PendingPool::Give(Pending* pending) {
  pending->outcome = {};
  pending->next_free = free_.load(std::memory_order_relaxed);
  while (!free_.compare_exchange_weak(pending->next_free, pending, std::memory_order_release)) {
  }
  // Last of all: who sees no work outstanding may free the communicator, this pool included.
  outstanding_.fetch_sub(1, std::memory_order_acq_rel);
}

void GivePending::operator()(Pending* pending) const {
  if (pending->run != nullptr) {
    LeaveAndGive(pending, SL_ERR_ABORTED);
  } else {
    pending->handle->pending.Give(pending);
  }
}

PooledPending TakePending(sl_comm_t* handle) {
  Pending* pending = handle->pending.Take();
  pending->handle = handle;
  pending->run = nullptr;
  return PooledPending(pending);
}

}  // namespace sl::kernel
