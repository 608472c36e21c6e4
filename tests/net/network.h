// SPDX-License-Identifier: Apache-2.0
//
// Hosts for tests: network namespaces whose eth0 hangs at one bridge. They live as long as the object, in processes
// that do nothing else; nothing gets a name outside, and no packet leaves.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sl::net {

class Network {
 public:
  // Host h has 10.77.0.<h + 1>/24 and fd77::<h + 1 in hexadecimal>/64.
  explicit Network(int hosts);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Why there is no network, for GTEST_SKIP: not root, no ip command, …; "" when there is one.
  const std::string& missing() const { return missing_; }
  int hosts() const { return static_cast<int>(hosts_.size()); }
  static std::string Ip(int host) { return "10.77.0." + std::to_string(host + 1); }

  // The calling process runs on that host from now on; it has no other thread yet.
  void Enter(int host) const;
  // Bytes that have left the host over its cable so far, headers included.   [any process]
  uint64_t SentBytes(int host) const;
  // Pulls or plugs the host's cable, at the bridge: the host itself sees only silence.   [any process]
  void SetCable(int host, bool plugged) const;

 private:
  pid_t AddNamespace();
  void RunIp(pid_t space, const std::string& batch);

  std::string missing_;
  pid_t bridge_ = -1;
  std::vector<pid_t> hosts_;
};

}  // namespace sl::net
