// SPDX-License-Identifier: Apache-2.0
//
// sl.device/1: one function for each file of tests in this folder.
#pragma once

#include <vector>

#include "tests/conformance/kit/suite.h"

namespace sl::conform::device {

std::vector<Test> MemoryTests();    // allocations, pointers, generations
std::vector<Test> ShareTests();     // export, import, reservations, between processes
std::vector<Test> StreamTests();    // order, events, values, copies
std::vector<Test> ReduceTests();    // all types and operations against an oracle
std::vector<Test> LaunchTests();    // images, kernels, batches, what ends a wait
std::vector<Test> ShortageTests();  // memory and resources refused

}  // namespace sl::conform::device
