// SPDX-License-Identifier: Apache-2.0
#include "kernel/link/wait_objects.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "sdk/doorbell.h"

namespace sl::kernel {

bool WaitObjects::Use(const sl_transport_ops_t* ops, sl_transport_t* transport) {
  sl_doorbell_t* const before = bell();
  const bool is_descriptor = Take(ops, transport);
  if (before != nullptr && before != bell()) Ring(before);  // who sleeps on it would hear nothing any more
  return is_descriptor;
}

bool WaitObjects::Take(const sl_transport_ops_t* ops, sl_transport_t* transport) {
  sl_wait_object_t object = {};
  object.struct_size = sizeof object;
  const bool given = ops->wait_object(transport, &object) == SL_OK;
  if (given && object.type == SL_WAIT_FD && object.fd >= 0) {
    descriptors_.push_back(object.fd);
    if (offer_count_ == 0) {
      retract_ = sl::Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      offer_[offer_count_++] = retract_.get();
    }
    if (offer_count_ < offer_.size()) offer_[offer_count_++] = object.fd;
    return true;
  }
  if (given && object.type == SL_WAIT_DOORBELL && object.doorbell != nullptr && bell_ == nullptr) {
    bell_ = object.doorbell;
  } else {
    deaf_ = true;
  }
  return false;
}

bool WaitObjects::HasSleepers() {
  sl_doorbell_t* const heard = bell();
  return heard != nullptr && std::atomic_ref<uint32_t>(heard->sleepers).load(std::memory_order_seq_cst) != 0;
}

bool WaitObjects::NeedsWatch() {
  if (descriptors_.empty() || !HasSleepers()) return false;    // its own increment is W1
  return !watched_.exchange(true, std::memory_order_seq_cst);  // W2
}

bool WaitObjects::KeepWatching() {
  if (HasSleepers()) return true;
  watched_.store(false, std::memory_order_seq_cst);  // W3
  if (!HasSleepers()) return false;                  // W4
  watched_.store(true, std::memory_order_seq_cst);
  return true;
}

std::span<const int32_t> WaitObjects::Offer() {
  if (!retract_.valid() || offer_count_ != descriptors_.size() + 1) return {};
  uint64_t count = 0;
  if (retracted_) [[maybe_unused]]
    const ssize_t taken = read(retract_.get(), &count, sizeof count);
  retracted_ = false;
  offered_ = true;
  return {offer_.data(), offer_count_};
}

void WaitObjects::Retract() {
  if (!offered_) return;
  offered_ = false;
  retracted_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(retract_.get(), &one, sizeof one);
}

void WaitObjects::CountNews() {
  ++news_;
  if (sl_doorbell_t* heard = bell(); heard != nullptr) Ring(heard);
}

}  // namespace sl::kernel
