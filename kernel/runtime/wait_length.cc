// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/wait_length.h"

#include <algorithm>

namespace sl::kernel {
namespace {

bool IsSame(const sl_wait_t& a, const sl_wait_t& b) {
  return a.peer == b.peer && a.what == b.what && a.step == b.step && a.seen == b.seen && a.wanted == b.wanted;
}

}  // namespace

uint64_t WaitLength::See(const sl_wait_t& wait, uint64_t moves, uint64_t waited_ns, uint64_t now_ns) {
  if (since_ns_ == 0 || moves != moves_ || !IsSame(wait, wait_)) {
    since_ns_ = now_ns;
    is_reported_ = false;
  }
  wait_ = wait;
  moves_ = moves;
  return std::min(waited_ns, now_ns - since_ns_);
}

}  // namespace sl::kernel
