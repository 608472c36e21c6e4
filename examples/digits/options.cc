// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace digits {
namespace {

constexpr int64_t kMaxRanks = 256;
constexpr int64_t kMaxCount = 1'000'000;  // More epochs, images or seconds than this are a slip of the finger.

int64_t ParseNumber(std::string_view option, std::string_view text, int64_t min, int64_t max) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    throw UsageError(std::string(option) + " wants a whole number from " + std::to_string(min) + " to " +
                     std::to_string(max) + ", not '" + std::string(text) + "'");
  }
  return value;
}

std::string ParseText(std::string_view option, std::string_view text) {
  if (text.empty()) throw UsageError(std::string(option) + " wants the name of a file");
  return std::string(text);
}

struct Option {
  std::string_view name;
  std::string_view help;
  void (*set)(Options& options, std::string_view name, std::string_view value);
};

constexpr std::array<Option, 8> kOptions = {{
    {"--ranks", "N       processes to start on this host and to train on (default 1)",
     [](Options& options, std::string_view name, std::string_view value) {
       options.ranks = static_cast<int>(ParseNumber(name, value, 1, kMaxRanks));
     }},
    {"--epochs", "E      passes over the training images (default 20)",
     [](Options& options, std::string_view name, std::string_view value) {
       options.training.epochs = static_cast<int>(ParseNumber(name, value, 1, kMaxCount));
     }},
    {"--batch", "B       images per step, over all ranks together (default 64)",
     [](Options& options, std::string_view name, std::string_view value) {
       options.training.batch = static_cast<size_t>(ParseNumber(name, value, 1, kMaxCount));
     }},
    {"--seed", "S        chooses test images, initial weights and order (default 1)",
     [](Options& options, std::string_view name, std::string_view value) {
       options.training.seed = static_cast<uint32_t>(ParseNumber(name, value, 0, UINT32_MAX));
     }},
    {"--curve", "FILE    write the loss of every epoch to FILE, as CSV",
     [](Options& options, std::string_view name, std::string_view value) {
       options.curve_file = ParseText(name, value);
     }},
    {"--data", "FILE     the images (default: the file beside the source)",
     [](Options& options, std::string_view name, std::string_view value) { options.data = ParseText(name, value); }},
    {"--id-file",
     "FILE  under a launcher: ranks meet through FILE, which all must see and\n"
     "                  which must not exist yet (default: as the launcher's variables say)",
     [](Options& options, std::string_view name, std::string_view value) { options.id_file = ParseText(name, value); }},
    {"--timeout", "S     seconds after which unfinished ranks are killed (default 120)",
     [](Options& options, std::string_view name, std::string_view value) {
       options.timeout = std::chrono::seconds(ParseNumber(name, value, 1, kMaxCount));
     }},
}};

const Option& FindOption(std::string_view name) {
  for (const Option& option : kOptions) {
    if (option.name == name) return option;
  }
  throw UsageError("unknown argument '" + std::string(name) + "'; --help lists all");
}

}  // namespace

Options ParseOptions(std::span<const char* const> arguments) {
  Options options;
  options.data = DIGITS_DATA;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      options.help = true;
      return options;
    }
    const Option& option = FindOption(argument);
    if (++i == arguments.size()) throw UsageError(std::string(argument) + " wants a value; --help lists all options");
    option.set(options, option.name, arguments[i]);
  }
  if (options.ranks > 0 && !options.id_file.empty()) {
    throw UsageError("--ranks starts processes and --id-file joins started ones: give one of the two");
  }
  return options;
}

std::string HelpText() {
  std::string text =
      "usage: digits [options]\n\nTrains a small network on images of handwritten digits, data-parallel.\n\n";
  for (const Option& option : kOptions)
    text.append("  ").append(option.name).append(" ").append(option.help).append("\n");
  return text;
}

}  // namespace digits
