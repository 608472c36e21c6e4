// SPDX-License-Identifier: Apache-2.0
//
// Changes of network interfaces, as the system tells them over netlink.
#pragma once

#include <cstdint>
#include <functional>

#include "sdk/fd.h"

namespace sl::transport_tcp {

class PortWatch {
 public:
  // Without netlink, as in some sandboxes, there is no descriptor and Read() never has news.
  PortWatch();
  int fd() const { return socket_.get(); }
  bool valid() const { return socket_.valid(); }

  // Takes what has been told; `tell` gets an interface's index and whether it runs, and index 0 when something was
  // missed and all have to be asked. Never blocks.
  void Read(const std::function<void(uint32_t index, bool up)>& tell);

 private:
  Fd socket_;
};

// Whether the interface of this name runs now.
bool IsRunning(const char* name);

}  // namespace sl::transport_tcp
