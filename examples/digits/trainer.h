// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "communicator.h"
#include "data.h"
#include "network.h"
#include "random.h"

namespace digits {

struct TrainingOptions {
  int epochs = 20;
  size_t batch = 64;  // Images per step, over all ranks together.
  uint32_t seed = 1;
  float learning_rate = 0.05f;
  float momentum = 0.9f;
};

// Data-parallel training: every rank holds the whole network and computes the gradient of its shard of each batch. The
// sum over the ranks is the gradient of the whole batch, so every rank takes the same step and the networks stay equal.
class Trainer {
 public:
  // Broadcasts rank 0's initial weights. `communicator` and `split` must outlive the trainer.
  Trainer(Communicator& communicator, const Split& split, const TrainingOptions& options);

  // Passes once over the training images and returns their mean loss, taken as each came by.
  double RunEpoch();

  // The fraction of the test images that the network classifies correctly.
  double Accuracy();

 private:
  // What this rank has seen of an epoch.
  struct Tally {
    double loss = 0.0;  // Summed over the images.
    int64_t images = 0;
  };

  // Takes one step on the batch order_[begin, begin + count) and adds this rank's shard of it to `tally`.
  void Step(size_t begin, size_t count, Tally& tally);

  Communicator& communicator_;
  const Split& split_;
  const size_t batch_;
  Random order_random_;
  std::vector<size_t> order_;    // Training images in this epoch's order, the same on every rank.
  std::vector<float> gradient_;  // Summed, first over this rank's shard, then over all ranks.
  Network network_;
  Optimizer optimizer_;
};

}  // namespace digits
