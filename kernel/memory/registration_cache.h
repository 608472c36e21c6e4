// SPDX-License-Identifier: Apache-2.0
//
// What is known about user buffers, kept between uses. Keyed by allocation id *and* generation: an address that was
// freed and allocated again is another buffer, so an entry is never stale. Bounded but for what is held: the least
// recently used entry that nobody holds makes room.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>

#include "sdk/status.h"
#include "sl_device.h"

namespace sl::kernel {

class RegistrationCache {
 public:
  struct Entry {
    uint64_t allocation_id;
    uint64_t generation;
    void* base;
    uint64_t bytes;
    bool exportable;
    uint32_t holders;  // guarded by the cache
  };

  RegistrationCache(const sl_device_ops_t* ops, sl_device_t* device, size_t capacity = 1024)
      : ops_(ops), device_(device), capacity_(capacity) {}

  // The entry of the allocation that holds [memory, memory + bytes), held until Release. Memory the device did not
  // allocate is an entry of its own range, with generation 0.   thread: [any]
  // returns: SL_ERR_INVALID the range leaves its allocation
  Result<Entry*> Acquire(void* memory, uint64_t bytes);
  void Release(Entry* entry);

  size_t size() const;
  uint64_t hits() const;

 private:
  using Key = std::pair<uint64_t, uintptr_t>;  // allocation id, or 0 and the address

  const sl_device_ops_t* ops_;
  sl_device_t* device_;
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;                          // most recently used first; guarded by mutex_
  std::map<Key, std::list<Entry>::iterator> by_key_;  // newest generation; guarded by mutex_
  size_t idle_ = 0;                                   // entries without a holder; guarded by mutex_
  uint64_t hits_ = 0;                                 // guarded by mutex_

  static Key KeyOf(const Entry& entry) {
    return {entry.allocation_id, entry.allocation_id != 0 ? 0 : reinterpret_cast<uintptr_t>(entry.base)};
  }
  void MakeRoom();
  void Erase(std::list<Entry>::iterator at);
};

}  // namespace sl::kernel
