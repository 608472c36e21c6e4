// SPDX-License-Identifier: Apache-2.0
//
// null-observer: the skeleton of an observer. It takes the records of operations, counts them and forgets them.
// README.md says in ten steps how to make a module of it.
#include <string>

#include "sdk/module.h"
#include "sdk/options.h"
#include "sl_observer.h"

// One opened module: everything it holds per process.
struct sl_instance_t {
  const sl_host_t* host;
  bool verbose;
};

// One per process.
struct sl_observer_t {
  sl_instance_t* instance;
  uint64_t records;
};

namespace {

// Declared once: checking, `starling modules --describe` and the reference are made from this table. An enum beside it
// names the positions.
enum Option : uint32_t { kVerbose };
const sl_option_t kOptions[] = {
    sl::BoolOption("verbose", "whether the module logs that it was opened", "false"),
};

constexpr uint64_t kWanted = (1u << SL_EVENT_OP_BEGIN) | (1u << SL_EVENT_OP_END);

sl_status_t Create(sl_instance_t* instance, sl_observer_t** out_observer, uint64_t* out_event_mask) {
  return sl::Guard(instance->host, [&]() -> sl::Status {
    *out_observer = new sl_observer_t{instance, 0};
    *out_event_mask = kWanted;
    return {};
  });
}

void Destroy(sl_observer_t* observer) {
  const sl_host_t* host = observer->instance->host;
  sl::Guard(host, [&]() -> sl::Status {
    const std::string text = "saw " + std::to_string(observer->records) + " records";
    if (observer->instance->verbose) host->log(host->ctx, SL_LOG_INFO, text.c_str());
    return {};
  });
  delete observer;
}

// Called by one thread of the kernel, off the data path; a failure is counted, never passed on.
sl_status_t Consume(sl_observer_t* observer, const sl_batch_t* batch) {
  observer->records += batch->count;
  return SL_OK;
}

constexpr sl_observer_ops_t kOps = {
    .struct_size = sizeof(sl_observer_ops_t),
    .reserved = 0,
    .create = Create,
    .destroy = Destroy,
    .consume = Consume,
};

sl_status_t Open(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out_instance) {
  return sl::Guard(host, [&]() -> sl::Status {
    const sl::OptionReader options(args);
    *out_instance = new sl_instance_t{host, options.Bool(kVerbose)};
    if (options.Bool(kVerbose)) host->log(host->ctx, SL_LOG_INFO, "opened");
    return {};
  });
}

sl_status_t Quiesce(sl_instance_t*, uint64_t) { return SL_OK; }
void Close(sl_instance_t* instance) { delete instance; }

const sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), SL_INTERFACE_ON_REQUEST, SL_OBSERVER_ID, SL_OBSERVER_REVISION, 1, &kOps, "null"},
};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "an observer that counts and forgets",
    .options = sl::kPointersTo<kOptions>,
    .provides = sl::kPointersTo<kProvides>,
    .open = Open,
    .quiesce = Quiesce,
    .close = Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
