// SPDX-License-Identifier: Apache-2.0
//
// Asks whether the host at the other end of a connection is still there, apart from that connection: its own next
// packet may be due long after an outage, since what was held up on the way lengthens its time-out (RFC 6298, section
// 2), and its process may be kept from running. A fresh call is answered by the host's system, taken or refused, within
// a round trip.
#pragma once

#include <functional>
#include <vector>

#include "kernel/control/control_thread.h"
#include "sdk/fd.h"

namespace sl::kernel {

class HostProbe : public ControlThread::Watched {
 public:
  // `on_answer`: hears that the host is there, on the control thread.
  HostProbe(ControlThread* control, std::function<void()> on_answer)
      : control_(control), on_answer_(std::move(on_answer)) {}
  ~HostProbe() override;
  HostProbe(const HostProbe&) = delete;
  HostProbe& operator=(const HostProbe&) = delete;

  // One more call to where `fd`, a TCP socket, is connected to; calls that have had no answer stay in the air, and of
  // many the oldest is given up. Never waits; what fails here counts as no answer.   thread: [control]
  void Ask(int fd);

 private:
  void OnReady(int fd, uint32_t events) override;
  void OnFailed(int fd, const Status& why) override;
  void Hang(int fd);

  ControlThread* control_;
  const std::function<void()> on_answer_;
  std::vector<Fd> calls_;  // the oldest first
};

}  // namespace sl::kernel
