// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/handle_desk.h"

#include <algorithm>
#include <array>
#include <string>

#include "kernel/control/local_socket.h"
#include "kernel/events/log.h"
#include "kernel/memory/extent.h"

namespace sl::kernel {
namespace {

constexpr size_t kOpaqueBytes = sizeof(sl_memory_handle_t::fabric);

struct Head {
  uint32_t type;
  uint32_t count;
};

}  // namespace

void HandleDesk::Lay(const Ticket& ticket, HandleList handles) {
  std::lock_guard lock(mutex_);
  laid_.insert_or_assign(ticket.place, Laid{ticket.turn, std::move(handles)});
}

void HandleDesk::TakeBack(uint64_t place) {
  std::lock_guard lock(mutex_);
  laid_.erase(place);
}

void HandleDesk::TakeAllBack() {
  std::lock_guard lock(mutex_);
  laid_.clear();
}

// An empty socket takes all of it at once.
void HandleDesk::Serve(Switchboard::Caller* caller) {
  Reader in(caller->body);
  const Ticket ticket = in.Get<Ticket>();
  Head head{};
  Writer answer;
  std::vector<int> descriptors;
  std::lock_guard lock(mutex_);
  const auto found = in.ok() ? laid_.find(ticket.place) : laid_.end();
  if (found != laid_.end() && found->second.turn == ticket.turn) {
    const HandleList& list = found->second.list;
    head = {list.handles[0].type, static_cast<uint32_t>(list.handles.size())};
    answer.Put(head);
    for (const sl_memory_handle_t& handle : list.handles) {
      answer.Put(handle.bytes);
      if (head.type != SL_HANDLE_FD) answer.Append(handle.fabric);
    }
    for (const Fd& descriptor : list.descriptors) descriptors.push_back(descriptor.get());
  } else {
    answer.Put(head);
  }
  Status sent = SendAll(caller->stream, answer.bytes(), {NowNs()});
  if (sent.ok() && !descriptors.empty()) sent = SendDescriptors(caller->stream.fd(), descriptors, {NowNs()});
  if (!sent.ok()) Logf(SL_LOG_WARN, "a peer's buffer stays unreached: {}", sent.message());
}

Bytes HandleDesk::Ask(const Ticket& ticket) {
  Writer frame;
  frame.Put(ticket);
  return frame.Take();
}

Result<HandleList> HandleDesk::Receive(const Stream& stream, const Patience& patience) {
  Head head{};
  SL_TRY(ReceiveAll(stream, {reinterpret_cast<uint8_t*>(&head), sizeof(head)}, patience));
  if (head.count == 0) return Status(SL_ERR_STATE, "its owner has withdrawn it meanwhile");
  const bool are_descriptors = head.type == SL_HANDLE_FD;
  if (head.count > Extent::kMostPieces || (!are_descriptors && head.type != SL_HANDLE_FABRIC)) {
    return Status(SL_ERR_LINK_CORRUPT,
                  "its owner sent " + std::to_string(head.count) + " handles of type " + std::to_string(head.type));
  }
  Bytes body(head.count * (sizeof(uint64_t) + (are_descriptors ? 0 : kOpaqueBytes)));
  SL_TRY(ReceiveAll(stream, body, patience));
  HandleList list;
  if (are_descriptors) {
    SL_ASSIGN(list.descriptors, ReceiveDescriptors(stream.fd(), head.count, patience));
  }
  Reader in(body);
  for (uint32_t i = 0; i < head.count; ++i) {
    sl_memory_handle_t& handle = list.handles.emplace_back();
    handle.struct_size = sizeof(handle);
    handle.type = head.type;
    handle.fd = are_descriptors ? list.descriptors[i].get() : -1;
    handle.bytes = in.Get<uint64_t>();
    if (are_descriptors) continue;
    const auto opaque = in.Get<std::array<uint8_t, kOpaqueBytes>>();
    std::copy(opaque.begin(), opaque.end(), handle.fabric);
  }
  return list;
}

}  // namespace sl::kernel
