// SPDX-License-Identifier: Apache-2.0
//
// Operations in pieces (relay_cut.h) with the plans that move them: pieces begin in order, each when its data is in
// host memory, and end in any order, each when all its runs have.
//
// thread: who issues prepares, the progress thread does all else. In between nothing changes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/engine/run.h"
#include "kernel/runtime/relay_cut.h"
#include "sl_device.h"

struct sl_comm_t;

namespace sl::kernel {

struct Pending;

// What device and host tell each other by of one piece, in host memory that both read and write.
struct RelayWords {
  alignas(64) uint64_t start;   // stored by the device: the piece of that turn lies in its slot
  alignas(64) uint64_t end;     // stored by the host: it has been dealt with
  alignas(64) uint64_t scalar;  // copied there with a piece whose scalar lies in device memory
};

// Where pieces lie: turn t in slot t modulo kSlots, told of by the words t modulo `sets`.
struct RelayRoom {
  static constexpr uint32_t kSlots = 4;

  RelayWords* words = nullptr;
  uint32_t sets = kSlots;
  uint8_t* areas = nullptr;  // of each slot one to send from, one to receive into
  uint64_t area_bytes = 0;

  RelayWords* WordsOf(uint64_t turn) const { return &words[turn % sets]; }
  uint8_t* SendArea(uint64_t turn) const { return areas + turn % kSlots * 2 * area_bytes; }
  uint8_t* RecvArea(uint64_t turn) const { return SendArea(turn) + area_bytes; }
  // Never lowers it: jobs that fail end in any order.
  void RaiseEnd(uint64_t turn, uint64_t value) const;
};

uint64_t LoadRelayWord(const uint64_t& word);

class RelayPieces {
 public:
  explicit RelayPieces(sl_comm_t* handle) : handle_(handle) {}
  ~RelayPieces() { DropPlans(); }
  RelayPieces(const RelayPieces&) = delete;
  RelayPieces& operator=(const RelayPieces&) = delete;

  // Cuts, and selects a plan for every part.   owns: borrows the operations until the end
  // returns: SL_ERR_UNSUPPORTED no algorithm serves one of them | …
  Status Prepare(std::span<Pending* const> ops, uint64_t area_bytes);
  // Piece i has turn first_turn + i, by which value its words tell of it, or 1 when `repeats`.
  void PlaceIn(const RelayRoom& room, uint64_t first_turn, bool repeats);
  // The device has stored that the piece is in its slot.
  bool IsIn(uint32_t piece) const;
  // Tells observers that the operations begin.
  void TellBegin() const;
  // All pieces are to come, again.
  void Restart();

  // As Work, of all pieces together.
  sl_status_t Poll(sl_wait_t* wait);
  bool moved() const { return moved_; }
  bool awaits_device() const { return begun_ < count(); }
  // Whether waiting still makes sense, as ProgressJob::check.
  sl_status_t Check(const sl_wait_t* wait, uint64_t waited_ns);
  // Ends what still runs, and the operations: the communicator hears of a failure.
  void Leave(sl_status_t status);
  // All waits of the device for them end.
  void RaiseEnds() const;
  // Words that repeat are as before the first piece.
  void LowerWords() const;
  void DropPlans();
  // The operations, which this no longer needs.
  void TakeOps(std::vector<Pending*>* out_ops) { out_ops->swap(ops_); }

  uint32_t count() const { return static_cast<uint32_t>(schedule_.pieces.size()); }
  uint64_t turn(uint32_t piece) const { return first_turn_ + piece; }
  // What the words of a piece say when it is there.
  uint64_t value(uint32_t piece) const { return repeats_ ? 1 : turn(piece); }
  const RelayRoom& room() const { return room_; }
  std::span<const RelayPart> parts(uint32_t piece) const;
  // The operation of a part, as its caller stated it.
  const sl_op_t& op(const RelayPart& part) const { return stated_[part.op]; }

 private:
  struct Active {
    const Plan* plan;  // held
    uint32_t choice;   // its index, for observers
    Run* run;          // NULL: not begun, or ended
  };

  Status SelectPlans();
  Status BeginPiece(uint32_t piece);
  sl_status_t PollPiece(uint32_t piece, sl_wait_t* wait);
  sl_op_t OpOf(const RelayPart& part, uint64_t turn) const;
  void Blame(sl_status_t status);

  sl_comm_t* const handle_;
  std::vector<Pending*> ops_;
  std::vector<sl_op_t> stated_;  // of ops_
  RelaySchedule schedule_;
  RelayRoom room_;
  uint64_t first_turn_ = 0;
  bool repeats_ = false;

  // The progress thread's.
  std::vector<Active> active_;          // as schedule_.parts
  std::vector<uint32_t> left_;          // parts of each piece that have not ended
  uint32_t begun_ = 0;                  // pieces
  uint32_t ended_ = 0;                  // pieces that have ended, and all before them
  uint32_t waiting_part_ = UINT32_MAX;  // that the last poll waited for, or that failed
  Status failure_;                      // of that part
  bool moved_ = false;
};

}  // namespace sl::kernel
