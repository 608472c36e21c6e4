// SPDX-License-Identifier: Apache-2.0
// The driver makes mapping and unmapping wait for the kernels that run. Who has other memory does not wait with them.
#include <unistd.h>

#include <chrono>
#include <future>
#include <semaphore>
#include <utility>

#include "modules/device-cuda/tests/fixture.h"

namespace sl::device_cuda {
namespace {

constexpr uint64_t kBytes = 65536;

// One call of the driver that begins and does not end until it is let. Others pass.
class Held {
 public:
  // The first call of the function from now on.
  template <typename... Args>
  Held(cu::Code (**slot)(Args...), cu::Code (**original)(Args...), cu::Code (*held)(Args...)) {
    *original = *slot;
    *slot = held;
    is_taken_ = false;
  }
  // In the function that is called instead.
  static void Pass() {
    if (is_taken_.exchange(true)) return;
    begun_.release();
    may_end_.acquire();
  }
  static void AwaitBegin() { begun_.acquire(); }
  static void Let() { may_end_.release(); }

 private:
  static inline std::atomic<bool> is_taken_{true};
  static inline std::binary_semaphore begun_{0};
  static inline std::binary_semaphore may_end_{0};
};

decltype(Calls::MemUnmap) unmap_of_driver = nullptr;
cu::Code UnmapHeld(cu::Address address, size_t bytes) {
  Held::Pass();
  return unmap_of_driver(address, bytes);
}
decltype(Calls::MemSetAccess) access_of_driver = nullptr;
cu::Code SetAccessHeld(cu::Address address, size_t bytes, const cu::AccessDesc* desc, size_t count) {
  Held::Pass();
  return access_of_driver(address, bytes, desc, count);
}
// Frees the range, and then does not return until it is let.
decltype(Calls::MemAddressFree) free_of_driver = nullptr;
cu::Code FreeHeld(cu::Address address, size_t bytes) {
  const cu::Code freed = free_of_driver(address, bytes);
  Held::Pass();
  return freed;
}
// The next range of the driver is this one, as may be of any that is free.
cu::Address next_range = 0;
decltype(Calls::MemAddressReserve) reserve_of_driver = nullptr;
cu::Code ReserveThere(cu::Address* out, size_t bytes, size_t alignment, cu::Address, unsigned long long flags) {
  return reserve_of_driver(out, bytes, alignment, next_range, flags);
}

// A device, memory to be mapped, and address space for two mappings of it.
class MappingTest : public testing::Test {
 protected:
  MappingTest() : memory_(cuda_.Allocate(SL_MEMORY_EXPORTABLE, kBytes)) {
    handle_.struct_size = sizeof(handle_);
    EXPECT_EQ(cuda_.ops->export_memory(cuda_.device, memory_, SL_HANDLE_FD, &handle_), SL_OK) << last_error;
    EXPECT_EQ(cuda_.ops->reserve(cuda_.device, 2 * kBytes, &base_), SL_OK) << last_error;
  }
  ~MappingTest() override {
    EXPECT_EQ(cuda_.ops->unreserve(cuda_.device, base_, 2 * kBytes), SL_OK) << last_error;
    close(handle_.fd);
    EXPECT_EQ(cuda_.ops->release(cuda_.device, memory_), SL_OK) << last_error;
  }

  Calls& calls() const { return const_cast<Calls&>(cuda_.calls()); }  // the driver's own, which is not const
  void* PlaceOf(uint64_t index) const { return static_cast<char*>(base_) + index * kBytes; }
  sl_status_t Import(void* place, sl_mapping_t** out_mapping) const {
    void* address = nullptr;
    return cuda_.ops->import_memory(cuda_.device, &handle_, place, out_mapping, &address);
  }
  sl_status_t Unmap(sl_mapping_t* mapping) const { return cuda_.ops->unmap(cuda_.device, mapping); }
  // Reserves, looks, maps at the second place and anywhere, and takes it all back.
  bool OthersGoOn() const {
    void* place = nullptr;
    sl_mapping_t* second = nullptr;
    sl_mapping_t* anywhere = nullptr;
    return cuda_.ops->reserve(cuda_.device, kBytes, &place) == SL_OK && Import(PlaceOf(1), &second) == SL_OK &&
           Import(nullptr, &anywhere) == SL_OK && cuda_.instance->mappings.Count() != 0 && Unmap(second) == SL_OK &&
           Unmap(anywhere) == SL_OK && cuda_.ops->unreserve(cuda_.device, place, kBytes) == SL_OK;
  }
  // Beside a call of the driver that is held, about the first place.
  void ExpectOthersGoOn() const {
    Held::AwaitBegin();
    std::future<bool> others = std::async(std::launch::async, [this] { return OthersGoOn(); });
    const bool in_time = others.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    EXPECT_TRUE(in_time) << "others wait for a call of the driver that is none of theirs";
    if (in_time) {
      EXPECT_TRUE(others.get());
      sl_mapping_t* mapping = nullptr;
      EXPECT_EQ(Import(PlaceOf(0), &mapping), SL_ERR_INVALID) << "the place is still taken";
      EXPECT_EQ(cuda_.ops->unreserve(cuda_.device, base_, 2 * kBytes), SL_ERR_STATE);
    }
    Held::Let();
  }

  CudaDevice cuda_;
  void* const memory_;
  sl_memory_handle_t handle_{};
  void* base_ = nullptr;
};

TEST_F(MappingTest, EndsWhileOthersGoOn) {
  sl_mapping_t* mapping = nullptr;
  ASSERT_EQ(Import(PlaceOf(0), &mapping), SL_OK) << last_error;
  const Held held(&calls().MemUnmap, &unmap_of_driver, UnmapHeld);
  std::future<sl_status_t> ended = std::async(std::launch::async, [&] { return Unmap(mapping); });
  ExpectOthersGoOn();
  EXPECT_EQ(ended.get(), SL_OK);
  EXPECT_EQ(Unmap(mapping), SL_ERR_INVALID) << "twice";
  calls().MemUnmap = unmap_of_driver;
}

TEST_F(MappingTest, EndsOnce) {
  sl_mapping_t* mapping = nullptr;
  ASSERT_EQ(Import(nullptr, &mapping), SL_OK) << last_error;
  const Held held(&calls().MemUnmap, &unmap_of_driver, UnmapHeld);
  std::future<sl_status_t> ended = std::async(std::launch::async, [&] { return Unmap(mapping); });
  Held::AwaitBegin();
  std::future<sl_status_t> again = std::async(std::launch::async, [&] { return Unmap(mapping); });
  EXPECT_EQ(again.wait_for(std::chrono::seconds(10)), std::future_status::ready) << "it waits for the first one";
  Held::Let();
  EXPECT_EQ(ended.get(), SL_OK);
  EXPECT_EQ(again.get(), SL_ERR_INVALID);
  calls().MemUnmap = unmap_of_driver;
}

// The driver gives a range to others as soon as it is free, before the thread that has freed it says so.
TEST_F(MappingTest, EndsWhileOthersMapIntoTheRangeThatItHad) {
  sl_mapping_t* anywhere = nullptr;
  void* address = nullptr;
  ASSERT_EQ(cuda_.ops->import_memory(cuda_.device, &handle_, nullptr, &anywhere, &address), SL_OK) << last_error;
  next_range = reinterpret_cast<cu::Address>(address);
  const Held held(&calls().MemAddressFree, &free_of_driver, FreeHeld);
  reserve_of_driver = std::exchange(calls().MemAddressReserve, ReserveThere);
  std::future<sl_status_t> ended = std::async(std::launch::async, [&] { return Unmap(anywhere); });
  Held::AwaitBegin();
  void* place = nullptr;
  EXPECT_EQ(cuda_.ops->reserve(cuda_.device, kBytes, &place), SL_OK) << last_error;
  EXPECT_EQ(place, address) << "the test proves nothing";
  sl_mapping_t* placed = nullptr;
  EXPECT_EQ(Import(place, &placed), SL_OK) << last_error;
  EXPECT_EQ(Unmap(placed), SL_OK) << last_error;
  EXPECT_EQ(cuda_.ops->unreserve(cuda_.device, place, kBytes), SL_OK) << last_error;
  Held::Let();
  EXPECT_EQ(ended.get(), SL_OK);
  calls().MemAddressFree = free_of_driver;
  calls().MemAddressReserve = reserve_of_driver;
}

// A rank of this process that reaches memory which its owner frees, and has something else in its place.
TEST_F(MappingTest, KeepsMemoryOfThisProcessThatIsFreed) {
  sl_device_t* other = nullptr;
  ASSERT_EQ(cuda_.ops->open(cuda_.instance, 1, &other), SL_OK) << last_error;
  for (sl_device_t* importer : {cuda_.device, other}) {
    auto* owned = static_cast<char*>(cuda_.Allocate(SL_MEMORY_EXPORTABLE, kBytes));
    owned[0] = 7;
    sl_memory_handle_t local{};
    local.struct_size = sizeof(local);
    ASSERT_EQ(cuda_.ops->export_memory(cuda_.device, owned, SL_HANDLE_LOCAL, &local), SL_OK) << last_error;
    sl_mapping_t* mapping = nullptr;
    void* address = nullptr;
    ASSERT_EQ(cuda_.ops->import_memory(importer, &local, nullptr, &mapping, &address), SL_OK) << last_error;
    ASSERT_NE(address, owned) << "what is at this address when the owner has freed it may be anything";
    EXPECT_EQ(cuda_.ops->release(cuda_.device, owned), SL_OK) << last_error;
    auto* anew = static_cast<char*>(cuda_.Allocate(SL_MEMORY_EXPORTABLE, kBytes));
    anew[0] = 3;
    EXPECT_EQ(static_cast<char*>(address)[0], 7);
    static_cast<char*>(address)[0] = 8;
    EXPECT_EQ(anew[0], 3);
    EXPECT_EQ(cuda_.ops->unmap(importer, mapping), SL_OK) << last_error;
    EXPECT_EQ(cuda_.ops->release(cuda_.device, anew), SL_OK) << last_error;
  }
  // Without the owner's memory there is nothing to map.
  sl_memory_handle_t gone{};
  gone.struct_size = sizeof(gone);
  void* owned = cuda_.Allocate(SL_MEMORY_EXPORTABLE, kBytes);
  ASSERT_EQ(cuda_.ops->export_memory(cuda_.device, owned, SL_HANDLE_LOCAL, &gone), SL_OK) << last_error;
  EXPECT_EQ(cuda_.ops->release(cuda_.device, owned), SL_OK) << last_error;
  sl_mapping_t* mapping = nullptr;
  void* address = nullptr;
  const size_t before = cuda_.instance->mappings.Count();
  EXPECT_LT(cuda_.ops->import_memory(other, &gone, nullptr, &mapping, &address), SL_OK);
  EXPECT_EQ(cuda_.instance->mappings.Count(), before);
  cuda_.ops->close(other);
}

TEST_F(MappingTest, IsMadeWhileOthersGoOn) {
  const Held held(&calls().MemSetAccess, &access_of_driver, SetAccessHeld);
  sl_mapping_t* mapping = nullptr;
  std::future<sl_status_t> made = std::async(std::launch::async, [&] { return Import(PlaceOf(0), &mapping); });
  ExpectOthersGoOn();
  EXPECT_EQ(made.get(), SL_OK);
  EXPECT_EQ(Unmap(mapping), SL_OK) << last_error;
  calls().MemSetAccess = access_of_driver;
}

}  // namespace
}  // namespace sl::device_cuda
