// SPDX-License-Identifier: Apache-2.0
// `starling explain`: which algorithm would serve an operation, at what cost, and why the others would not. It makes a
// real communicator of N ranks in this process, one thread each, and asks rank 0.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

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
  int ranks = 2;
  std::string profile;
};

ExplainOptions ParseExplainOptions(int argc, char** argv) {
  ExplainOptions options;
  std::string collective, type = "float", op = "sum";
  std::vector<std::string> sizes;
  CLI::App app("Says which algorithm serves an operation, and why.", "starling explain");
  app.add_option("operation", collective, "as for starling bench, e.g. all_reduce")->required();
  app.add_option("size", sizes, "bytes, e.g. 8 64K 1M")->required();
  app.add_option("-d,--datatype", type, "data type (float)");
  app.add_option("-o,--op", op, "reduction (sum)");
  app.add_option("--ranks", options.ranks, "ranks, threads of this process (2)")->check(CLI::Range(1, kMaxRanks));
  app.add_option("--profile", options.profile, "profile name or file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw CommandError(kExitGood, app.help());
  } catch (const CLI::ParseError& error) {
    throw CommandError(kExitUsage, std::string(error.what()) + " (starling explain --help lists every option)");
  }
  options.collective = ParseCollective(collective);
  for (const std::string& size : sizes) options.sizes.push_back(ParseSize("size", size));
  if (ParseDataTypes(type).size() != 1) throw CommandError(kExitUsage, "-d all: explain one data type at a time");
  options.type = ParseDataTypes(type)[0];
  if (ParseRedOps(op).size() != 1) throw CommandError(kExitUsage, "-o all: explain one reduction at a time");
  options.op = ParseRedOps(op)[0];
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
  op.peer = options.collective == Collective::kSendRecv ? options.ranks - 1 : -1;
  op.count = ShapeOf(options.collective, bytes, options.type, options.ranks).param_count;
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
  config.size = static_cast<uint32_t>(options.ranks);
  config.device_kind = -1;
  config.device_ordinal = -1;
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

void Explain(const ExplainOptions& options) {
  if (!options.profile.empty()) setenv("STARLING_PROFILE", options.profile.c_str(), 1);
  sl_unique_id_t id{};
  CheckRuntime(Runtime().unique_id(&id));
  std::string text;
  std::vector<std::string> errors(static_cast<size_t>(options.ranks));
  std::vector<sl_status_t> statuses(static_cast<size_t>(options.ranks), SL_OK);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < static_cast<uint32_t>(options.ranks); ++rank) {
    threads.emplace_back([&, rank] { RunRank(options, rank, id, &text, &errors[rank], &statuses[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    if (statuses[rank] != SL_OK) throw CommandError(kExitFailure, errors[rank]);
  }
  text.pop_back();
  printf("%s", text.c_str());
}

}  // namespace

int CmdExplain(int argc, char** argv) {
  return RunCommand("explain", [&] { Explain(ParseExplainOptions(argc, argv)); });
}

}  // namespace sl::tools
