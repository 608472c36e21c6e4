// SPDX-License-Identifier: Apache-2.0
// The subcommands of `starling`. Each takes argv from its own name on (argv[0] is "bench"), prints its own messages and
// returns an exit code of bench_error.h.
//
// To add one: write cmd_<name>.cc (it is found by CMakeLists.txt) with `int Cmd<Name>(int argc, char** argv)` in
// sl::tools, declare it here, and add its line to the table in main.cc.
#pragma once

namespace sl::tools {

int CmdBench(int argc, char** argv);
int CmdConform(int argc, char** argv);
int CmdDemo(int argc, char** argv);
int CmdExplain(int argc, char** argv);
int CmdModules(int argc, char** argv);
int CmdProfile(int argc, char** argv);
int CmdRun(int argc, char** argv);
int CmdVerify(int argc, char** argv);

}  // namespace sl::tools
