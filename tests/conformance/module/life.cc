// SPDX-License-Identifier: Apache-2.0
// From open to close, and what is left: nothing.
#include <memory>

#include "tests/conformance/kit/module.h"
#include "tests/conformance/kit/quiet.h"
#include "tests/conformance/kit/random.h"
#include "tests/conformance/kit/traces.h"
#include "tests/conformance/module/suite.h"

namespace sl::conform::module {
namespace {

void OpensAndCloses(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  OpenedModule opened(trial, module);
  opened.RequireOpen();
  trial.Expect(opened.instance() != nullptr, "open gave SL_OK and no instance");
  opened.Close();
}

void Again(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  for (int round = 0; round < 5; ++round) {
    const Scope scope(fmt::format("round {}", round + 1));
    OpenedModule opened(trial, module);
    opened.RequireOpen();
    opened.Close();
  }
}

// Several kernels in one process, or several layers of one module: instances come and go in any order.
void Interleaved(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  Random random(trial.seed());
  std::vector<std::unique_ptr<OpenedModule>> alive;
  const int steps = trial.full() ? 400 : 60;
  for (int step = 0; step < steps; ++step) {
    if (alive.size() < 5 && (alive.empty() || random.Below(2) == 0)) {
      alive.push_back(std::make_unique<OpenedModule>(trial, module));
      alive.back()->RequireOpen();
      for (size_t i = 0; i + 1 < alive.size(); ++i) {
        trial.Expect(alive[i]->instance() != alive.back()->instance(), "two opens gave one instance");
      }
    } else {
      const size_t which = random.Below(alive.size());
      alive[which]->Close();
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
}

void NothingLeftOpen(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  const Traces before = Traces::Now();
  for (int round = 0; round < 2; ++round) {
    OpenedModule opened(trial, module);
    opened.RequireOpen();
    opened.Close();
  }
  Traces::ExpectNothingNew(trial, before, "after close");
}

void NothingMapped(Trial& trial) {
#if defined(SL_SANITIZED)
  trial.Skip("sanitizers keep libraries in memory");
#endif
  const std::string path = trial.assignment().module_path;
  LoadedModule module(trial, path);
  trial.Expect(!MappingsOf(path).empty(), "{} is loaded, but not in /proc/self/maps", path);
  {
    OpenedModule opened(trial, module);
    opened.RequireOpen();
    opened.Close();
  }
  module.Unload();
  for (const std::string& line : MappingsOf(path)) {
    trial.Expect(false, "still mapped after unloading: {}; a unique symbol or -z nodelete pins it", line);
  }
}

void Silent(Trial& trial) {
  Quiet quiet(trial);
  const LoadedModule module(trial, trial.assignment().module_path);
  quiet.ExpectSilence("after loading");
  OpenedModule opened(trial, module);
  opened.RequireOpen();
  opened.Close();
  quiet.ExpectSilence("after open and close");
}

// Rest is asked for as often as the kernel likes.
void QuiescesTwice(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  if (module.table().quiesce == nullptr) trial.Skip("it has no quiesce");
  OpenedModule opened(trial, module);
  opened.RequireOpen();
  for (const uint64_t deadline : {DeadlineIn(5000), uint64_t{0}, SL_NO_DEADLINE}) {
    const sl_status_t status = module.table().quiesce(opened.instance(), deadline);
    trial.Expect(status == SL_OK, "quiesce gave {} with nothing in use: {}", StatusName(status), ErrorText());
  }
  opened.Close();
}

void LongerHost(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  OpenedModule opened(trial, module, nullptr, {.extra_bytes = 256});
  opened.RequireOpen();
  opened.Close();
}

// Every size a host ever had: nothing behind it may be read.
void EveryHost(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  for (const uint32_t bytes : {SL_HOST_SIZE_1_0}) {
    OpenedModule opened(trial, module, nullptr, {.edge_bytes = bytes});
    opened.RequireOpen();
    opened.Close();
  }
}

void TalkativeHost(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  OpenedModule opened(trial, module, nullptr, {.log_level = SL_LOG_TRACE, .event_mask = ~uint64_t{0}});
  opened.RequireOpen();
  opened.Close();
}

// The ends of every range and every choice: each opens, or is refused in words.
void EveryOption(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  const auto open = [&](OptionValues& values) {
    const Scope scope(values.ToString());
    OpenedModule opened(trial, module, &values);
    values.Scramble();
    if (opened.status() < SL_OK) {
      trial.Expect(!opened.error().empty(), "open gave {} without a text", StatusName(opened.status()));
    }
    opened.Close();
  };
  for (uint32_t i = 0; i < module.table().option_count; ++i) {
    const sl_option_t& option = *module.table().options[i];
    std::vector<std::string> texts;
    if (option.type == SL_OPTION_BOOL) texts = {"false", "true"};
    if (option.type == SL_OPTION_INT || option.type == SL_OPTION_FLOAT) {
      for (const double bound : {option.minimum, option.maximum}) {
        texts.push_back(option.type == SL_OPTION_INT ? std::to_string(static_cast<int64_t>(bound))
                                                     : fmt::format("{}", bound));
      }
    }
    if (option.type == SL_OPTION_CHOICE) {
      std::string choices = option.choices;
      for (size_t comma = 0; (comma = choices.find(',')) != std::string::npos; choices.erase(0, comma + 1)) {
        texts.push_back(choices.substr(0, comma));
      }
      texts.push_back(choices);
    }
    if (option.type == SL_OPTION_STRING) texts = {"", "x", std::string(300, 'y')};
    for (const std::string& text : texts) {
      OptionValues values(module.table());
      values.Apply(trial.assignment().options);
      values.Set(i, text);
      open(values);
    }
  }
}

}  // namespace

std::vector<Test> LifeTests() {
  return {
      {"Life.OpensAndCloses", "with default options and today's host", OpensAndCloses, 5},
      {"Life.OpensAgain", "after close everything can begin anew", Again},
      {"Life.InstancesInterleave", "several instances live beside each other and end in any order", Interleaved},
      {"Life.LeavesNoThreadOrDescriptor", "after close nothing of the module runs or is open", NothingLeftOpen},
      {"Life.LeavesNothingMapped", "after unloading nothing of the file is in memory", NothingMapped},
      {"Life.PrintsNothing", "a module speaks through its host's log only", Silent},
      {"Life.QuiescesAtRest", "a module at rest says so, whatever the deadline", QuiescesTwice},
      {"Host.MayBeLonger", "the host of a newer kernel has more members", LongerHost},
      {"Host.MayHaveEveryPastSize", "memory ends behind the table: what is not there is not read", EveryHost},
      {"Host.MayWantEverything", "every log level and every event", TalkativeHost},
      {"Options.BoundsOpenOrAreRefused", "the ends of every range; texts are copied by the module", EveryOption},
  };
}

}  // namespace sl::conform::module
