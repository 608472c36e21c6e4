// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_options.h"

#include <unistd.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "tools/starling/bench_error.h"
#include "tools/starling/launch_local.h"

namespace sl::tools {
namespace {

constexpr char kFooter[] =
    "Sizes take K, M and G (powers of 1024). Memory is host memory: -R 0 plain, -R 1 registered with "
    "ncclCommRegister,\n"
    "-R 2 from ncclMemAlloc in a symmetric window. Start ranks with --ranks N, or run it under mpirun, srun or "
    "torchrun.\n"
    "starling bench --tune FILE measures algorithms for a profile instead; --tune FILE --help says more.\n"
    "Exit code: 0 good (or skipped for want of hardware), 1 wrong result or failure, 2 bad usage.\n"
    "Example: starling bench all_reduce --ranks 4 -b 8 -e 64M -f 2 -d all";

// Texts that need parsing of their own after CLI11 is done.
struct Raw {
  std::string collective, min_bytes, max_bytes, step_bytes, factor, op = "sum", type = "float";
  int average = 1;
  int per_iteration = 0;
  int cpu_time = 0;
  std::string unused[7];
};

// Options of nccl-tests that steer a GPU: taken, so that its command lines run unchanged, and reported as without
// effect.
struct GpuOnly {
  const char* name;
  const char* flag;
};
constexpr GpuOnly kGpuOnly[] = {{"-p,--parallel_init", "-p"},    {"-y,--stream_null", "-y"},
                                {"-x,--cta_policy", "-x"},       {"-D,--device_implementation", "-D"},
                                {"-V,--device_cta_count", "-V"}, {"-M,--memory_report", "-M"},
                                {"-S,--report_timestamps", "-S"}};

void AddNcclTestsOptions(CLI::App& app, BenchOptions& options, Raw& raw) {
  app.add_option("-b,--minbytes", raw.min_bytes, "smallest size (32M)");
  app.add_option("-e,--maxbytes", raw.max_bytes, "largest size (32M)");
  app.add_option("-i,--stepbytes", raw.step_bytes, "step between sizes (1M)");
  app.add_option("-f,--stepfactor", raw.factor, "factor between sizes, instead of -i");
  app.add_option("-n,--iters", options.iterations, "iterations per size, 0 = by size (20)")
      ->check(CLI::Range(0, 10000000));
  app.add_option("-w,--warmup_iters", options.warmups, "untimed iterations before, -1 = by size (1)")
      ->check(CLI::Range(-1, 10000000));
  app.add_option("-m,--agg_iters", options.aggregate, "operations per group call (1)")->check(CLI::Range(1, 10000));
  app.add_option("-N,--run_cycles", options.cycles, "times to walk over all sizes (1)")->check(CLI::Range(1, 1000000));
  app.add_option("-c,--check", options.checks, "times to check each result, 0 = never (1)")->check(CLI::Range(0, 1000));
  app.add_option("-o,--op", raw.op, "sum, prod, max, min, avg, mulsum or all (sum)");
  app.add_option("-d,--datatype", raw.type, "int8 ... double, half, bfloat16, f8e4m3, f8e5m2 or all (float)");
  app.add_option("-r,--root", options.root, "root rank, -1 = every rank in turn (0)")->check(CLI::Range(-1, 1 << 20));
  app.add_option("-t,--nthreads", options.threads, "threads per process, a rank each (1)")->check(CLI::Range(1, 128));
  app.add_option("-g,--ngpus", options.ranks_per_thread, "ranks per thread, driven in one group (1)")
      ->check(CLI::Range(1, 128));
  app.add_option("-z,--blocking", options.blocking, "0, 1 back to back; 2, 3 a barrier after each iteration (0)")
      ->check(CLI::Range(0, 3));
  app.add_option("-T,--timeout", options.timeout_s,
                 "seconds without progress before giving up; under a launcher only while ranks meet (60)")
      ->check(CLI::Range(1, 86400));
  app.add_option("-G,--cudagraph", options.graph_launches, "replays of a captured graph; needs a GPU (0)")
      ->check(CLI::Range(0, 1000000));
  app.add_option("-C,--report_cputime", raw.cpu_time, "1 = CPU time of the calling thread instead of latency (0)")
      ->check(CLI::Range(0, 1));
  app.add_option("-a,--average", raw.average, "over workers: 0 rank 0, 1 mean, 2 min, 3 max (1)")
      ->check(CLI::Range(0, 3));
  app.add_option("-R,--local_register", options.local_register, "0 plain, 1 registered, 2 symmetric window (0)")
      ->check(CLI::Range(0, 2));
  app.add_option("-J,--output_file", options.json_file, "write everything measured as JSON");
  app.add_option("-u,--unalign", options.misalign, "shift buffers by so many elements (0)")->check(CLI::Range(0, 4096));
  app.add_option("-I,--iteration_times", raw.per_iteration, "1 = time each iteration, adding columns (0)")
      ->check(CLI::Range(0, 1));
  for (size_t i = 0; i < std::size(kGpuOnly); ++i) app.add_option(kGpuOnly[i].name, raw.unused[i])->group("");
}

void AddOwnOptions(CLI::App& app, BenchOptions& options) {
  app.add_option("--ranks", options.ranks, "start so many local processes")->check(CLI::Range(1, kMaxLocalProcesses));
  app.add_option("--profile", options.profile, "profile name or file (sets STARLING_PROFILE)");
  app.add_option("--library", options.libraries, "NCCL library to measure; repeat to measure several in turn")
      ->take_all()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--id-file", options.id_file, "file on a shared file system that hands out the unique id");
  app.add_option("--repeat", options.repeat, "samples per size; the table shows the median (1)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--budget-ms", options.budget_ms, "run fewer iterations where a sample would take longer (0 = off)")
      ->check(CLI::Range(0.0, 1e9));
  app.add_flag("--out-of-place-only", options.out_of_place_only, "leave the in-place half out");
}

void TakeSizes(const Raw& raw, BenchOptions& options) {
  if (!raw.min_bytes.empty()) options.min_bytes = ParseSize("-b", raw.min_bytes);
  if (!raw.max_bytes.empty()) {
    options.max_bytes = ParseSize("-e", raw.max_bytes);
  } else {
    options.max_bytes = std::max(options.min_bytes, options.max_bytes);
  }
  if (!raw.step_bytes.empty()) options.step_bytes = ParseSize("-i", raw.step_bytes);
  if (!raw.factor.empty()) options.step_factor = ParseSize("-f", raw.factor);
  if (raw.factor.find('.') != std::string::npos)
    throw CommandError(kExitUsage, "-f " + raw.factor + ": give a whole number");
  if (options.min_bytes == 0) throw CommandError(kExitUsage, "-b 0: the smallest size must be at least one byte");
  if (options.min_bytes > options.max_bytes) {
    throw CommandError(kExitUsage, "-b " + raw.min_bytes + " is larger than -e " + std::to_string(options.max_bytes));
  }
  if (options.step_factor == 0) throw CommandError(kExitUsage, "-f 0: the factor between sizes must be 2 or more");
  if (options.step_factor == 1 && options.step_bytes == 0 && options.min_bytes != options.max_bytes) {
    throw CommandError(kExitUsage, "-i 0: the step between sizes must be at least one byte; or give -f 2");
  }
}

}  // namespace

size_t ParseSize(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  double unit = 1;
  switch (*end) {
    case 'k':
    case 'K':
      unit = 1024;
      ++end;
      break;
    case 'm':
    case 'M':
      unit = 1024.0 * 1024;
      ++end;
      break;
    case 'g':
    case 'G':
      unit = 1024.0 * 1024 * 1024;
      ++end;
      break;
    default:
      break;
  }
  if (*end == 'B') ++end;
  const double bytes = number * unit;
  if (text.empty() || end == text.c_str() || *end || !(bytes >= 0) || bytes > 0x1p46 || !std::isdigit(text[0])) {
    throw CommandError(kExitUsage, option + " '" + text + "' is no size; write 1024, 8K, 32M or 1G");
  }
  return static_cast<size_t>(bytes);
}

BenchOptions ParseBenchOptions(const std::vector<std::string>& arguments) {
  BenchOptions options;
  Raw raw;
  CLI::App app("Measures and checks one collective through the NCCL API, in nccl-tests' words.", "starling bench");
  app.footer(kFooter);
  app.add_option("collective", raw.collective,
                 "all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall, gather, scatter or sendrecv")
      ->required();
  AddNcclTestsOptions(app, options, raw);
  AddOwnOptions(app, options);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    throw CommandError(kExitGood, app.help());
  } catch (const CLI::ParseError& error) {
    throw CommandError(kExitUsage, std::string(error.what()) + " (starling bench --help lists every option)");
  }
  options.collective = ParseCollective(raw.collective);
  TakeSizes(raw, options);
  options.types = ParseDataTypes(raw.type);
  options.ops = Reduces(options.collective) ? ParseRedOps(raw.op) : std::vector<RedOp>{RedOp::kNone};
  options.average = static_cast<Average>(raw.average);
  options.per_iteration = raw.per_iteration != 0;
  options.cpu_time = raw.cpu_time != 0;
  for (size_t i = 0; i < std::size(kGpuOnly); ++i) {
    if (!raw.unused[i].empty()) options.ignored.push_back(kGpuOnly[i].flag);
  }
  for (const std::string& library : options.libraries) {
    if (access(library.c_str(), R_OK) != 0)
      throw CommandError(kExitUsage, "--library " + library + ": no readable file");
  }
  if (options.libraries.empty()) options.libraries.push_back(DefaultLibrary());
  return options;
}

std::vector<size_t> SizesOf(const BenchOptions& options) {
  std::vector<size_t> sizes;
  for (size_t size = options.min_bytes; size <= options.max_bytes;) {
    sizes.push_back(size);
    if (options.min_bytes == options.max_bytes) break;
    size = options.step_factor > 1 ? size * options.step_factor : size + options.step_bytes;
  }
  return sizes;
}

int IterationsForSize(size_t bytes) {
  if (bytes <= (4u << 10)) return 2000;
  if (bytes <= (64u << 10)) return 500;
  if (bytes <= (1u << 20)) return 100;
  if (bytes <= (16u << 20)) return 20;
  return 5;
}

int WarmupsForSize(size_t bytes) { return std::max(2, IterationsForSize(bytes) / 5); }

std::string DefaultLibrary() {
  const std::filesystem::path root = std::filesystem::path(SelfPath()).parent_path().parent_path();
  const std::filesystem::path installed = root / "lib/starling/nccl/libnccl.so.2";
  const std::filesystem::path built = root / "lib/libnccl.so.2";
  return (std::filesystem::exists(built) ? built : installed).string();
}

}  // namespace sl::tools
