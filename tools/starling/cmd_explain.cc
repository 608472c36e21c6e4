// SPDX-License-Identifier: Apache-2.0
// `starling explain`: which algorithm would serve an operation, at what cost, and why the others would not. It makes a
// real communicator, one thread a rank, and asks rank 0. Several hosts are processes of this machine that take each
// other for hosts.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "sl_device.h"
#include "tools/starling/bench_error.h"
#include "tools/starling/bench_options.h"
#include "tools/starling/bench_types.h"
#include "tools/starling/cmd_runtime.h"
#include "tools/starling/commands.h"

namespace sl::tools {
namespace {

constexpr int kMaxRanks = 64;

struct ExplainOptions {
  Collective collective = Collective::kAllReduce;
  std::vector<size_t> sizes;
  DataType type = DataType::kFloat;
  RedOp op = RedOp::kSum;
  int ranks = 2;  // of each host
  int hosts = 1;
  std::string profile;
  int device_kind = -1;  // of ranks: SL_DEVICE_…; -1: what the runtime takes

  int total() const { return ranks * hosts; }
};

ExplainOptions ParseExplainOptions(int argc, char** argv) {
  ExplainOptions options;
  std::string collective, type = "float", op = "sum", device;
  std::vector<std::string> sizes;
  CLI::App app("Says which algorithm serves an operation, and why.", "starling explain");
  app.add_option("operation", collective, "as for starling bench, e.g. all_reduce")->required();
  app.add_option("size", sizes, "bytes, e.g. 8 64K 1M")->required();
  app.add_option("-d,--datatype", type, "data type (float)");
  app.add_option("-o,--op", op, "reduction (sum)");
  app.add_option("--ranks", options.ranks, "ranks of each host (2)")->check(CLI::Range(1, kMaxRanks));
  app.add_option("--hosts", options.hosts, "hosts to be thought of (1)")->check(CLI::Range(1, kMaxRanks));
  app.add_option("--device", device, "host, or cuda: each rank has a GPU of its own")
      ->check(CLI::IsMember({"host", "cuda"}));
  app.add_option("--profile", options.profile, "profile name or file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw CommandError(kExitGood, app.help());
  } catch (const CLI::ParseError& error) {
    throw CommandError(kExitUsage, std::string(error.what()) + " (starling explain --help lists every option)");
  }
  options.collective = ParseCollective(collective);
  if (!device.empty()) options.device_kind = device == "cuda" ? SL_DEVICE_CUDA : SL_DEVICE_HOST;
  for (const std::string& size : sizes) options.sizes.push_back(ParseSize("size", size));
  if (ParseDataTypes(type).size() != 1) throw CommandError(kExitUsage, "-d all: explain one data type at a time");
  options.type = ParseDataTypes(type)[0];
  if (ParseRedOps(op).size() != 1) throw CommandError(kExitUsage, "-o all: explain one reduction at a time");
  options.op = ParseRedOps(op)[0];
  if (options.total() > kMaxRanks) {
    throw CommandError(kExitUsage, "--hosts times --ranks is " + std::to_string(options.total()) + ", at most " +
                                       std::to_string(kMaxRanks) + " are possible");
  }
  return options;
}

sl_op_kind_t KindOf(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return SL_OP_ALL_REDUCE;
    case Collective::kAllGather:
      return SL_OP_ALL_GATHER;
    case Collective::kReduceScatter:
      return SL_OP_REDUCE_SCATTER;
    case Collective::kBroadcast:
      return SL_OP_BROADCAST;
    case Collective::kReduce:
      return SL_OP_REDUCE;
    case Collective::kAlltoAll:
      return SL_OP_ALL_TO_ALL;
    case Collective::kGather:
      return SL_OP_GATHER;
    case Collective::kScatter:
      return SL_OP_SCATTER;
    case Collective::kSendRecv:
      return SL_OP_SEND;
  }
  return SL_OP_ALL_REDUCE;
}

sl_datatype_t TypeOf(DataType type) {
  constexpr sl_datatype_t kTypes[kDataTypeCount] = {SL_INT8,    SL_UINT8,    SL_INT32,      SL_UINT32,
                                                    SL_INT64,   SL_UINT64,   SL_FLOAT16,    SL_FLOAT32,
                                                    SL_FLOAT64, SL_BFLOAT16, SL_FLOAT8E4M3, SL_FLOAT8E5M2};
  return kTypes[static_cast<int>(type)];
}

sl_reduction_t ReductionOf(RedOp op) {
  constexpr sl_reduction_t kReductions[] = {SL_SUM, SL_PROD, SL_MAX, SL_MIN, SL_AVG, SL_PREMUL_SUM, SL_SUM};
  return kReductions[static_cast<int>(op)];
}

sl_op_t OpOf(const ExplainOptions& options, size_t bytes) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = KindOf(options.collective);
  op.datatype = TypeOf(options.type);
  op.reduction = Reduces(options.collective) ? ReductionOf(options.op) : SL_SUM;
  op.root = HasRoot(options.collective) ? 0 : -1;
  op.peer = options.collective == Collective::kSendRecv ? options.total() - 1 : -1;
  op.count = ShapeOf(options.collective, bytes, options.type, options.total()).param_count;
  return op;
}

// The body of one rank's thread; rank 0 asks while the others wait to say good-bye.
void RunRank(const ExplainOptions& options, uint32_t rank, const sl_unique_id_t& id, std::string* out_text,
             std::string* out_error, sl_status_t* out_status) {
  sl_comm_config_t config{};
  config.struct_size = sizeof(config);
  config.ids = &id;
  config.id_count = 1;
  config.rank = rank;
  config.size = static_cast<uint32_t>(options.total());
  config.device_kind = options.device_kind;
  config.device_ordinal = options.device_kind == SL_DEVICE_CUDA ? static_cast<int32_t>(rank) : -1;
  config.name = "explain";
  sl_comm_t* comm = nullptr;
  *out_status = Runtime().comm_create(&config, &comm);
  if (*out_status != SL_OK) {
    *out_error = Runtime().last_error();
    return;
  }
  if (rank == 0) {
    try {
      for (const size_t bytes : options.sizes) {
        const sl_op_t op = OpOf(options, bytes);
        *out_text += FetchText([&](char* text, uint64_t capacity, uint64_t* out_needed) {
          return Runtime().explain(comm, &op, text, capacity, out_needed);
        });
        *out_text += "\n";
      }
    } catch (const CommandError& error) {
      *out_status = SL_ERR_INVALID;
      *out_error = error.what();
    }
  }
  Runtime().comm_destroy(comm);
}

// The ranks of one host; the text is rank 0's.
std::string RunHost(const ExplainOptions& options, int host, const sl_unique_id_t& id) {
  const auto ranks = static_cast<uint32_t>(options.ranks);
  std::string text;
  std::vector<std::string> errors(ranks);
  std::vector<sl_status_t> statuses(ranks, SL_OK);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < ranks; ++i) {
    const uint32_t rank = static_cast<uint32_t>(host) * ranks + i;
    threads.emplace_back([&, i, rank] { RunRank(options, rank, id, &text, &errors[i], &statuses[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t i = 0; i < ranks; ++i) {
    if (statuses[i] != SL_OK) throw CommandError(kExitFailure, errors[i]);
  }
  return text;
}

// Ranks of processes with different values share no memory, as if they were far from each other.
void BecomeHost(int host) { setenv("NCCL_HOSTID", ("explain-" + std::to_string(host)).c_str(), 1); }

// Another host: a process that waits for the id, joins with its ranks and leaves with the others.
class OtherHost {
 public:
  // Before this process has used the library or has threads.
  OtherHost(const ExplainOptions& options, int host) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw CommandError(kExitFailure, "pipe: " + std::string(strerror(errno)));
    process_ = fork();
    if (process_ < 0) throw CommandError(kExitFailure, "fork: " + std::string(strerror(errno)));
    if (process_ != 0) {
      close(ends[0]);
      id_ = ends[1];
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[1]);
    _exit(RunCommand("explain", [&] {
      sl_unique_id_t id{};
      if (read(ends[0], &id, sizeof(id)) != sizeof(id)) return;  // there is no job
      BecomeHost(host);
      RunHost(options, host, id);
    }));
  }
  ~OtherHost() {
    close(id_);
    if (process_ < 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  OtherHost(const OtherHost&) = delete;
  OtherHost& operator=(const OtherHost&) = delete;

  void Tell(const sl_unique_id_t& id) {
    if (write(id_, &id, sizeof(id)) != sizeof(id)) throw CommandError(kExitFailure, "a process for a host has ended");
  }
  // Until it has left, as this host has.
  void Await() { waitpid(std::exchange(process_, -1), nullptr, 0); }

 private:
  pid_t process_ = -1;
  int id_ = -1;
};

void Explain(const ExplainOptions& options) {
  if (!options.profile.empty()) setenv("STARLING_PROFILE", options.profile.c_str(), 1);
  std::vector<std::unique_ptr<OtherHost>> others;
  for (int host = 1; host < options.hosts; ++host) others.push_back(std::make_unique<OtherHost>(options, host));
  if (options.hosts > 1) BecomeHost(0);
  sl_unique_id_t id{};
  CheckRuntime(Runtime().unique_id(&id));
  for (const auto& other : others) other->Tell(id);
  std::string text = RunHost(options, 0, id);
  for (const auto& other : others) other->Await();
  text.pop_back();
  printf("%s", text.c_str());
}

}  // namespace

int CmdExplain(int argc, char** argv) {
  return RunCommand("explain", [&] { Explain(ParseExplainOptions(argc, argv)); });
}

}  // namespace sl::tools
