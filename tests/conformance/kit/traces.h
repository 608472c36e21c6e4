// SPDX-License-Identifier: Apache-2.0
//
// What a module may leave behind in a process: threads, descriptors, mappings. Taken before and after, and compared.
#pragma once

#include <map>
#include <set>
#include <string>

#include "tests/conformance/kit/trial.h"

namespace sl::conform {

struct Traces {
  std::map<int, std::string> threads;      // by id, their names
  std::map<int, std::string> descriptors;  // by number, what they lead to

  static Traces Now();
  // Notes as failures what there is now and was not in `before`; `when` says after what. Threads that are on their way
  // out get a moment.
  static void ExpectNothingNew(Trial& trial, const Traces& before, const std::string& when);
};

// Lines of /proc/self/maps that name the file.
std::set<std::string> MappingsOf(const std::string& path);

}  // namespace sl::conform
