// SPDX-License-Identifier: Apache-2.0
//
// System calls on sockets, and their errors in words. Sockets are non-blocking, closed on exec and raise no SIGPIPE.
#pragma once

#include <cstdint>
#include <string>

#include "modules/transport-tcp/handshake.h"
#include "modules/transport-tcp/interface.h"
#include "modules/transport-tcp/settings.h"
#include "sdk/fd.h"
#include "sdk/status.h"

namespace sl::transport_tcp {

// A Status for `code` (an errno): LIMIT with a remedy when something is exhausted, PEER_LOST when the peer's host says
// that nobody listens, LINK_DOWN when the network does not carry, else SYSTEM.
Status SocketError(const std::string& what, int code);

// Random bytes of the operating system.
Result<Nonce> FreshNonce();

// A listener on the interface's own address, never on all. Stores its port. Streams that it accepts are tuned as it is;
// `out_refused` as of TuneStream().
Result<Fd> Listen(const Interface& interface, const Settings& settings, uint16_t* out_port, std::string* out_refused);

// Starts to connect from the interface's address.
Result<Fd> StartConnect(const Interface& from, const Settings& settings, const Ip& ip, uint16_t port);
// How a connect goes on: 0 connected, EINPROGRESS, or why it failed.
int ConnectProgress(int socket, uint8_t family, const Ip& ip, uint16_t port, uint32_t scope);

// Ends a stream at once, copies of its descriptor included: the system throws away what it has of it, sent or not, and
// the peer sees a reset.
void AbortStream(int socket);

// What streams of this module want: no delay, keep-alive, buffers, congestion control, traffic class. Refused wishes
// are appended to `out_refused`, one clause each with its remedy; the stream works without them.
void TuneStream(int socket, const Interface& interface, const Settings& settings, std::string* out_refused);

// The size from which on puts go over this stream without a copy; 0: none do, which the system may have decided.
uint64_t ZeroCopyBytes(int socket, const Settings& settings);

// Bytes that a stream must have under way to fill the port: both ways of its latency.
uint64_t WantedBufferBytes(const Interface& interface, const Settings& settings);
uint64_t BytesPerSecond(const Interface& interface);

// What the system knows about a stream.
struct StreamHealth {
  bool outstanding = false;  // something was sent, or waits to be, and is not acknowledged
  bool unanswered = false;   // it was repeated, and nothing came back
  uint64_t acked_bytes = 0;  // by the peer, so far
  uint64_t silent_ns = 0;    // since the peer's host last said anything
};
StreamHealth ReadHealth(int socket);

}  // namespace sl::transport_tcp
