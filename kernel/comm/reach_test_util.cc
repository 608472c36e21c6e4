// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/reach_test_util.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

namespace sl::kernel {
namespace {

using Kind = sl_device_t::Kind;

constexpr uint64_t kReserved = uint64_t{1} << 44;

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
  device->done += 'i';
  device->last_type = handle->type;
  *out = new sl_mapping_t{source, at != nullptr ? reinterpret_cast<uint64_t>(at) : source + device->shift};
  if (at != nullptr) device->placed[(*out)->address] = source;
  *address = reinterpret_cast<void*>((*out)->address);
  return SL_OK;
}

sl_status_t Unmap(sl_device_t* device, sl_mapping_t* mapping) {
  --device->mappings;
  device->done += 'u';
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

}  // namespace

ReachTest::ReachTest() : slice_(OfferBoard::SliceBytes(kRanks)), memory_(kRanks * slice_) {
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    devices_[rank].shift = (rank + 1) * kShift;
    ranks_.push_back(Make(rank));
  }
}

ReachTest::~ReachTest() {
  for (const auto& reach : ranks_) reach->Close();
  for (const sl_device_t& device : devices_) {
    EXPECT_EQ(device.mappings, 0u);
    EXPECT_EQ(device.reservations, 0u);
  }
  const std::lock_guard lock(sl_device_t::mutex);
  sl_device_t::allocations.clear();
}

std::unique_ptr<Reach> ReachTest::Make(uint32_t rank) {
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
      .is_over =
          [this] {
            ++waits_;
            return is_over_.load();
          },
      .gives_up = [this, rank] { return rank == 0 && gives_up_.load(); },
      .desk = &desks_[rank],
      .fetch = [this](uint32_t owner, const HandleDesk::Ticket& ticket) { return Fetch(owner, ticket); },
  });
}

Result<HandleList> ReachTest::Fetch(uint32_t owner, const HandleDesk::Ticket& ticket) {
  on_fetch_();
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  Switchboard::Caller caller{Stream(Fd(ends[0])), FrameType::kHandles, HandleDesk::Ask(ticket)};
  const Stream stream{Fd(ends[1])};
  desks_[owner].Serve(&caller);
  return HandleDesk::Receive(stream, {NowNs() + patience_ns_});
}

void ReachTest::Allocate(uint64_t address, uint64_t id, Kind kind, uint64_t bytes) {
  const std::lock_guard lock(sl_device_t::mutex);
  sl_device_t::allocations[address] = {bytes, id, kind};
}

void ReachTest::AllocateRow(uint64_t address, uint64_t first_id, uint64_t count, uint64_t bytes) {
  for (uint64_t i = 0; i < count; ++i) Allocate(address + i * bytes, first_id + i, Kind::kByHand, bytes);
}

void ReachTest::Free(uint64_t address) {
  const std::lock_guard lock(sl_device_t::mutex);
  sl_device_t::allocations.erase(address);
}

void ReachTest::KeepPeers() {
  for (uint32_t rank = 1; rank < kRanks; ++rank) ranks_[rank]->Keep(Yes);
}

sl_status_t ReachTest::Ask(uint64_t address, uint64_t bytes, uint64_t capture) {
  std::atomic<bool> asked{false};
  std::thread peers([&] {
    while (!asked) KeepPeers();
  });
  const sl_status_t status = ranks_[0]->Addresses(At(address), bytes, capture, addresses_);
  asked = true;
  peers.join();
  return status;
}

Reach::Pin ReachTest::PinWhileKept(uint64_t address, uint64_t bytes) {
  std::atomic<bool> asked{false};
  std::thread peers([&] {
    while (!asked) KeepPeers();
  });
  const Reach::Pin pin = ranks_[0]->PinAddresses(At(address), bytes, addresses_);
  asked = true;
  peers.join();
  return pin;
}

sl_status_t ReachTest::AskUntilItIsOffered(uint64_t address) {
  const uint64_t deadline_ns = NowNs() + patience_ns_;
  for (;;) {
    const sl_status_t status = Ask(address);
    if (status != SL_ERR_UNSUPPORTED || NowNs() >= deadline_ns) return status;
  }
}

}  // namespace sl::kernel
