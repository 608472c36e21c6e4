// SPDX-License-Identifier: Apache-2.0
//
// The frame of layers over a sound transport that pass everything on. The file that includes it changes some slots of
// PassOn() and defines kOps.
#pragma once

#include "sdk/module.h"
#include "sl_transport.h"

struct sl_instance_t {
  sl_instance_t* inner;
};

// The layer's table.
extern const sl_transport_ops_t kOps;

namespace {

// The table below; one kernel of tests opens one instance a process.
const sl_transport_ops_t* g_below = nullptr;
[[maybe_unused]] const sl_host_t* g_host = nullptr;

template <auto kSlot, typename Type = decltype(kSlot)>
struct Forward;
template <auto kSlot, typename R, typename... Args>
struct Forward<kSlot, R (*sl_transport_ops_t::*)(Args...)> {
  static R Call(Args... args) { return (g_below->*kSlot)(args...); }
};
template <auto kSlot>
constexpr auto kForward = &Forward<kSlot>::Call;

sl_status_t PassOpenOn(sl_instance_t* instance, const sl_transport_env_t* env, sl_transport_t** out_transport) {
  return g_below->open(instance->inner, env, out_transport);
}

#define SLOT(name) .name = kForward<&sl_transport_ops_t::name>

constexpr sl_transport_ops_t PassOn() {
  return {.struct_size = sizeof(sl_transport_ops_t),
          .reserved = 0,
          .open = PassOpenOn,
          SLOT(close),
          SLOT(port_count),
          SLOT(port_info),
          SLOT(listen),
          SLOT(connect),
          SLOT(accept),
          SLOT(connection_state),
          SLOT(window),
          SLOT(retire),
          SLOT(register_memory),
          SLOT(deregister_memory),
          SLOT(region_key),
          SLOT(import_key),
          SLOT(release_key),
          SLOT(put),
          SLOT(flush),
          SLOT(probe),
          SLOT(progress),
          SLOT(poll),
          SLOT(notify),
          SLOT(wait_object)};
}

sl_status_t Open(const sl_host_t* host, const sl_open_args_t* args, sl_instance_t** out_instance) {
  return sl::Guard(host, [&]() -> sl::Status {
    g_host = host;
    g_below = static_cast<const sl_transport_ops_t*>(args->bindings[0]->ops);
    *out_instance = new sl_instance_t{args->bindings[0]->instance};
    return {};
  });
}
void Close(sl_instance_t* instance) { delete instance; }

constexpr sl_provide_t kProvides[] = {
    {sizeof(sl_provide_t), SL_INTERFACE_LAYER, SL_TRANSPORT_ID, SL_TRANSPORT_REVISION, 1, &kOps, SL_MODULE_NAME}};
constexpr sl_require_t kRequirements[] = {{sizeof(sl_require_t), 0, SL_TRANSPORT_ID, 1, SL_TRANSPORT_REVISION}};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = "0.1.0",
    .vendor = "tests",
    .summary = "a transport that is sound, or wrong in one way",
    .provides = sl::kPointersTo<kProvides>,
    .requirements = sl::kPointersTo<kRequirements>,
    .open = Open,
    .close = Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
