// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <span>
#include <stdexcept>
#include <string>

#include "trainer.h"

namespace digits {

// What the user asked for on the command line.
struct Options {
  bool help = false;
  int ranks = 0;           // 0 when --ranks was not given.
  std::string id_file;     // Where the ranks of a launcher find the unique id; empty when not given.
  std::string data;        // The images.
  std::string curve_file;  // Where to write the losses; empty for nowhere.
  std::chrono::seconds timeout{120};
  TrainingOptions training;
};

// The command line cannot be understood; what() says what is wrong and how to put it right.
class UsageError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// Reads the arguments that follow the program's name. Throws UsageError.
Options ParseOptions(std::span<const char* const> arguments);

// One line for each option.
std::string HelpText();

}  // namespace digits
