// SPDX-License-Identifier: Apache-2.0
#include "data.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include "random.h"

namespace digits {
namespace {

constexpr int kMaxPixel = 16;
constexpr uint32_t kSplitPurpose = 1;

// Takes the next comma-separated whole number in [0, max] off the front of `text`.
int TakeNumber(std::string_view& text, int max) {
  const std::string_view field = text.substr(0, text.find(','));
  text.remove_prefix(field.size() == text.size() ? text.size() : field.size() + 1);
  int value = -1;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || value < 0 || value > max) {
    throw std::runtime_error("expected a whole number from 0 to " + std::to_string(max) + ", found '" +
                             std::string(field) + "'");
  }
  return value;
}

Sample ParseSample(std::string_view line) {
  Sample sample;
  for (float& pixel : sample.pixels) pixel = static_cast<float>(TakeNumber(line, kMaxPixel)) / kMaxPixel;
  sample.label = static_cast<size_t>(TakeNumber(line, kClasses - 1));
  if (!line.empty()) throw std::runtime_error("expected 65 numbers, found more: '" + std::string(line) + "'");
  return sample;
}

}  // namespace

std::vector<Sample> LoadSamples(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error("cannot open " + path + ": " + std::strerror(errno) + "; name the data with --data FILE");
  }
  std::vector<Sample> samples;
  for (std::string line; std::getline(file, line);) {
    try {
      samples.push_back(ParseSample(line));
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(path + ":" + std::to_string(samples.size() + 1) + ": " + error.what());
    }
  }
  if (file.bad()) throw std::runtime_error("cannot read " + path + ": " + std::strerror(errno));
  if (samples.size() < 5) throw std::runtime_error(path + ": at least 5 images are needed to train and to test");
  return samples;
}

Split SplitSamples(std::vector<Sample> samples, uint32_t seed) {
  Random(seed, kSplitPurpose).Shuffle(samples);
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() * 4 / 5);
  return {.train = {samples.begin(), middle}, .test = {middle, samples.end()}};
}

Shard ShardOf(size_t count, int rank, int size) {
  const auto cut = [&](int part) { return count * static_cast<size_t>(part) / static_cast<size_t>(size); };
  return {.begin = cut(rank), .end = cut(rank + 1)};
}

}  // namespace digits
