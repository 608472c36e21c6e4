// SPDX-License-Identifier: Apache-2.0
//
// null-device: the skeleton of a device. It finds no device, which is a normal answer. README.md says in ten steps how
// to make a module of it.
#include "sdk/module.h"
#include "sdk/options.h"
#include "sl_device.h"

// One opened module: everything it holds per process.
struct sl_instance_t {
  const sl_host_t* host;
  bool verbose;
};

namespace {

// Declared once: checking, `starling modules --describe` and the reference are made from this table. An enum beside it
// names the positions.
enum Option : uint32_t { kVerbose };
const sl_option_t kOptions[] = {
    sl::BoolOption("verbose", "whether the module logs that it was opened", "false"),
};

sl_status_t Count(sl_instance_t*, uint32_t* out_count) {
  *out_count = 0;
  return SL_OK;
}

sl_status_t Current(sl_instance_t* instance, uint32_t*) {
  return instance->host->set_error(instance->host->ctx, SL_ERR_NOT_FOUND, "there is no device to use");
}

sl_status_t OpenDevice(sl_instance_t* instance, uint32_t, sl_device_t**) {
  return instance->host->set_error(instance->host->ctx, SL_ERR_NOT_FOUND, "there is no such device");
}

void CloseDevice(sl_device_t*) {}

constexpr sl_device_ops_t MakeOps() {
  sl_device_ops_t ops{};
  ops.struct_size = sizeof(ops);
  ops.count = Count;
  ops.current = Current;
  ops.open = OpenDevice;
  ops.close = CloseDevice;
  return ops;
}
constexpr sl_device_ops_t kOps = MakeOps();

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
    {sizeof(sl_provide_t), SL_INTERFACE_ON_REQUEST, SL_DEVICE_ID, SL_DEVICE_REVISION, 1, &kOps, "null"},
};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "a device module that finds no device",
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
