// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/heap_sharing.h"

#include <sys/stat.h>

#include <utility>

#include "kernel/comm/process.h"
#include "kernel/control/local_socket.h"
#include "kernel/events/log.h"

namespace sl::kernel {
namespace {

sl_memory_handle_t HandleOf(const Fd& descriptor, uint64_t bytes) {
  sl_memory_handle_t handle{};
  handle.struct_size = sizeof(handle);
  handle.type = SL_HANDLE_FD;
  handle.fd = descriptor.get();
  handle.bytes = bytes;
  return handle;
}

}  // namespace

Result<std::unique_ptr<SymmetricHeap>> HeapSharing::Segment(const Device& device, uint64_t slice_bytes) const {
  if (!leads()) return Fetch(device, slice_bytes);
  SL_ASSIGN(auto heap, SymmetricHeap::Create(device.ops, device.handle, local_size(), slice_bytes));
  SL_TRY(Serve(*heap, FrameType::kHeap));
  return heap;
}

Result<std::unique_ptr<SymmetricHeap>> HeapSharing::Fetch(const Device& device, uint64_t slice_bytes) const {
  SL_ASSIGN(const Stream stream, Ask(locals_.front(), FrameType::kHeap));
  SL_ASSIGN(const Fd descriptor, ReceiveDescriptor(stream.fd(), setting_.patience));
  struct stat facts {};
  if (fstat(descriptor.get(), &facts) != 0) return Status(SL_ERR_SYSTEM, "fstat of the symmetric heap failed");
  return SymmetricHeap::Map(device.ops, device.handle, local_size(), slice_bytes,
                            HandleOf(descriptor, static_cast<uint64_t>(facts.st_size)));
}

Status HeapSharing::Serve(const SymmetricHeap& heap, FrameType asked_by) const {
  if (local_size() == 1) return {};
  SL_ASSIGN(const sl_memory_handle_t handle, heap.Export());
  const Fd descriptor(handle.fd);
  for (uint32_t served = 1; served < local_size(); ++served) {
    SL_ASSIGN(const Switchboard::Caller member, setting_.extension->Take(asked_by, setting_.patience));
    SL_TRY(SendDescriptor(member.stream.fd(), descriptor.get(), setting_.patience));
  }
  return {};
}

Result<Stream> HeapSharing::Ask(uint32_t rank, FrameType type) const {
  const Endpoint& endpoint = setting_.roster.cards()[rank].endpoint;
  const Switchboard* switchboard = setting_.extension->switchboard();
  if (!switchboard->IsHere(endpoint.space)) {
    return Status(SL_ERR_CONFIG, "NCCL_HOSTID says that " + ToText(endpoint) +
                                     " is on this host, but it runs under another kernel or in another network "
                                     "namespace; give NCCL_HOSTID different values, or none");
  }
  return switchboard->Call(endpoint, setting_.tree->identity().secret, type, {}, setting_.patience);
}

// Descriptors are asked for when all have agreed to it, so that nobody takes a question about this segment for one
// about another one.
Result<std::unique_ptr<SymmetricHeap>> HeapSharing::HostSegment(const Device& host, const Device& device,
                                                                uint64_t slice_bytes) const {
  Result<std::unique_ptr<SymmetricHeap>> heap(Status(SL_ERR_UNSUPPORTED, "no algorithm is there, or let, to use it"));
  if (slice_bytes != 0 && leads()) heap = SymmetricHeap::Create(host.ops, host.handle, local_size(), slice_bytes);
  SL_ASSIGN(bool all, setting_.tree->AllAgree(slice_bytes != 0 && (!leads() || heap.ok()), setting_.patience));
  Status mine = leads() ? heap.status() : Status();
  if (all) {
    if (leads()) SL_TRY(Serve(*heap.value(), FrameType::kHeap));
    if (!leads()) heap = Fetch(host, slice_bytes);
    mine = heap.ok() ? heap.value()->Attach(device.ops, device.handle) : heap.status();
    SL_ASSIGN(all, setting_.tree->AllAgree(mine.ok(), setting_.patience));
  }
  if (!all) {
    Logf(SL_LOG_WARN, "devices do not meet in memory of the host, which makes operations slower: {}",
         mine.ok() ? "another rank says why" : mine.message());
    return std::unique_ptr<SymmetricHeap>();
  }
  Logf(SL_LOG_INFO, "rank {}: devices do not reach each other's memory, their kernels meet in {} MiB of the host's",
       setting_.rank, heap.value()->bytes() >> 20);
  return heap;
}

// Every rank asks all others before it answers any: answering waits for nobody but those who have asked. Whether a GPU
// reaches another one's memory is known when it has mapped it.
Result<std::unique_ptr<SymmetricHeap>> HeapSharing::Slices(const Device& device, uint64_t slice_bytes) const {
  if (!device.can_export())
    return SymmetricHeap::CreateAlone(device.ops, device.handle, slice_bytes);  // nobody else is
  const uint32_t size = local_size();
  SL_ASSIGN(auto heap, SymmetricHeap::CreateSlice(device.ops, device.handle, size, setting_.rank, slice_bytes));
  std::vector<std::pair<uint32_t, Stream>> asked;
  for (uint32_t step = 1; step < size; ++step) {
    const uint32_t rank = (setting_.rank + step) % size;
    SL_ASSIGN(Stream stream, Ask(rank, FrameType::kSlice));
    asked.emplace_back(rank, std::move(stream));
  }
  SL_TRY(Serve(*heap, FrameType::kSlice));
  Status reached;
  for (const auto& [rank, stream] : asked) {
    SL_ASSIGN(const Fd descriptor, ReceiveDescriptor(stream.fd(), setting_.patience));
    Status mapped = heap->AddSlice(rank, HandleOf(descriptor, heap->stride()));
    if (mapped.code() == SL_ERR_DEVICE_MEMORY) return mapped;
    if (mapped.ok() || !reached.ok()) continue;
    reached = mapped;
    Logf(SL_LOG_WARN, "the device does not reach the memory of {}, operations go through the host: {}",
         setting_.roster.NameOf(rank), mapped.message());
  }
  SL_ASSIGN(const bool all, setting_.tree->AllAgree(reached.ok(), setting_.patience));
  if (!all) heap.reset();
  return heap;
}

}  // namespace sl::kernel
