// SPDX-License-Identifier: Apache-2.0
//
// Runs `starling conform` as a vendor would and reads its JSON report.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sl::conform {

struct KitRun {
  int exit_code = -1;
  std::string text;     // both of its outputs
  nlohmann::json json;  // null when it wrote none
};

// Runs it on a broken module ("" after the name of one: any path) with further arguments.
KitRun RunKit(const std::string& module_path, const std::vector<std::string>& arguments);
std::string BrokenModule(const std::string& kind);

// The report's entry for a test; null when there is none.
nlohmann::json EntryOf(const KitRun& run, const std::string& test);

// A module that is wrong in one way.
struct Broken {
  const char* kind;
  const char* test;   // that is about it
  const char* words;  // part of a message of it
};
std::string NameOfBroken(const ::testing::TestParamInfo<Broken>& info);

// The broken module fails `prefix`/`test` with the words, and the command with it. `more`: arguments of the command.
void ExpectCaught(const Broken& broken, const std::string& prefix, const std::vector<std::string>& more = {});
// The module passes all tests that match, strictly, and not by skipping all of them.
void ExpectSound(const std::string& kind, const std::string& filter, const std::vector<std::string>& more = {});

}  // namespace sl::conform
