// SPDX-License-Identifier: Apache-2.0
#include "kernel/link/wait_objects.h"

#include "sdk/doorbell.h"

namespace sl::kernel {

bool WaitObjects::Use(const sl_transport_ops_t* ops, sl_transport_t* transport) {
  sl_wait_object_t object = {};
  object.struct_size = sizeof object;
  const bool given = ops->wait_object(transport, &object) == SL_OK;
  if (given && object.type == SL_WAIT_FD && object.fd >= 0) {
    descriptors_.push_back(object.fd);
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
  return std::atomic_ref<uint32_t>(bell()->sleepers).load(std::memory_order_seq_cst) != 0;
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

void WaitObjects::CountNews() {
  ++news_;
  if (sl_doorbell_t* heard = bell(); heard != nullptr) Ring(heard);
}

}  // namespace sl::kernel
