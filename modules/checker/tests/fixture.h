// SPDX-License-Identifier: Apache-2.0
//
// The layer around a table that a test makes up, and what it says.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "modules/checker/rules.h"
#include "sl_module.h"

namespace sl::checker {

// Names of the rules that any test of this program has seen broken.
std::set<std::string>& BrokenSoFar();

class CheckerTest : public ::testing::Test {
 protected:
  // Opens the layer around a module below.
  void Wrap(const char* id, const void* ops_below, const char* on_violation = "error");
  // Asks it to come to rest, and closes it.
  void Quiesce();
  void Close();
  void TearDown() override;

  // The one line of the log since the last call names this rule.
  void ExpectBroken(const std::string& rule);
  void ExpectQuiet() { EXPECT_EQ(lines_, std::vector<std::string>()); }

  template <typename Ops>
  const Ops* ops() const {
    return static_cast<const Ops*>(ops_);
  }

  std::vector<std::string> lines_;
  std::string error_;
  sl_instance_t* instance_ = nullptr;

 private:
  sl_host_t host_ = {};
  const sl_module_t* module_ = nullptr;
  const void* ops_ = nullptr;
};

// Some address that stands for an object of the module below.
template <typename T>
T* Below(uintptr_t number) {
  return reinterpret_cast<T*>(number * 4096);
}

}  // namespace sl::checker
