// SPDX-License-Identifier: Apache-2.0
//
// Three ranks, each with a device that maps memory 4 GiB above where it lies, for each rank another time.
#include "kernel/comm/reach.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "kernel/comm/reach_keeper.h"

struct sl_mapping_t {
  uint64_t source;
  uint64_t address;
};

// What the ranks' devices know; allocations are the process's.
struct sl_device_t {
  // What can be done with an allocation: as cudaMalloc makes it, as cuMemCreate does with a descriptor, neither.
  enum class Kind { kPlain, kByHand, kPrivate };
  struct Allocation {
    uint64_t bytes;
    uint64_t id;
    Kind kind;
  };
  static inline std::mutex mutex;
  static inline std::map<uint64_t, Allocation> allocations;  // by address; guarded by mutex
  uint64_t shift = 0;                                        // of what this device maps
  std::atomic<uint64_t> free_bytes{uint64_t{64} << 20};
  std::atomic<uint32_t> free_asked{0};
  std::atomic<uint32_t> imports{0};
  std::atomic<uint32_t> mappings{0};
  std::atomic<uint32_t> reservations{0};
  std::atomic<bool> refuses{false};
  std::atomic<uint32_t> imports_left{UINT32_MAX};  // then it refuses
  uint32_t last_type = 0;
  uint64_t next_reservation = 0;             // of address space
  std::map<uint64_t, uint64_t> placed = {};  // into reservations: from where, by address
};

namespace sl::kernel {
namespace {

using Kind = sl_device_t::Kind;

constexpr uint64_t kShift = uint64_t{4} << 30;
constexpr uint64_t kReserved = uint64_t{1} << 44;
constexpr uint64_t kMiB = 1 << 20;
constexpr uint32_t kRanks = 3;

sl_status_t PointerInfo(sl_device_t*, const void* pointer, sl_pointer_info_t* out) {
  const std::lock_guard lock(sl_device_t::mutex);
  const auto address = reinterpret_cast<uint64_t>(pointer);
  auto found = sl_device_t::allocations.upper_bound(address);
  if (found == sl_device_t::allocations.begin()) return SL_OK;
  --found;
  if (address >= found->first + found->second.bytes) return SL_OK;
  out->base = reinterpret_cast<void*>(found->first);
  out->bytes = found->second.bytes;
  out->allocation_id = out->generation = found->second.id;
  out->exportable = found->second.kind != Kind::kPrivate ? 1 : 0;
  return SL_OK;
}

// Opaque bytes, or the file behind a descriptor, hold the address.
sl_status_t Export(sl_device_t*, void* memory, uint32_t type, sl_memory_handle_t* out) {
  const std::lock_guard lock(sl_device_t::mutex);
  const sl_device_t::Allocation& allocation = sl_device_t::allocations.at(reinterpret_cast<uint64_t>(memory));
  if (type == SL_HANDLE_FABRIC) return SL_ERR_UNSUPPORTED;
  const Kind needed = type == SL_HANDLE_FD ? Kind::kByHand : Kind::kPlain;
  if (type != SL_HANDLE_LOCAL && allocation.kind != needed) return SL_ERR_UNSUPPORTED;
  out->type = type;
  out->bytes = allocation.bytes;
  std::memcpy(out->fabric, &memory, sizeof(memory));
  if (type != SL_HANDLE_FD) return SL_OK;
  out->fd = memfd_create("reach_test", MFD_CLOEXEC);
  return pwrite(out->fd, &memory, sizeof(memory), 0) == sizeof(memory) ? SL_OK : SL_ERR_SYSTEM;
}

sl_status_t Reserve(sl_device_t* device, uint64_t bytes, void** out_address) {
  *out_address = reinterpret_cast<void*>(kReserved + device->shift + device->next_reservation);
  device->next_reservation += bytes + kMiB;
  ++device->reservations;
  return SL_OK;
}

sl_status_t Unreserve(sl_device_t* device, void*, uint64_t) {
  --device->reservations;
  return SL_OK;
}

sl_status_t Import(sl_device_t* device, const sl_memory_handle_t* handle, void* at, sl_mapping_t** out,
                   void** address) {
  ++device->imports;
  if (device->refuses || device->imports_left-- == 0) return SL_ERR_DEVICE_MEMORY;
  uint64_t source = 0;
  if (handle->type != SL_HANDLE_FD) {
    std::memcpy(&source, handle->fabric, sizeof(source));
  } else if (pread(handle->fd, &source, sizeof(source), 0) != sizeof(source)) {
    return SL_ERR_INVALID;
  }
  ++device->mappings;
  device->last_type = handle->type;
  *out = new sl_mapping_t{source, at != nullptr ? reinterpret_cast<uint64_t>(at) : source + device->shift};
  if (at != nullptr) device->placed[(*out)->address] = source;
  *address = reinterpret_cast<void*>((*out)->address);
  return SL_OK;
}

sl_status_t Unmap(sl_device_t* device, sl_mapping_t* mapping) {
  --device->mappings;
  device->placed.erase(mapping->address);
  delete mapping;
  return SL_OK;
}

sl_status_t FreeMemory(sl_device_t* device, uint64_t* out_bytes) {
  *out_bytes = device->free_bytes;
  ++device->free_asked;
  return SL_OK;
}

sl_device_ops_t Ops() {
  sl_device_ops_t ops{};
  ops.struct_size = sizeof(ops);
  ops.free_memory = FreeMemory;
  ops.pointer_info = PointerInfo;
  ops.export_memory = Export;
  ops.reserve = Reserve;
  ops.unreserve = Unreserve;
  ops.import_memory = Import;
  ops.unmap = Unmap;
  return ops;
}
const sl_device_ops_t kOps = Ops();

void* At(uint64_t address) { return reinterpret_cast<void*>(address); }

class ReachTest : public ::testing::Test {
 protected:
  ReachTest() : slice_(OfferBoard::SliceBytes(kRanks)), memory_(kRanks * slice_) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      devices_[rank].shift = (rank + 1) * kShift;
      ranks_.push_back(Make(rank));
    }
  }
  ~ReachTest() override {
    for (const auto& reach : ranks_) reach->Close();
    for (const sl_device_t& device : devices_) {
      EXPECT_EQ(device.mappings, 0u);
      EXPECT_EQ(device.reservations, 0u);
    }
    const std::lock_guard lock(sl_device_t::mutex);
    sl_device_t::allocations.clear();
  }

  // Rank 2 is of a process of its own.
  std::unique_ptr<Reach> Make(uint32_t rank) {
    return std::make_unique<Reach>(Reach::Setting{
        .device_ops = &kOps,
        .device = &devices_[rank],
        .board = OfferBoard(memory_.data(), slice_, kRanks),
        .rank = rank,
        .shares_process = {rank != 2, rank != 2, rank == 2},
        .most_bytes = 4 * kMiB,
        .spared_bytes = kMiB,
        .patience_ns = patience_ns_,
        .rest_ns = rest_ns_,
        .ring = [this] { ++rings_; },
        .is_over = [this] { return is_over_.load(); },
        .gives_up = [this, rank] { return rank == 0 && gives_up_.load(); },
        .desk = &desks_[rank],
        .fetch = [this](uint32_t owner, const HandleDesk::Ticket& ticket) { return Fetch(owner, ticket); },
    });
  }

  // As over a switchboard, which has put the caller through.
  Result<HandleList> Fetch(uint32_t owner, const HandleDesk::Ticket& ticket) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    Switchboard::Caller caller{Stream(Fd(ends[0])), FrameType::kHandles, HandleDesk::Ask(ticket)};
    const Stream stream{Fd(ends[1])};
    desks_[owner].Serve(&caller);
    return HandleDesk::Receive(stream, {NowNs() + patience_ns_});
  }

  static void Allocate(uint64_t address, uint64_t id, Kind kind = Kind::kPlain, uint64_t bytes = kMiB) {
    const std::lock_guard lock(sl_device_t::mutex);
    sl_device_t::allocations[address] = {bytes, id, kind};
  }
  // A row of `count`, mapped by hand, from `address` on.
  static void AllocateRow(uint64_t address, uint64_t first_id, uint64_t count, uint64_t bytes = kMiB) {
    for (uint64_t i = 0; i < count; ++i) Allocate(address + i * bytes, first_id + i, Kind::kByHand, bytes);
  }
  static void Free(uint64_t address) {
    const std::lock_guard lock(sl_device_t::mutex);
    sl_device_t::allocations.erase(address);
  }

  void KeepPeers() {
    for (uint32_t rank = 1; rank < kRanks; ++rank) ranks_[rank]->Keep(true);
  }
  // Of rank 0's memory, while the peers look at their boards.
  sl_status_t Ask(uint64_t address, uint64_t bytes = 16, uint64_t capture = 0) {
    std::atomic<bool> asked{false};
    std::thread peers([&] {
      while (!asked) KeepPeers();
    });
    const sl_status_t status = ranks_[0]->Addresses(At(address), bytes, capture, addresses_);
    asked = true;
    peers.join();
    return status;
  }
  // After a refusal for want of memory.
  sl_status_t AskUntilItIsOffered(uint64_t address) {
    const uint64_t deadline_ns = NowNs() + patience_ns_;
    for (;;) {
      const sl_status_t status = Ask(address);
      if (status != SL_ERR_UNSUPPORTED || NowNs() >= deadline_ns) return status;
    }
  }

  uint64_t slice_;
  std::vector<uint8_t> memory_;
  sl_device_t devices_[kRanks];
  uint64_t patience_ns_ = 30'000'000'000;
  uint64_t rest_ns_ = 0;
  std::atomic<uint32_t> rings_{0};
  std::atomic<bool> is_over_{false};
  std::atomic<bool> gives_up_{false};  // rank 0
  HandleDesk desks_[kRanks];
  std::vector<std::unique_ptr<Reach>> ranks_;
  uint64_t addresses_[kRanks] = {};
};

TEST_F(ReachTest, TellsWhereEveryRankSeesABuffer) {
  Allocate(kMiB, 7);
  ASSERT_EQ(Ask(kMiB + 100), SL_OK);
  EXPECT_EQ(addresses_[0], kMiB + 100);
  EXPECT_EQ(addresses_[1], 2 * kShift + kMiB + 100);
  EXPECT_EQ(addresses_[2], 3 * kShift + kMiB + 100);
  EXPECT_EQ(devices_[1].last_type, SL_HANDLE_LOCAL);
  EXPECT_EQ(devices_[2].last_type, SL_HANDLE_IPC);
}

TEST_F(ReachTest, AsksPeersOnceForAnAllocation) {
  Allocate(kMiB, 7);
  ASSERT_EQ(Ask(kMiB), SL_OK);
  ASSERT_EQ(ranks_[0]->Addresses(At(kMiB + 512), 16, 0, addresses_), SL_OK);  // nobody answers now
  EXPECT_EQ(addresses_[2], 3 * kShift + kMiB + 512);
  EXPECT_EQ(devices_[2].imports, 1u);
  EXPECT_EQ(rings_, 1u);
}

TEST_F(ReachTest, WithdrawsWhatWasFreed) {
  Allocate(kMiB, 7);
  ASSERT_EQ(Ask(kMiB), SL_OK);
  EXPECT_TRUE(ranks_[0]->Keep(true));  // it goes on looking
  Free(kMiB);
  EXPECT_FALSE(ranks_[0]->Keep(true));
  KeepPeers();
  EXPECT_EQ(ranks_[0]->offered(), 0u);
  EXPECT_EQ(ranks_[1]->mapped(), 0u);
  EXPECT_EQ(ranks_[2]->mapped(), 0u);
}

TEST_F(ReachTest, KnowsThatAnAddressWasAllocatedAgain) {
  Allocate(kMiB, 7);
  ASSERT_EQ(Ask(kMiB), SL_OK);
  Allocate(kMiB, 8);
  ASSERT_EQ(Ask(kMiB), SL_OK);
  EXPECT_EQ(devices_[2].imports, 2u);
  EXPECT_EQ(devices_[2].mappings, 1u);
}

TEST_F(ReachTest, UnmapsWhenNoLaunchRuns) {
  Allocate(kMiB, 7);
  ASSERT_EQ(Ask(kMiB), SL_OK);
  std::atomic<bool> idle{false};
  ranks_[1]->WatchUse([&] { return idle.load(); }, [] { return false; });
  Free(kMiB);
  ranks_[0]->Keep(true);
  EXPECT_TRUE(ranks_[1]->Keep(ranks_[1]->IsIdle()));
  EXPECT_EQ(ranks_[1]->mapped(), 1u);
  idle = true;
  EXPECT_FALSE(ranks_[1]->Keep(ranks_[1]->IsIdle()));
  EXPECT_EQ(ranks_[1]->mapped(), 0u);
}

// A peer that comes later still finds what an operation has told it that was given up.
TEST_F(ReachTest, LeavesWithPeersWhatAnOperationThatWasGivenUpMayHaveTold) {
  Allocate(kMiB, 7);
  Allocate(2 * kMiB, 8);
  ASSERT_EQ(Ask(kMiB), SL_OK);
  ASSERT_EQ(Ask(2 * kMiB), SL_OK);
  gives_up_ = true;
  Free(kMiB);
  ranks_[0]->Keep(true);
  EXPECT_EQ(ranks_[0]->offered(), 1u);
  KeepPeers();
  EXPECT_EQ(ranks_[1]->mapped(), 2u);
  ranks_[0]->Close();
  KeepPeers();
  EXPECT_EQ(ranks_[2]->mapped(), 2u);
  ranks_[2]->Close();
  EXPECT_EQ(ranks_[2]->mapped(), 0u);
}

TEST_F(ReachTest, MakesRoomByWhatWasNotUsedForLongest) {
  for (uint64_t i = 1; i <= 4; ++i) {
    Allocate(i * kMiB, i);
    ASSERT_EQ(Ask(i * kMiB), SL_OK) << i;
  }
  ASSERT_EQ(Ask(kMiB), SL_OK);
  Allocate(5 * kMiB, 5);
  ASSERT_EQ(Ask(5 * kMiB), SL_OK);
  KeepPeers();
  EXPECT_EQ(ranks_[0]->offered(), 4u);
  const uint32_t imports = devices_[1].imports;
  ASSERT_EQ(Ask(kMiB), SL_OK);  // stayed
  EXPECT_EQ(devices_[1].imports, imports);
}

TEST_F(ReachTest, RefusesMoreThanItsShareWhileLaunchesRun) {
  ranks_[0]->WatchUse([] { return false; }, [] { return true; });
  for (uint64_t i = 1; i <= 4; ++i) {
    Allocate(i * kMiB, i);
    ASSERT_EQ(Ask(i * kMiB), SL_OK) << i;
  }
  Allocate(5 * kMiB, 5);
  EXPECT_EQ(Ask(5 * kMiB), SL_ERR_UNSUPPORTED);
}

TEST_F(ReachTest, KeepsWhatWasJustAskedFor) {
  rest_ns_ = 30'000'000'000;
  ranks_[0] = Make(0);
  for (uint64_t i = 1; i <= 4; ++i) {
    Allocate(i * kMiB, i);
    ASSERT_EQ(Ask(i * kMiB), SL_OK) << i;
  }
  Allocate(5 * kMiB, 5);
  EXPECT_EQ(Ask(5 * kMiB), SL_ERR_UNSUPPORTED);  // the call may be about to launch with any of the four
  EXPECT_EQ(ranks_[0]->offered(), 4u);
}

TEST_F(ReachTest, KeepsWhatAGraphHasCaptured) {
  for (uint64_t i = 1; i <= 4; ++i) {
    Allocate(i * kMiB, i);
    ASSERT_EQ(Ask(i * kMiB, 16, 1), SL_OK) << i;
  }
  Allocate(5 * kMiB, 5);
  EXPECT_EQ(Ask(5 * kMiB), SL_ERR_UNSUPPORTED);
  Free(2 * kMiB);
  ranks_[0]->Keep(true);
  KeepPeers();
  EXPECT_EQ(Ask(5 * kMiB), SL_OK);
}

TEST_F(ReachTest, KeepsWhatIsPinned) {
  Reach::Pin pins[4];
  std::atomic<bool> is_done{false};
  std::thread peers([&] {
    while (!is_done) KeepPeers();
  });
  for (uint64_t i = 1; i <= 4; ++i) {
    Allocate(i * kMiB, i);
    pins[i - 1] = ranks_[0]->PinAddresses(At(i * kMiB), kMiB, addresses_);
    EXPECT_EQ(addresses_[2], 3 * kShift + i * kMiB);
  }
  is_done = true;
  peers.join();
  Allocate(5 * kMiB, 5);
  EXPECT_EQ(Ask(5 * kMiB), SL_ERR_UNSUPPORTED);
  ranks_[0]->Unpin(pins[2]);
  sl_status_t status = Ask(5 * kMiB);
  if (status != SL_OK) status = Ask(5 * kMiB);  // its bytes are free again once peers have answered
  EXPECT_EQ(status, SL_OK);
  Free(kMiB);
  ranks_[0]->Keep(true);
  ranks_[0]->Unpin(pins[0]);  // gone already
  ranks_[0]->Unpin(Reach::Pin{});
}

TEST_F(ReachTest, UsesEveryPlaceAgain) {
  for (uint64_t i = 1; i <= 3 * OfferBoard::kOffers; ++i) {
    Allocate(kMiB, i);
    sl_status_t status = Ask(kMiB);
    if (status != SL_OK) status = Ask(kMiB);  // places are free again once peers have answered
    ASSERT_EQ(status, SL_OK) << i;
  }
  EXPECT_EQ(ranks_[0]->offered(), 1u);
}

TEST_F(ReachTest, OffersNoMoreThanIsFreeBesides) {
  devices_[0].free_bytes = 3 * kMiB - 1;
  Allocate(kMiB, 1);
  ASSERT_EQ(Ask(kMiB), SL_OK);
  Allocate(2 * kMiB, 2);
  EXPECT_EQ(Ask(2 * kMiB), SL_ERR_UNSUPPORTED);
  devices_[0].free_bytes = 3 * kMiB;
  EXPECT_EQ(AskUntilItIsOffered(2 * kMiB), SL_OK);
}

TEST_F(ReachTest, AsksTheDriverSeldomWhileMemoryIsScarce) {
  devices_[0].free_bytes = kMiB;
  Allocate(2 * kMiB, 2);
  constexpr uint32_t kCalls = 1000;
  const uint64_t begin_ns = NowNs();
  for (uint32_t i = 0; i < kCalls; ++i) ASSERT_EQ(Ask(2 * kMiB), SL_ERR_UNSUPPORTED);
  const uint64_t took_ns = NowNs() - begin_ns;
  EXPECT_LE(devices_[0].free_asked, 1 + took_ns / 10'000'000);
  devices_[0].free_bytes = 64 * kMiB;
  EXPECT_EQ(AskUntilItIsOffered(2 * kMiB), SL_OK);
}

TEST_F(ReachTest, WithdrawsWhenLessIsFree) {
  for (uint64_t i = 1; i <= 3; ++i) {
    Allocate(i * kMiB, i);
    ASSERT_EQ(Ask(i * kMiB), SL_OK) << i;
  }
  devices_[0].free_bytes = 2 * kMiB;
  while (ranks_[0]->offered() > 1) {
    ranks_[0]->Keep(true);
    KeepPeers();
  }
  ranks_[0]->Keep(true);
  EXPECT_EQ(ranks_[0]->offered(), 1u);
  EXPECT_EQ(ranks_[1]->mapped(), 1u);
}

TEST_F(ReachTest, RefusesWhatCannotBeShared) {
  Allocate(kMiB, 7, Kind::kPrivate);
  EXPECT_EQ(Ask(kMiB), SL_ERR_UNSUPPORTED);
  Allocate(2 * kMiB, 8);
  EXPECT_EQ(Ask(3 * kMiB - 8), SL_ERR_UNSUPPORTED);  // reaches behind its end
  Allocate(3 * kMiB, 10);
  EXPECT_EQ(Ask(3 * kMiB - 8), SL_ERR_UNSUPPORTED);  // spans two that were not mapped by hand
  EXPECT_EQ(ranks_[0]->refused(), 3u);
  EXPECT_EQ(Ask(64 * kMiB), SL_ERR_UNSUPPORTED);  // nobody's
  Allocate(8 * kMiB, 9, Kind::kPlain, 5 * kMiB);
  EXPECT_EQ(Ask(8 * kMiB), SL_ERR_UNSUPPORTED);  // more than the limit
  EXPECT_EQ(rings_, 0u);
}

TEST_F(ReachTest, RefusesWhatAPeerCannotMapAndAsksNoMore) {
  Allocate(kMiB, 7);
  devices_[2].refuses = true;
  EXPECT_EQ(Ask(kMiB), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(Ask(kMiB), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(devices_[2].imports, 1u);
}

TEST_F(ReachTest, GoesAnotherWayWhenPeersDoNotAnswer) {
  Allocate(kMiB, 7);
  is_over_ = true;
  EXPECT_EQ(ranks_[0]->Addresses(At(kMiB), 16, 0, addresses_), SL_ERR_UNSUPPORTED);
  is_over_ = false;
  KeepPeers();
  EXPECT_EQ(ranks_[0]->Addresses(At(kMiB), 16, 0, addresses_), SL_OK);  // they have, in the meantime
}

TEST_F(ReachTest, FetchesDescriptorsOfWhatIsMappedByHand) {
  Allocate(kMiB, 7, Kind::kByHand);
  ASSERT_EQ(Ask(kMiB + 100), SL_OK);
  EXPECT_EQ(addresses_[1], 2 * kShift + kMiB + 100);
  EXPECT_EQ(addresses_[2], 3 * kShift + kMiB + 100);
  EXPECT_EQ(devices_[1].last_type, SL_HANDLE_LOCAL);
  EXPECT_EQ(devices_[2].last_type, SL_HANDLE_FD);
}

TEST_F(ReachTest, MapsARowOfAllocationsSideBySide) {
  constexpr uint64_t kPiece = kMiB / 2;
  AllocateRow(kMiB, 7, 3, kPiece);
  ASSERT_EQ(Ask(kMiB + 100, 2 * kPiece), SL_OK);
  EXPECT_EQ(addresses_[0], kMiB + 100);
  for (const uint32_t rank : {1, 2}) {
    const uint64_t base = addresses_[rank] - 100;
    const std::map<uint64_t, uint64_t> row = {
        {base, kMiB}, {base + kPiece, kMiB + kPiece}, {base + 2 * kPiece, kMiB + 2 * kPiece}};
    EXPECT_EQ(devices_[rank].placed, row);
  }
  const uint64_t base = addresses_[2] - 100;
  ASSERT_EQ(Ask(kMiB + 2 * kPiece - 8, 16), SL_OK);  // within it
  EXPECT_EQ(addresses_[2], base + 2 * kPiece - 8);
  EXPECT_EQ(devices_[2].imports, 3u);
  EXPECT_EQ(ranks_[0]->offered(), 1u);
  AllocateRow(kMiB + 3 * kPiece, 10, 1, kPiece);
  ASSERT_EQ(Ask(kMiB + 3 * kPiece - 8, 16), SL_OK);  // reaches out of it
  EXPECT_EQ(devices_[2].imports, 5u);
  EXPECT_EQ(ranks_[0]->offered(), 2u);
}

TEST_F(ReachTest, KnowsThatAPieceOfARowWasMappedAnew) {
  AllocateRow(kMiB, 7, 2);
  ASSERT_EQ(Ask(kMiB, 2 * kMiB), SL_OK);
  AllocateRow(2 * kMiB, 9, 1);
  ASSERT_EQ(Ask(kMiB), SL_OK) << "the first piece is what it was";
  EXPECT_EQ(devices_[2].imports, 2u);
  ASSERT_EQ(Ask(kMiB, 2 * kMiB), SL_OK);
  EXPECT_EQ(devices_[2].imports, 4u);
  EXPECT_EQ(devices_[2].mappings, 2u);
  EXPECT_EQ(devices_[2].reservations, 1u);
}

TEST_F(ReachTest, WithdrawsARowOfWhichAPieceWasFreed) {
  constexpr uint64_t kPieces = 20;
  AllocateRow(kMiB, 7, kPieces, kMiB / 16);
  ASSERT_EQ(Ask(kMiB, kMiB), SL_OK);
  Free(kMiB + (kPieces - 5) * kMiB / 16);
  while (ranks_[0]->Keep(true)) {
  }
  EXPECT_EQ(ranks_[0]->offered(), 0u);
  KeepPeers();
  EXPECT_EQ(ranks_[2]->mapped(), 0u);
}

TEST_F(ReachTest, KeepsDescriptorsUntilAllPeersHaveThem) {
  AllocateRow(kMiB, 7, 2);
  ASSERT_EQ(Ask(kMiB, 2 * kMiB), SL_OK);
  EXPECT_TRUE(Fetch(0, {0, 1}).ok());
  ranks_[0]->Keep(true);
  EXPECT_EQ(Fetch(0, {0, 1}).status().code(), SL_ERR_STATE);
}

TEST_F(ReachTest, RefusesARowThatCannotAllBeShared) {
  Allocate(kMiB, 7, Kind::kByHand);
  Allocate(2 * kMiB, 8);  // no descriptor
  EXPECT_EQ(Ask(kMiB, 2 * kMiB), SL_ERR_UNSUPPORTED);
  AllocateRow(8 * kMiB, 100, Extent::kMostPieces + 1, 4096);
  EXPECT_EQ(Ask(8 * kMiB, (Extent::kMostPieces + 1) * 4096), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(rings_, 0u);
  EXPECT_EQ(Ask(8 * kMiB, Extent::kMostPieces * 4096), SL_OK);
  EXPECT_EQ(devices_[2].imports, Extent::kMostPieces);
}

TEST_F(ReachTest, LeavesNothingOfARowThatAPeerCannotMap) {
  AllocateRow(kMiB, 7, 3);
  devices_[2].imports_left = 2;
  EXPECT_EQ(Ask(kMiB, 3 * kMiB), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(devices_[2].mappings, 0u);
  EXPECT_EQ(devices_[2].reservations, 0u);
}

TEST_F(ReachTest, IsServedByTheKeeper) {
  ReachKeeper keeper;
  for (const auto& reach : ranks_) ASSERT_TRUE(keeper.Add(reach.get()).ok());
  Allocate(kMiB, 7);
  keeper.Wake();
  std::thread late([&] {  // of an offer that comes after it has looked
    while (rings_ == 0) std::this_thread::yield();
    keeper.Wake();
  });
  EXPECT_EQ(ranks_[0]->Addresses(At(kMiB), 16, 0, addresses_), SL_OK);
  late.join();
  Free(kMiB);  // and it looks after what was offered, by itself
  while (ranks_[0]->offered() != 0) std::this_thread::yield();
  keeper.Wake();
  for (const auto& reach : ranks_) keeper.Remove(reach.get());
}

}  // namespace
}  // namespace sl::kernel
