// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/heap_sharing.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <thread>

#include "kernel/comm/process.h"
#include "kernel/control/meet.h"
#include "kernel/control/rendezvous.h"

namespace sl::kernel {
namespace {

using Heap = std::unique_ptr<SymmetricHeap>;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kBytes = 5000;  // of a slice, before it is rounded up
constexpr uint32_t kRanks = 3;

// A rank's device, whose memory is files in memory.
struct FakeDevice {
  std::map<void*, std::pair<Fd, uint64_t>> owned;
  std::map<void*, uint64_t> mapped;
  uint32_t attached = 0;
  uint32_t imports_left = UINT32_MAX;
  bool attaches = true;
  uint64_t granularity = 0;
};

FakeDevice* Of(sl_device_t* device) { return reinterpret_cast<FakeDevice*>(device); }

sl_status_t Info(sl_device_t* device, sl_device_info_t* out_info) {
  out_info->export_granularity = Of(device)->granularity;
  out_info->capabilities = SL_DEVICE_CAN_EXPORT | SL_DEVICE_CAN_SHARE_SEGMENT;
  return SL_OK;
}
sl_status_t Allocate(sl_device_t* device, uint32_t, uint64_t bytes, void** out_memory) {
  Fd fd(memfd_create("heap_sharing_test", MFD_CLOEXEC));
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return SL_ERR_DEVICE_MEMORY;
  *out_memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  Of(device)->owned[*out_memory] = {std::move(fd), bytes};
  return SL_OK;
}
sl_status_t Release(sl_device_t* device, void* memory) {
  munmap(memory, Of(device)->owned.at(memory).second);
  Of(device)->owned.erase(memory);
  return SL_OK;
}
sl_status_t Export(sl_device_t* device, void* memory, uint32_t, sl_memory_handle_t* out_handle) {
  out_handle->type = SL_HANDLE_FD;
  out_handle->fd = dup(Of(device)->owned.at(memory).first.get());
  out_handle->bytes = Of(device)->owned.at(memory).second;
  return SL_OK;
}
sl_status_t Reserve(sl_device_t*, uint64_t bytes, void** out_address) {
  *out_address = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return SL_OK;
}
sl_status_t Unreserve(sl_device_t*, void* address, uint64_t bytes) {
  return munmap(address, bytes) == 0 ? SL_OK : SL_ERR_INVALID;
}
sl_status_t Import(sl_device_t* device, const sl_memory_handle_t* handle, void* address, sl_mapping_t** out_mapping,
                   void** out_address) {
  if (Of(device)->imports_left-- == 0) return SL_ERR_UNSUPPORTED;
  const int flags = MAP_SHARED | (address != nullptr ? MAP_FIXED : 0);
  *out_address = mmap(address, handle->bytes, PROT_READ | PROT_WRITE, flags, handle->fd, 0);
  *out_mapping = static_cast<sl_mapping_t*>(*out_address);
  Of(device)->mapped[*out_address] = handle->bytes;
  return *out_address != MAP_FAILED ? SL_OK : SL_ERR_DEVICE_MEMORY;
}
// Leaves the place reserved, if it lies in a reservation.
sl_status_t Unmap(sl_device_t* device, sl_mapping_t* mapping) {
  mmap(mapping, Of(device)->mapped.at(mapping), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  Of(device)->mapped.erase(mapping);
  return SL_OK;
}
sl_status_t Attach(sl_device_t* device, void*, uint64_t) {
  if (!Of(device)->attaches) return SL_ERR_UNSUPPORTED;
  ++Of(device)->attached;
  return SL_OK;
}
sl_status_t Detach(sl_device_t* device, void*) {
  --Of(device)->attached;
  return SL_OK;
}

sl_device_ops_t FakeOps() {
  sl_device_ops_t ops{};
  ops.info = Info;
  ops.allocate = Allocate;
  ops.release = Release;
  ops.export_memory = Export;
  ops.reserve = Reserve;
  ops.unreserve = Unreserve;
  ops.import_memory = Import;
  ops.unmap = Unmap;
  ops.host_attach = Attach;
  ops.host_detach = Detach;
  return ops;
}

// Ranks of one host, as threads of this process.
class HeapSharingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    control_ = ControlThread::Start().Take();
    switchboard_ = std::make_unique<Switchboard>(control_.get(), NetChoice{});
    rendezvous_ = std::make_unique<Rendezvous>(control_.get(), switchboard_.get(), 10'000);
    const RendezvousId id = rendezvous_->NewId().Take();
    ForAll([&](uint32_t rank) {
      extensions_[rank] = Extension::Open(switchboard_.get(), id.secret).Take();
      const TreeNeighbours where =
          Meet({{&id, 1}, rank, kRanks, extensions_[rank].get(), 10 * kSecond, kSecond, nullptr}).Take();
      trees_[rank] = ControlTree::Build(control_.get(), {rank, kRanks, id.nonce(), id.secret}, extensions_[rank].get(),
                                        where, kSecond, nullptr, nullptr, {NowNs() + 10 * kSecond})
                         .Take();
      devices_[rank].ops = &ops_;
      devices_[rank].handle = reinterpret_cast<sl_device_t*>(&fakes_[rank]);
      devices_[rank].info.capabilities = SL_DEVICE_CAN_EXPORT;
    });
    roster_ = RosterOf({});
  }
  void TearDown() override {
    std::vector<std::weak_ptr<ControlTree>> left;  // they relay for each other, on the control thread
    for (auto& tree : trees_) {
      tree->Depart(Fate::kDeparted);
      left.emplace_back(tree);
      tree.reset();
    }
    const uint64_t deadline_ns = NowNs() + 10 * kSecond;
    for (const auto& tree : left) {
      while (!tree.expired() && NowNs() < deadline_ns) std::this_thread::yield();
    }
    for (auto& extension : extensions_) extension.reset();
    rendezvous_.reset();
    switchboard_.reset();
    control_.reset();
  }

  static void ForAll(const std::function<void(uint32_t)>& work) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kRanks; ++rank) threads.emplace_back(work, rank);
    for (std::thread& thread : threads) thread.join();
  }
  // `space`: where rank 0 is heard, unless empty.
  std::shared_ptr<const Roster> RosterOf(const HostId& space) {
    Writer cards;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      Card card;
      card.endpoint = extensions_[rank]->endpoint();
      if (rank == 0 && space != HostId{}) card.endpoint.space = space;
      PutContribution(&cards, rank, card.Encode());
    }
    return Roster::Read(Contributions::Read(cards.Take(), kRanks).Take()).Take();
  }
  HeapSharing SharingOf(uint32_t rank) {
    return HeapSharing({rank, *roster_, trees_[rank].get(), extensions_[rank].get(), {NowNs() + 10 * kSecond}});
  }
  // All ranks share by `share`; whether all have come by a heap, or none has.
  bool Share(const std::function<Result<Heap>(const HeapSharing&, uint32_t)>& share) {
    ForAll([&](uint32_t rank) {
      Result<Heap> heap = share(SharingOf(rank), rank);
      ASSERT_TRUE(heap.ok()) << heap.status().message();
      heaps_[rank] = heap.Take();
    });
    for (const Heap& heap : heaps_) EXPECT_EQ(heap != nullptr, heaps_[0] != nullptr);
    return heaps_[0] != nullptr;
  }
  // What each rank writes into its slice, all read there.
  void ExpectShared() {
    const uint64_t stride = heaps_[0]->stride();
    EXPECT_GE(stride, kBytes);
    for (uint8_t rank = 0; rank < kRanks; ++rank) heaps_[rank]->base()[rank * stride] = rank + 1;
    for (const Heap& heap : heaps_) {
      for (uint8_t rank = 0; rank < kRanks; ++rank) EXPECT_EQ(heap->base()[rank * stride], rank + 1);
    }
  }
  void ExpectNothingLeft() {
    for (Heap& heap : heaps_) heap.reset();
    for (const FakeDevice& fake : fakes_) EXPECT_EQ(fake.owned.size() + fake.mapped.size() + fake.attached, 0u);
  }

  const sl_device_ops_t ops_ = FakeOps();
  std::unique_ptr<ControlThread> control_;
  std::unique_ptr<Switchboard> switchboard_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::array<FakeDevice, kRanks> fakes_;
  std::array<Device, kRanks> devices_;
  std::array<std::unique_ptr<Extension>, kRanks> extensions_;
  std::array<std::shared_ptr<ControlTree>, kRanks> trees_;
  std::shared_ptr<const Roster> roster_;
  std::array<Heap, kRanks> heaps_;
};

TEST_F(HeapSharingTest, SharesASegmentOfTheFirstRank) {
  ASSERT_TRUE(
      Share([&](const HeapSharing& sharing, uint32_t rank) { return sharing.Segment(devices_[rank], kBytes); }));
  ExpectShared();
  EXPECT_EQ(fakes_[0].owned.size(), 1u);
  EXPECT_EQ(fakes_[1].owned.size(), 0u);
  ExpectNothingLeft();
}

TEST_F(HeapSharingTest, CountsPagesWhateverTheGranularity) {
  for (FakeDevice& fake : fakes_) fake.granularity = 100;
  ASSERT_TRUE(
      Share([&](const HeapSharing& sharing, uint32_t rank) { return sharing.Segment(devices_[rank], kBytes); }));
  ExpectShared();
  for (uint32_t rank = 0; rank < kRanks; ++rank) EXPECT_EQ(heaps_[0]->ResidentBytes(rank), 4096u) << rank;
  EXPECT_EQ(heaps_[0]->stride() % 100, 0u);
}

TEST_F(HeapSharingTest, SharesSlicesOfAllRanks) {
  ASSERT_TRUE(Share([&](const HeapSharing& sharing, uint32_t rank) { return sharing.Slices(devices_[rank], kBytes); }));
  ExpectShared();
  for (const FakeDevice& fake : fakes_) EXPECT_EQ(fake.owned.size(), 1u);
  ExpectNothingLeft();
}

TEST_F(HeapSharingTest, GivesNobodySlicesThatOneDoesNotReach) {
  fakes_[1].imports_left = 2;  // its own and another one
  EXPECT_FALSE(
      Share([&](const HeapSharing& sharing, uint32_t rank) { return sharing.Slices(devices_[rank], kBytes); }));
  ExpectNothingLeft();
}

TEST_F(HeapSharingTest, LetsDevicesAtASegmentOfTheHost) {
  std::array<FakeDevice, kRanks> hosts;
  const auto share = [&](const HeapSharing& sharing, uint32_t rank) {
    Device host;
    host.ops = &ops_;
    host.handle = reinterpret_cast<sl_device_t*>(&hosts[rank]);
    return sharing.HostSegment(host, devices_[rank], kBytes);
  };
  ASSERT_TRUE(Share(share));
  ExpectShared();
  for (const FakeDevice& fake : fakes_) EXPECT_EQ(fake.attached, 1u);
  ExpectNothingLeft();
  fakes_[2].attaches = false;
  EXPECT_FALSE(Share(share));
  ExpectNothingLeft();
  for (const FakeDevice& host : hosts) EXPECT_EQ(host.owned.size() + host.mapped.size(), 0u);
}

TEST_F(HeapSharingTest, GivesNobodyASegmentForWhichOneHasNoUse) {
  EXPECT_FALSE(Share([&](const HeapSharing& sharing, uint32_t rank) {
    return sharing.HostSegment(devices_[rank], devices_[rank], rank == 2 ? 0 : kBytes);
  }));
  ExpectNothingLeft();
}

TEST_F(HeapSharingTest, SaysThatAnIdOfTheHostIsWrong) {
  roster_ = RosterOf({1, 2, 3});
  const Result<Heap> heap = SharingOf(1).Segment(devices_[1], kBytes);
  EXPECT_EQ(heap.status().code(), SL_ERR_CONFIG) << heap.status().message();
}

}  // namespace
}  // namespace sl::kernel
