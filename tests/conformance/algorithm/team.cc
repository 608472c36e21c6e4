// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/algorithm/team.h"

#include <cstdlib>

#include "sdk/datatype.h"
#include "tests/conformance/kit/random.h"

namespace sl::conform::algorithm {

Team::Team(Trial& trial, const Subject& subject, const TeamShape& shape)
    : subject_(subject), shape_(shape), ranks_(shape.ranks) {
  const uint32_t per_host = (shape.ranks + shape.hosts - 1) / shape.hosts;
  for (uint32_t host = 0; host < shape.hosts; ++host) host_names_.push_back(fmt::format("host-{}", host));
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) host_of_.push_back(host_names_[rank / per_host].c_str());
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    sl_comm_shape_t& own = ranks_[rank].shape;
    own.struct_size = sizeof(own);
    own.rank = rank;
    own.size = shape.ranks;
    own.local_rank = rank % per_host;
    own.local_size = std::min(per_host, shape.ranks - rank / per_host * per_host);
    own.domain_size = own.local_size;
    own.device_kind = SL_DEVICE_HOST;
    own.processors = 2;
    own.link_chunk_bytes = shape.link_chunk_bytes;
    own.lanes = 2;
    own.link_slots = shape.link_slots;
    own.host_of = host_of_.data();
  }
  // As the kernel does: without the requirement there is no device.
  if (subject.module().Requires(SL_DEVICE_ID)) OpenDevice(trial);
  Create(trial, Demand(trial));
}

Team::~Team() {
  for (const Rank& rank : ranks_) {
    if (rank.algorithm != nullptr) subject_.ops.destroy(rank.algorithm);
  }
}

void Team::OpenDevice(Trial& trial) {
  companion_ = Companion::Find(trial, SL_DEVICE_ID, 1, SL_DEVICE_REVISION);
  if (companion_ == nullptr) trial.Skip("no companion provides sl.device/1; name one with --with FILE");
  device_ops_ = static_cast<const sl_device_ops_t*>(companion_->table());
  sl_device_t* device = nullptr;
  const sl_status_t status = device_ops_->open(companion_->instance(), 0, &device);
  if (status != SL_OK) trial.Skip("the companion's device does not open: " + ErrorText());
  device_ = {device, {device_ops_}};
}

sl_algorithm_env_t Team::env(uint32_t rank) const {
  sl_algorithm_env_t env{};
  env.struct_size = sizeof(env);
  env.shape = &ranks_[rank].shape;
  env.device_ops = device_ops_;
  env.device = device_.get();
  env.symmetric = symmetric_;
  return env;
}

// Equal on all ranks, and twice the same. A layer may have the slot, and what it wraps not.
uint64_t Team::Demand(Trial& trial) {
  if (!HasSlot(subject_.table, offsetof(sl_algorithm_ops_t, demand))) return 0;
  uint64_t bytes = 0;
  for (uint32_t round = 0; round < 2; ++round) {
    for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
      sl_demand_t demand{sizeof(demand), 0, 0};
      const sl_status_t status = subject_.ops.demand(subject_.instance(), &ranks_[rank].shape, &demand);
      if (status == SL_ERR_UNSUPPORTED) demand.symmetric_bytes = 0;
      trial.Require(status == SL_OK || status == SL_ERR_UNSUPPORTED, "demand of rank {} of {} gave {}", rank,
                    shape_.ranks, StatusName(status));
      if (rank == 0 && round == 0) bytes = demand.symmetric_bytes;
      trial.Expect(demand.symmetric_bytes == bytes, "rank {} of {} demands {} bytes, rank 0 {}", rank, shape_.ranks,
                   demand.symmetric_bytes, bytes);
    }
  }
  return bytes;
}

void Team::Create(Trial& trial, uint64_t symmetric_bytes) {
  constexpr uint64_t kPage = 4096;
  const uint64_t stride = (symmetric_bytes + kPage - 1) / kPage * kPage;
  symmetric_ = {nullptr, stride, symmetric_bytes};
  if (symmetric_bytes > 0 && shape_.hosts == 1) {
    memory_ = std::make_unique<uint8_t[]>(stride * shape_.ranks + kPage);  // zeroed
    const auto address = reinterpret_cast<uintptr_t>(memory_.get());
    symmetric_.base = memory_.get() + (kPage - address % kPage) % kPage;
  }
  uint32_t created = 0;
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    const sl_algorithm_env_t given = env(rank);
    ClearError();
    sl_algorithm_t* algorithm = nullptr;
    const sl_status_t status = subject_.ops.create(subject_.instance(), &given, &algorithm);
    trial.Expect(status == SL_OK || status == SL_ERR_UNSUPPORTED, "create of rank {} of {} gave {}: {}", rank,
                 shape_.ranks, StatusName(status), ErrorText());
    if (status == SL_OK) {
      trial.Expect(algorithm != nullptr, "create of rank {} gave SL_OK and no algorithm", rank);
      ranks_[rank].algorithm = algorithm;
      ++created;
    } else {
      trial.Expect(!ErrorText().empty(), "create gave {} without a text", StatusName(status));
      refusal_ = ErrorText().empty() ? "it gave no reason" : ErrorText();
    }
  }
  trial.Expect(created == 0 || created == shape_.ranks, "only {} of {} ranks say that the algorithm is for them",
               created, shape_.ranks);
}

bool HasRoot(sl_op_kind_t kind) {
  return kind == SL_OP_BROADCAST || kind == SL_OP_REDUCE || kind == SL_OP_GATHER || kind == SL_OP_SCATTER;
}

sl_op_t MakeOp(sl_op_kind_t kind, sl_datatype_t datatype, sl_reduction_t reduction, uint64_t count, int32_t root) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = kind;
  op.datatype = datatype;
  op.reduction = reduction;
  op.root = HasRoot(kind) ? root : -1;
  op.peer = -1;
  op.count = count;
  op.seq = 1;
  op.symmetric = SL_OP_SEND_SYMMETRIC | SL_OP_RECV_SYMMETRIC;
  return op;
}

std::string OpText(const sl_op_t& op) {
  std::string text = fmt::format("{} of {} {}", OpKindName(op.kind), op.count, DatatypeName(op.datatype));
  if (HasReduction(op.kind)) text += fmt::format(", {}", ReductionName(op.reduction));
  if (op.root >= 0) text += fmt::format(", root {}", op.root);
  if (op.peer >= 0) text += fmt::format(", peer {}", op.peer);
  return text;
}

std::vector<sl_op_t> ManyOps(const Trial& trial, uint32_t ranks) {
  std::vector<uint64_t> counts = {0, 1, 7, ranks, 1000, 16384, 65537, 1u << 20};
  if (trial.full()) counts.insert(counts.end(), {2, 3, 255, 256, 257, 4096, 99991, 1u << 24, uint64_t{1} << 32});
  Random random(trial.seed());
  std::vector<sl_op_t> ops;
  for (sl_op_kind_t kind = 0; kind < SL_OP_SEND; ++kind) {
    for (sl_datatype_t type = 0; type < SL_DATATYPE_COUNT; ++type) {
      for (sl_reduction_t reduction = 0; reduction < (HasReduction(kind) ? SL_REDUCTION_COUNT : 1); ++reduction) {
        for (const uint64_t count : counts) {
          ops.push_back(MakeOp(kind, type, reduction, count, static_cast<int32_t>(random.Below(ranks))));
        }
      }
    }
  }
  return ops;
}

void ForOpsRun(Trial& trial, const Listing& kind,
               const std::function<void(const Subject&, const Team&, const sl_op_t&)>& check) {
  const Subject subject(trial, SL_ALGORITHM_ID);
  if (!HasSlot(subject.table, kind.slot)) trial.Skip(fmt::format("it has no {}()", kind.function));
  bool is_any = false;
  for (const TeamShape& shape : {TeamShape{2}, TeamShape{3}, TeamShape{8}}) {
    const Team team(trial, subject, shape);
    if (!team.IsServed()) continue;
    for (const sl_op_t& op : ManyOps(trial, team.size())) {
      sl_estimate_t estimate{};
      estimate.struct_size = sizeof(estimate);
      if (subject.ops.estimate(team.algorithm(0), &op, &estimate) != SL_OK || estimate.run != kind.run) continue;
      const Scope scope(fmt::format("{} ranks, {}", team.size(), OpText(op)));
      is_any = true;
      check(subject, team, op);
    }
  }
  if (!is_any) trial.Skip(fmt::format("it serves nothing by {}", kind.function));
}

}  // namespace sl::conform::algorithm
