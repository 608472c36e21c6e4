// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/red_op.h"

#include <cstring>

#include "sdk/datatype.h"

namespace sl::frontend_nccl {
namespace {

constexpr uint32_t kDynamic = 1u << 30;
constexpr uint32_t kGenerationShift = RedOpTable::kSlotBits;
constexpr uint32_t kSaltShift = kGenerationShift + 8;

}  // namespace

uint64_t ReadScalar(const void* scalar, size_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, scalar, bytes);
  return bits;
}

RedOpTable::~RedOpTable() {
  for (std::atomic<RedOp*>& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
}

RedOp* RedOpTable::Slot(uint32_t slot) const {
  RedOp* chunk = chunks_[slot >> kChunkBits].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : &chunk[slot & (kChunkSlots - 1)];
}

uint32_t RedOpTable::Create(ncclDataType_t datatype, ncclScalarResidence_t residence, const void* scalar) {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint32_t slot = 0;
  const bool must_reuse = slots_used_ == kCapacity;
  if (free_count_ >= (must_reuse ? 1 : kResting)) {
    slot = TakeFree();
  } else {
    if (must_reuse) return 0;
    slot = slots_used_;
    if ((slot & (kChunkSlots - 1)) == 0) {
      chunks_[slot >> kChunkBits].store(new RedOp[kChunkSlots], std::memory_order_release);
      generations_.resize(slot + kChunkSlots);
    }
    ++slots_used_;
  }
  RedOp* op = Slot(slot);
  op->datatype = datatype;
  op->device_scalar = residence == ncclScalarDevice ? scalar : nullptr;
  op->scalar_bits = residence == ncclScalarDevice ? 0 : ReadScalar(scalar, DatatypeBytes(datatype));
  const uint32_t generation = generations_[slot];
  const uint32_t number = kDynamic | salt_ << kSaltShift | generation << kGenerationShift | slot;
  op->number.store(number, std::memory_order_release);
  return number;
}

uint32_t RedOpTable::TakeFree() {
  const uint32_t slot = first_free_;
  first_free_ = Slot(slot)->next_free;
  --free_count_;
  return slot;
}

const RedOp* RedOpTable::Find(uint32_t number) const {
  if ((number & kDynamic) == 0) return nullptr;
  const RedOp* op = Slot(number & (kCapacity - 1));
  return op != nullptr && op->number.load(std::memory_order_acquire) == number ? op : nullptr;
}

bool RedOpTable::Destroy(uint32_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (Find(number) == nullptr) return false;
  const uint32_t slot = number & (kCapacity - 1);
  Slot(slot)->number.store(0, std::memory_order_release);
  ++generations_[slot];
  (free_count_ == 0 ? first_free_ : Slot(last_free_)->next_free) = static_cast<uint16_t>(slot);
  last_free_ = static_cast<uint16_t>(slot);
  ++free_count_;
  return true;
}

}  // namespace sl::frontend_nccl
