// SPDX-License-Identifier: Apache-2.0
//
// Ranks of one job in this process, each with a transport of its own, and the connections between them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sl_transport.h"
#include "tests/conformance/kit/subject.h"

namespace sl::conform::transport {

constexpr uint32_t kSignals = 8;
constexpr uint64_t kWindow = 65536;
// How long anything that must happen may take; nothing waits that long when all is well.
constexpr uint64_t kPatienceMs = 5000;

// One end of a connection. Not movable: its address is in use.
struct End {
  sl_transport_t* transport = nullptr;
  sl_connection_t* connection = nullptr;
  bool accepted = false;
  sl_window_t window = {};
};

class Ranks {
 public:
  // Opens `size` transports; skips the test when there is no usable port. Ranks of `secrets` other than 0 know another
  // secret.
  Ranks(Trial& trial, uint32_t size, const std::vector<uint8_t>& secrets = {});
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // A connection from one rank to another, up at both ends, windows filled in. Ends the test when it does not come up.
  void Connect(uint32_t from, uint32_t to, End* out_from, End* out_to, uint32_t lane = 0, uint64_t window = kWindow);
  // The parts of Connect(), for ends in different processes: begins a connection, accepts one, waits until it is up.
  void Dial(uint32_t from, uint32_t to, End* out_from, uint32_t lane = 0, uint64_t window = kWindow);
  void Take(uint32_t rank, End* out_end);
  void AwaitUp(End* end);
  // Where a rank listens that is in another process.
  void SetAddress(uint32_t rank, const sl_address_t& address) { addresses_[rank] = address; }
  void Retire(End* end);
  // Starts a connection from `from` to `to` and returns it, or NULL and the status.
  sl_connection_t* Start(uint32_t from, uint32_t to, const sl_connect_args_t& args, sl_status_t* out_status);
  static sl_connect_args_t Args(uint32_t to, uint32_t lane = 0, uint64_t window = kWindow);

  // Drives every transport until `done`, at most kPatienceMs; false when it did not happen.
  bool Until(const std::function<bool()>& done);
  void Progress();

  // Memory for sources of puts. It lives until the transports are closed: a source without a cookie is the
  // transport's until the peer has shown that it has the put, or the connection is retired.
  uint8_t* Lend(uint64_t bytes);
  // Puts, trying again while the queue is full. The last status. The caller leaves `source` alone as Lend() says.
  sl_status_t Put(const End& end, const void* source, uint64_t bytes, uint64_t offset, uint32_t signal = SL_NO_SIGNAL,
                  uint64_t value = 0, uint64_t cookie = 0);
  // Ends the test unless the put is taken; says which put it was and what it gave.
  void MustPut(const End& end, const void* source, uint64_t bytes, uint64_t offset, uint32_t signal = SL_NO_SIGNAL,
               uint64_t value = 0);
  // The value of a signal word of this end, acquired.
  static uint64_t Signal(const End& end, uint32_t word);
  // Makes what has arrived visible to this CPU. A connection that is over may refuse: the CPU needs no flush.
  void Flush(const End& end);
  // Takes what has completed at a rank.
  std::vector<sl_completion_t> Poll(uint32_t rank);

  Trial& trial() { return trial_; }
  const sl_transport_ops_t& ops() const { return subject_.ops; }
  const LoadedModule& module() const { return subject_.module(); }
  sl_transport_t* transport(uint32_t rank) const { return transports_[rank]; }
  const sl_address_t& address(uint32_t rank) const { return addresses_[rank]; }
  // Ends its use of the module; everything connected to it goes with it.
  void Close(uint32_t rank);

 private:
  Trial& trial_;
  uint64_t puts_ = 0;                             // by Put()
  std::vector<std::unique_ptr<uint8_t[]>> lent_;  // outlives what the module may still send
  Subject<sl_transport_ops_t> subject_;
  std::vector<sl_transport_t*> transports_;
  std::vector<sl_address_t> addresses_;
};

// Bytes that follow from a number; where two patterns are compared they differ at almost every place.
void Fill(uint8_t* bytes, uint64_t count, uint64_t pattern);
// The first place where they are not that pattern; `count` when they are.
uint64_t FirstWrong(const uint8_t* bytes, uint64_t count, uint64_t pattern);

}  // namespace sl::conform::transport
