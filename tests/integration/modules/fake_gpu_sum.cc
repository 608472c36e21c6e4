// SPDX-License-Identifier: Apache-2.0
//
// An algorithm for tests over the fake CUDA driver (modules/device-cuda/tests): a sum, whatever the reduction, and
// groups of short sends and receives, whose launches nobody watches. A launch waits until every rank has made the same
// call, by the Vigil that real kernels use. Small ones pass the symmetric heap; large sums are read from the peers'
// buffers, and where a rank's cannot be reached, all ranks receive kUnreached.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>

#include "modules/device-cuda/tests/fake_driver.h"
#include "sdk/algorithm_module.h"
#include "sdk/device/vigil.h"
#include "sl_device.h"

namespace {

constexpr uint32_t kMostRanks = 16;
constexpr uint32_t kMostCount = 1024;
constexpr uint32_t kMostTransfers = 16;
constexpr uint32_t kMostLetter = 64;
constexpr uint32_t kProcessors = 32;  // as estimates have it, an operation takes 1 us on so many, longer on fewer
constexpr uint32_t kStep = 7;
constexpr int32_t kUnreached = -1;

// One rank's part of the symmetric heap.
struct Slice {
  uint64_t begun;  // launches
  uint64_t ended;
  uint32_t claim;
  uint64_t arrived[kMostRanks];     // the peer's newest launch
  uint64_t signatures[kMostRanks];  // of that call
  uint64_t sources[kMostRanks];     // where this rank sees the peer's buffer; 0: nowhere
  uint64_t done[kMostRanks];        // the peer's newest launch that has read all it wants
  int32_t data[2][kMostCount];  // by launch parity: who begins a launch knows that all have ended the one before last
  uint64_t posting;             // 1: the group under way has posted its letters
  uint64_t posted[kMostRanks];  // letters of that rank; it waits with the next one until this one was read
  uint64_t read[kMostRanks];
  uint8_t letter[kMostRanks][kMostLetter];
};

struct Args {
  sl_symmetric_t heap;
  sl_control_t* control;
  const int32_t* send;
  int32_t* recv;
  uint64_t count;
  uint64_t signature;
  uint32_t rank;
  uint32_t size;
  bool is_fresh;                 // a maximum: as if by a block that serves its first launch, and counts from 1
  uint64_t seen_at[kMostRanks];  // of `send`, by each rank

  bool is_direct() const { return count > kMostCount; }
};

struct Transfer {
  bool receives;
  uint32_t peer;
  uint8_t* user;
  uint64_t bytes;
};

// At most one message each way between two ranks.
struct GroupArgs {
  sl_symmetric_t heap;
  sl_control_t* control;
  uint32_t rank;
  uint32_t count;
  Transfer transfer[kMostTransfers];
};

template <typename AnyArgs>
Slice& SliceOf(const AnyArgs& args, uint32_t rank) {
  return *reinterpret_cast<Slice*>(args.heap.base + rank * args.heap.stride);
}

void Begin(const Args& args) {
  Slice& mine = SliceOf(args, args.rank);
  ++mine.begun;
  if (!args.is_direct()) std::memcpy(mine.data[mine.begun % 2], args.send, args.count * sizeof(int32_t));
  for (uint32_t peer = 0; peer < args.size; ++peer) {
    Slice& theirs = SliceOf(args, peer);
    theirs.sources[args.rank] = args.seen_at[peer];
    std::atomic_ref(theirs.signatures[args.rank]).store(args.signature);
    std::atomic_ref(theirs.arrived[args.rank]).store(mine.begun);
  }
}

// Every rank tells all others the same, so they decide alike.
void SumDirectly(const Args& args, const Slice& mine) {
  bool all_reach = true;
  for (uint32_t peer = 0; peer < args.size; ++peer) all_reach &= mine.sources[peer] != 0;
  for (uint64_t i = 0; i < args.count; ++i) {
    int32_t sum = all_reach ? 0 : kUnreached;
    for (uint32_t peer = 0; peer < args.size && all_reach; ++peer) {
      sum = int32_t(uint32_t(sum) + uint32_t(reinterpret_cast<const int32_t*>(mine.sources[peer])[i]));
    }
    args.recv[i] = sum;
  }
  for (uint32_t peer = 0; peer < args.size; ++peer) {
    std::atomic_ref(SliceOf(args, peer).done[args.rank]).store(mine.begun);
  }
}

// The wait that a rank's launch is in, which looks many times. Whoever calls the driver holds its lock.
class Waiting {
 public:
  Waiting(Slice* mine, sl_control_t* control, int32_t peer) : warden_{control, &mine->claim}, peer_(peer) {}
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  static bool GivesUp(Slice* mine, sl_control_t* control, const sl::dev::Wanted& wanted, uint64_t seen) {
    if (const auto found = All().find(mine); found != All().end() && found->second.peer_ != wanted.peer) End(mine);
    Waiting& own = All().try_emplace(mine, mine, control, wanted.peer).first->second;
    const bool gives_up = own.vigil_.GivesUp(wanted, seen);
    if (gives_up) End(mine);
    return gives_up;
  }
  // The launch goes on.
  static void End(const Slice* mine) { All().erase(mine); }

 private:
  static std::map<const Slice*, Waiting>& All() {
    static auto* const all = new std::map<const Slice*, Waiting>;
    return *all;
  }

  const sl::dev::Warden warden_;
  const int32_t peer_;
  sl::dev::Vigil vigil_{warden_};
};

// Called until it is done, by whoever calls the driver.
bool Sum(const void* memory, size_t) {
  Args args;
  std::memcpy(&args, memory, sizeof(args));
  Slice& mine = SliceOf(args, args.rank);
  if (mine.begun == mine.ended) Begin(args);
  for (uint32_t peer = 0; peer < args.size; ++peer) {
    const uint64_t seen = std::atomic_ref(mine.arrived[peer]).load();
    const bool is_same = std::atomic_ref(mine.signatures[peer]).load() == args.signature;
    if (seen >= mine.begun && (is_same || seen > mine.begun)) continue;
    const uint64_t wanted = args.is_fresh ? 1 : mine.begun;
    const bool gives_up =
        Waiting::GivesUp(&mine, args.control, {static_cast<int32_t>(peer), kStep, wanted}, args.is_fresh ? 0 : seen);
    if (gives_up) mine.ended = mine.begun;
    return gives_up;
  }
  Waiting::End(&mine);
  if (args.is_direct()) {
    if (mine.done[args.rank] != mine.begun) SumDirectly(args, mine);
    for (uint32_t peer = 0; peer < args.size; ++peer) {
      if (std::atomic_ref(mine.done[peer]).load() < mine.begun) return false;
    }
    mine.ended = mine.begun;
    return true;
  }
  for (uint64_t i = 0; i < args.count; ++i) {
    uint32_t sum = 0;  // wraps: a test may sum in place until it does
    for (uint32_t peer = 0; peer < args.size; ++peer) sum += uint32_t(SliceOf(args, peer).data[mine.begun % 2][i]);
    args.recv[i] = int32_t(sum);
  }
  mine.ended = mine.begun;
  return true;
}

// The same for a group. Ranks are their own peers, too.
bool Carry(const void* memory, size_t) {
  GroupArgs args;
  std::memcpy(&args, memory, sizeof(args));
  Slice& mine = SliceOf(args, args.rank);
  for (uint32_t i = 0; i < args.count && mine.posting == 0; ++i) {
    const Transfer& send = args.transfer[i];
    if (send.receives) continue;
    Slice& theirs = SliceOf(args, send.peer);
    std::memcpy(theirs.letter[args.rank], send.user, send.bytes);
    std::atomic_ref(theirs.posted[args.rank]).fetch_add(1);
  }
  mine.posting = 1;
  for (uint32_t i = 0; i < args.count; ++i) {
    const Transfer& receive = args.transfer[i];
    if (!receive.receives || std::atomic_ref(mine.posted[receive.peer]).load() > mine.read[receive.peer]) continue;
    return Waiting::GivesUp(&mine, args.control, {static_cast<int32_t>(receive.peer), kStep, 1}, 0);
  }
  Waiting::End(&mine);
  for (uint32_t i = 0; i < args.count; ++i) {
    const Transfer& receive = args.transfer[i];
    if (!receive.receives) continue;
    std::memcpy(receive.user, mine.letter[receive.peer], receive.bytes);
    ++mine.read[receive.peer];
  }
  mine.posting = 0;
  return true;
}

constexpr FakeKernel kKernels[] = {{"sum", Sum}, {"carry", Carry}, {nullptr, nullptr}};
constexpr FakeImage kImage = {kFakeImageMagic, 90, kKernels};
constexpr const char* kNames[] = {"sum", "carry"};

}  // namespace

struct sl_instance_t {
  const sl_host_t* host;
};

struct sl_algorithm_t {
  sl_algorithm_t(const sl_host_t* the_host, const sl_algorithm_env_t& environment)
      : host(the_host), env(environment), shape(environment.shape) {}
  ~sl_algorithm_t() {
    if (image != nullptr) env.device_ops->image_unload(env.device, image);
  }

  sl_status_t Estimate(const sl_op_t& op, sl_estimate_t* out_estimate) const {
    const bool is_sum =
        op.kind == SL_OP_ALL_REDUCE && op.datatype == SL_INT32 && (op.count <= kMostCount || env.reach != nullptr);
    const bool is_letter = (op.kind == SL_OP_SEND || op.kind == SL_OP_RECV) && op.datatype == SL_INT32 &&
                           op.count * sizeof(int32_t) <= kMostLetter;
    if (!is_sum && !is_letter) {
      std::strcpy(out_estimate->reason, "neither a sum of int32 nor a letter");
      return SL_ERR_UNSUPPORTED;
    }
    out_estimate->processors = shape->processors_max != 0 ? std::min(shape->processors_max, kProcessors) : kProcessors;
    out_estimate->time_ns = 1000 * kProcessors / out_estimate->processors;
    out_estimate->run = SL_RUN_LAUNCH;
    out_estimate->determinism = SL_DETERMINISM_RANK;
    return SL_OK;
  }

  sl_status_t Launch(const sl_op_t& op, void* memory, sl_launch_t* launch) {
    Args args{env.symmetric,
              env.control,
              static_cast<const int32_t*>(op.send),
              static_cast<int32_t*>(op.recv),
              op.count,
              op.signature,
              shape->rank,
              shape->size,
              op.reduction == SL_MAX,
              {}};
    if (args.is_direct()) {
      const uint64_t bytes = op.count * sizeof(int32_t);
      const sl_status_t status = env.reach_ops->addresses(env.reach, op.send, bytes, op.capture, args.seen_at);
      if (status != SL_OK) std::fill_n(args.seen_at, kMostRanks, 0);
    }
    return Fill(args, 0, memory, launch);
  }

  sl_status_t LaunchGroup(const sl_op_t* ops, uint32_t count, void* memory, sl_launch_t* launch) {
    if (count > kMostTransfers) return SL_ERR_LIMIT;
    GroupArgs args{env.symmetric, env.control, shape->rank, count, {}};
    for (uint32_t i = 0; i < count; ++i) {
      const bool receives = ops[i].kind == SL_OP_RECV;
      void* user = receives ? ops[i].recv : const_cast<void*>(ops[i].send);
      args.transfer[i] = {receives, static_cast<uint32_t>(ops[i].peer), static_cast<uint8_t*>(user),
                          ops[i].count * sizeof(int32_t)};
    }
    return Fill(args, 1, memory, launch);
  }

  // Peers' sums wait for this rank again, of whose buffer they know nothing.
  sl::Status Retract(uint64_t /*deadline_ns*/) {
    Args args{};
    args.heap = env.symmetric;
    for (uint32_t peer = 0; peer < shape->size; ++peer) {
      Slice& theirs = SliceOf(args, peer);
      std::atomic_ref(theirs.arrived[shape->rank]).store(0);
      theirs.sources[shape->rank] = 0;
    }
    return {};
  }

  template <typename AnyArgs>
  sl_status_t Fill(const AnyArgs& args, uint32_t kernel, void* memory, sl_launch_t* launch) const {
    std::memcpy(memory, &args, sizeof(args));
    launch->image = image;
    launch->kernel = kernel;
    launch->args = memory;
    launch->args_bytes = sizeof(args);
    for (int i = 0; i < 3; ++i) launch->grid[i] = launch->block[i] = 1;
    return SL_OK;
  }

  const sl_host_t* const host;
  const sl_algorithm_env_t env;
  const sl_comm_shape_t* const shape;
  sl_image_t* image = nullptr;
};

namespace {

sl::Result<sl_instance_t> Open(const sl_host_t* host, const sl::OptionReader&) { return sl_instance_t{host}; }

sl::Result<std::unique_ptr<sl_algorithm_t>> Make(const sl_instance_t& instance, const sl_algorithm_env_t& env) {
  if (env.control == nullptr || env.symmetric.base == nullptr || env.shape->size > kMostRanks) {
    return sl::Status(SL_ERR_UNSUPPORTED, "for up to 16 ranks on fake GPUs");
  }
  auto algorithm = std::make_unique<sl_algorithm_t>(instance.host, env);
  const sl_image_desc_t desc{sizeof(desc), 2, nullptr, &kImage, sizeof(kImage), kNames};
  const sl_status_t status = env.device_ops->image_load(env.device, &desc, &algorithm->image);
  if (status != SL_OK) return sl::Status(status, "image_load");
  return algorithm;
}

sl_status_t Demand(sl_instance_t*, const sl_comm_shape_t*, sl_demand_t* out_demand) {
  out_demand->symmetric_bytes = sizeof(Slice);
  return SL_OK;
}

sl_status_t LaunchGroup(sl_algorithm_t* algorithm, const sl_op_t* ops, uint32_t count, void* memory, uint32_t,
                        sl_launch_t* launch) {
  return algorithm->LaunchGroup(ops, count, memory, launch);
}

constexpr sl_algorithm_ops_t kOps = [] {
  sl_algorithm_ops_t ops = sl::kLaunchingOps<Make, Demand>;
  ops.launch_group = LaunchGroup;
  ops.retract = sl::AlgorithmCalls<Make>::Retract;
  return ops;
}();
const sl_provide_t kProvides[] = {sl::ProvideAlgorithm("fake-sum", &kOps, 0, sl::dev::kVigilRevision)};
const sl_require_t kRequirements[] = {{sizeof(sl_require_t), 0, SL_DEVICE_ID, 1, SL_DEVICE_REVISION}};
using Calls = sl::InstanceCalls<Open>;

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "sums on fake GPUs",
    .provides = sl::kPointersTo<kProvides>,
    .requirements = sl::kPointersTo<kRequirements>,
    .open = Calls::Open,
    .quiesce = Calls::Quiesce,
    .close = Calls::Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
