// SPDX-License-Identifier: Apache-2.0
// The handshake: one exported function, pure, that answers whom it understands and refuses everybody else.
#include <dlfcn.h>

#include <cstring>
#include <new>
#include <thread>

#include "tests/conformance/kit/edge.h"
#include "tests/conformance/kit/elf.h"
#include "tests/conformance/kit/module.h"
#include "tests/conformance/kit/traces.h"
#include "tests/conformance/module/suite.h"

namespace sl::conform::module {
namespace {

void OneSymbol(Trial& trial) {
  const auto names = ExportedSymbols(trial.assignment().module_path);
  trial.Require(names.ok(), "{}", names.status().message());
  bool has_entry = false;
  for (const std::string& name : names.value()) {
    has_entry |= name == "sl_module_query";
    trial.Expect(name == "sl_module_query", "it exports {}; hide everything but sl_module_query", name);
  }
  trial.Expect(has_entry, "it does not export sl_module_query");
}

void LoadingDoesNothing(Trial& trial) {
  const Traces before = Traces::Now();
  const LoadedModule module(trial, trial.assignment().module_path);
  Traces::ExpectNothingNew(trial, before, "after loading and sl_module_query");
}

void Pure(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  const sl_hello_t hello = Hello();
  const Traces before = Traces::Now();
  for (int i = 0; i < 100; ++i) {
    const sl_module_t* table = nullptr;
    const sl_status_t status = module.query()(&hello, &table);
    trial.Require(status == SL_OK, "call {} gave {}, the first SL_OK", i + 2, StatusName(status));
    trial.Require(table == &module.table(), "call {} gave another table than the first", i + 2);
  }
  Traces::ExpectNothingNew(trial, before, "after 100 calls of sl_module_query");
}

// [any] thread: overlapping calls are allowed.
void ManyThreads(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const sl_hello_t hello = Hello();
      for (int call = 0; call < 1000; ++call) {
        const sl_module_t* table = nullptr;
        const bool same = module.query()(&hello, &table) == SL_OK && table == &module.table();
        if (!trial.Expect(same, "a call beside others gave another answer")) return;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The module must refuse, and leave the output alone.
void ExpectRefusal(Trial& trial, const LoadedModule& module, const sl_hello_t& hello, const char* what) {
  static const sl_module_t kUntouched{};
  const sl_module_t* table = &kUntouched;
  const sl_status_t status = module.query()(&hello, &table);
  trial.Expect(status < SL_OK, "{} was answered with {}", what, StatusName(status));
  trial.Expect(table == &kUntouched, "{}: the output was written though the call was refused", what);
}

void WrongMagic(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  sl_hello_t hello = Hello();
  for (const uint64_t magic :
       {uint64_t{0}, ~uint64_t{0}, uint64_t{SL_MODULE_MAGIC ^ 1}, uint64_t{__builtin_bswap64(SL_MODULE_MAGIC)}}) {
    hello.magic = magic;
    ExpectRefusal(trial, module, hello, "a wrong magic");
  }
}

void NoCommonVersion(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  const uint32_t version = module.table().container_version;
  sl_hello_t hello = Hello();
  hello.container_min = version + 1;
  hello.container_max = version + 9;
  ExpectRefusal(trial, module, hello, "a kernel of newer containers only");
  hello.container_min = hello.container_max = UINT32_MAX;
  ExpectRefusal(trial, module, hello, "a kernel of the last container only");
  hello.container_min = hello.container_max = version - 1;
  ExpectRefusal(trial, module, hello, "a kernel of older containers only");
}

void WiderRange(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  sl_hello_t hello = Hello();
  hello.container_min = 0;
  hello.container_max = UINT32_MAX;
  const sl_module_t* table = nullptr;
  const sl_status_t status = module.query()(&hello, &table);
  trial.Require(status == SL_OK && table != nullptr, "a kernel that speaks every container was answered with {}",
                StatusName(status));
  trial.Expect(table->container_version >= SL_CONTAINER_VERSION, "it answers with container {}, which never was",
               table->container_version);
}

// A kernel of the future says more; what follows the known fields is not the module's to judge.
void LongerHello(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  alignas(sl_hello_t) unsigned char bytes[sizeof(sl_hello_t) + 64];
  std::memset(bytes, 0xa5, sizeof(bytes));
  auto* hello = new (bytes) sl_hello_t(Hello());
  hello->struct_size = sizeof(bytes);
  hello->kernel_version = "999.0.0";
  const sl_module_t* table = nullptr;
  const sl_status_t status = module.query()(hello, &table);
  trial.Expect(status == SL_OK && table == &module.table(), "a longer hello was answered with {}", StatusName(status));
}

// Every size a hello ever had: nothing behind it may be read.
void EveryHello(Trial& trial) {
  const LoadedModule module(trial, trial.assignment().module_path);
  for (const uint32_t bytes : {SL_HELLO_SIZE_1_0}) {
    const AtTheEdge<sl_hello_t> hello(Hello(), bytes);
    const sl_module_t* table = nullptr;
    const sl_status_t status = module.query()(hello.get(), &table);
    trial.Expect(status == SL_OK && table == &module.table(), "a hello of {} bytes was answered with {}", bytes,
                 StatusName(status));
  }
}

}  // namespace

std::vector<Test> QueryTests() {
  return {
      {"Symbols.AreOnlyTheEntry", "a module exports sl_module_query and nothing else", OneSymbol},
      {"Query.HasNoEffectWhenLoaded", "loading starts no thread and opens no descriptor", LoadingDoesNothing},
      {"Query.IsPure", "the answer is constant and leaves no trace", Pure},
      {"Query.IsAnsweredOnAnyThread", "calls may overlap", ManyThreads},
      {"Query.RefusesAWrongMagic", "who does not say the magic is no kernel", WrongMagic},
      {"Query.RefusesRangesThatDoNotMeet", "older and newer kernels are refused", NoCommonVersion},
      {"Query.AnswersAWiderRange", "the range decides, not equality", WiderRange},
      {"Query.AnswersEveryPastHello", "memory ends behind the hello: what is not there is not read", EveryHello},
      {"Query.AnswersALongerHello", "a newer kernel's hello has a longer tail", LongerHello},
  };
}

}  // namespace sl::conform::module
