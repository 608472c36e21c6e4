// SPDX-License-Identifier: Apache-2.0
#include "kernel/memory/registration_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace sl::kernel {
namespace {

// A device that knows one allocation, whose generation the test turns.
uint8_t memory[4096];
uint64_t generation = 1;

sl_status_t PointerInfo(sl_device_t*, const void* pointer, sl_pointer_info_t* out) {
  const auto* at = static_cast<const uint8_t*>(pointer);
  const bool known = at >= memory && at < memory + sizeof(memory);
  out->allocation_id = known ? 7 : 0;
  out->generation = known ? generation : 0;
  out->base = memory;
  out->bytes = sizeof(memory);
  out->exportable = 1;
  return SL_OK;
}

class RegistrationCacheTest : public testing::Test {
 protected:
  RegistrationCacheTest() { ops_.pointer_info = PointerInfo; }
  sl_device_ops_t ops_{};
};

TEST_F(RegistrationCacheTest, FindsTheSameAllocationByAnyAddressInIt) {
  RegistrationCache cache(&ops_, nullptr);
  auto* first = cache.Acquire(memory, 64).Take();
  auto* second = cache.Acquire(memory + 1000, 64).Take();
  EXPECT_EQ(first, second);
  EXPECT_EQ(cache.hits(), 1u);
  EXPECT_EQ(first->holders, 2u);
  cache.Release(first);
  cache.Release(second);
  EXPECT_EQ(cache.size(), 1u) << "kept for the next use";
}

TEST_F(RegistrationCacheTest, IsNeverStaleWhenAnAddressIsAllocatedAgain) {
  RegistrationCache cache(&ops_, nullptr);
  auto* old = cache.Acquire(memory, 64).Take();
  ++generation;
  auto* renewed = cache.Acquire(memory, 64).Take();
  EXPECT_NE(old, renewed);
  EXPECT_EQ(renewed->generation, generation);
  EXPECT_EQ(cache.size(), 2u);
  cache.Release(old);
  EXPECT_EQ(cache.size(), 1u) << "the old one goes with its last holder";
  cache.Release(renewed);
}

TEST_F(RegistrationCacheTest, RefusesARangeThatLeavesItsAllocation) {
  RegistrationCache cache(&ops_, nullptr);
  EXPECT_EQ(cache.Acquire(memory + 4000, 200).status().code(), SL_ERR_INVALID);
  EXPECT_EQ(cache.Acquire(memory + 4000, UINT64_MAX).status().code(), SL_ERR_INVALID);
}

TEST_F(RegistrationCacheTest, StaysBoundedButForWhatIsHeld) {
  constexpr size_t kCapacity = 8;
  RegistrationCache cache(&ops_, nullptr, kCapacity);
  std::vector<std::vector<uint8_t>> buffers(100000 / 100, std::vector<uint8_t>(8));
  auto* held = cache.Acquire(buffers[0].data(), 8).Take();
  for (auto& buffer : buffers) cache.Release(cache.Acquire(buffer.data(), 8).Take());
  EXPECT_EQ(cache.size(), kCapacity);
  EXPECT_EQ(cache.Acquire(buffers[0].data(), 8).Take(), held);
  cache.Release(held);
  std::vector<RegistrationCache::Entry*> all;
  for (auto& buffer : buffers) all.push_back(cache.Acquire(buffer.data(), 8).Take());
  EXPECT_EQ(cache.size(), buffers.size());
  EXPECT_EQ(all[0], held);
  for (auto* entry : all) cache.Release(entry);
  cache.Release(cache.Acquire(buffers[50].data(), 4).Take());
  std::vector<uint8_t> another(8);
  cache.Release(cache.Acquire(another.data(), 8).Take());
  EXPECT_EQ(cache.size(), kCapacity);
  cache.Release(held);
}

}  // namespace
}  // namespace sl::kernel
