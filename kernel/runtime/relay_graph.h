// SPDX-License-Identifier: Apache-2.0
//
// What a capture has relayed: jobs that every launch of the graph, a replay, runs anew, in the order in which they were
// captured. What a graph stores and waits for is fixed, so each job has words of its own, and they are back at what
// they were when the next replay gets there:
//
//   device  wait: ready >= 1   [ copy in   start = 1   wait: end >= 1   copy out ] for each piece   left = 1
//   host    when the first start is 1:   ready = 0      for each piece, when its start is 1:   run the plans   end = 1
//           when left is 1:   all starts and ends = 0   left = 0   ready = 1
//
// W1. Between two of its waits for `ready` the device stores each start once, and left behind them. So the host may
//     lower them when it has seen left: the device does not store to them again until the host has raised `ready`.
// W2. `ready` is lowered before any end is raised (release), and the device waits for all ends (acquire) before it
//     stores left. So a replay that follows at once finds it lowered, and waits until the host has put all words back.
// W3. When the graph is over for the host, because the communicator has failed, was stopped or destroyed, or the device
//     took only a part of what was captured, all ends and `ready` are raised, and never lowered again: replays under
//     way and all later ones wait for nothing. They still copy, so the memory stays until the device says that the
//     graph is gone; what they compute is of no use.
//
// The slots are those of the capture's lane (kGraphLaneSets): captures that share one must not run at the same time,
// and by the links of that lane ranks must launch them in one order. Within a graph jobs follow each other, as their
// streams are chained; so only the next one can begin, and only its word is looked at.
//
// Nobody says when a graph is launched, so while one is there the progress thread looks for it. A replay is seen at
// most a 64th of the time late that has passed since the one before, or 50 µs where that is longer, 2 ms at most.
//
// thread: Add() whoever issues; the rest the progress thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernel/engine/work.h"
#include "kernel/runtime/pending.h"
#include "kernel/runtime/relay_pieces.h"
#include "sl_device.h"

namespace sl::kernel {

class Relay;

class RelayGraph final : public Work {
 public:
  // Of one replay of a job, stored by the device and by the host.
  struct Words {
    alignas(64) uint64_t left;
    alignas(64) uint64_t ready;
  };
  struct Job {
    explicit Job(sl_comm_t* handle) : pieces(handle) {}
    RelayPieces pieces;
    std::vector<std::unique_ptr<Pending>> ops;
    Words* words = nullptr;
    std::atomic<Job*> next{nullptr};
  };

  // `areas`: the slots of its lane.
  RelayGraph(Relay* relay, uint64_t capture, uint8_t* areas);
  // It has ended, and the device's graph is gone, or never was.
  ~RelayGraph();
  RelayGraph(const RelayGraph&) = delete;
  RelayGraph& operator=(const RelayGraph&) = delete;

  // Appends a job of operations that were entered, which are copied.
  // returns: SL_ERR_UNSUPPORTED no algorithm serves one of them | SL_ERR_STATE the graph has ended | …
  Result<const Job*> Add(std::span<Pending* const> ops);

  sl_status_t Poll(sl_wait_t* wait) override;
  bool moved() const override { return moved_; }
  bool awaits_device() const override;
  uint64_t rest_ns() const override;

  uint64_t capture() const { return capture_; }
  // In the middle of a replay.   [any]
  bool is_busy() const { return is_busy_.load(std::memory_order_acquire); }
  // The device's graph is gone or worth nothing, or the communicator is done with: it ends soon.   [any]
  void Close() { is_closed_.store(true, std::memory_order_release); }
  bool is_closed() const { return is_closed_.load(std::memory_order_acquire); }

 private:
  friend class Relay;
  static sl_status_t Check(void* graph, const sl_wait_t* wait, uint64_t waited_ns);
  static void Done(void* graph, sl_status_t status);
  Result<uint8_t*> TakeWords(uint64_t bytes);
  Status Place(Job* job);
  sl_status_t PollJob(sl_wait_t* wait);
  void Begin();
  void PutBack();
  void LetPass();

  Relay* const relay_;
  const uint64_t capture_;
  uint8_t* const areas_;
  std::vector<std::unique_ptr<Job>> jobs_;      // guarded by the relay's mutex
  std::vector<std::span<uint8_t>> word_pages_;  // who issues
  uint64_t used_bytes_ = 0;                     // of the last page
  bool is_watched_ = false;                     // as has_ended_, set by who issues: the progress thread looks for it
  bool has_ended_ = false;                      // guarded by the relay's mutex
  bool is_gone_ = false;                        // guarded by the relay's mutex; the device's graph
  std::atomic<Job*> first_{nullptr};
  std::atomic<bool> is_closed_{false};
  std::atomic<bool> is_busy_{false};

  // The progress thread's.
  Job* next_ = nullptr;      // NULL: the first
  bool is_running_ = false;  // that one
  bool has_run_ = false;     // and its pieces have ended
  bool moved_ = false;
  uint64_t newest_ns_ = 0;  // when the last one ended
};

}  // namespace sl::kernel
