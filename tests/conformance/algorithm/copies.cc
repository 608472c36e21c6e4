// SPDX-License-Identifier: Apache-2.0
// Lists of copies: pure, legal, and together what the operation says. They are carried out over this process's memory.
#include <cstring>
#include <memory>

#include "sdk/datatype.h"
#include "tests/conformance/algorithm/collective.h"
#include "tests/conformance/algorithm/suite.h"
#include "tests/conformance/algorithm/team.h"

namespace sl::conform::algorithm {
namespace {

using Copies = std::vector<sl_copy_t>;

// Asks without room first, as the kernel may.
Copies ListOf(Trial& trial, const Subject& subject, const Team& team, uint32_t rank, const sl_op_t& op) {
  uint32_t count = 0;
  sl_status_t status = subject.ops.copies(team.algorithm(rank), &op, nullptr, 0, &count);
  trial.Expect(status == (count == 0 ? SL_OK : SL_ERR_LIMIT), "rank {}: without room for {} copies it gave {}", rank,
               count, StatusName(status));
  Copies copies(count);
  status = subject.ops.copies(team.algorithm(rank), &op, copies.data(), count, &count);
  trial.Require(status == SL_OK && count == copies.size(), "rank {}: with room for {} copies it gave {} and {}", rank,
                copies.size(), StatusName(status), count);
  return copies;
}

constexpr Listing kCopies = {SL_RUN_COPIES, offsetof(sl_algorithm_ops_t, copies), "copies"};

uint64_t BufferBytes(uint32_t buffer, const sl_op_t& op, uint32_t rank, uint32_t ranks) {
  Call call;
  call.kind = op.kind;
  call.count = op.count;
  call.root = op.root;
  const uint64_t elements = buffer == SL_BUFFER_SEND ? SendCount(call, rank, ranks) : RecvCount(call, rank, ranks);
  return elements * DatatypeBytes(op.datatype);
}

const char* WrongCopy(const sl_copy_t& copy, const sl_op_t& op, uint32_t rank, uint32_t ranks) {
  if (copy.struct_size < SL_COPY_SIZE_1_4) return "its size is not said";
  if (copy.phase >= SL_COPY_PHASES) return "there is no such phase";
  if (copy.bytes == 0) return nullptr;
  if (copy.from_rank >= ranks || copy.to_rank >= ranks) return "there is no such rank";
  if (copy.from_rank != rank && copy.to_rank != rank) return "neither end is this rank's";
  if (copy.from_buffer != SL_BUFFER_SEND && copy.from_buffer != SL_BUFFER_RECV) return "there is no such source";
  if (copy.to_buffer != SL_BUFFER_RECV) return "its target is no receive buffer";
  const uint64_t from_bytes = BufferBytes(copy.from_buffer, op, copy.from_rank, ranks);
  const uint64_t to_bytes = BufferBytes(copy.to_buffer, op, copy.to_rank, ranks);
  const auto fits = [&](uint64_t offset, uint64_t bytes) { return offset <= bytes && copy.bytes <= bytes - offset; };
  return fits(copy.from, from_bytes) && fits(copy.to, to_bytes) ? nullptr : "it reaches out of a buffer";
}

void Legal(Trial& trial) {
  ForOpsRun(trial, kCopies, [&](const Subject& subject, const Team& team, sl_op_t op) {
    uint32_t last_of_first = 0;
    for (uint32_t rank = 0; rank < team.size(); ++rank) {
      const Copies copies = ListOf(trial, subject, team, rank, op);
      uint32_t phase = 0;
      for (size_t i = 0; i < copies.size(); ++i) {
        const char* wrong = copies[i].phase < phase ? "its phase is over" : WrongCopy(copies[i], op, rank, team.size());
        if (!trial.Expect(wrong == nullptr, "rank {}, copy {}: {}", rank, i, wrong != nullptr ? wrong : "")) return;
        phase = copies[i].phase;
      }
      if (rank == 0) last_of_first = phase;
      trial.Expect(phase == last_of_first, "rank {} ends in phase {}, rank 0 in phase {}", rank, phase, last_of_first);
      op.send = reinterpret_cast<const void*>(uintptr_t{0x10});
      op.recv = reinterpret_cast<void*>(uintptr_t{0x11});
      const Copies again = ListOf(trial, subject, team, rank, op);
      const bool is_same =
          again.size() == copies.size() &&
          (copies.empty() || std::memcmp(again.data(), copies.data(), copies.size() * sizeof(sl_copy_t)) == 0);
      trial.Expect(is_same, "rank {}: asked again with other buffers, it lists other copies", rank);
    }
  });
}

// All ranks of one call. Copies of a phase may run in any order: ranks take turns forwards, or backwards.
class World {
 public:
  World(Trial& trial, const Subject& subject, const Team& team, const Call& call, uint64_t seed)
      : ranks_(team.size()), oracle_(MakeOracle(call, ranks_, seed)), buffers_(ranks_) {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      sl_op_t op = buffers_[rank].Prepare(call, rank, ranks_, oracle_.get());
      op.symmetric = SL_OP_SEND_SYMMETRIC | SL_OP_RECV_SYMMETRIC;
      lists_.push_back(ListOf(trial, subject, team, rank, op));
      ops_.push_back(op);
    }
  }
  void Run(bool backwards) const {
    for (uint32_t phase = 0; phase < SL_COPY_PHASES; ++phase) {
      for (uint32_t turn = 0; turn < ranks_; ++turn) {
        for (const sl_copy_t& copy : lists_[backwards ? ranks_ - 1 - turn : turn]) {
          if (copy.phase == phase && copy.bytes != 0) Carry(copy);
        }
      }
    }
  }
  std::string Check() const {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      if (std::string wrong = buffers_[rank].Check(oracle_.get()); !wrong.empty()) {
        return fmt::format("rank {}: {}", rank, wrong);
      }
    }
    return {};
  }

 private:
  void Carry(const sl_copy_t& copy) const {
    const sl_op_t& source = ops_[copy.from_rank];
    const auto* from = static_cast<const uint8_t*>(copy.from_buffer == SL_BUFFER_SEND ? source.send : source.recv);
    std::memmove(static_cast<uint8_t*>(ops_[copy.to_rank].recv) + copy.to, from + copy.from, copy.bytes);
  }

  const uint32_t ranks_;
  const std::unique_ptr<tools::Oracle> oracle_;
  std::vector<CallBuffers> buffers_;
  std::vector<sl_op_t> ops_;
  std::vector<Copies> lists_;
};

void Right(Trial& trial) {
  ForOpsRun(trial, kCopies, [&](const Subject& subject, const Team& team, const sl_op_t& op) {
    constexpr uint64_t kMostBytes = 1 << 20;
    if (op.count * DatatypeBytes(op.datatype) > kMostBytes || op.datatype > SL_INT32) return;
    for (const bool backwards : {false, true}) {
      Call call{op.kind, op.datatype, op.reduction, op.count, op.root, false, 0};
      World world(trial, subject, team, call, trial.seed());
      world.Run(backwards);
      const std::string wrong = world.Check();
      trial.Expect(wrong.empty(), "{}", wrong);
    }
  });
}

}  // namespace

std::vector<Test> CopiesTests() {
  return {
      {"Copies.AreLegal", "pure; one end is the rank's own; within buffers; phases ascend, and all ranks have as many",
       Legal},
      {"Copies.MoveWhatTheOperationSays", "every rank has what the operation gives it, and nothing else is touched",
       Right},
  };
}

}  // namespace sl::conform::algorithm
