// SPDX-License-Identifier: Apache-2.0
//
// The tests of every transport; one function for each file of this folder.
#pragma once

#include <vector>

#include "tests/conformance/kit/suite.h"

namespace sl::conform::transport {

std::vector<Test> PortTests();
std::vector<Test> PutTests();
std::vector<Test> FlowTests();
std::vector<Test> EndTests();
std::vector<Test> DataTests();
std::vector<Test> MemoryTests();
std::vector<Test> ShortageTests();

}  // namespace sl::conform::transport
