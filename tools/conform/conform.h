// SPDX-License-Identifier: Apache-2.0
//
// `starling conform`: proves a module against the suites of the interfaces it provides, from the outside.
#pragma once

namespace sl::conform {

// `argv[0]` is "conform". Throws CommandError; returns an exit code of bench_error.h.
int Conform(int argc, char** argv);

}  // namespace sl::conform
