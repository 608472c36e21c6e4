// SPDX-License-Identifier: Apache-2.0
#include "network.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "random.h"

namespace digits {
namespace {

Sample RandomSample(uint32_t seed) {
  Random random(seed, 0);
  Sample sample;
  for (float& pixel : sample.pixels) pixel = 0.5f + random.Symmetric(0.5f);
  sample.label = random.Below(kClasses);
  return sample;
}

double Loss(const Network& network, const Sample& sample) {
  std::vector<float> unused(Network::kParameters);
  return network.AddGradient(sample, std::span<float, Network::kParameters>(unused));
}

TEST(Network, LossIsThatOfAGuessWhenWeightsAreZero) {
  EXPECT_NEAR(Loss(Network(), RandomSample(1)), std::log(10.0), 1e-6);
}

TEST(Network, GradientIsTheSlopeOfTheLoss) {
  Network network;
  network.Initialize(1);
  const Sample sample = RandomSample(2);
  std::vector<float> gradient(Network::kParameters);
  network.AddGradient(sample, std::span<float, Network::kParameters>(gradient));
  // A step of 2^-9 keeps both the rounding of fp32 and the curvature of the loss below the bound.
  constexpr float kStep = 0x1p-9f;
  for (size_t i = 0; i < Network::kParameters; ++i) {
    float& parameter = network.parameters()[i];
    const float before = parameter;
    parameter = before + kStep;
    const double above = Loss(network, sample);
    parameter = before - kStep;
    const double below = Loss(network, sample);
    parameter = before;
    ASSERT_NEAR(gradient[i], (above - below) / (2.0 * kStep), 2e-3) << "parameter " << i;
  }
}

TEST(Network, GradientIsAddedToWhatIsThere) {
  Network network;
  network.Initialize(1);
  std::vector<float> once(Network::kParameters);
  std::vector<float> after_one(Network::kParameters, 1.0f);
  network.AddGradient(RandomSample(3), std::span<float, Network::kParameters>(once));
  network.AddGradient(RandomSample(3), std::span<float, Network::kParameters>(after_one));
  for (size_t i = 0; i < Network::kParameters; ++i) ASSERT_NEAR(after_one[i], 1.0f + once[i], 1e-6f);
}

TEST(Optimizer, StepsByTheMeanGradientAndKeepsMomentum) {
  std::vector<float> parameters(Network::kParameters, 1.0f);
  const std::vector<float> gradient_sum(Network::kParameters, 8.0f);
  Optimizer optimizer(0.5f, 0.25f);
  const std::span<float, Network::kParameters> view(parameters);
  optimizer.Step(view, std::span<const float, Network::kParameters>(gradient_sum), 4);
  EXPECT_EQ(parameters[0], 0.0f);  // 1 - 0.5 * 2
  optimizer.Step(view, std::span<const float, Network::kParameters>(gradient_sum), 4);
  EXPECT_EQ(parameters[0], -1.25f);  // 0 - 0.5 * (0.25 * 2 + 2)
}

TEST(Random, DrawsTheSameNumbersOnEveryMachine) {
  Random random(1, 2);
  EXPECT_EQ(random.Below(1000), 752u);
  EXPECT_EQ(random.Below(1000), 749u);
  EXPECT_EQ(random.Below(1000), 369u);
  EXPECT_EQ(random.Below(1000), 161u);
  EXPECT_EQ(random.Symmetric(1.0f), -0x1.3eed3p-3f);
  std::vector<int> values = {0, 1, 2, 3, 4, 5};
  random.Shuffle(values);
  EXPECT_EQ(values, (std::vector<int>{2, 3, 1, 4, 5, 0}));
}

}  // namespace
}  // namespace digits
