// SPDX-License-Identifier: Apache-2.0
//
// A transport in memory for tests of links: ranks of one process, in order, with seeded losses. Mapped connections give
// CPU access to the peer's window and lose nothing but the connection; others queue each put and deliver it in the
// receiver's progress().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "kernel/link/link_table.h"
#include "sdk/fd.h"
#include "sl_transport.h"

namespace sl::kernel {

struct FakeFaults {
  uint32_t drop_per_million = 0;       // of puts, signals alone among them
  uint32_t duplicate_per_million = 0;  // delivered twice, one after the other
  uint32_t delay_polls = 0;            // up to so many progress() calls of the receiver
  uint32_t queue_capacity = 64;        // then AGAIN
  uint32_t kill_every_puts = 0;        // resets the connection that makes the n-th put
  bool reads_late = false;             // sources of puts are read when they are delivered, as a NIC may
  uint64_t seed = 1;
};

class FakeNet;

// One end; `pair` is shared by both.
struct FakePair;
struct FakeEnd {
  FakeNet* net;
  std::shared_ptr<FakePair> pair;
  uint32_t side;
};

struct FakePut {
  std::vector<uint8_t> bytes;
  const uint8_t* source;  // of as many bytes, which are still to be read; NULL: they were
  uint64_t offset;
  uint32_t signal;
  uint64_t value;
  uint64_t due;  // the receiver's poll count
};

struct FakePair {
  std::array<uint32_t, 2> ranks;
  std::array<std::vector<uint8_t>, 2> windows;
  std::array<std::vector<uint64_t>, 2> signals;
  std::array<std::deque<FakePut>, 2> inbound;  // by receiving side
  std::array<std::atomic<uint32_t>, 2> states;
  sl_connect_args_t args;
  bool accepted = false;
  size_t number = 0;                   // in the order of making
  std::array<uint64_t, 2> ready = {};  // by receiving side: when the next payload may be delivered
  std::array<bool, 2> unsaid = {};     // by sending side: something was put since the last notice
  std::array<bool, 2> held = {};       // by receiving side: what was put stays on its way
};

// Every rank's sl_transport_t is a FakePort of one net.
struct FakePort {
  FakeNet* net;
  uint32_t rank;
  bool listening = true;
  bool up = true;
  const char* outage = nullptr;    // why the network does not carry what it connects with
  const char* shortage = nullptr;  // why it cannot connect, for want of what the system has not got
  uint64_t polls = 0;
  uint64_t messages = 0;
  sl_doorbell_t bell = {};
  sl::Fd news;  // an eventfd, where the net has descriptors
};

class FakeNet {
 public:
  FakeNet(uint32_t size, bool mapped, FakeFaults faults = {});
  ~FakeNet();

  static const sl_transport_ops_t* Ops();
  sl_transport_t* Transport(uint32_t rank) { return reinterpret_cast<sl_transport_t*>(ports_[rank].get()); }
  std::vector<sl_address_t> Addresses() const;
  // As a rank's table uses it.
  LinkTransport LinkTransportOf(uint32_t rank);

  // Resets every connection, as a crash of the network would.
  void KillAll();
  // Resets the n-th of the connections that are up, counted modulo their number.
  void KillOne(size_t n);
  // The k-th connection that was made delivers a put with payload every turns[k % size] calls of progress(); those
  // without payload do not wait.
  void SetPace(std::vector<uint32_t> turns) { pace_ = std::move(turns); }
  // What the k-th connection that was made brings to the rank stays on its way for as long as it is held.
  void Hold(size_t k, uint32_t rank, bool held);
  // From now on ranks are told of news by a descriptor each, as of a network, and not by doorbells.
  void UseDescriptors();
  // The rank refuses connections, as a process that has gone.
  void StopListening(uint32_t rank);
  // The rank's port is down: it cannot connect.
  void SetPortUp(uint32_t rank, bool up);
  // The network does not carry the rank's connections, say these words, though its port is up; NULL: not any more.
  void SetOutage(uint32_t rank, const char* words);
  // The rank lacks what connecting needs, says these words; NULL: not any more.
  void SetShortage(uint32_t rank, const char* words);
  void set_faults(const FakeFaults& faults) {
    const std::lock_guard lock(mutex_);
    faults_ = faults;
  }
  size_t live_ends() const { return Locked(live_ends_); }
  uint64_t puts() const { return Locked(puts_); }
  uint64_t dropped() const { return Locked(dropped_); }
  // Bursts of puts that a rank ended with a notice: what a network sends in one call each.
  uint64_t messages(uint32_t rank) const { return Locked(ports_[rank]->messages); }

 private:
  friend struct FakeCalls;
  template <typename T>
  T Locked(const T& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }
  bool Chance(uint32_t per_million) { return per_million != 0 && random_() % 1'000'000 < per_million; }
  sl_connection_t* NewEnd(std::shared_ptr<FakePair> pair, uint32_t side);

  const bool mapped_;
  bool has_descriptors_ = false;
  mutable std::mutex mutex_;  // guards everything below, and all pairs but mapped windows and signals
  FakeFaults faults_;
  std::mt19937_64 random_;
  std::vector<uint32_t> pace_;
  std::vector<std::unique_ptr<FakePort>> ports_;
  std::vector<std::weak_ptr<FakePair>> pairs_;
  std::vector<std::deque<std::shared_ptr<FakePair>>> waiting_;  // by accepting rank
  size_t live_ends_ = 0;
  uint64_t puts_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace sl::kernel
