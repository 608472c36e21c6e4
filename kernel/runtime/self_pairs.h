// SPDX-License-Identifier: Apache-2.0
//
// What ranks of a group send to themselves: the n-th send of a rank to itself is received by its n-th receive from
// itself.
#pragma once

#include <memory_resource>
#include <vector>

#include "kernel/runtime/handle.h"
#include "sl_runtime.h"

namespace sl::kernel {

bool IsToSelf(const sl_group_entry_t& entry);

class SelfPairs {
 public:
  explicit SelfPairs(std::pmr::memory_resource* arena) : sends_(arena), receives_(arena) {}

  // A send to the own rank, or a receive from it, in the order of the calls.
  void Add(const sl_group_entry_t& entry);
  // Brings each send to its receive, once the places of the members stand.
  // returns: SL_ERR_INVALID a rank has more of the ones than of the others | SL_ERR_MISMATCH sizes differ
  Status Pair();

  size_t size() const { return sends_.size(); }
  const sl_group_entry_t& send(size_t pair) const { return *sends_[pair]; }
  const sl_group_entry_t& receive(size_t pair) const { return *receives_[pair]; }

 private:
  using Entries = std::pmr::vector<const sl_group_entry_t*>;

  Status CheckPair(size_t pair) const;
  Status Unpaired(const sl_comm_t* handle) const;

  Entries sends_;
  Entries receives_;
};

// Moves a pair by a copy of its device, which is no operation of the communicator.
Status CopyPair(const sl_group_entry_t& send, const sl_group_entry_t& receive);

}  // namespace sl::kernel
