// SPDX-License-Identifier: Apache-2.0
// How a starling command ends: the exit codes of every verb, and the exception that carries one to CmdX().
#pragma once

#include <stdexcept>
#include <string>

namespace sl::tools {

inline constexpr int kExitGood = 0;     // also when everything was skipped for want of hardware
inline constexpr int kExitFailure = 1;  // a wrong result, or something that should have worked did not
inline constexpr int kExitUsage = 2;    // the command line asks for something that does not exist

// Thrown inside one command and caught by that command's entry function, never across a library boundary.
class CommandError : public std::runtime_error {
 public:
  CommandError(int exit_code, const std::string& message) : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

}  // namespace sl::tools
