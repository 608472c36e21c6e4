// SPDX-License-Identifier: Apache-2.0
//
// Data-parallel training in one page. Each rank is a process that holds the whole network and learns from its shard of
// every batch; NCCL keeps the networks the same. Read this file first, then trainer.cc (what is computed),
// communicator.cc (every NCCL call there is) and launch.cc (how the processes come to be and find each other; under a
// launcher with the help of tools/launch).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "communicator.h"
#include "data.h"
#include "launch.h"
#include "options.h"
#include "trainer.h"

namespace digits {
namespace {

constexpr int kGood = 0;
constexpr int kFailure = 1;
constexpr int kBadUsage = 2;

// What rank 0 tells the user; the other ranks are silent.
class Report {
 public:
  Report(bool speaks, const std::string& curve_file) : speaks_(speaks) {
    if (!speaks || curve_file.empty()) return;
    curve_.open(curve_file);
    if (!curve_) throw std::runtime_error("cannot write " + curve_file + "; name another file with --curve");
    curve_ << "epoch,loss\n";
    curve_.precision(9);
  }

  void Start(const Split& split, int ranks, size_t batch) const {
    if (!speaks_) return;
    std::printf("%zu images to train, %zu to test; ranks %d, global batch %zu\n", split.train.size(), split.test.size(),
                ranks, batch);
    std::fflush(stdout);
  }

  void Epoch(int epoch, double loss) {
    if (!speaks_) return;
    std::printf("epoch %d loss %.6f\n", epoch, loss);
    std::fflush(stdout);
    if (curve_.is_open()) curve_ << epoch << "," << loss << "\n";
  }

  void Finish(double accuracy) {
    if (!speaks_) return;
    if (curve_.is_open() && !curve_.flush()) throw std::runtime_error("could not write all of the curve file");
    std::printf("accuracy: %.1f %%\n", 100.0 * accuracy);
  }

 private:
  const bool speaks_;
  std::ofstream curve_;
};

// The life of one rank.
void Train(World& world, const Options& options, const Split& split) {
  Report report(world.rank() == 0, options.curve_file);
  Communicator communicator(world);
  Trainer trainer(communicator, split, options.training);
  report.Start(split, world.size(), options.training.batch);
  for (int epoch = 1; epoch <= options.training.epochs; ++epoch) report.Epoch(epoch, trainer.RunEpoch());
  report.Finish(trainer.Accuracy());
  communicator.Close();
}

// The place of this process among those of a launcher, or nothing where it shall start its ranks itself.
std::optional<sl::launch::Place> ChoosePlace(const Options& options) {
  if (options.ranks > 0) return std::nullopt;
  std::optional<sl::launch::Place> place = sl::launch::FindPlace();
  if (!options.id_file.empty() && !place) {
    throw UsageError("--id-file joins the ranks of a launcher, but none started this process");
  }
  return place;
}

int Run(const Options& options) {
  const std::optional<sl::launch::Place> place = ChoosePlace(options);

  // The images are loaded before any process is forked: the ranks share these pages.
  const Split split = SplitSamples(LoadSamples(options.data), options.training.seed);
  const auto rank_main = [&](World& world) {
    try {
      Train(world, options, split);
      return kGood;
    } catch (const std::exception& error) {
      Complain("rank " + std::to_string(world.rank()) + ": " + error.what());
      return kFailure;
    }
  };
  if (place) return rank_main(*JoinLauncher(*place, options.id_file, options.timeout));
  return RunLocally(std::max(options.ranks, 1), options.timeout, rank_main);
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) {
  try {
    const digits::Options options =
        digits::ParseOptions(std::span<const char* const>(argv, static_cast<size_t>(argc)).subspan(1));
    if (options.help) {
      std::cout << digits::HelpText();
      return digits::kGood;
    }
    return digits::Run(options);
  } catch (const digits::UsageError& error) {
    digits::Complain(error.what());
    return digits::kBadUsage;
  } catch (const sl::launch::EnvironmentError& error) {
    digits::Complain(error.what());
    return digits::kBadUsage;
  } catch (const std::exception& error) {
    digits::Complain(error.what());
    return digits::kFailure;
  }
}
