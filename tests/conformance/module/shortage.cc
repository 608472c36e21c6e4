// SPDX-License-Identifier: Apache-2.0
// A module that gets no memory, thread, mapping or descriptor says so and loses nothing; what it takes it gives back.
#include "tests/conformance/kit/shortage.h"
#include "tests/conformance/kit/imports.h"
#include "tests/conformance/kit/module.h"
#include "tests/conformance/module/suite.h"

namespace sl::conform::module {
namespace {

constexpr uint64_t kMostRefusals = 300;

void GivesBack(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  const Imports imports(trial, module);
  uint64_t after_first = 0;
  for (int round = 0; round < 10; ++round) {
    OpenedModule opened(trial, module);
    opened.RequireOpen();
    opened.Close();
    if (round == 1) after_first = imports.LiveBlocks();
  }
  trial.Expect(imports.LiveBlocks() <= after_first, "8 times opened and closed, {} blocks of memory are lost",
               imports.LiveBlocks() - after_first);
}

void FailsCleanly(Trial& trial, Imports::Kind kind) {
  const LoadedModule module(trial, trial.assignment().module_path);
  { OpenedModule(trial, module).RequireOpen(); }
  ForEachShortage(trial, module, kind, kMostRefusals, [&] {
    OpenedModule opened(trial, module);
    if (opened.status() < SL_OK) {
      trial.Expect(!opened.error().empty(), "open gave {} without a text", StatusName(opened.status()));
      trial.Expect(opened.instance() == nullptr, "open failed and wrote its output");
    }
  });
}

}  // namespace

std::vector<Test> ShortageTests() {
  return {
      {"Memory.IsGivenBack", "opened and closed again and again, a module keeps no block", GivesBack},
      {"Memory.MayBeShort", "open fails in words or succeeds, whichever allocation is refused",
       [](Trial& trial) { FailsCleanly(trial, Imports::Kind::kMemory); }},
      {"Resources.MayBeShort", "the same for mappings, threads and descriptors",
       [](Trial& trial) { FailsCleanly(trial, Imports::Kind::kResource); }},
  };
}

}  // namespace sl::conform::module
