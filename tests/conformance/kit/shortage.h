// SPDX-License-Identifier: Apache-2.0
//
// Runs a piece of a module's life again and again, each time with another request of the module refused: it must fail
// cleanly or do without, and lose nothing either way.
#pragma once

#include "tests/conformance/kit/imports.h"
#include "tests/conformance/kit/traces.h"

namespace sl::conform {

// `life` uses the module, takes every status as it comes, and gives everything back. At most `most` requests are
// refused, one in each run.
template <typename Life>
void ForEachShortage(Trial& trial, const LoadedModule& module, Imports::Kind kind, uint64_t most, Life life) {
  Imports imports(trial, module);
  // What a module sets up once for the process is no leak.
  life();
  life();
  const Traces before = Traces::Now();
  uint64_t nth = 1;
  for (; nth <= most; ++nth) {
    const Scope scope(fmt::format("{} request {} of the module is refused",
                                  kind == Imports::Kind::kMemory ? "memory" : "resource", nth));
    const uint64_t blocks = imports.LiveBlocks();
    imports.FailAt(kind, nth);
    life();
    const bool was_refused = imports.Requests(kind) >= nth;
    imports.FailAt(kind, 0);
    trial.Expect(imports.LiveBlocks() <= blocks, "{} blocks of memory are lost", imports.LiveBlocks() - blocks);
    if (!was_refused) break;
  }
  Traces::ExpectNothingNew(trial, before, fmt::format("after {} refusals", nth - 1));
  if (nth == 1) trial.Skip("the module asks for nothing of the kind");
}

}  // namespace sl::conform
