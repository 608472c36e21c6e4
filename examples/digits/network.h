// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data.h"

namespace digits {

inline constexpr size_t kHidden = 64;

// A network of two dense layers, 64 pixels → 64 hidden units (ReLU) → 10 classes (softmax).
//
// All its weights lie in one flat array, and the gradient of the loss is an array of the same layout. So one broadcast
// carries the whole network to the other ranks and one all-reduce sums the whole gradient.
class Network {
 public:
  // Hidden weights [kHidden][kPixels] and biases, then output weights [kClasses][kHidden] and biases.
  static constexpr size_t kParameters = kHidden * (kPixels + 1) + kClasses * (kHidden + 1);

  Network() : parameters_(kParameters, 0.0f) {}

  // Draws small random weights; biases become zero.
  void Initialize(uint32_t seed);

  std::span<float, kParameters> parameters() { return std::span<float, kParameters>(parameters_); }

  // Adds the gradient of this sample's loss to `gradient` and returns the loss (cross-entropy, in nats).
  double AddGradient(const Sample& sample, std::span<float, kParameters> gradient) const;

  // The digit that the network sees in the image.
  size_t Classify(const Sample& sample) const;

 private:
  struct Activations {
    std::array<float, kHidden> hidden;
    std::array<float, kClasses> logits;
  };
  Activations Forward(const Sample& sample) const;

  std::vector<float> parameters_;
};

// Stochastic gradient descent with momentum.
class Optimizer {
 public:
  Optimizer(float learning_rate, float momentum)
      : learning_rate_(learning_rate), momentum_(momentum), velocity_(Network::kParameters, 0.0f) {}

  // Moves `parameters` against the mean gradient, which is `gradient_sum` divided by `samples`.
  void Step(std::span<float, Network::kParameters> parameters,
            std::span<const float, Network::kParameters> gradient_sum, size_t samples);

 private:
  const float learning_rate_;
  const float momentum_;
  std::vector<float> velocity_;
};

}  // namespace digits
