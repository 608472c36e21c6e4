// SPDX-License-Identifier: Apache-2.0
// Libraries with the NCCL API side by side on the GPUs of one machine: one process holds all of them, a thread a GPU,
// and they take turns on the same buffers, point by point, in rounds. The first library is ours; it is compared with
// the second. report.py says what the record comes to.
#include <algorithm>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <thread>

#include "tools/gpu/bench_member.h"
#include "tools/gpu/bench_record.h"
#include "tools/starling/bench_error.h"
#include "tools/starling/bench_worker.h"

namespace sl::bench {
namespace {

struct Options {
  GridOptions grid;
  std::vector<std::string> libraries;
  std::string type = "bfloat16";
  std::string op = "sum";
  int more_elements = 0;
  int gpus = 0;
  int rounds = 3;
  std::string json;
  bool resumes = false;
};

Options Parse(int argc, char** argv) {
  Options options;
  options.grid.collectives = {"all_reduce", "all_gather", "reduce_scatter", "alltoall",
                              "broadcast",  "sendrecv",   "alltoallv"};
  options.grid.issues = {"eager", "graph"};
  options.grid.memories = {"plain", "registered", "symmetric"};
  std::string slice = "1/1";
  CLI::App app("Compares NCCL libraries on the GPUs of this machine.");
  app.add_option("--library", options.libraries, "ours, then the peer's libnccl.so.2")->required()->expected(1, 4);
  auto* collectives = app.add_option("--collectives", options.grid.collectives)->delimiter(',')->capture_default_str();
  app.add_option("--issue", options.grid.issues,
                 "eager: one call after the other; graph: captured in a chain; dependent: eager, each on what the one\n"
                 "before left")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--memory", options.grid.memories, "plain, registered, symmetric")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("-b,--min-bytes", options.grid.min_bytes)->transform(CLI::AsSizeValue(false));
  app.add_option("-e,--max-bytes", options.grid.max_bytes)->transform(CLI::AsSizeValue(false));
  app.add_option("-d,--datatype", options.type)->capture_default_str();
  app.add_option("-o,--op", options.op, "of reductions")
      ->check(CLI::IsMember({"sum", "prod", "max", "min"}))
      ->capture_default_str();
  app.add_option(
         "--more-elements", options.more_elements,
         "so many more in every rank's part than its size says: parts do not begin where vectors of 16 bytes, or\n"
         "lines of 128, do")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option("--ctas", options.grid.ctas,
                 "numbers of blocks: the grid once for each, with communicators of so many (ncclConfig_t.minCTAs and\n"
                 "maxCTAs; 0: CTAPolicy ZERO, of what copy engines serve: all-gather and all-to-all between symmetric\n"
                 "windows); of all-gather, reduce-scatter and all-reduce, unless --collectives says otherwise")
      ->delimiter(',')
      ->check(CLI::Range(0, 1024));
  app.add_option("--gpus", options.gpus, "how many; all by default");
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 100))->capture_default_str();
  app.add_option("--slice", slice, "I/N: only the I-th of N parts of the grid; with --resume they gather in one file")
      ->capture_default_str();
  auto* json = app.add_option("--json", options.json, "everything measured, as a file, rewritten after every point");
  app.add_flag("--resume", options.resumes,
               "keeps the points that the file of --json holds and measures the others of the grid; refused when\n"
               "machine, GPUs, rounds, data type, op, elements, environment or libraries are others than the file's")
      ->needs(json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? tools::kExitGood : tools::kExitUsage);
  }
  if (!options.grid.ctas.empty() && collectives->count() == 0)
    options.grid.collectives = {"all_gather", "reduce_scatter", "all_reduce"};
  if (std::sscanf(slice.c_str(), "%d/%d", &options.grid.slice, &options.grid.slices) != 2 || options.grid.slice < 1 ||
      options.grid.slices < options.grid.slice) {
    throw tools::CommandError(tools::kExitUsage, "--slice " + slice + ": say I/N with 1 <= I <= N");
  }
  --options.grid.slice;
  return options;
}

// Medians, so that one sees how far it is; what they come to is the report's.
void Print(const Row& row) {
  std::printf("%s:", row.point.Text().c_str());
  for (const std::vector<double>& us : row.us) {
    if (us.empty())
      std::printf(" -");
    else
      std::printf(" %.2f", tools::Median(us));
  }
  std::printf(" us%s\n", row.is_right ? "" : " WRONG");
  std::fflush(stdout);
}

// One GPU's part, on a thread of its own; rank 0 prints the rows and adds them to the record.
class Comparison {
 public:
  Comparison(const Options& options, const std::vector<tools::NcclApi>& libraries, int gpus, Record* record)
      : options_(options),
        libraries_(libraries),
        gpus_(gpus),
        record_(*record),
        grid_(record->Missing(GridOf(options.grid))),
        meeting_(gpus),
        times_(static_cast<size_t>(gpus)),
        wrong_(static_cast<size_t>(gpus)) {
    for (const Point& point : grid_) {
      std::vector<tools::NcclUniqueId>& ids = ids_[point.ctas];
      if (!ids.empty()) continue;
      ids.resize(libraries.size());
      for (size_t i = 0; i < libraries.size(); ++i)
        CheckNccl(libraries[i], libraries[i].GetUniqueId(&ids[i]), "ncclGetUniqueId", nullptr);
    }
  }

  size_t points() const { return grid_.size(); }

  void Take(int rank) {
    gpu::UseDevice(rank);
    size_t largest = 0;
    for (const Point& point : grid_) largest = std::max(largest, point.bytes);
    Member member(libraries_, rank, gpus_, tools::ParseDataTypes(options_.type).front(),
                  tools::ParseRedOps(options_.op).front(), largest, options_.more_elements);
    const Point* last = nullptr;
    for (const Point& point : grid_) {
      const bool opens = last == nullptr || last->ctas != point.ctas;
      if (opens) member.Open(ids_.at(point.ctas), point.ctas);
      if (opens || last->memory != point.memory) member.Use(point.memory);
      meeting_.Wait();
      Row row = MeasureOne(&member, rank, point);
      if (rank == 0) {
        Print(row);
        record_.Add(std::move(row));
        if (!options_.json.empty()) record_.Write(options_.json);
      }
      last = &point;
    }
    meeting_.Wait();
  }

 private:
  Row MeasureOne(Member* member, int rank, const Point& point) {
    Row row{point, std::vector<std::vector<double>>(libraries_.size()), true};
    std::optional<std::vector<uint8_t>> first;
    bool is_right = true;
    for (size_t library = 0; library < libraries_.size(); ++library) {
      if (!member->Serves(library, point)) continue;
      std::vector<uint8_t> result = member->Result(library, point, &meeting_);
      if (first)
        is_right = is_right && result == *first;
      else
        first = std::move(result);
    }
    wrong_[static_cast<size_t>(rank)] = !is_right;
    for (int round = 0; round < options_.rounds; ++round) {
      for (size_t turn = 0; turn < libraries_.size(); ++turn) {
        const size_t library = (turn + static_cast<size_t>(round)) % libraries_.size();
        if (!member->Serves(library, point)) continue;
        times_[static_cast<size_t>(rank)] = member->Measure(library, point, &meeting_);
        meeting_.Wait();
        row.us[library].push_back(*std::max_element(times_.begin(), times_.end()));
        meeting_.Wait();
      }
    }
    row.is_right = std::none_of(wrong_.begin(), wrong_.end(), [](char wrong) { return wrong != 0; });
    return row;
  }

  const Options& options_;
  const std::vector<tools::NcclApi>& libraries_;
  const int gpus_;
  Record& record_;  // rank 0's
  const std::vector<Point> grid_;
  std::map<std::optional<int>, std::vector<tools::NcclUniqueId>> ids_;  // of each budget, of each library
  Meeting meeting_;
  std::vector<double> times_;  // of each GPU
  std::vector<char> wrong_;
};

// Ends the process when a GPU's part fails.
void MeasureOn(int gpus, Comparison* comparison) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(gpus));
  for (int rank = 0; rank < gpus; ++rank) {
    threads.emplace_back([comparison, rank] {
      try {
        comparison->Take(rank);
      } catch (const tools::CommandError& error) {
        std::fprintf(stderr, "bench_gpu: %s\n", error.what());
        std::_Exit(error.exit_code());  // the others wait inside a library
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

int Run(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  if (const std::string why = gpu::OpenCuda(); !why.empty()) {
    std::printf("bench_gpu: %s; 0 points measured\n", why.c_str());
    return tools::kExitGood;
  }
  const int gpus = options.gpus != 0 ? options.gpus : gpu::DeviceCount();
  if (gpus > gpu::DeviceCount())
    throw tools::CommandError(tools::kExitUsage, "--gpus: there are " + std::to_string(gpu::DeviceCount()));
  std::vector<tools::NcclApi> libraries;
  for (const std::string& path : options.libraries) libraries.push_back(tools::LoadNccl(path));
  Record record(ConditionsHere(libraries, gpus, options.rounds, options.type, options.op, options.more_elements),
                options.libraries);
  if (options.resumes) record.Resume(options.json);
  if (!options.json.empty()) record.Write(options.json);  // before minutes are spent on what cannot be kept
  Comparison comparison(options, libraries, gpus, &record);
  std::printf("%zu points to measure, %zu kept\n", comparison.points(), record.rows().size());
  if (comparison.points() > 0) MeasureOn(gpus, &comparison);
  std::fflush(stdout);
  const auto& rows = record.rows();
  const bool right = std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.is_right; });
  std::_Exit(right ? tools::kExitGood : tools::kExitFailure);  // two libraries that tear down CUDA need not agree
}

}  // namespace
}  // namespace sl::bench

int main(int argc, char** argv) {
  try {
    return sl::bench::Run(argc, argv);
  } catch (const sl::tools::CommandError& error) {
    std::fprintf(stderr, "bench_gpu: %s\n", error.what());
    return error.exit_code();
  }
}
