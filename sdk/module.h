// SPDX-License-Identifier: Apache-2.0
//
// What every module.cc needs to describe itself: pointer arrays out of constant tables, the module's table, and the
// entry function.
//
//   constexpr sl_module_t kModule = sl::DescribeModule({
//       .name = SL_MODULE_NAME, … .provides = sl::kPointersTo<kProvides>, .open = Open, .close = Close});
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "sdk/guard.h"
#include "sdk/options.h"
#include "sl_module.h"

namespace sl {

// Array of pointers to the elements of a constant array, as sl_module_t wants them.
template <typename T, size_t N>
constexpr std::array<const T*, N> PointersTo(const T (&items)[N]) {
  std::array<const T*, N> pointers{};
  for (size_t i = 0; i < N; ++i) pointers[i] = &items[i];
  return pointers;
}

// The same, kept: for tables of static storage.
template <const auto& kItems>
inline constexpr auto kPointersTo = PointersTo(kItems);

// What a module says of itself. Texts and tables are constant and live as long as the module.
struct ModuleDescription {
  const char* name;
  const char* version;
  const char* vendor;
  const char* summary;
  std::span<const sl_option_t* const> options = {};
  std::span<const sl_provide_t* const> provides;
  std::span<const sl_require_t* const> requirements = {};
  decltype(sl_module_t::open) open;
  decltype(sl_module_t::quiesce) quiesce = nullptr;
  decltype(sl_module_t::close) close;
};

// The table of a module that is compiled with these headers.
constexpr sl_module_t DescribeModule(const ModuleDescription& module) {
  return {
      .struct_size = sizeof(sl_module_t),
      .container_version = SL_CONTAINER_VERSION,
      .magic = SL_MODULE_MAGIC,
      .name = module.name,
      .version = module.version,
      .vendor = module.vendor,
      .summary = module.summary,
      .build_id = SL_ABI_BUILD_ID,
      .options = module.options.data(),
      .provides = module.provides.data(),
      .requirements = module.requirements.data(),
      .option_count = static_cast<uint32_t>(module.options.size()),
      .provide_count = static_cast<uint32_t>(module.provides.size()),
      .require_count = static_cast<uint32_t>(module.requirements.size()),
      .reserved = 0,
      .open = module.open,
      .quiesce = module.quiesce,
      .close = module.close,
  };
}

// The body of sl_module_query: agrees on the container version and hands out `module`.
inline sl_status_t AnswerQuery(const sl_hello_t* hello, const sl_module_t* module, const sl_module_t** out_module) {
  if (hello == nullptr || out_module == nullptr || hello->magic != SL_MODULE_MAGIC) return SL_ERR_INVALID;
  if (hello->container_min > SL_CONTAINER_VERSION || hello->container_max < SL_CONTAINER_VERSION) {
    return SL_ERR_UNSUPPORTED;
  }
  *out_module = module;
  return SL_OK;
}

}  // namespace sl
