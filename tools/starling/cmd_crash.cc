// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/cmd_crash.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "tests/conformance/kit/culprit.h"
#include "tools/starling/launch_blame.h"

namespace sl::tools {
namespace {

// Afterwards the same signal has its usual effect.
[[maybe_unused]] void OnCrash(int signal) {
  conform::Culprit culprit;
  if (!conform::FindCulprit(&culprit)) return;
  char who[300];
  std::snprintf(who, sizeof who, "%s%smodule %s", culprit.slot, culprit.slot[0] != 0 ? ", " : "", culprit.module);
  Blame(who);
  char line[400];
  const int length = std::snprintf(line, sizeof line, "starling: signal %d in %s\n", signal, who);
  if (length > 0 && write(STDERR_FILENO, line, static_cast<size_t>(length)) < 0) return;
}

}  // namespace

void NameCrashes() {
#if !defined(SL_SANITIZED)  // there a crash is the sanitizer's to explain
  struct sigaction action = {};
  action.sa_handler = OnCrash;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigaction(signal, &action, nullptr);
#endif
}

}  // namespace sl::tools
