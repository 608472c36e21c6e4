// SPDX-License-Identifier: Apache-2.0
//
// The relay: operations on memory of devices that do not all reach each other's, by way of pinned host memory and plans
// over links. What is issued together becomes one job, cut into pieces (relay_cut.h); a few slots of memory carry
// a piece each, so that copies from the device, plans and copies to the device overlap:
//
//   device  wait: the slot is taken back      copy into the slot      start = turn
//   host                                                 wait: start >= turn      run the plans      end = turn
//   device                                                                        wait: end >= turn      copy out
//
// Pieces are numbered from 1 for good, their turns; piece t uses slot t modulo kSlots. Both words of a slot only grow,
// each has one writer: start the device, by stream_write_value, end the progress thread. A job of one piece runs on the
// caller's stream. A longer one has its copies on two streams of the relay's own, which go on after the caller's stream
// and end before it does; no thread of the device is ever blocked, and nothing is issued later than by the call itself.
//
// Jobs of a communicator follow each other, as their streams are chained; captured ones are apart (relay_graph.h). On
// failure, abort or loss of a rank the progress thread ends the job, tells the communicator, and stores the last turn
// into every end word: all waits of the device end, whatever it copies then.
//
// Memory is taken when the communicator is made, since taking pinned memory may wait for a device, and that for a peer.
// What graphs need is taken by the first captures, and used again by later ones.
//
// thread: whoever issues, one at a time; what the progress thread does is in relay_job.h.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kernel/engine/run.h"
#include "kernel/runtime/relay_pieces.h"
#include "sdk/status.h"
#include "sl_algorithm.h"
#include "sl_device.h"

struct sl_comm_t;

namespace sl::kernel {

struct Device;
struct Pending;
class RelayGraph;
class RelayJob;

class Relay {
 public:
  static constexpr uint32_t kSlots = RelayRoom::kSlots;
  static constexpr uint64_t kCheckIntervalNs = 10'000'000;

  // Takes the memory; bounded by comm.relay_bytes.
  // returns: SL_ERR_UNSUPPORTED the device lacks stream words | SL_ERR_CONFIG too little memory for so many ranks | …
  static Result<std::unique_ptr<Relay>> Open(sl_comm_t* handle);
  // Nothing is under way, and no graph is left.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Begins a job of operations that were entered: collectives, one after the other, then sends and receives, all
  // together. It starts when `stream` gets there, and ends also when the stream fails.
  // owns: the operations, when it succeeds   returns: SL_ERR_UNSUPPORTED no algorithm serves one of them | …
  Result<RelayJob*> Begin(std::span<Pending* const> ops, sl_stream_t* stream);
  // Gives the device its next few commands. Jobs that one thread issues on several devices are enqueued in turn, as a
  // queue that is full makes its caller wait until the device, and with it the peers, get on. After an error the job
  // is over, for this communicator, too.   returns: SL_OK | SL_ERR_AGAIN there is more
  Status Enqueue(RelayJob* job);

  // The same of the communicator's capture of that number, for `stream`, which is in it: once for every replay.
  // owns: copies the operations
  // After an error the capture takes no more, and what of it is replayed all the same waits for nothing.
  Status Capture(std::span<Pending* const> ops, uint64_t capture, sl_stream_t* stream);
  // The device's graph is gone, with all that was made of it.   [any]; never calls the device
  void EndGraph(uint64_t capture);
  // No replay is under way, and graphs that are gone have given back what they held.   [any]
  bool IsResting();
  // Replays wait for nothing from now on, and no capture follows. False when that was not so at the deadline. [control]
  bool EndGraphs(uint64_t deadline_ns);

  // The operation that selection looks at when `op` is relayed: one piece of it.
  sl_op_t PieceOf(const sl_op_t& op) const;
  // Pinned memory taken.
  uint64_t memory_bytes() const { return taken_bytes_.load(std::memory_order_relaxed); }
  // What relaying adds to the estimate of one piece, for all of `op`.
  void AddCost(const sl_op_t& op, sl_estimate_t* estimate) const;

 private:
  friend class RelayGraph;
  friend class RelayJob;
  explicit Relay(sl_comm_t* handle);
  Status TakeRoom(uint64_t bytes);
  Result<uint8_t*> TakeMemory(uint64_t bytes);
  Status MakeStreams();
  RelayJob* TakeJob();
  void GiveJob(RelayJob* job);
  Status EnqueueWhole(RelayJob* job);
  Status EnqueueStep(RelayJob* job);
  Status EnqueueCaptured(const RelayPieces& pieces, sl_stream_t* stream);
  Status BringIn(const RelayPieces& pieces, uint32_t piece, sl_stream_t* stream);
  Status TakeOut(const RelayPieces& pieces, uint32_t piece, sl_stream_t* stream);
  Status CopyBlocks(const sl_op_t& op, const RelayPart& part, uint64_t blocks, uint8_t* into, const uint8_t* out_of,
                    sl_stream_t* stream);
  // Of graphs.
  Result<RelayGraph*> GraphOf(uint64_t capture);
  Status Watch(RelayGraph* graph);
  Result<std::span<uint8_t>> TakePage(uint64_t bytes);
  void Forget(RelayGraph* graph);

  sl_comm_t* const handle_;
  const Device& device_;
  RelayRoom room_;  // of eager jobs
  std::vector<void*> memory_;
  std::atomic<uint64_t> taken_bytes_{0};
  sl_stream_t* in_stream_ = nullptr;
  sl_stream_t* out_stream_ = nullptr;
  sl_event_t* begin_event_ = nullptr;
  sl_event_t* end_event_ = nullptr;
  std::array<sl_event_t*, kSlots> taken_events_ = {};  // what a slot held has been copied out of it
  uint64_t last_turn_ = 0;

  std::array<uint8_t*, kGraphLaneSets> graph_areas_ = {};  // NULL: nothing was captured on that lane yet

  std::mutex mutex_;
  std::vector<std::unique_ptr<RelayJob>> jobs_;      // guarded by mutex_
  std::vector<RelayJob*> free_jobs_;                 // guarded by mutex_
  std::vector<std::unique_ptr<RelayGraph>> graphs_;  // guarded by mutex_
  std::vector<std::span<uint8_t>> free_pages_;       // guarded by mutex_; for words of graphs
  std::vector<Pending*> ending_;                     // the progress thread's
};

}  // namespace sl::kernel
