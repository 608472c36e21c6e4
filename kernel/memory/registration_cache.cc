// SPDX-License-Identifier: Apache-2.0
#include "kernel/memory/registration_cache.h"

#include <string>

namespace sl::kernel {

Result<RegistrationCache::Entry*> RegistrationCache::Acquire(void* memory, uint64_t bytes) {
  sl_pointer_info_t info{};
  info.struct_size = sizeof(info);
  const bool known = ops_->pointer_info(device_, memory, &info) == SL_OK && info.allocation_id != 0;
  Entry wanted{0, 0, memory, bytes, false, 0};
  if (known) wanted = {info.allocation_id, info.generation, info.base, info.bytes, info.exportable != 0, 0};
  const auto offset = static_cast<uint64_t>(static_cast<uint8_t*>(memory) - static_cast<uint8_t*>(wanted.base));
  if (known && bytes > wanted.bytes - offset) {
    return Status(SL_ERR_INVALID, "a buffer of " + std::to_string(bytes) + " bytes leaves its allocation of " +
                                      std::to_string(info.bytes));
  }
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(KeyOf(wanted));
  if (found != by_key_.end()) {
    const auto entry = found->second;
    if (entry->generation == wanted.generation && entry->bytes >= wanted.bytes) {
      entries_.splice(entries_.begin(), entries_, entry);
      if (entry->holders++ == 0) --idle_;
      ++hits_;
      return &*entry;
    }
    // The address lives again: forget the old buffer now, or when its last holder lets go.
    by_key_.erase(found);
    if (entry->holders == 0) {
      --idle_;
      entries_.erase(entry);
    }
  }
  while (entries_.size() >= capacity_ && idle_ != 0) MakeRoom();
  wanted.holders = 1;
  entries_.push_front(wanted);
  by_key_[KeyOf(wanted)] = entries_.begin();
  return &entries_.front();
}

void RegistrationCache::Release(Entry* entry) {
  std::lock_guard lock(mutex_);
  if (--entry->holders != 0) return;
  const auto current = by_key_.find(KeyOf(*entry));
  if (current != by_key_.end() && &*current->second == entry) {
    ++idle_;  // stays for the next use
    return;
  }
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    if (&*at == entry) {
      entries_.erase(at);
      return;
    }
  }
}

void RegistrationCache::MakeRoom() {
  for (auto at = entries_.end(); at != entries_.begin();) {
    --at;
    if (at->holders != 0) continue;
    Erase(at);
    --idle_;
    return;
  }
}

void RegistrationCache::Erase(std::list<Entry>::iterator at) {
  const auto current = by_key_.find(KeyOf(*at));
  if (current != by_key_.end() && current->second == at) by_key_.erase(current);
  entries_.erase(at);
}

size_t RegistrationCache::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

uint64_t RegistrationCache::hits() const {
  std::lock_guard lock(mutex_);
  return hits_;
}

}  // namespace sl::kernel
