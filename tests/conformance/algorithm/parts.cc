// SPDX-License-Identifier: Apache-2.0
// Sequences: parts are pure, legal, alike on all ranks, and together what the operation says. They are carried out over
// this process's memory, one after the other, each by the words of its operation.
#include <cstring>
#include <memory>

#include "sdk/datatype.h"
#include "tests/conformance/algorithm/collective.h"
#include "tests/conformance/algorithm/suite.h"
#include "tests/conformance/algorithm/team.h"

namespace sl::conform::algorithm {
namespace {

using Parts = std::vector<sl_part_t>;

Parts ListOf(Trial& trial, const Subject& subject, const Team& team, uint32_t rank, const sl_op_t& op) {
  Parts parts(SL_MOST_PARTS);
  uint32_t count = 0;
  const sl_status_t status = subject.ops.parts(team.algorithm(rank), &op, parts.data(), &count);
  trial.Require(status == SL_OK && count >= 1 && count <= SL_MOST_PARTS, "rank {}: parts() gave {} and {}", rank,
                StatusName(status), count);
  parts.resize(count);
  return parts;
}

constexpr Listing kSequences = {SL_RUN_SEQUENCE, offsetof(sl_algorithm_ops_t, parts), "parts"};

Call CallOf(sl_op_kind_t kind, uint64_t count, int32_t root) {
  Call call;
  call.kind = kind;
  call.count = count;
  call.root = root;
  return call;
}

const char* WrongPart(const sl_part_t& part, const sl_op_t& op, uint32_t rank, uint32_t ranks) {
  if (part.struct_size < SL_PART_SIZE_1_6) return "its size is not said";
  if (part.kind >= SL_OP_KIND_COUNT || part.kind == SL_OP_SEND || part.kind == SL_OP_RECV) return "it is no collective";
  const bool has_root = part.root >= 0 && part.root < static_cast<int64_t>(ranks);
  if (HasRoot(part.kind) ? !has_root : part.root != -1) return "its root is wrong";
  if (HasReduction(part.kind) && !HasReduction(op.kind)) return "it reduces, and the operation does not";
  if (part.count == 0) return "it moves nothing";
  if (part.send_buffer != SL_BUFFER_SEND && part.send_buffer != SL_BUFFER_RECV) return "there is no such source";
  if (part.recv_buffer != SL_BUFFER_RECV) return "its target is no receive buffer";
  const Call whole = CallOf(op.kind, op.count, op.root);
  const Call alone = CallOf(part.kind, part.count, part.root);
  const uint64_t unit = DatatypeBytes(op.datatype);
  const auto fits = [&](uint64_t offset, uint64_t elements, uint64_t there) {
    return elements == 0 || (offset % unit == 0 && offset / unit <= there && elements <= there - offset / unit);
  };
  const uint64_t source =
      part.send_buffer == SL_BUFFER_SEND ? SendCount(whole, rank, ranks) : RecvCount(whole, rank, ranks);
  if (!fits(part.send, SendCount(alone, rank, ranks), source) ||
      !fits(part.recv, RecvCount(alone, rank, ranks), RecvCount(whole, rank, ranks))) {
    return "it reaches out of a buffer";
  }
  const uint32_t source_bit = part.send_buffer == SL_BUFFER_SEND ? SL_OP_SEND_SYMMETRIC : SL_OP_RECV_SYMMETRIC;
  const bool send_kept = (part.symmetric & SL_OP_SEND_SYMMETRIC) == 0 || (op.symmetric & source_bit) != 0;
  const bool recv_kept = (part.symmetric & SL_OP_RECV_SYMMETRIC & ~op.symmetric) == 0;
  return send_kept && recv_kept ? nullptr : "it is symmetric, and the operation's buffer is not";
}

// What ranks must say alike, of a part of one and the same of another.
const char* Differs(const sl_part_t& one, const sl_part_t& other) {
  if (one.kind != other.kind || one.root != other.root || one.count != other.count) return "is another operation";
  if (one.symmetric != other.symmetric) return "is not as symmetric";
  const bool one_place = one.send_buffer == other.send_buffer && one.send == other.send;
  if ((one.symmetric & SL_OP_SEND_SYMMETRIC) != 0 && !one_place) return "sends from another offset";
  if ((one.symmetric & SL_OP_RECV_SYMMETRIC) != 0 && one.recv != other.recv) return "receives at another offset";
  return nullptr;
}

void Legal(Trial& trial) {
  ForOpsRun(trial, kSequences, [&](const Subject& subject, const Team& team, sl_op_t op) {
    Parts first;
    for (uint32_t rank = 0; rank < team.size(); ++rank) {
      const Parts parts = ListOf(trial, subject, team, rank, op);
      if (rank == 0) first = parts;
      if (!trial.Expect(parts.size() == first.size(), "rank {} has {} parts, rank 0 has {}", rank, parts.size(),
                        first.size())) {
        return;
      }
      for (size_t i = 0; i < parts.size(); ++i) {
        const char* wrong = WrongPart(parts[i], op, rank, team.size());
        if (!trial.Expect(wrong == nullptr, "rank {}, part {}: {}", rank, i, wrong != nullptr ? wrong : "")) return;
        const char* other = Differs(parts[i], first[i]);
        if (!trial.Expect(other == nullptr, "part {} of rank {} {}", i, rank, other != nullptr ? other : "")) return;
      }
      op.send = reinterpret_cast<const void*>(uintptr_t{0x10});
      op.recv = reinterpret_cast<void*>(uintptr_t{0x11});
      const Parts again = ListOf(trial, subject, team, rank, op);
      const bool is_same = again.size() == parts.size() &&
                           std::memcmp(again.data(), parts.data(), parts.size() * sizeof(sl_part_t)) == 0;
      trial.Expect(is_same, "rank {}: asked again with other buffers, it lists other parts", rank);
    }
  });
}

// All ranks of one call of sums of int32.
class World {
 public:
  World(Trial& trial, const Subject& subject, const Team& team, const Call& call, uint64_t seed)
      : ranks_(team.size()), oracle_(MakeOracle(call, ranks_, seed)), buffers_(ranks_) {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      ops_.push_back(buffers_[rank].Prepare(call, rank, ranks_, oracle_.get()));
      lists_.push_back(ListOf(trial, subject, team, rank, ops_.back()));
    }
  }
  void Run() const {
    for (size_t i = 0; i < lists_[0].size(); ++i) Carry(i);
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
  using Numbers = std::vector<uint32_t>;

  // Everybody reads before anybody writes.
  void Carry(size_t i) const {
    std::vector<Numbers> sent(ranks_);
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const sl_part_t& part = lists_[rank][i];
      const sl_op_t& op = ops_[rank];
      const auto* from = static_cast<const uint8_t*>(part.send_buffer == SL_BUFFER_SEND ? op.send : op.recv);
      sent[rank].resize(SendCount(CallOf(part.kind, part.count, part.root), rank, ranks_));
      if (!sent[rank].empty()) std::memcpy(sent[rank].data(), from + part.send, sent[rank].size() * sizeof(uint32_t));
    }
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const sl_part_t& part = lists_[rank][i];
      Numbers got(RecvCount(CallOf(part.kind, part.count, part.root), rank, ranks_));
      for (uint64_t at = 0; at < got.size(); ++at) got[at] = Received(part, sent, rank, at);
      auto* to = static_cast<uint8_t*>(ops_[rank].recv) + part.recv;
      if (!got.empty()) std::memcpy(to, got.data(), got.size() * sizeof(uint32_t));
    }
  }

  static uint32_t Received(const sl_part_t& part, const std::vector<Numbers>& sent, uint32_t rank, uint64_t at) {
    const uint64_t block = at / part.count;
    const uint64_t in_block = at % part.count;
    switch (part.kind) {
      case SL_OP_ALL_GATHER:
      case SL_OP_GATHER:
        return sent[block][in_block];
      case SL_OP_ALL_TO_ALL:
        return sent[block][rank * part.count + in_block];
      case SL_OP_BROADCAST:
        return sent[static_cast<uint32_t>(part.root)][at];
      case SL_OP_SCATTER:
        return sent[static_cast<uint32_t>(part.root)][rank * part.count + at];
      default:
        break;
    }
    uint32_t sum = 0;
    for (const Numbers& one : sent) sum += one[(part.kind == SL_OP_REDUCE_SCATTER ? rank * part.count : 0) + at];
    return sum;
  }

  const uint32_t ranks_;
  const std::unique_ptr<tools::Oracle> oracle_;
  std::vector<CallBuffers> buffers_;
  std::vector<sl_op_t> ops_;
  std::vector<Parts> lists_;
};

void Right(Trial& trial) {
  ForOpsRun(trial, kSequences, [&](const Subject& subject, const Team& team, const sl_op_t& op) {
    constexpr uint64_t kMostBytes = 4 << 20;
    if (op.count * DatatypeBytes(op.datatype) > kMostBytes || op.datatype != SL_INT32 || op.reduction != SL_SUM) return;
    for (const bool in_place : {false, true}) {
      World world(trial, subject, team, {op.kind, op.datatype, op.reduction, op.count, op.root, in_place, 0},
                  trial.seed());
      world.Run();
      const std::string wrong = world.Check();
      trial.Expect(wrong.empty(), "{}{}", in_place ? "in place, " : "", wrong);
    }
  });
}

}  // namespace

std::vector<Test> PartsTests() {
  return {
      {"Parts.AreLegal", "pure; collectives within the operation's buffers; alike on all ranks", Legal},
      {"Parts.ComeToTheOperation", "one after the other they give every rank what the operation gives it", Right},
  };
}

}  // namespace sl::conform::algorithm
