// SPDX-License-Identifier: Apache-2.0
// estimate() is a pure function of what all ranks know alike; selection rests on it.
#include <cstring>

#include "sdk/datatype.h"
#include "tests/conformance/algorithm/suite.h"
#include "tests/conformance/algorithm/team.h"
#include "tests/conformance/kit/edge.h"

namespace sl::conform::algorithm {
namespace {

// An estimate and what came with it; compared as a whole.
struct Answer {
  sl_status_t status = SL_OK;
  sl_estimate_t estimate{};

  bool operator==(const Answer& other) const {
    if (status != other.status) return false;
    if (std::strncmp(estimate.reason, other.estimate.reason, sizeof(estimate.reason)) != 0) return false;
    return status != SL_OK ||
           (estimate.run == other.estimate.run && estimate.time_ns == other.estimate.time_ns &&
            estimate.processors == other.estimate.processors && estimate.determinism == other.estimate.determinism &&
            estimate.scratch_bytes == other.estimate.scratch_bytes);
  }
};

Answer Ask(const Subject& subject, const Team& team, uint32_t rank, const sl_op_t& op) {
  Answer answer;
  answer.estimate.struct_size = sizeof(answer.estimate);
  answer.status = subject.ops.estimate(team.algorithm(rank), &op, &answer.estimate);
  return answer;
}

std::string Text(const Answer& answer) {
  const sl_estimate_t& e = answer.estimate;
  return fmt::format("{}, {} ns, class {}, \"{}\"", StatusName(answer.status), e.time_ns, e.determinism,
                     std::string(e.reason, strnlen(e.reason, sizeof(e.reason))));
}

// Runs `check` for teams of several shapes; skips when the algorithm is for none of them.
template <typename Check>
void ForTeams(Trial& trial, Check check) {
  const Subject subject(trial, SL_ALGORITHM_ID);
  std::string refusal;
  bool is_served = false;
  std::vector<TeamShape> shapes = {{2}, {3}, {5}, {4, 2}, {2, 1, 1024, 2}};
  if (trial.full()) shapes.insert(shapes.end(), {{1}, {4}, {8}, {16}, {64}, {6, 3}, {8, 8}});
  for (const TeamShape& shape : shapes) {
    const Scope scope(fmt::format("{} ranks on {} hosts", shape.ranks, shape.hosts));
    const Team team(trial, subject, shape);
    if (team.IsServed()) {
      check(subject, team);
      is_served = true;
    } else {
      refusal = team.Refusal();
    }
  }
  if (!is_served) trial.Skip("it serves none of the communicators tried: " + refusal);
}

void Equal(Trial& trial) {
  ForTeams(trial, [&](const Subject& subject, const Team& team) {
    for (const sl_op_t& op : ManyOps(trial, team.size())) {
      const Answer first = Ask(subject, team, 0, op);
      for (uint32_t rank = 1; rank < team.size(); ++rank) {
        const Answer answer = Ask(subject, team, rank, op);
        trial.Expect(answer == first, "{}: rank {} says {}; rank 0 says {}", OpText(op), rank, Text(answer),
                     Text(first));
      }
    }
  });
}

void Pure(Trial& trial) {
  ForTeams(trial, [&](const Subject& subject, const Team& team) {
    const std::vector<sl_op_t> ops = ManyOps(trial, team.size());
    std::vector<Answer> answers;
    answers.reserve(ops.size());
    for (const sl_op_t& op : ops) answers.push_back(Ask(subject, team, 0, op));
    // Again, in the other order, as the second of two operations, with pointers that must not be looked at.
    for (size_t i = ops.size(); i-- > 0;) {
      sl_op_t op = ops[i];
      op.send = reinterpret_cast<const void*>(uintptr_t{0x10});
      op.recv = reinterpret_cast<void*>(uintptr_t{0x11});
      op.scalar_bits = ~uint64_t{0};
      op.seq = 77;
      op.signature = 78;
      const Answer again = Ask(subject, team, 0, op);
      trial.Expect(again == answers[i], "{}: it says {}; before it said {}", OpText(op), Text(again), Text(answers[i]));
    }
  });
}

void Legal(Trial& trial) {
  const bool has_plan = HasSlot(Subject(trial, SL_ALGORITHM_ID).table, offsetof(sl_algorithm_ops_t, plan));
  const bool has_copies = HasSlot(Subject(trial, SL_ALGORITHM_ID).table, offsetof(sl_algorithm_ops_t, copies));
  const bool has_parts = HasSlot(Subject(trial, SL_ALGORITHM_ID).table, offsetof(sl_algorithm_ops_t, parts));
  const bool has_launch = HasSlot(Subject(trial, SL_ALGORITHM_ID).table, offsetof(sl_algorithm_ops_t, launch));
  ForTeams(trial, [&](const Subject& subject, const Team& team) {
    for (const sl_op_t& op : ManyOps(trial, team.size())) {
      const Scope scope(OpText(op));
      const Answer answer = Ask(subject, team, 0, op);
      const sl_estimate_t& estimate = answer.estimate;
      const size_t length = strnlen(estimate.reason, sizeof(estimate.reason));
      trial.Expect(length < sizeof(estimate.reason), "the reason does not end");
      trial.Expect(length > 0, "{} comes without a reason", StatusName(answer.status));
      trial.Expect(answer.status == SL_OK || answer.status == SL_ERR_UNSUPPORTED,
                   "it gave {}; expected are SL_OK and SL_ERR_UNSUPPORTED", StatusName(answer.status));
      if (answer.status != SL_OK) continue;
      trial.Expect(estimate.determinism <= SL_DETERMINISM_WORLD_SIZE, "determinism is {}", estimate.determinism);
      trial.Expect(estimate.run != SL_RUN_PLAN || has_plan, "it is to be planned, and there is no plan()");
      trial.Expect(estimate.run != SL_RUN_LAUNCH || has_launch, "it is to be launched, and there is no launch()");
      trial.Expect(estimate.run != SL_RUN_COPIES || has_copies, "it is to be copied, and there is no copies()");
      trial.Expect(estimate.run != SL_RUN_SEQUENCE || has_parts, "it is a sequence, and there is no parts()");
      trial.Expect(estimate.run <= SL_RUN_SEQUENCE, "run is {}", estimate.run);
    }
  });
}

// Selection must be right at every size, so at every size more data never costs less by much.
void Grows(Trial& trial) {
  ForTeams(trial, [&](const Subject& subject, const Team& team) {
    if (team.size() == 1) return;  // nothing moves
    for (sl_op_kind_t kind = 0; kind < SL_OP_SEND; ++kind) {
      const Answer small = Ask(subject, team, 0, MakeOp(kind, SL_FLOAT32, SL_SUM, 1, 0));
      const Answer large = Ask(subject, team, 0, MakeOp(kind, SL_FLOAT32, SL_SUM, uint64_t{1} << 26, 0));
      if (small.status != SL_OK || large.status != SL_OK) continue;
      trial.Expect(small.estimate.time_ns < large.estimate.time_ns, "{}: 4 bytes are to take {} ns, 256 MiB {} ns",
                   OpKindName(kind), small.estimate.time_ns, large.estimate.time_ns);
    }
  });
}

// A caller of the first release: nothing behind what it states is read or written.
void TakesEveryAge(Trial& trial) {
  ForTeams(trial, [&](const Subject& subject, const Team& team) {
    for (sl_op_kind_t kind = 0; kind < SL_OP_SEND; ++kind) {
      sl_op_t op = MakeOp(kind, SL_FLOAT32, SL_SUM, 1000, 0);
      op.symmetric = 0;
      const Answer today = Ask(subject, team, 0, op);
      const AtTheEdge<sl_op_t> short_op(op, SL_OP_SIZE_1_0);
      const AtTheEdge<sl_estimate_t> short_estimate(sl_estimate_t{}, SL_ESTIMATE_SIZE_1_0);
      Answer first;
      first.status = subject.ops.estimate(team.algorithm(0), short_op.get(), short_estimate.get());
      std::memcpy(&first.estimate, short_estimate.get(), SL_ESTIMATE_SIZE_1_0);
      trial.Expect(first == today, "{}: to a caller of release 1.0 it says {}; else {}", OpText(op), Text(first),
                   Text(today));
    }
  });
}

// Algorithms of several communicators live beside each other and end in any order.
void Lives(Trial& trial) {
  const Subject subject(trial, SL_ALGORITHM_ID);
  auto first = std::make_unique<Team>(trial, subject, TeamShape{2});
  if (!first->IsServed()) trial.Skip("it serves no communicator of 2 ranks: " + first->Refusal());
  const sl_op_t op = MakeOp(SL_OP_ALL_REDUCE, SL_FLOAT32, SL_SUM, 1000, -1);
  const Answer alone = Ask(subject, *first, 0, op);
  for (uint32_t round = 0; round < 3; ++round) {
    const Team other(trial, subject, TeamShape{3});
    if (other.IsServed()) Ask(subject, other, 1, op);
    trial.Expect(Ask(subject, *first, 0, op) == alone, "another communicator changed an estimate");
  }
  const Team second(trial, subject, TeamShape{2});
  first.reset();
  trial.Expect(Ask(subject, second, 0, op) == alone, "an equal communicator has another estimate");
}

// The communicator's device is for modules that say that they need one; to all others the kernel gives NULL.
void UsesNoDevice(Trial& trial) {
  if (Subject(trial, SL_ALGORITHM_ID).module().Requires(SL_DEVICE_ID)) trial.Skip("it requires sl.device/1");
  ForTeams(trial, [&](const Subject& subject, const Team& team) {
    for (const sl_op_t& op : ManyOps(trial, team.size())) Ask(subject, team, 0, op);
  });
}

}  // namespace

std::vector<Test> EstimateTests() {
  return {
      {"Estimate.IsEqualOnAllRanks", "ranks that estimate differently select differently and wait for ever", Equal},
      {"Estimate.IsPure", "the same operation has the same answer, whatever its pointers and whatever came before",
       Pure},
      {"Estimate.IsLegal", "a reason always; a class and a way to run that exist", Legal},
      {"Estimate.GrowsWithTheOperation", "256 MiB take longer than 4 bytes", Grows},
      {"Estimate.TakesCallersOfEveryAge", "memory ends behind the caller's structs: nothing there is touched",
       TakesEveryAge},
      {"Algorithm.UsesNoDeviceUnasked", "env's device and device_ops are NULL unless the module requires sl.device/1",
       UsesNoDevice},
      {"Algorithm.LivesBesideOthers", "objects of several communicators do not touch each other", Lives},
  };
}

}  // namespace sl::conform::algorithm
