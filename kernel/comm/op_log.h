// SPDX-License-Identifier: Apache-2.0
//
// What every rank called lately, and which algorithm it chose, in the symmetric heap, so that whoever waits can tell
// "not there yet" from "called something else". One writer a slice, any reader; a few plain stores a collective.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace sl::kernel {

class OpLog {
 public:
  static constexpr uint32_t kRecords = 64;
  static constexpr uint64_t kBytes = 64 + kRecords * 24;

  OpLog() = default;
  OpLog(uint8_t* base, uint64_t stride, uint32_t rank, uint32_t ranks)
      : base_(base), stride_(stride), rank_(rank), alike_(ranks) {}

  // [data], owner only. Sequences grow by one.
  void Write(uint64_t sequence, uint64_t signature) {
    Slice* mine = At(rank_);
    Record& record = mine->records[sequence % kRecords];
    std::atomic_ref<uint64_t>(record.sequence).store(0, std::memory_order_relaxed);
    // The release pairs with Read: a reader that sees this signature also sees that the old sequence is gone.
    std::atomic_ref<uint64_t>(record.signature).store(signature, std::memory_order_release);
    std::atomic_ref<uint64_t>(record.choice).store(0, std::memory_order_release);
    std::atomic_ref<uint64_t>(record.sequence).store(sequence, std::memory_order_release);
    std::atomic_ref<uint64_t>(mine->newest).store(sequence, std::memory_order_release);
  }

  // [data], owner only: its collective `sequence` is served by the algorithm of this tag. Of a group so many may have
  // been written meanwhile that this one is not on record any more.
  void WriteChoice(uint64_t sequence, uint32_t tag) {
    Record& record = At(rank_)->records[sequence % kRecords];
    if (std::atomic_ref<uint64_t>(record.sequence).load(std::memory_order_relaxed) != sequence) return;
    std::atomic_ref<uint64_t>(record.choice).store(tag, std::memory_order_release);
  }

  // The owner's communicator is over, with all that was captured of it: it takes part in nothing any more.
  void MarkEnd() {
    if (base_ != nullptr) std::atomic_ref<uint64_t>(At(rank_)->ended).store(1, std::memory_order_release);
  }
  bool HasEnded(uint32_t rank) const {
    return std::atomic_ref<uint64_t>(At(rank)->ended).load(std::memory_order_acquire) != 0;
  }

  // The newest collective of `rank`; 0: none yet.
  uint64_t Newest(uint32_t rank) const {
    return std::atomic_ref<uint64_t>(At(rank)->newest).load(std::memory_order_acquire);
  }

  // The signature of `rank`'s collective `sequence`, if it is still on record.
  bool Read(uint32_t rank, uint64_t sequence, uint64_t* out_signature) const {
    return Read(rank, sequence, &Record::signature, out_signature);
  }
  // What serves it, if it is still on record and that is known.
  bool ReadChoice(uint32_t rank, uint64_t sequence, uint32_t* out_tag) const {
    uint64_t choice = 0;
    if (!Read(rank, sequence, &Record::choice, &choice) || choice == 0) return false;
    *out_tag = static_cast<uint32_t>(choice);
    return true;
  }

  // One collective, called or served otherwise here than at a peer. Ranks that choose for themselves choose alike as
  // long as every algorithm estimates alike on all of them.
  struct Difference {
    uint64_t sequence;
    uint64_t mine, theirs;             // signatures
    uint32_t my_choice, their_choice;  // tags, where they are what differs; else 0
  };
  // The first one between this rank and `rank`, of what is on record at both. Two calls are looked at until it is known
  // what serves them, and no more once they are alike: PyTorch's watchdog asks for each operation that is under way,
  // and holds up who calls meanwhile. For one thread at a time (Communicator::HoldLog).
  std::optional<Difference> FindDifference(uint32_t rank) {
    const uint64_t mine = Newest(rank_);
    if (alike_[rank] == mine) return {};
    const uint64_t newest = std::min(mine, Newest(rank));
    const uint64_t kept_from = mine > kRecords ? mine - kRecords + 1 : 1;
    bool settled = true;
    for (uint64_t sequence = std::max(alike_[rank] + 1, kept_from); sequence <= newest; ++sequence) {
      Difference found{sequence, 0, 0, 0, 0};
      const bool is_kept = Read(rank_, sequence, &found.mine) && Read(rank, sequence, &found.theirs);
      if (is_kept && found.mine != found.theirs) return found;
      const bool is_served =
          is_kept && ReadChoice(rank_, sequence, &found.my_choice) && ReadChoice(rank, sequence, &found.their_choice);
      if (is_served && found.my_choice != found.their_choice) return found;
      settled = settled && (is_served || !is_kept);
      if (settled) alike_[rank] = sequence;
    }
    return {};
  }

 private:
  struct Record {
    uint64_t sequence;
    uint64_t signature;
    uint64_t choice;  // a tag; 0: none yet
  };
  struct Slice {
    alignas(64) uint64_t newest;
    uint64_t ended;
    alignas(64) Record records[kRecords];
  };
  static_assert(sizeof(Slice) == kBytes);

  bool Read(uint32_t rank, uint64_t sequence, uint64_t Record::*member, uint64_t* out_value) const {
    Record& record = At(rank)->records[sequence % kRecords];
    std::atomic_ref<uint64_t> stamp(record.sequence);
    if (stamp.load(std::memory_order_acquire) != sequence) return false;
    *out_value = std::atomic_ref<uint64_t>(record.*member).load(std::memory_order_acquire);
    return stamp.load(std::memory_order_relaxed) == sequence;
  }

  Slice* At(uint32_t rank) const { return reinterpret_cast<Slice*>(base_ + rank * stride_); }

  uint8_t* base_ = nullptr;
  uint64_t stride_ = 0;
  uint32_t rank_ = 0;
  std::vector<uint64_t> alike_;  // of each rank: up to which sequence nothing differs, for good
};

}  // namespace sl::kernel
