// SPDX-License-Identifier: Apache-2.0
// `starling conform`: the vendor's conformance kit. What it does lives in tools/conform and tests/conformance.
#include "tools/conform/conform.h"
#include "tools/starling/bench_error.h"
#include "tools/starling/cmd_runtime.h"
#include "tools/starling/commands.h"

namespace sl::tools {

int CmdConform(int argc, char** argv) {
  int exit_code = kExitGood;
  const int trouble = RunCommand("conform", [&] { exit_code = conform::Conform(argc, argv); });
  return trouble != kExitGood ? trouble : exit_code;
}

}  // namespace sl::tools
