// SPDX-License-Identifier: Apache-2.0
//
// Sockets between hosts: TCP over the chosen interface, close-on-exec, non-blocking, no SIGPIPE. Who connects is not
// known here; the handshake finds out.
#pragma once

#include "kernel/control/stream.h"
#include "kernel/topo/net_interface.h"

namespace sl::kernel {

struct NetListener {
  Fd fd;
  NetAddress address;  // with its port
};

// Listens on the address of `interface` alone; port 0: any free one.
// returns: SL_ERR_LIMIT ports used up | SL_ERR_SYSTEM
Result<NetListener> ListenNet(const NetInterface& interface, uint16_t port);
// `interface`: of this host, link-local addresses are looked for behind it; NULL: none.
// returns: SL_ERR_PEER_LOST refused or unreachable | SL_ERR_TIMEOUT no answer | SL_ERR_ABORTED
Result<Fd> ConnectNet(const NetAddress& address, const NetInterface* interface, const Patience& patience);
// The next connection. SL_ERR_AGAIN when none waits.
Result<Fd> AcceptNet(const Fd& listener);

// Where the other end of `fd` is, for messages: an address, or "this host".
std::string PeerText(int fd);
// True for a TCP socket.
bool IsNet(int fd);

}  // namespace sl::kernel
