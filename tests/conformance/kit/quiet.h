// SPDX-License-Identifier: Apache-2.0
//
// Catches what is written to standard output and standard error while it lives.
#pragma once

#include <string>

#include "tests/conformance/kit/trial.h"

namespace sl::conform {

class Quiet {
 public:
  explicit Quiet(Trial& trial);
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

  // Notes a failure if something was written so far; `when` says after what.
  void ExpectSilence(const std::string& when);

 private:
  Trial& trial_;
  int caught_;
  int saved_[2];
};

}  // namespace sl::conform
