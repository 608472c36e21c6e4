// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/rank_set.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <thread>

#include "kernel/events/last_error.h"
#include "kernel/events/log.h"

namespace sl::verify {
namespace {

constexpr uint64_t kPage = 4096;

}  // namespace

Result<std::unique_ptr<RankSet>> RankSet::Create(const Algorithm& algorithm, const CommShape& shape) {
  std::unique_ptr<RankSet> set(new RankSet(algorithm, shape));
  SL_TRY(set->MakeRanks(algorithm));
  return set;
}

Status RankSet::MakeRanks(const Algorithm& algorithm) {
  std::vector<uint32_t> host_of = shape_.host_of;
  host_of.resize(shape_.ranks);
  const uint32_t hosts = *std::max_element(host_of.begin(), host_of.end()) + 1;
  for (uint32_t host = 0; host < hosts; ++host) host_names_.push_back(fmt::format("paper {}", host));
  for (const uint32_t host : host_of) hosts_.push_back(host_names_[host].c_str());
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    const auto own = host_of.begin() + rank;
    sl_comm_shape_t shape{};
    shape.struct_size = sizeof(shape);
    shape.rank = rank;
    shape.size = shape_.ranks;
    shape.local_rank = static_cast<uint32_t>(std::count(host_of.begin(), own, *own));
    shape.local_size = shape.domain_size = static_cast<uint32_t>(std::count(host_of.begin(), host_of.end(), *own));
    shape.device_kind = SL_DEVICE_HOST;
    shape.processors = std::max(1u, std::thread::hardware_concurrency());
    shape.link_chunk_bytes = shape_.link_chunk_bytes;
    shape.lanes = shape_.link_lanes;
    shape.link_slots = shape_.link_slots;
    shape.host_of = hosts_.data();
    shapes_.push_back(shape);
  }
  sl_demand_t demand{sizeof(demand), 0, 0};
  sl_status_t demanded = SL_ERR_UNSUPPORTED;
  // Ranks of different hosts share no memory.
  if (hosts == 1) demanded = kernel::CallModule("demand", ops_->demand, algorithm.instance, shapes_.data(), &demand);
  if (demanded == SL_ERR_EXCEPTION) return kernel::ModuleFailure(demanded);
  if (demanded != SL_OK) demand.symmetric_bytes = 0;
  const uint64_t stride = (demand.symmetric_bytes + kPage - 1) / kPage * kPage;
  memory_bytes_ = stride * shape_.ranks;
  if (memory_bytes_ != 0) {
    memory_ = mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) {
      memory_ = nullptr;
      return {SL_ERR_MEMORY,
              fmt::format("cannot reserve {} bytes of symmetric memory for {} ranks", memory_bytes_, shape_.ranks)};
    }
  }
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    sl_algorithm_env_t env{};
    env.struct_size = sizeof(env);
    env.shape = &shapes_[rank];
    env.device_ops = algorithm.device_ops;
    env.device = algorithm.device;
    env.symmetric = {static_cast<uint8_t*>(memory_), stride, demand.symmetric_bytes};
    sl_algorithm_t* made = nullptr;
    kernel::ClearLastError();
    const sl_status_t status = kernel::CallModule("create", ops_->create, algorithm.instance, &env, &made);
    if (status != SL_OK) return kernel::ModuleFailure(status);
    if (made == nullptr) return {SL_ERR_INTERNAL, "create() said SL_OK and made nothing"};
    algorithms_.push_back(made);
  }
  return {};
}

RankSet::~RankSet() {
  for (sl_algorithm_t* algorithm : algorithms_) {
    if (kernel::CallModule("destroy", ops_->destroy, algorithm) == SL_OK) continue;
    kernel::Logf(SL_LOG_ERROR, "algorithm {}: {}", name_, kernel::LastError());
  }
  if (memory_ != nullptr) munmap(memory_, memory_bytes_);
}

sl_status_t RankSet::Estimate(const sl_op_t& op, sl_estimate_t* out) const {
  *out = {};
  out->struct_size = sizeof(*out);
  return kernel::CallModule("estimate", ops_->estimate, algorithms_[0], &op, out);
}

Status RankSet::AddPlan(uint32_t rank, const sl_op_t& op, PlanSet* set) const {
  kernel::PlanBuilder builder({rank, shape_.ranks, shape_.link_lanes, shape_.link_chunk_bytes, shape_.link_slots, op});
  kernel::ClearLastError();
  const sl_status_t status =
      kernel::CallModule("plan", ops_->plan, algorithms_[rank], &op, kernel::PlanBuilder::Ops(), builder.handle());
  if (status != SL_OK) {
    const Status failure = builder.error().ok() ? kernel::ModuleFailure(status) : builder.error();
    return {failure.code(), fmt::format("plan() of rank {}: {}", rank, failure.message())};
  }
  SL_ASSIGN(set->plans[rank], builder.Finish());
  set->test.ranks[rank] = {set->plans[rank].get(), op};
  return {};
}

Result<PlanSet> RankSet::MakePlans(const sl_op_t& op) const {
  PlanSet set;
  set.plans.resize(shape_.ranks);
  set.test.ranks.resize(shape_.ranks);
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) SL_TRY(AddPlan(rank, op, &set));
  return set;
}

bool RankSet::IsRotation(uint32_t rank, const sl_op_t& op, const kernel::Plan& base, const Rotation& rotation) const {
  RotationCheck check(base, rotation);
  const sl_status_t status =
      kernel::CallModule("plan", ops_->plan, algorithms_[rank], &op, RotationCheck::Ops(), check.handle());
  return status == SL_OK && check.matches();
}

std::optional<PlanSet> RankSet::MakeFolded(const sl_op_t& op) const {
  PlanSet set;
  set.plans.resize(shape_.ranks);
  set.test.ranks.resize(shape_.ranks);
  if (!AddPlan(0, op, &set).ok()) return std::nullopt;
  std::optional<Rotation> rotation = RotationOfRanks(op, *set.plans[0]);
  if (!rotation) return std::nullopt;
  for (rotation->distance = 1; rotation->distance < shape_.ranks; ++rotation->distance) {
    if (!IsRotation(rotation->distance, op, *set.plans[0], *rotation)) return std::nullopt;
  }
  set.test.folds.ranks = true;
  set.test.folds.moves_inputs = rotation->moves_send;
  return set;
}

bool RankSet::AreRotations(const Case& base, const sl_op_t& op, const Rotation& rotation) const {
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    if (!IsRotation((rank + rotation.distance) % shape_.ranks, op, *base.ranks[rank].plan, rotation)) return false;
  }
  return true;
}

bool RankSet::IsRotatedPair(const Case& base, const sl_op_t& send, uint32_t to, const Rotation& rotation) const {
  sl_op_t op = send;
  op.kind = SL_OP_SEND;
  op.peer = static_cast<int32_t>(to);
  const uint32_t base_to = (to + shape_.ranks - rotation.distance) % shape_.ranks;
  if (!IsRotation(rotation.distance, op, *base.ranks[0].plan, rotation)) return false;
  op.kind = SL_OP_RECV;
  op.peer = static_cast<int32_t>(rotation.distance);
  return IsRotation(to, op, *base.ranks[base_to].plan, rotation);
}

Result<PlanSet> RankSet::MakePair(const sl_op_t& send, uint32_t from, uint32_t to) const {
  PlanSet set;
  set.plans.resize(shape_.ranks);
  set.test.ranks.resize(shape_.ranks);
  sl_op_t op = send;
  op.kind = SL_OP_SEND;
  op.peer = static_cast<int32_t>(to);
  SL_TRY(AddPlan(from, op, &set));
  op.kind = SL_OP_RECV;
  op.peer = static_cast<int32_t>(from);
  SL_TRY(AddPlan(to, op, &set));
  return set;
}

}  // namespace sl::verify
