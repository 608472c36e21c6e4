// SPDX-License-Identifier: Apache-2.0
//
// The tests of every module, whatever it provides; one function for each file of this folder.
#pragma once

#include <vector>

#include "tests/conformance/kit/suite.h"

namespace sl::conform::module {

std::vector<Test> QueryTests();
std::vector<Test> DescriptionTests();
std::vector<Test> LifeTests();
std::vector<Test> ShortageTests();

}  // namespace sl::conform::module
