// SPDX-License-Identifier: Apache-2.0
//
// null-transport: the skeleton of a transport. It has no port, so no link ever uses it. README.md says in ten steps how
// to make a module of it.
#include "sdk/module.h"
#include "sdk/options.h"
#include "sl_transport.h"

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

// Your sl_transport_t, one rank's use of the module, is made here once there is a port to use.
sl_status_t OpenTransport(sl_instance_t* instance, const sl_transport_env_t*, sl_transport_t**) {
  return instance->host->set_error(instance->host->ctx, SL_ERR_NOT_FOUND, "there is no usable port");
}

void CloseTransport(sl_transport_t*) {}

constexpr sl_transport_ops_t MakeOps() {
  sl_transport_ops_t ops{};
  ops.struct_size = sizeof(ops);
  ops.open = OpenTransport;
  ops.close = CloseTransport;
  return ops;
}
constexpr sl_transport_ops_t kOps = MakeOps();

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
    {sizeof(sl_provide_t), SL_INTERFACE_ON_REQUEST, SL_TRANSPORT_ID, SL_TRANSPORT_REVISION, 1, &kOps, "null"},
};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "a transport without a port",
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
