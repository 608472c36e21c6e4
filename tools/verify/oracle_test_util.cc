// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/oracle_test_util.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernel/engine/plan_world_test_util.h"
#include "kernel/engine/reference_reduce_test_util.h"
#include "kernel/plan/signature.h"
#include "sdk/datatype.h"

namespace sl::verify {
namespace {

constexpr uint64_t kGuard = 16;  // elements around every buffer
constexpr double kUnwritten = -777;
constexpr double kTolerance = 1e-9;

// One rank's buffers, guards around them.
struct Buffers {
  std::vector<double> send_memory;
  std::vector<double> recv_memory;
  double* send = nullptr;
  double* recv = nullptr;
};

class Trial {
 public:
  Trial(const Case& test, uint32_t seed)
      : test_(test), op_(OperationOf(test)), ranks_(static_cast<uint32_t>(test.ranks.size())), random_(seed) {}

  std::string Run() {
    uint32_t slots = 1;
    uint64_t chunk = 1;
    for (const RankPlan& part : test_.ranks) {
      slots = std::max(slots, part.plan->desc().credits);
      chunk = std::max(chunk, part.plan->desc().chunk);
    }
    Fill();
    kernel::PlanWorld world(ranks_, {static_cast<uint32_t>(chunk * sizeof(double)), slots, true});
    world.Shuffle(static_cast<uint32_t>(random_()));
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      sl_op_t op = test_.ranks[rank].op;
      op.send = buffers_[rank].send;
      op.recv = buffers_[rank].recv;
      op.scalar_bits = kernel::ScalarBits(SL_FLOAT64, Scalar(rank));
      const Status status = world.Start(rank, *test_.ranks[rank].plan, op);
      if (!status.ok()) return status.message();
    }
    if (std::string failure = world.Drive(); !failure.empty()) return failure;
    if (!world.net().Drained()) return "chunks are left on the links";
    return Compare();
  }

 private:
  static double Scalar(uint32_t rank) { return 1.5 + rank; }

  void Fill() {
    std::uniform_real_distribution<double> values(1, 2);
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const uint64_t sent = kernel::SendElements(op_, rank, ranks_);
      const uint64_t received = kernel::RecvElements(op_, rank, ranks_);
      Buffers& own = buffers_.emplace_back();
      const bool shared = test_.in_place && sent != 0 && received != 0;
      own.recv_memory.assign((shared ? std::max(sent, received) : received) + 2 * kGuard, kUnwritten);
      own.recv = own.send = own.recv_memory.data() + kGuard;
      if (!shared) {
        own.send_memory.assign(sent + 2 * kGuard, kUnwritten);
        own.send = own.send_memory.data() + kGuard;
      } else {
        if (sent < received) own.send += rank * op_.count;
        if (received < sent) own.recv += rank * op_.count;
      }
      inputs_.emplace_back(sent);
      for (double& value : inputs_.back()) value = values(random_);
      std::copy(inputs_.back().begin(), inputs_.back().end(), own.send);
    }
  }

  double Joined(uint64_t index) const {
    double result = 0;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const double value = inputs_[rank][index] * (op_.reduction == SL_PREMUL_SUM ? Scalar(rank) : 1);
      if (rank == 0) {
        result = value;
      } else if (op_.reduction == SL_PROD) {
        result *= value;
      } else if (op_.reduction == SL_MAX) {
        result = std::max(result, value);
      } else {
        result += value;
      }
    }
    return op_.reduction == SL_AVG ? result / ranks_ : result;
  }

  double Expected(uint32_t rank, uint64_t index) const {
    const uint64_t block = index / op_.count, within = index % op_.count;
    switch (op_.kind) {
      case SL_OP_ALL_REDUCE:
      case SL_OP_REDUCE:
        return Joined(index);
      case SL_OP_REDUCE_SCATTER:
        return Joined(rank * op_.count + index);
      case SL_OP_ALL_GATHER:
      case SL_OP_GATHER:
        return inputs_[block][within];
      case SL_OP_ALL_TO_ALL:
        return inputs_[block][rank * op_.count + within];
      case SL_OP_BROADCAST:
        return inputs_[static_cast<size_t>(op_.root)][index];
      default:  // scatter
        return inputs_[static_cast<size_t>(op_.root)][rank * op_.count + index];
    }
  }

  static bool GuardsHold(const std::vector<double>& memory) {
    const auto is_untouched = [](double value) { return value == kUnwritten; };
    return memory.empty() || (std::all_of(memory.begin(), memory.begin() + kGuard, is_untouched) &&
                              std::all_of(memory.end() - kGuard, memory.end(), is_untouched));
  }

  std::string Compare() const {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const Buffers& own = buffers_[rank];
      if (!GuardsHold(own.send_memory) || !GuardsHold(own.recv_memory)) {
        return fmt::format("rank {} wrote outside its buffers", rank);
      }
      if (!own.send_memory.empty() && !std::equal(inputs_[rank].begin(), inputs_[rank].end(), own.send)) {
        return fmt::format("rank {} wrote its send buffer", rank);
      }
      const uint64_t received = kernel::RecvElements(op_, rank, ranks_);
      for (uint64_t i = 0; i < received; ++i) {
        const double wanted = Expected(rank, i);
        if (std::fabs(own.recv[i] - wanted) <= kTolerance * std::fabs(wanted)) continue;
        return fmt::format("rank {} element {} is {}, not {}", rank, i, own.recv[i], wanted);
      }
      const bool same = op_.kind == SL_OP_ALL_REDUCE && test_.determinism >= SL_DETERMINISM_RANK;
      if (same && std::memcmp(own.recv, buffers_[0].recv, received * sizeof(double)) != 0) {
        return fmt::format("rank {} has other bits than rank 0", rank);
      }
    }
    return "";
  }

  const Case& test_;
  const sl_op_t op_;
  const uint32_t ranks_;
  std::mt19937 random_;
  std::vector<std::vector<double>> inputs_;
  std::vector<Buffers> buffers_;
};

}  // namespace

std::string RunForReal(const Case& test, uint32_t runs, uint32_t seed) {
  for (uint32_t run = 0; run < runs; ++run) {
    std::string wrong = Trial(test, seed + run).Run();
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace sl::verify
