// SPDX-License-Identifier: Apache-2.0
//
// The transports that one rank of a communicator has open, and where they listen. Which of them are networks shows when
// they are open: their ports lie on other fabrics than the host's.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernel/comm/process.h"
#include "kernel/link/link_table.h"
#include "sl_transport.h"

namespace sl::kernel {

class Roster;

class TransportSet {
 public:
  // `offered` outlives it, and so does what `env` refers to.
  TransportSet(OfferedTransports* offered, const sl_transport_env_t& env);
  // No link uses them any more.
  ~TransportSet();
  TransportSet(const TransportSet&) = delete;
  TransportSet& operator=(const TransportSet&) = delete;

  // The quickest that serves the host listens, with `networks` all do: those that are open already, and those that are
  // left.   returns: SL_ERR_LIMIT one cannot listen
  Status Listen(bool networks);
  // Where those that listen do, by the name of the transport and the index of the port; for the rank's card.
  std::vector<std::pair<std::string, std::vector<LinkAddress>>> addresses() const;
  // Those that nobody was told of.
  void CloseSilent();
  // The quickest first, each with where it reaches the ranks. Borrowed from this set.
  std::vector<LinkTransport> ForLinks(const std::shared_ptr<const Roster>& roster) const;

 private:
  struct Transport {
    std::string name;
    const sl_transport_ops_t* ops;
    sl_transport_t* handle;
    std::vector<LinkAddress> addresses;  // of its ports, once it listens; till then their fabrics
    uint64_t latency_ns = UINT64_MAX;    // of the quickest
    bool listens = false;
  };

  void Open(size_t index, bool networks);
  static Status Listen(Transport* transport);
  bool IsHere(const LinkAddress& port) const { return port.fabric == host_; }

  OfferedTransports* const offered_;
  const sl_transport_env_t env_;
  HostId host_{};  // of env_
  std::vector<Transport> transports_;
};

}  // namespace sl::kernel
