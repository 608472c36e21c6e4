// SPDX-License-Identifier: Apache-2.0
#include "tools/gpu/bench_member.h"

#include <algorithm>

#include "sdk/clock.h"
#include "tools/starling/bench_error.h"

namespace sl::bench {
namespace {

constexpr double kPatienceSeconds = 30;  // for the operations of one measurement
constexpr int kWarmUps = 3;
constexpr size_t kRoom = 4096;       // for blocks that are rounded up
constexpr size_t kLooked = 1 << 20;  // bytes of a result that are compared, at its start and at its end

double Now() { return static_cast<double>(NowNs()) / 1e3; }

// 0 … 3 in the format of `type`, the same in all libraries' runs.
std::vector<uint8_t> Pattern(tools::DataType type, size_t bytes, int rank) {
  const size_t width = tools::SizeOf(type);
  std::vector<uint8_t> pattern(bytes);
  constexpr uint16_t kBf16[] = {0, 0x3f80, 0x4000, 0x4040};
  constexpr uint16_t kHalf[] = {0, 0x3c00, 0x4000, 0x4200};
  constexpr uint32_t kFloat[] = {0, 0x3f800000, 0x40000000, 0x40400000};
  for (size_t i = 0; i * width < bytes; ++i) {
    const size_t value = (i * 7 + i / 509 + static_cast<size_t>(rank) * 3) % 4;
    uint8_t* at = &pattern[i * width];
    if (type == tools::DataType::kBf16) {
      std::copy_n(reinterpret_cast<const uint8_t*>(&kBf16[value]), width, at);
    } else if (type == tools::DataType::kHalf) {
      std::copy_n(reinterpret_cast<const uint8_t*>(&kHalf[value]), width, at);
    } else if (type == tools::DataType::kFloat) {
      std::copy_n(reinterpret_cast<const uint8_t*>(&kFloat[value]), width, at);
    } else {
      *at = static_cast<uint8_t>(value);  // integers; the low byte comes first
    }
  }
  return pattern;
}

}  // namespace

void Meeting::Wait() {
  const int turn = turn_.load();
  if (waiting_.fetch_add(1) + 1 == members_) {
    waiting_.store(0);
    turn_.store(turn + 1);
    return;
  }
  while (turn_.load() == turn) {
  }
}

Member::Member(const std::vector<tools::NcclApi>& libraries, int rank, int ranks, tools::DataType type, tools::RedOp op,
               size_t max_bytes, int more_elements)
    : libraries_(libraries),
      rank_(rank),
      ranks_(ranks),
      type_(type),
      op_(op),
      more_(static_cast<size_t>(more_elements)),
      bytes_(max_bytes + kRoom * static_cast<size_t>(ranks)),
      stream_(gpu::MakeStream()),
      plain_{gpu::AllocateWhole(bytes_), gpu::AllocateWhole(bytes_)},
      sides_(libraries.size()) {
  Fill(plain_[0], bytes_);
}

void Member::Fill(uint8_t* to, size_t bytes) const {
  const size_t block = std::min<size_t>(bytes, 16 << 20);
  const std::vector<uint8_t> pattern = Pattern(type_, block, rank_);
  for (size_t at = 0; at < bytes; at += block) gpu::ToDevice(to + at, pattern.data(), std::min(block, bytes - at));
}

int Member::Init(size_t library, const tools::NcclUniqueId& id, std::optional<int> ctas) {
  const tools::NcclApi& api = libraries_[library];
  tools::NcclComm* comm = &sides_[library].comm;
  if (!ctas) return api.CommInitRank(comm, ranks_, id, rank_);
  if (api.CommInitRankConfig == nullptr) return tools::kNcclInvalidUsage;
  tools::NcclConfig config;
  if (*ctas == 0) {
    config.SetPolicyZero();
  } else {
    config.min_ctas = *ctas;  // so that a library does not choose fewer
    config.max_ctas = *ctas;
  }
  return api.CommInitRankConfig(comm, ranks_, id, rank_, &config);
}

void Member::Open(const std::vector<tools::NcclUniqueId>& ids, std::optional<int> ctas) {
  gpu::WaitForDevice();
  for (size_t library = 0; library < libraries_.size(); ++library) {
    const tools::NcclApi& api = libraries_[library];
    Release(library);
    tools::NcclComm& comm = sides_[library].comm;
    if (comm != nullptr) CheckNccl(api, api.CommDestroy(comm), "ncclCommDestroy", nullptr);
    comm = nullptr;
    const int result = Init(library, ids[library], ctas);
    if (ctas && (result == tools::kNcclInvalidArgument || result == tools::kNcclInvalidUsage)) {
      comm = nullptr;
    } else {
      CheckNccl(api, result, "ncclCommInitRank", nullptr);
    }
  }
}

void Member::Release(size_t library) {
  const tools::NcclApi& api = libraries_[library];
  Side& side = sides_[library];
  for (int i = 0; i < 2; ++i) {
    if (side.registered[i] != nullptr) {
      CheckNccl(api, api.CommDeregister(side.comm, side.registered[i]), "ncclCommDeregister", side.comm);
    }
    if (side.window[i] != nullptr) {
      CheckNccl(api, api.CommWindowDeregister(side.comm, side.window[i]), "ncclCommWindowDeregister", side.comm);
    }
    if (side.symmetric[i] != nullptr) CheckNccl(api, api.MemFree(side.symmetric[i]), "ncclMemFree", side.comm);
    side.registered[i] = nullptr;
    side.window[i] = nullptr;
    side.symmetric[i] = nullptr;
  }
}

void Member::Use(Memory memory) {
  gpu::WaitForDevice();
  memory_ = memory;
  for (size_t library = 0; library < libraries_.size(); ++library) {
    if (sides_[library].comm == nullptr) continue;
    Release(library);
    const tools::NcclApi& api = libraries_[library];
    Side& side = sides_[library];
    for (int i = 0; i < 2; ++i) {
      if (memory == Memory::kRegistered) {
        CheckNccl(api, api.CommRegister(side.comm, plain_[i], bytes_, &side.registered[i]), "ncclCommRegister",
                  side.comm);
      } else if (memory == Memory::kSymmetric) {
        void* allocated = nullptr;
        CheckNccl(api, api.MemAlloc(&allocated, bytes_), "ncclMemAlloc", side.comm);
        side.symmetric[i] = static_cast<uint8_t*>(allocated);
        if (i == 0) gpu::CopyOnDevice(side.symmetric[i], plain_[0], bytes_);
        CheckNccl(
            api, api.CommWindowRegister(side.comm, allocated, bytes_, &side.window[i], tools::kNcclWindowCollSymmetric),
            "ncclCommWindowRegister", side.comm);
      }
    }
  }
}

uint8_t* Member::buffer(size_t library, int which) const {
  return memory_ == Memory::kSymmetric ? sides_[library].symmetric[which] : plain_[which];
}

tools::Shape Member::ShapeOf(const Point& point) const {
  tools::Shape shape = tools::ShapeOf(point.kind, point.bytes, type_, ranks_);
  const size_t parts = shape.recv_count / shape.param_count;
  shape.param_count += more_;
  shape.recv_count += parts * more_;
  return shape;
}

size_t Member::UnevenBytesOf(const Point& point, int from, int to) const {
  return UnevenBytes(point.bytes, from, to, ranks_) + more_ * tools::SizeOf(type_);
}

int Member::RunUneven(const tools::NcclApi& api, tools::NcclComm comm, const Point& point, const uint8_t* send,
                      uint8_t* recv) {
  int result = api.GroupStart();
  size_t sent = 0;
  size_t received = 0;
  for (int peer = 0; peer < ranks_ && result == tools::kNcclSuccess; ++peer) {
    const size_t to = UnevenBytesOf(point, rank_, peer);
    const size_t from = UnevenBytesOf(point, peer, rank_);
    constexpr int kBytes = static_cast<int>(tools::DataType::kInt8);
    result = api.Send(send + sent, to, kBytes, peer, comm, stream_);
    if (result == tools::kNcclSuccess) result = api.Recv(recv + received, from, kBytes, peer, comm, stream_);
    sent += to;
    received += from;
  }
  const int ended = api.GroupEnd();
  return result == tools::kNcclSuccess ? ended : result;
}

void Member::Run(size_t library, const Point& point, int turn) {
  const tools::NcclApi& api = libraries_[library];
  const tools::NcclComm comm = sides_[library].comm;
  const tools::Shape shape = ShapeOf(point);
  const size_t count = shape.param_count;
  const int type = static_cast<int>(type_);
  const int op = static_cast<int>(op_);
  // What was received is sent next, and by another root: all GPUs wait for the operation before.
  const bool is_dependent = point.issue == Issue::kDependent;
  const int received = is_dependent && turn % 2 != 0 ? 0 : 1;
  const uint8_t* from = buffer(library, 1 - received);
  uint8_t* to = buffer(library, received);
  const int root = is_dependent ? turn % ranks_ : 0;
  int result = tools::kNcclSuccess;
  if (point.collective == "alltoallv") {
    result = RunUneven(api, comm, point, from, to);
  } else if (point.kind == tools::Collective::kAllReduce) {
    result = api.AllReduce(from, to, count, type, op, comm, stream_);
  } else if (point.kind == tools::Collective::kAllGather) {
    result = api.AllGather(from, to, count, type, comm, stream_);
  } else if (point.kind == tools::Collective::kReduceScatter) {
    result = api.ReduceScatter(from, to, count, type, op, comm, stream_);
  } else if (point.kind == tools::Collective::kBroadcast) {
    result = api.Broadcast(from, to, count, type, root, comm, stream_);
  } else if (point.kind == tools::Collective::kReduce) {
    result = api.Reduce(from, to, count, type, op, root, comm, stream_);
  } else if (point.kind == tools::Collective::kAlltoAll && api.AlltoAll != nullptr) {
    result = api.AlltoAll(from, to, count, type, comm, stream_);
  } else if (point.kind == tools::Collective::kSendRecv) {
    result = api.GroupStart();
    if (result == tools::kNcclSuccess) result = api.Send(from, count, type, (rank_ + 1) % ranks_, comm, stream_);
    if (result == tools::kNcclSuccess) result = api.Recv(to, count, type, (rank_ + ranks_ - 1) % ranks_, comm, stream_);
    const int ended = api.GroupEnd();
    if (result == tools::kNcclSuccess) result = ended;
  } else {
    throw tools::CommandError(tools::kExitUsage, point.collective + " is not compared; leave it out");
  }
  CheckNccl(api, result, point.collective.c_str(), comm);
}

void Member::Await(size_t library, const Point& point) {
  if (gpu::SpinFor(stream_, kPatienceSeconds)) return;
  throw tools::CommandError(tools::kExitFailure, "rank " + std::to_string(rank_) + " still waits after " +
                                                     std::to_string(static_cast<int>(kPatienceSeconds)) + " s for " +
                                                     libraries_[library].path + ": " + point.Text());
}

double Member::Measure(size_t library, const Point& point, Meeting* meeting) {
  const Effort effort = EffortFor(point);
  gpu::CudaGraphExec graph = nullptr;
  for (int i = 0; i < kWarmUps; ++i) Run(library, point, i);
  if (point.issue == Issue::kGraph) {
    gpu::BeginCapture(stream_);
    for (int i = 0; i < effort.operations; ++i) Run(library, point, i);
    graph = gpu::EndCapture(stream_);
    gpu::Launch(graph, stream_);
  }
  Await(library, point);
  meeting->Wait();
  const double begin = Now();
  if (graph != nullptr) {
    for (int i = 0; i < effort.replays; ++i) gpu::Launch(graph, stream_);
  } else {
    for (int i = 0; i < effort.operations; ++i) Run(library, point, i);
  }
  Await(library, point);
  const double took = Now() - begin;
  meeting->Wait();
  if (graph != nullptr) gpu::DestroyGraph(graph);
  if (point.issue == Issue::kDependent) Fill(buffer(library, 0), std::min(bytes_, point.bytes + kRoom));
  return took / (effort.operations * effort.replays);
}

std::vector<uint8_t> Member::Result(size_t library, const Point& point, Meeting* meeting) {
  const tools::Shape shape = ShapeOf(point);
  size_t bytes = shape.recv_count * tools::SizeOf(type_);
  if (point.collective == "alltoallv") {
    bytes = 0;
    for (int peer = 0; peer < ranks_; ++peer) bytes += UnevenBytesOf(point, peer, rank_);
  }
  const size_t head = std::min(bytes, kLooked);
  const size_t tail = std::min(bytes - head, kLooked);
  std::vector<uint8_t> result(head + tail, 0xa5);
  gpu::ToDevice(buffer(library, 1), result.data(), head);
  gpu::ToDevice(buffer(library, 1) + bytes - tail, result.data(), tail);
  meeting->Wait();
  Run(library, point, 0);
  Await(library, point);
  const bool has_result = point.kind != tools::Collective::kReduce || rank_ == 0;
  gpu::FromDevice(result.data(), buffer(library, 1), head);
  gpu::FromDevice(result.data() + head, buffer(library, 1) + bytes - tail, tail);
  meeting->Wait();
  return has_result ? result : std::vector<uint8_t>();
}

}  // namespace sl::bench
