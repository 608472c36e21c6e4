// SPDX-License-Identifier: Apache-2.0
//
// What every module.cc needs to describe itself: pointer arrays out of constant tables, and the entry function.
#pragma once

#include <array>
#include <cstddef>

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
