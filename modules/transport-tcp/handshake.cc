// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/handshake.h"

#include <algorithm>
#include <utility>

namespace sl::transport_tcp {
namespace {

template <typename Message>
Message Head() {
  Message message = {};
  message.magic = kWireMagic;
  message.version = kWireVersion;
  message.bytes = sizeof message;
  return message;
}

// What is wrong with the head of a message that HasHead() refuses.
template <typename Message>
std::string WhyNoHead(const Message& message) {
  if (message.magic != kWireMagic) return "that spoke another protocol";
  if (message.version == kWireVersion) return "with a message of a wrong length";
  return "with wire version " + std::to_string(message.version) + ", wanted " + std::to_string(kWireVersion) +
         ": use one version of Starling on all ranks";
}

}  // namespace

Step Host::Refuse(std::string why) {
  why_ = std::move(why);
  return Step::kRefused;
}

Step Host::Advance(size_t bytes) {
  if (!proved_) return hello_.Take(bytes) ? Judge() : Step::kMore;
  if (!confirm_.Take(bytes)) return Step::kMore;
  const Confirm& confirm = confirm_.message();
  if (!HasHead(confirm)) return Refuse(WhyNoHead(confirm));
  if (!SameProof(confirm.proof, ProveConfirm(self_.secret, confirm, challenge_.proof))) {
    return Refuse("with a repeated hello");
  }
  return Step::kDone;
}

Step Host::Judge() {
  const Hello& hello = hello_.message();
  if (!HasHead(hello)) return Refuse(WhyNoHead(hello));
  if (!SameProof(hello.proof, ProveHello(self_.secret, hello, self_.listener.data()))) {
    return Refuse("with a wrong secret");
  }
  if (hello.to != self_.rank || hello.from >= self_.size) {
    return Refuse("that said it was rank " + std::to_string(hello.from) + " for rank " + std::to_string(hello.to));
  }
  if (hello.window_bytes > kMaxWindowBytes || hello.signal_count > kMaxSignals) {
    return Refuse("from rank " + std::to_string(hello.from) + " for a window of " + std::to_string(hello.window_bytes) +
                  " bytes and " + std::to_string(hello.signal_count) + " signals");
  }
  challenge_ = Head<Challenge>();
  std::copy(fresh_.begin(), fresh_.end(), challenge_.nonce);
  challenge_.proof = ProveChallenge(self_.secret, challenge_, hello.proof);
  proved_ = true;
  return Step::kSay;
}

Caller::Caller(const uint8_t* secret, const Hello& hello, const Nonce& listener, const Nonce& fresh)
    : secret_(secret), hello_(hello) {
  const Hello head = Head<Hello>();
  hello_.magic = head.magic;
  hello_.version = head.version;
  hello_.bytes = head.bytes;
  std::copy(fresh.begin(), fresh.end(), hello_.nonce);
  hello_.proof = ProveHello(secret_, hello_, listener.data());
}

Step Caller::Advance(size_t bytes) {
  if (!challenge_.Take(bytes)) return Step::kMore;
  const Challenge& challenge = challenge_.message();
  if (!HasHead(challenge)) {
    why_ = "answered by somebody " + WhyNoHead(challenge);
    return Step::kRefused;
  }
  if (!SameProof(challenge.proof, ProveChallenge(secret_, challenge, hello_.proof))) {
    why_ = "answered by somebody with a wrong secret";
    return Step::kRefused;
  }
  confirm_ = Head<Confirm>();
  confirm_.proof = ProveConfirm(secret_, confirm_, challenge.proof);
  return Step::kDone;
}

}  // namespace sl::transport_tcp
