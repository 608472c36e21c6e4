// SPDX-License-Identifier: Apache-2.0
//
// The frame of modules that provide one table and hold nothing: an instance, its life, and the module's own table. The
// file that includes it defines kProvide.
#pragma once

#include "sdk/module.h"

struct sl_instance_t {
  const sl_host_t* host;
  uint64_t records = 0;  // of observers: consumed by all of them
};

// The one provider.
extern const sl_provide_t kProvide;

namespace {

sl_status_t Open(const sl_host_t* host, const sl_open_args_t*, sl_instance_t** out_instance) {
  return sl::Guard(host, [&]() -> sl::Status {
    *out_instance = new sl_instance_t{host};
    return {};
  });
}
void Close(sl_instance_t* instance) { delete instance; }

constexpr const sl_provide_t* kProvides[] = {&kProvide};

constexpr sl_module_t kModule = sl::DescribeModule({
    .name = SL_MODULE_NAME,
    .version = "0.1.0",
    .vendor = "tests",
    .summary = "a provider that is sound, or wrong in one way",
    .provides = kProvides,
    .open = Open,
    .close = Close,
});

}  // namespace

extern "C" sl_status_t sl_module_query(const sl_hello_t* hello, const sl_module_t** out_module) {
  return sl::AnswerQuery(hello, &kModule, out_module);
}
