// SPDX-License-Identifier: Apache-2.0
//
// Both ends of a handshake as functions of bytes: no socket, no clock, no randomness of their own, so that a fuzzer
// drives the very same code. Each reads exactly the bytes of the message it waits for and not one of what follows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "modules/transport-tcp/wire.h"

namespace sl::transport_tcp {

using Nonce = std::array<uint8_t, kNonceBytes>;

enum class Step {
  kMore,     // wants more bytes
  kSay,      // has something to say, then wants more
  kDone,     // the peer has proved itself; what there is to say comes before anything else
  kRefused,  // why() has the reason; hang up
};

// Collects one message of known length.
template <typename Message>
class Inbox {
 public:
  uint8_t* room() { return reinterpret_cast<uint8_t*>(&message_) + have_; }
  size_t room_bytes() const { return sizeof message_ - have_; }
  // True when it is complete.
  bool Take(size_t bytes) {
    have_ += bytes;
    return have_ == sizeof message_;
  }
  const Message& message() const { return message_; }

 private:
  Message message_ = {};
  size_t have_ = 0;
};

// The accepting end.
class Host {
 public:
  // Who this end is. `secret` is borrowed.
  struct Identity {
    const uint8_t* secret = nullptr;
    uint32_t rank = 0;
    uint32_t size = 0;
    Nonce listener = {};
  };

  // `fresh` must never have been used before.
  Host(const Identity& self, const Nonce& fresh) : self_(self), fresh_(fresh) {}

  uint8_t* room() { return proved_ ? confirm_.room() : hello_.room(); }
  size_t room_bytes() const { return proved_ ? confirm_.room_bytes() : hello_.room_bytes(); }
  // After so many bytes were stored to room(): kMore | kSay, the challenge | kDone | kRefused.
  Step Advance(size_t bytes);

  // It has shown a hello that somebody made who knows the secret.
  bool proved() const { return proved_; }
  const Hello& hello() const { return hello_.message(); }
  const Challenge& challenge() const { return challenge_; }
  const std::string& why() const { return why_; }

 private:
  Step Refuse(std::string why);
  Step Judge();

  const Identity self_;
  const Nonce fresh_;
  Inbox<Hello> hello_;
  Inbox<Confirm> confirm_;
  Challenge challenge_ = {};
  bool proved_ = false;  // the hello; a replay of it proves nothing yet
  std::string why_;
};

// The connecting end. Says its hello first.
class Caller {
 public:
  // Completes `hello`, whose ranks, lane, tag and sizes are set.
  Caller(const uint8_t* secret, const Hello& hello, const Nonce& listener, const Nonce& fresh);

  uint8_t* room() { return challenge_.room(); }
  size_t room_bytes() const { return challenge_.room_bytes(); }
  // kMore | kDone, and the confirmation is to be said | kRefused.
  Step Advance(size_t bytes);

  const Hello& hello() const { return hello_; }
  const Confirm& confirm() const { return confirm_; }
  const std::string& why() const { return why_; }

 private:
  const uint8_t* const secret_;
  Hello hello_;
  Inbox<Challenge> challenge_;
  Confirm confirm_ = {};
  std::string why_;
};

}  // namespace sl::transport_tcp
