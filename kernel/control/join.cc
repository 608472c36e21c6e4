// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/join.h"

#include <poll.h>

#include <algorithm>

#include "kernel/profile/profile.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kLookNs = 20'000'000;

// A frame, or why waiting for one is pointless.
Result<Frame> AwaitFrame(const Stream& stream, const Patience& patience, const std::function<Status()>& look) {
  for (;;) {
    const uint64_t slice_ns = std::min(patience.deadline_ns, NowNs() + kLookNs);
    const Status waited = stream.has_input()
                              ? Status()
                              : WaitFor(stream.fd(), POLLIN, {slice_ns, patience.cancel_ns, patience.also_cancel_ns});
    if (waited.ok()) return ReceiveFrame(stream, kMaxHelloBytes, patience);
    if (waited.code() != SL_ERR_TIMEOUT) return waited;
    if (NowNs() >= patience.deadline_ns) {
      return Status(SL_ERR_TIMEOUT, "waited for the other ranks until the time was over");
    }
    if (Status found = look ? look() : Status(); !found.ok()) {
      [[maybe_unused]] const Status sent = SendAll(stream, EncodeRefusal(found), {NowNs()});
      return found;
    }
  }
}

}  // namespace

Result<Welcome> AwaitWelcome(const Stream& stream, Switchboard* switchboard, const Patience& patience,
                             const std::function<Status()>& look) {
  for (;;) {
    SL_ASSIGN(const Frame frame, AwaitFrame(stream, patience, look));
    Reader in(frame.payload);
    if (frame.header.type == FrameType::kWelcome) {
      Welcome welcome;
      welcome.nonce = in.Get<uint64_t>();
      welcome.neighbours.parent = in.Get<Endpoint>();
      bool is_good = IsWellFormed(welcome.neighbours.parent);
      while (in.ok() && !in.empty()) {
        const Endpoint& child = welcome.neighbours.children.emplace_back(in.Get<Endpoint>());
        is_good = is_good && IsWellFormed(child);
      }
      if (in.ok() && is_good) return welcome;
    }
    if (frame.header.type != FrameType::kOpen) return Status(SL_ERR_LINK_CORRUPT, "the rendezvous spoke out of turn");
    const Result<NetAddress> opened = switchboard->OpenNet();
    if (!opened.ok()) {
      [[maybe_unused]] const Status sent = SendAll(stream, EncodeRefusal(opened.status()), patience);
      return opened.status();
    }
    Writer where;
    where.Put(opened.value());
    SL_TRY(SendAll(stream, EncodeFrame(FrameType::kOpened, 0, where.bytes()), patience));
  }
}

Result<TreeNeighbours> JoinRendezvous(const RendezvousId& id, const JoinRequest& request, Switchboard* switchboard,
                                      const Patience& patience, const std::function<Status()>& look) {
  const Result<Stream> stream =
      switchboard->Call(id.rendezvous, id.secret, FrameType::kJoin, request.Encode(), patience);
  if (!stream.ok()) {
    const Status& why = stream.status();
    if (why.code() != SL_ERR_PEER_LOST && why.code() != SL_ERR_TIMEOUT) return why;
    const char* or_else = request.terms.empty() ? "" : ", or ranks passed different numbers of ids";
    return Status(why.code(), "nobody serves the unique id: " + ToText(id.rendezvous) +
                                  ", which made it, has ended or is out of reach" + or_else + " (" + why.message() +
                                  ")");
  }
  const Result<Welcome> welcome = AwaitWelcome(stream.value(), switchboard, patience, look);
  if (welcome.ok()) return welcome.value().neighbours;
  const Status& why = welcome.status();
  if (why.code() != SL_ERR_PEER_LOST) return why;
  return Status(why.code(), "the ranks did not meet at " + ToText(id.rendezvous) +
                                ", which serves the unique id: " + why.message());
}

RendezvousId LeadersId(const RendezvousId& first) {
  RendezvousId id = first;
  id.rendezvous.extension = HashText("leaders/" + std::to_string(first.nonce()));
  id.secret = DeriveSecret(first.secret, "leaders", first.nonce(), 0);
  return id;
}

}  // namespace sl::kernel
