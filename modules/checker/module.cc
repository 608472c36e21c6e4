// SPDX-License-Identifier: Apache-2.0
//
// The ABI face of checker, a layer over any interface. Opened once around every provider it wraps.
#include "sdk/module.h"

#include <array>
#include <memory>

#include "modules/checker/call.h"

namespace sl::checker {
namespace {

enum Option : uint32_t { kOnViolation, kLinesPerRule, kLooksForWaits };
constexpr sl_option_t kOptions[] = {
    ChoiceOption("on_violation", "what a broken rule does: end the process, fail the call, or only be logged", "error",
                 "abort,error,log"),
    IntOption("lines_per_rule", "", "so many breaches of a rule are logged, further ones counted", "10", 1, 1000000),
    BoolOption("looks_for_waits", "whether one [data] call of 16 asks the system how often its thread waited", "true"),
};

// In the order of Interface.
constexpr const char* kIds[] = {SL_DEVICE_ID, SL_TRANSPORT_ID, SL_ALGORITHM_ID,
                                SL_FAULT_ID,  SL_OBSERVER_ID,  SL_TOPOLOGY_ID};
static_assert(std::size(kIds) == kInterfaces);

constexpr sl_provide_t Layer(const char* id, uint32_t revision, const void* ops) {
  return {sizeof(sl_provide_t), SL_INTERFACE_LAYER, id, revision, 1, ops, SL_MODULE_NAME};
}
constexpr sl_provide_t kProvides[] = {
    Layer(SL_DEVICE_ID, SL_DEVICE_REVISION, &kDeviceOps),
    Layer(SL_TRANSPORT_ID, SL_TRANSPORT_REVISION, &kTransportOps),
    Layer(SL_ALGORITHM_ID, SL_ALGORITHM_REVISION, &kAlgorithmOps),
    Layer(SL_FAULT_ID, SL_FAULT_REVISION, &kFaultOps),
    Layer(SL_OBSERVER_ID, SL_OBSERVER_REVISION, &kObserverOps),
    Layer(SL_TOPOLOGY_ID, SL_TOPOLOGY_REVISION, &kTopologyOps),
};

// The kernel binds one of them at a time, the one that the instance wraps.
constexpr sl_require_t Wraps(const char* id, uint32_t revision) {
  return {sizeof(sl_require_t), SL_REQUIRE_OPTIONAL, id, 1, revision};
}
constexpr sl_require_t kRequirements[] = {
    Wraps(SL_DEVICE_ID, SL_DEVICE_REVISION),       Wraps(SL_TRANSPORT_ID, SL_TRANSPORT_REVISION),
    Wraps(SL_ALGORITHM_ID, SL_ALGORITHM_REVISION), Wraps(SL_FAULT_ID, SL_FAULT_REVISION),
    Wraps(SL_OBSERVER_ID, SL_OBSERVER_REVISION),   Wraps(SL_TOPOLOGY_ID, SL_TOPOLOGY_REVISION),
};

constinit std::array<std::atomic<sl_instance_t*>, kInterfaces> g_newest = {};

Reporter::Mode ModeOf(const std::string& text) {
  if (text == "abort") return Reporter::Mode::kAbort;
  return text == "log" ? Reporter::Mode::kLog : Reporter::Mode::kError;
}

sl_status_t Open(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out_instance) {
  return Guard(host, [&]() -> Status {
    const OptionReader options(args);
    auto instance = std::make_unique<sl_instance_t>(host, ModeOf(options.String(kOnViolation)),
                                                    static_cast<uint64_t>(options.Int(kLinesPerRule)));
    instance->looks_for_waits = options.Bool(kLooksForWaits);
    bool wraps = false;
    for (size_t i = 0; i < kInterfaces; ++i) {
      instance->ops[i] = args->bindings[i]->ops;
      instance->inner[i] = args->bindings[i]->instance;
      wraps = wraps || instance->ops[i] != nullptr;
    }
    if (!wraps) return {SL_ERR_NOT_FOUND, "a layer needs something to wrap; name it in layers"};
    if (!Heap::Acquire()) return {SL_ERR_MEMORY, "no address space for the table of objects"};
    for (size_t i = 0; i < kInterfaces; ++i) {
      if (instance->ops[i] != nullptr) g_newest[i].store(instance.get());
    }
    *out_instance = instance.release();
    return {};
  });
}

sl_status_t Quiesce(sl_instance_t* instance, uint64_t) {
  instance->quiesced.store(true, std::memory_order_relaxed);
  return SL_OK;
}

constexpr Call kCloseModule = {.name = "close", .interface = Interface::kCount, .words = Words::kControl};

// What is left is the user's fault, and told in mode abort as in the others; nobody waits for a status.
void Close(sl_instance_t* instance) {
  const sl_host_t* host = instance->reporter.host();
  {
    Frame frame(kCloseModule);
    frame.Identify(instance);
    const Object* left = nullptr;
    const uint32_t count = Heap::CountAlive(nullptr, instance, &left);
    if (count != 0) frame.BreakOf(left, RuleId::kLeftBehind, "%u objects are left, one of them", count);
    const size_t allocations = instance->allocations.size();
    if (allocations != 0) frame.BreakOf(nullptr, RuleId::kLeftBehind, "%zu allocations are left", allocations);
  }
  static_cast<void>(Guard(host, [&] {
    std::string wrapped;
    for (size_t i = 0; i < kInterfaces; ++i) {
      if (instance->ops[i] != nullptr) wrapped += (wrapped.empty() ? "" : ", ") + std::string(kIds[i]);
    }
    const std::string summary = instance->reporter.Summary();
    if (!summary.empty()) host->log(host->ctx, SL_LOG_ERROR, (wrapped + ": " + summary).c_str());
    return Status();
  }));
  for (auto& newest : g_newest) {
    sl_instance_t* expected = instance;
    newest.compare_exchange_strong(expected, nullptr);
  }
  Heap::Forget(instance);
  Heap::Release();
  delete instance;
}

constexpr sl_module_t kModule = DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "a layer that asserts the words of the headers at run time",
    .options = kPointersTo<kOptions>,
    .provides = kPointersTo<kProvides>,
    .requirements = kPointersTo<kRequirements>,
    .open = Open,
    .quiesce = Quiesce,
    .close = Close,
});

}  // namespace

sl_instance_t* NewestOf(Interface interface) { return g_newest[static_cast<size_t>(interface)].load(); }

}  // namespace sl::checker

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &sl::checker::kModule, out_module);
}
