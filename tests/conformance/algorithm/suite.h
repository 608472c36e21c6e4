// SPDX-License-Identifier: Apache-2.0
//
// sl.algorithm/1: one function for each file of tests in this folder.
#pragma once

#include <vector>

#include "tests/conformance/kit/suite.h"

namespace sl::conform::algorithm {

std::vector<Test> EstimateTests();  // what estimate() promises, without running anything
std::vector<Test> PlanTests();      // plans as data, and proved
std::vector<Test> LaunchTests();    // what launch() fills
std::vector<Test> CopiesTests();    // what copies() lists, carried out
std::vector<Test> PartsTests();     // what parts() lists, carried out
std::vector<Test> ShortageTests();  // memory refused
std::vector<Test> ResultTests();    // every operation, run for real and compared with an oracle

}  // namespace sl::conform::algorithm
