// SPDX-License-Identifier: Apache-2.0
//
// The inside of a test's process: it does one thing, says what came of it as one JSON object on a descriptor, and ends.
#pragma once

#include <string>

#include "tests/conformance/kit/trial.h"

namespace sl::conform {

// What the program is told when it runs itself; hidden options of `starling conform`.
inline constexpr char kDescribeOption[] = "--describe-on";
inline constexpr char kReportOption[] = "--report-on";
inline constexpr char kTestOption[] = "--test";

// Reads the module's description: {"name", "version", "provides": [{"id", "name"}]} or {"failure"}.
int DescribeModule(const Assignment& assignment, int report_fd);

// Runs one test: {"outcome": "passed" | "failed" | "skipped", "messages": […]}.
int RunOne(const Assignment& assignment, const std::string& case_name, int report_fd);

}  // namespace sl::conform
