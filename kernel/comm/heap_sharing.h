// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a host come by memory that all of them map: the owner gives its descriptor to each rank that asks.
// Who asks has proved to be of this communicator, and the operating system vouches for the user.
#pragma once

#include <memory>
#include <vector>

#include "kernel/comm/roster.h"
#include "kernel/control/control_tree.h"
#include "kernel/control/extension.h"
#include "kernel/memory/symmetric_heap.h"

namespace sl::kernel {

struct Device;

// All collective over the ranks of the host, which are all ranks but for Segment().
class HeapSharing {
 public:
  // Who shares, all borrowed, and how long others are waited for.
  struct Setting {
    uint32_t rank;
    const Roster& roster;
    ControlTree* tree;
    Extension* extension;
    Patience patience;
  };
  explicit HeapSharing(const Setting& setting) : setting_(setting), locals_(setting.roster.RanksOfHost(setting.rank)) {}

  // A slice for every rank, in one segment: the first rank owns it.
  Result<std::unique_ptr<SymmetricHeap>> Segment(const Device& device, uint64_t slice_bytes) const;
  // The same in memory of the host, which `device` is let at; `slice_bytes` 0: this rank has no use for it. NULL, and
  // the log says why, where that cannot be on all ranks.
  Result<std::unique_ptr<SymmetricHeap>> HostSegment(const Device& host, const Device& device,
                                                     uint64_t slice_bytes) const;
  // Every rank owns its slice, of its device's memory, and maps those of all others. NULL, and the log says why, where
  // some device does not reach another one's.
  Result<std::unique_ptr<SymmetricHeap>> Slices(const Device& device, uint64_t slice_bytes) const;

 private:
  bool leads() const { return setting_.rank == locals_.front(); }
  uint32_t local_size() const { return static_cast<uint32_t>(locals_.size()); }
  Result<std::unique_ptr<SymmetricHeap>> Fetch(const Device& device, uint64_t slice_bytes) const;
  Status Serve(const SymmetricHeap& heap, FrameType asked_by) const;
  Result<Stream> Ask(uint32_t rank, FrameType type) const;

  const Setting setting_;
  const std::vector<uint32_t> locals_;  // the ranks of this host
};

}  // namespace sl::kernel
