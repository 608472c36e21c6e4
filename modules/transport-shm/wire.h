// SPDX-License-Identifier: Apache-2.0
//
// What two ranks say to each other through a Unix socket before they share memory, and the socket calls for it. One
// message is one packet (SOCK_SEQPACKET), so half a message cannot be mistaken for a whole one. Nothing here blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "modules/transport-shm/segment.h"
#include "sdk/proof.h"
#include "sdk/status.h"
#include "sl_transport.h"

namespace sl::transport_shm {

constexpr uint32_t kWireMagic = 0x4d485353;  // "SSHM"
constexpr uint16_t kWireVersion = 1;
constexpr uint32_t kNameBytes = 32;  // random hex digits of a listener's name

// sl_address_t.data of this transport.
struct Address {
  uint32_t magic;
  uint16_t version;
  uint16_t reserved;
  uint8_t host_id[16];
  char name[kNameBytes];
};
static_assert(sizeof(Address) == 56 && sizeof(Address) <= sizeof(sl_address_t::data));

// First packet, from the connecting end, with two descriptors: the connection's segment and the sender's port.
struct Hello {
  uint32_t magic;
  uint16_t version;
  uint16_t bytes;
  uint32_t from;  // ranks
  uint32_t to;
  uint32_t lane;
  uint32_t signal_count;
  uint64_t tag;
  uint64_t window_bytes;
  Proof proof;  // over everything before it, and the listener's name
};
static_assert(sizeof(Hello) == 56);

// Second packet, from the accepting end, with one descriptor: its port.
struct Reply {
  uint32_t magic;
  uint16_t version;
  uint16_t bytes;
  Proof proof;  // over everything before it, and the hello's proof
};
static_assert(sizeof(Reply) == 24);

Proof ProveHello(const uint8_t secret[32], const Hello& hello, const char name[kNameBytes]);
Proof ProveReply(const uint8_t secret[32], const Reply& reply, const Proof& hello);

// A nonblocking listener under a fresh random name, which is stored to `out_name`.
Result<Fd> MakeListener(char out_name[kNameBytes]);

// A nonblocking connection to the listener `name`. AGAIN: its backlog is full. PEER_LOST: nobody listens.
// DENIED: somebody else than this user listens there.
Result<Fd> ConnectTo(const char name[kNameBytes]);

// True when the process at the other end runs as this user; stores its id, 0 when it lives in another pid namespace.
bool SameUser(int socket, int32_t* out_pid);

// A Status for errno, with a remedy where descriptors are short.
Status SocketError(const char* what);

// kShort: this process has no room for the packet's descriptors (errno); the packet still waits.
enum class Transfer { kDone, kAgain, kBroken, kShort };
Transfer SendPacket(int socket, const void* packet, size_t bytes, const int* fds, uint32_t fd_count);
// Receives one packet of exactly `bytes` with exactly `fd_count` descriptors; anything else is kBroken, and the
// descriptors that came are closed.
Transfer ReceivePacket(int socket, void* packet, size_t bytes, Fd* fds, uint32_t fd_count);

}  // namespace sl::transport_shm
