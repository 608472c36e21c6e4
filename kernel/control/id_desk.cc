// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/id_desk.h"

#include <netdb.h>
#include <sys/socket.h>
#include <time.h>

#include <charconv>
#include <cstring>

#include "kernel/profile/profile.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kAskAgainNs = 20'000'000;
constexpr const char* kKey = "comm.rendezvous (NCCL_COMM_ID)";

Status Wrong(const std::string& text, const std::string& why) {
  return {SL_ERR_CONFIG, std::string(kKey) + " is \"" + text + "\": " + why};
}

std::string WhereOf(const RendezvousId& id) { return std::string(kKey) + " is " + ToText(id.rendezvous.net); }

bool ParsePort(const std::string& text, uint16_t* out_port) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *out_port);
  return error == std::errc() && stop == end && *out_port != 0;
}

Result<RendezvousId> Ask(const RendezvousId& asked, uint32_t rank, uint64_t spent, const Switchboard& switchboard,
                         const Patience& patience) {
  Writer who;
  who.Put(rank);
  who.Put(spent);
  SL_ASSIGN(const Stream stream,
            switchboard.Call(asked.rendezvous, asked.secret, FrameType::kId, who.bytes(), patience));
  SL_ASSIGN(const Frame frame, ReceiveFrame(stream, kMaxHelloBytes, patience));
  sl_unique_id_t bytes{};
  if (frame.header.type != FrameType::kId || frame.payload.size() != sizeof(bytes)) {
    return Status(SL_ERR_LINK_CORRUPT, WhereOf(asked) + ": what listens there gives no id");
  }
  std::memcpy(&bytes, frame.payload.data(), sizeof(bytes));
  return DecodeId(bytes);
}

}  // namespace

Result<RendezvousId> IdOfAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  uint16_t port = 0;
  if (colon == std::string::npos || host.empty() || !ParsePort(text.substr(colon + 1), &port)) {
    return Wrong(text, "no host and port; write 192.0.2.1:4711 or [fd00::1]:4711, of rank 0's host");
  }
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return Wrong(text, host + " is not found (" + gai_strerror(error) + "); name rank 0's host, or give its address");
  }
  sockaddr_storage address{};
  std::memcpy(&address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  RendezvousId id{};
  id.magic = kIdMagic;
  id.version = kIdVersion;
  id.rendezvous.net = FromSocketAddress(address);
  id.rendezvous.net.port = port;
  id.rendezvous.extension = HashText("rendezvous at " + ToText(id.rendezvous.net));
  id.secret = DeriveSecret({}, "rendezvous at " + ToText(id.rendezvous.net), id.nonce(), 0);
  return id;
}

bool IsAddressOnly(const RendezvousId& id) { return id.rendezvous.net.valid() && id.rendezvous.space == HostId{}; }

void SpentIds::AddMet(const RendezvousId& asked, uint64_t nonce) {
  std::lock_guard lock(mutex_);
  met_[asked.nonce()] = nonce;
  std::erase_if(failed_, [&](const auto& entry) { return entry.first.first == asked.nonce(); });
}

void SpentIds::AddFailed(const RendezvousId& asked, uint32_t rank, uint64_t nonce) {
  std::lock_guard lock(mutex_);
  failed_[{asked.nonce(), rank}] = nonce;
}

uint64_t SpentIds::Newest(const RendezvousId& asked, uint32_t rank) const {
  std::lock_guard lock(mutex_);
  if (const auto failed = failed_.find({asked.nonce(), rank}); failed != failed_.end()) return failed->second;
  const auto met = met_.find(asked.nonce());
  return met != met_.end() ? met->second : 0;
}

Result<std::unique_ptr<IdDesk>> IdDesk::Open(ControlThread* control, NetChoice choice, const RendezvousId& asked,
                                             const RendezvousId& given) {
  choice.listen_at = asked.rendezvous.net;
  std::unique_ptr<IdDesk> desk(new IdDesk(control, choice));
  const auto give = [given](Switchboard::Caller caller) { Give(given, caller); };
  SL_TRY(desk->switchboard_.Open(asked.nonce(), asked.secret, give).status());
  if (const Status opened = desk->switchboard_.OpenNet().status(); !opened.ok()) {
    return Status(SL_ERR_CONFIG, WhereOf(asked) + ", where rank 0 cannot listen: " + opened.message() +
                                     "; give a free port and an address of rank 0's host, on all ranks alike");
  }
  return desk;
}

void IdDesk::Give(const RendezvousId& id, const Switchboard::Caller& caller) {
  Reader in(caller.body);
  const auto rank = in.Get<uint32_t>();
  const auto spent = in.Get<uint64_t>();
  if (caller.type != FrameType::kId || !in.ok() || !in.empty()) return;  // it finds the connection closed
  // A rank that wants the next communicator asks until rank 0 gives an id for that.
  const bool is_through = spent == id.nonce();
  const sl_unique_id_t bytes = EncodeId(id);
  const std::span<const uint8_t> payload(reinterpret_cast<const uint8_t*>(&bytes), sizeof(bytes));
  const Status again(SL_ERR_STATE, "rank " + std::to_string(rank) + " has used the id there");
  [[maybe_unused]] const Status sent =  // an empty socket takes this much at once
      SendAll(caller.stream, is_through ? EncodeRefusal(again) : EncodeFrame(FrameType::kId, 0, payload), {NowNs()});
}

Result<RendezvousId> FetchId(const RendezvousId& asked, uint32_t rank, uint64_t spent, const Switchboard& switchboard,
                             const Patience& patience) {
  for (;;) {
    Result<RendezvousId> id = Ask(asked, rank, spent, switchboard, patience);
    const sl_status_t code = id.status().code();
    if (code == SL_OK || code == SL_ERR_MISMATCH || patience.cancelled()) return id;
    if (NowNs() + kAskAgainNs >= patience.deadline_ns) {
      return Status(SL_ERR_TIMEOUT, WhereOf(asked) + ": rank 0 did not answer there in time (" + id.status().message() +
                                        "); see that it has started, and that the address is one of its host");
    }
    const timespec nap{0, static_cast<long>(kAskAgainNs)};
    nanosleep(&nap, nullptr);
  }
}

}  // namespace sl::kernel
