// SPDX-License-Identifier: Apache-2.0
//
// What the purpose-made modules of the loader's tests share: a sound description that each of them spoils in one place.
#pragma once

#include "sl_fault.h"
#include "sl_module.h"

namespace sample {

inline sl_status_t Open(const sl_host_t*, const sl_open_args_t*, sl_instance_t** out_instance) {
  static int instance;
  *out_instance = reinterpret_cast<sl_instance_t*>(&instance);
  return SL_OK;
}

inline void Close(sl_instance_t*) {}

// A module without interfaces or options.
constexpr sl_module_t Plain(const char* name) {
  sl_module_t module{};
  module.struct_size = sizeof(sl_module_t);
  module.container_version = SL_CONTAINER_VERSION;
  module.magic = SL_MODULE_MAGIC;
  module.name = name;
  module.version = "1.0.0";
  module.vendor = "Starling";
  module.summary = "a module of the loader's tests";
  module.build_id = SL_ABI_BUILD_ID;
  module.open = &Open;
  module.close = &Close;
  return module;
}

}  // namespace sample
