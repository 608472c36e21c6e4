// SPDX-License-Identifier: Apache-2.0
#include "network.h"

#include <algorithm>
#include <cmath>

#include "random.h"

namespace digits {
namespace {

constexpr uint32_t kWeightsPurpose = 2;

// One dense layer inside a flat array of Float (float or const float): `Outputs` rows of `Inputs` weights, then the
// biases.
template <typename Float, size_t Inputs, size_t Outputs>
struct Layer {
  static constexpr size_t kSize = Outputs * (Inputs + 1);

  explicit Layer(Float* begin) : weights(begin), biases(begin + Outputs * Inputs) {}

  std::span<Float, Inputs> Row(size_t output) const {
    return std::span<Float, Inputs>(weights + output * Inputs, Inputs);
  }

  Float* weights;
  Float* biases;
};

template <typename Float>
using HiddenLayer = Layer<Float, kPixels, kHidden>;
template <typename Float>
using OutputLayer = Layer<Float, kHidden, kClasses>;

// The two layers of a flat array, which may hold the weights or their gradient.
template <typename Float>
struct Layers {
  explicit Layers(Float* flat) : hidden(flat), output(flat + HiddenLayer<Float>::kSize) {}

  HiddenLayer<Float> hidden;
  OutputLayer<Float> output;
};

// Turns logits into probabilities and returns the cross-entropy loss of the true class. Subtracting the largest logit
// first changes no probability and keeps exp() from overflowing.
double Softmax(std::array<float, kClasses>& values, size_t label) {
  const float largest = *std::max_element(values.begin(), values.end());
  const float shifted_label = values[label] - largest;
  float sum = 0.0f;
  for (float& value : values) sum += value = std::exp(value - largest);
  for (float& value : values) value /= sum;
  return std::log(static_cast<double>(sum)) - shifted_label;
}

}  // namespace

void Network::Initialize(uint32_t seed) {
  Random random(seed, kWeightsPurpose);
  const Layers<float> layers(parameters_.data());
  std::fill(parameters_.begin(), parameters_.end(), 0.0f);
  // He's rule: this spread keeps the variance of the activations the same from layer to layer.
  const auto draw = [&random](const auto& layer, size_t outputs, size_t inputs) {
    const float limit = std::sqrt(6.0f / static_cast<float>(inputs));
    for (size_t output = 0; output < outputs; ++output) {
      for (float& weight : layer.Row(output)) weight = random.Symmetric(limit);
    }
  };
  draw(layers.hidden, kHidden, kPixels);
  draw(layers.output, kClasses, kHidden);
}

Network::Activations Network::Forward(const Sample& sample) const {
  const Layers<const float> layers(parameters_.data());
  Activations result;
  for (size_t unit = 0; unit < kHidden; ++unit) {
    const auto row = layers.hidden.Row(unit);
    float sum = layers.hidden.biases[unit];
    for (size_t pixel = 0; pixel < kPixels; ++pixel) sum += row[pixel] * sample.pixels[pixel];
    result.hidden[unit] = std::max(sum, 0.0f);
  }
  for (size_t digit = 0; digit < kClasses; ++digit) {
    const auto row = layers.output.Row(digit);
    float sum = layers.output.biases[digit];
    for (size_t unit = 0; unit < kHidden; ++unit) sum += row[unit] * result.hidden[unit];
    result.logits[digit] = sum;
  }
  return result;
}

double Network::AddGradient(const Sample& sample, std::span<float, kParameters> gradient) const {
  const Layers<const float> layers(parameters_.data());
  const Layers<float> slopes(gradient.data());
  Activations activations = Forward(sample);
  const double loss = Softmax(activations.logits, sample.label);

  // The slope of the loss at a logit is that class's probability, less one for the true class.
  std::array<float, kClasses>& logit_slopes = activations.logits;
  logit_slopes[sample.label] -= 1.0f;

  std::array<float, kHidden> hidden_slopes{};
  for (size_t digit = 0; digit < kClasses; ++digit) {
    const float slope = logit_slopes[digit];
    const auto row = layers.output.Row(digit);
    const auto row_slopes = slopes.output.Row(digit);
    for (size_t unit = 0; unit < kHidden; ++unit) {
      row_slopes[unit] += slope * activations.hidden[unit];
      hidden_slopes[unit] += slope * row[unit];
    }
    slopes.output.biases[digit] += slope;
  }
  for (size_t unit = 0; unit < kHidden; ++unit) {
    if (activations.hidden[unit] <= 0.0f) continue;  // A unit that ReLU holds at zero passes nothing back.
    const auto row_slopes = slopes.hidden.Row(unit);
    for (size_t pixel = 0; pixel < kPixels; ++pixel) row_slopes[pixel] += hidden_slopes[unit] * sample.pixels[pixel];
    slopes.hidden.biases[unit] += hidden_slopes[unit];
  }
  return loss;
}

size_t Network::Classify(const Sample& sample) const {
  const auto logits = Forward(sample).logits;
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void Optimizer::Step(std::span<float, Network::kParameters> parameters,
                     std::span<const float, Network::kParameters> gradient_sum, size_t samples) {
  const float scale = 1.0f / static_cast<float>(samples);
  for (size_t i = 0; i < Network::kParameters; ++i) {
    velocity_[i] = momentum_ * velocity_[i] + scale * gradient_sum[i];
    parameters[i] -= learning_rate_ * velocity_[i];
  }
}

}  // namespace digits
