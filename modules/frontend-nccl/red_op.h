// SPDX-License-Identifier: Apache-2.0
//
// Operators made by ncclRedOpCreatePreMulSum, per communicator. Made and destroyed under a lock, looked up without one.
//
// An operator's number is bit 30, then the communicator's salt (10 bits), the slot's generation (8) and the slot (12):
// an operator of another communicator, or one destroyed since, is recognised and not mistaken for its successor. A slot
// is used again in its turn, and only once kResting have been freed, so that its generations last: while the table has
// room, a number comes back after 65,536 operators at the earliest.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "nccl.h"

namespace sl::frontend_nccl {

struct RedOp {
  std::atomic<uint32_t> number{0};  // 0: free
  ncclDataType_t datatype = ncclInt8;
  uint16_t next_free = 0;               // of a free slot but the last one
  const void* device_scalar = nullptr;  // residence device: passed on with every operation
  uint64_t scalar_bits = 0;             // residence host: read already
};

// thread: Create and Destroy [any]; Find [any], without a lock, while the operator is not being destroyed
class RedOpTable {
 public:
  static constexpr uint32_t kSlotBits = 12;
  static constexpr uint32_t kCapacity = 1u << kSlotBits;

  explicit RedOpTable(uint32_t salt) : salt_(salt & 0x3ffu) {}
  ~RedOpTable();
  RedOpTable(const RedOpTable&) = delete;
  RedOpTable& operator=(const RedOpTable&) = delete;

  // The new operator's number; 0 when kCapacity live already. Reads `scalar` when it is resident on the host.
  uint32_t Create(ncclDataType_t datatype, ncclScalarResidence_t residence, const void* scalar);
  // False when `number` is not a live operator of this table.
  bool Destroy(uint32_t number);
  const RedOp* Find(uint32_t number) const;

 private:
  static constexpr uint32_t kChunkBits = 6;
  static constexpr uint32_t kChunkSlots = 1u << kChunkBits;

  static constexpr uint32_t kResting = 256;

  RedOp* Slot(uint32_t slot) const;
  uint32_t TakeFree();  // under mutex_; there is one

  const uint32_t salt_;
  std::atomic<RedOp*> chunks_[kCapacity / kChunkSlots] = {};  // filled front to back, never moved
  std::mutex mutex_;
  uint32_t slots_used_ = 0;           // guarded by mutex_
  uint32_t free_count_ = 0;           // guarded by mutex_
  uint16_t first_free_ = 0;           // guarded by mutex_; the one that has rested longest
  uint16_t last_free_ = 0;            // guarded by mutex_
  std::vector<uint8_t> generations_;  // guarded by mutex_
};

// The first `bytes` of memory as the low bytes of a number, which is how the kernel takes a scalar.
uint64_t ReadScalar(const void* scalar, size_t bytes);

}  // namespace sl::frontend_nccl
