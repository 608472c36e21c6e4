// SPDX-License-Identifier: Apache-2.0
#include "trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>

namespace digits {
namespace {

constexpr uint32_t kOrderPurpose = 3;

}  // namespace

Trainer::Trainer(Communicator& communicator, const Split& split, const TrainingOptions& options)
    : communicator_(communicator),
      split_(split),
      batch_(options.batch),
      order_random_(options.seed, kOrderPurpose),
      order_(split.train.size()),
      gradient_(Network::kParameters),
      optimizer_(options.learning_rate, options.momentum) {
  std::iota(order_.begin(), order_.end(), size_t{0});
  if (communicator.rank() == 0) network_.Initialize(options.seed);
  communicator.Broadcast(network_.parameters());
}

double Trainer::RunEpoch() {
  order_random_.Shuffle(order_);
  Tally tally;
  for (size_t begin = 0; begin < order_.size(); begin += batch_) {
    Step(begin, std::min(batch_, order_.size() - begin), tally);
  }
  communicator_.Sum(tally.loss, tally.images);
  if (tally.images != static_cast<int64_t>(order_.size())) {
    throw std::runtime_error("the ranks together saw " + std::to_string(tally.images) + " images of " +
                             std::to_string(order_.size()));
  }
  const double loss = tally.loss / static_cast<double>(order_.size());
  if (!std::isfinite(loss)) throw std::runtime_error("the training diverged: the loss is no longer finite");
  return loss;
}

void Trainer::Step(size_t begin, size_t count, Tally& tally) {
  const std::span<float, Network::kParameters> gradient(gradient_);
  const Shard shard = ShardOf(count, communicator_.rank(), communicator_.size());
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  for (size_t i = begin + shard.begin; i < begin + shard.end; ++i) {
    tally.loss += network_.AddGradient(split_.train[order_[i]], gradient);
    ++tally.images;
  }
  communicator_.Sum(gradient);
  // Dividing by the whole batch, after summing, weighs every image alike even where shards are uneven or empty.
  optimizer_.Step(network_.parameters(), gradient, count);
}

double Trainer::Accuracy() {
  const Shard shard = ShardOf(split_.test.size(), communicator_.rank(), communicator_.size());
  int64_t correct = 0;
  for (size_t i = shard.begin; i < shard.end; ++i) {
    if (network_.Classify(split_.test[i]) == split_.test[i].label) ++correct;
  }
  communicator_.Sum(correct);
  return static_cast<double>(correct) / static_cast<double>(split_.test.size());
}

}  // namespace digits
