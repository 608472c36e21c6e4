// SPDX-License-Identifier: Apache-2.0
//
// Frames over one socket, read and written by the control thread; any thread may send. Nothing blocks.
#pragma once

#include <atomic>
#include <mutex>

#include "kernel/control/control_thread.h"
#include "kernel/control/frame.h"
#include "kernel/control/stream.h"

namespace sl::kernel {

class Channel : public ControlThread::Watched {
 public:
  // Hears of frames and of the end; called on the control thread. If OnFrame throws, the channel ends; if OnClosed
  // throws, it is called once more.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnFrame(Channel* channel, const FrameHeader& header, Bytes payload) = 0;
    // The peer closed, broke the format or vanished, or OnFrame threw. Nothing follows. The channel may be destroyed
    // here, but not by a call that throws.
    virtual void OnClosed(Channel* channel, const Status& why) = 0;
  };

  // Owner and control thread outlive the channel. `max_bytes` bounds a payload.
  Channel(ControlThread* control, Stream stream, uint32_t max_bytes, Owner* owner);
  ~Channel() override;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Begins reading, and writing what was queued before and the socket did not take.
  Status Open();
  // Queues a frame and sends what the socket takes now. A dead peer is reported by OnClosed, not here. If there is no
  // memory for the frame, the stream ends at both ends: otherwise somebody might wait for the frame for ever. Nobody
  // waits for a beat: it is left out.
  void Send(FrameType type, uint64_t sequence, std::span<const uint8_t> payload);
  // Waits, at most until the deadline, for queued frames to leave. Not on the control thread.
  void Flush(uint64_t deadline_ns);
  void Close();
  // Bytes that were queued and that the other end, as far as is known, does not have.
  uint64_t unsent() const;
  // Moment of the last sign of life, 0: none yet. For ranks on other hosts, whose end may go unreported.
  // Control thread only.
  uint64_t heard_ns() const { return heard_ns_; }
  // A sign of life came by another way.   thread: [control]
  void Hear() { heard_ns_ = NowNs(); }
  bool is_net() const { return is_net_; }
  int fd() const { return stream_.fd(); }

 private:
  void OnReady(int fd, uint32_t events) override;
  void OnFailed(int fd, const Status& why) override;
  void End(const Status& why);
  Status ReadAll();
  void WriteLocked();
  uint32_t EventsLocked() const;

  ControlThread* control_;
  const Stream stream_;
  const bool is_net_;
  uint64_t heard_ns_ = 0;
  const uint32_t max_bytes_;
  Owner* owner_;
  Bytes in_;
  mutable std::mutex mutex_;
  Bytes out_;                      // guarded by mutex_
  bool wants_out_ = false;         // guarded by mutex_
  std::atomic<bool> open_{false};  // becomes true under mutex_
};

}  // namespace sl::kernel
