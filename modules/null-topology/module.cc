// SPDX-License-Identifier: Apache-2.0
//
// null-topology: the skeleton of a topology provider. It finds nothing and leaves placement to the kernel. README.md
// says in ten steps how to make a module of it.
#include "sdk/module.h"
#include "sdk/options.h"
#include "sl_topology.h"

// One opened module: everything it holds per process.
struct sl_instance_t {
  const sl_host_t* host;
  bool verbose;
};

// One search for nodes and links.
struct sl_topology_t {
  sl_instance_t* instance;
};

namespace {

// Declared once: checking, `starling modules --describe` and the reference are made from this table. An enum beside it
// names the positions.
enum Option : uint32_t { kVerbose };
const sl_option_t kOptions[] = {
    sl::BoolOption("verbose", "whether the module logs that it was opened", "false"),
};

sl_status_t Create(sl_instance_t* instance, sl_topology_t** out_topology) {
  return sl::Guard(instance->host, [&]() -> sl::Status {
    *out_topology = new sl_topology_t{instance};
    return {};
  });
}

void Destroy(sl_topology_t* topology) { delete topology; }

// What is found goes to the sink: add_node for each node, parents first, then add_edge.
sl_status_t Discover(sl_topology_t*, const sl_topology_sink_ops_t*, sl_topology_sink_t*) { return SL_OK; }

constexpr sl_topology_ops_t kOps = {
    .struct_size = sizeof(sl_topology_ops_t),
    .reserved = 0,
    .create = Create,
    .destroy = Destroy,
    .discover = Discover,
    .place = nullptr,  // the kernel places
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
    {sizeof(sl_provide_t), SL_INTERFACE_ON_REQUEST, SL_TOPOLOGY_ID, SL_TOPOLOGY_REVISION, 1, &kOps, "null"},
};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = SL_MODULE_VERSION,
    .vendor = "Starling",
    .summary = "a topology provider that finds nothing",
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
