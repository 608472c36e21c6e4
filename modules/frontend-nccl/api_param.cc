// SPDX-License-Identifier: Apache-2.0
//
// Parameters: the documented NCCL variables by name, with the value that holds here: the environment's, else the
// default. They are read at every call, so that a handle is only a place in the table.
#include <cstdio>
#include <cstring>
#include <limits>

#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"
#include "modules/frontend-nccl/thread.h"
#include "modules/frontend-nccl/variables.h"

namespace sl::frontend_nccl {
namespace {

const char* ValueText(const Variable& variable) {
  const char* text = VariableText(variable.name);
  return text != nullptr ? text : variable.default_text;
}

// The table's entry behind a handle; NULL when the handle is none.
const Variable* FromHandle(const char* function, ncclParamHandle_t handle, const void* out) {
  size_t count = 0;
  const Variable* table = Variables(&count);
  const auto address = reinterpret_cast<uintptr_t>(handle);
  const auto first = reinterpret_cast<uintptr_t>(table);
  const bool inside = address >= first && address < first + count * sizeof(Variable);
  if (!inside || (address - first) % sizeof(Variable) != 0) {
    Fail(ncclInvalidArgument, "%s: argument h is no handle of ncclParamBind", function);
    return nullptr;
  }
  if (out == nullptr) {
    Fail(ncclInvalidArgument, "%s: argument out is NULL", function);
    return nullptr;
  }
  return &table[(address - first) / sizeof(Variable)];
}

const Variable* FromKey(const char* function, const char* key) {
  const Variable* variable = key != nullptr ? FindVariable(key) : nullptr;
  if (variable == nullptr) {
    Fail(ncclInvalidArgument, "%s: argument key is %s, no documented NCCL variable; docs/nccl-variables.md lists them",
         function, key != nullptr ? key : "NULL");
  }
  return variable;
}

template <typename T>
ncclResult_t GetInteger(const char* function, ncclParamHandle_t handle, T* out) {
  const Variable* variable = FromHandle(function, handle, out);
  if (variable == nullptr) return ncclInvalidArgument;
  const char* text = ValueText(*variable);
  int64_t value = 0;
  if (!ParseInteger(text, &value)) {
    return Fail(ncclInvalidArgument, "%s: %s is \"%s\", which is no number; use ncclParamGetStr", function,
                variable->name, text);
  }
  bool fits = true;
  if constexpr (std::numeric_limits<T>::is_signed) {
    fits = value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max();
  } else {
    fits = value >= 0 && static_cast<uint64_t>(value) <= std::numeric_limits<T>::max();
  }
  if (!fits) {
    return Fail(ncclInvalidArgument, "%s: %s is %s, which does not fit into %zu bytes", function, variable->name, text,
                sizeof(T));
  }
  *out = static_cast<T>(value);
  return ncclSuccess;
}

ncclResult_t GetText(const char* function, const Variable& variable, std::string ThreadState::*where, const char** out,
                     int* out_length) {
  return Guarded(function, [&]() -> ncclResult_t {
    ThreadState* state = MyState();
    if (state == nullptr) return Fail(ncclSystemError, "%s: out of host memory", function);
    std::string& kept = state->*where;
    kept = ValueText(variable);
    *out = kept.c_str();
    if (out_length != nullptr) *out_length = static_cast<int>(kept.size());
    return ncclSuccess;
  });
}

// Integers as eight bytes, texts with their end.
ncclResult_t GetRaw(ncclParamHandle_t handle, void* out, int capacity, int* out_length) {
  constexpr const char* kFunction = "ncclParamGet";
  const Variable* variable = FromHandle(kFunction, handle, out);
  if (variable == nullptr) return ncclInvalidArgument;
  const char* text = ValueText(*variable);
  int64_t value = 0;
  const bool is_number = variable->type == ValueType::kInteger && ParseInteger(text, &value);
  const void* bytes = is_number ? static_cast<const void*>(&value) : text;
  const size_t length = is_number ? sizeof(value) : std::strlen(text) + 1;
  if (out_length != nullptr) *out_length = static_cast<int>(length);
  if (capacity < 0 || static_cast<size_t>(capacity) < length) {
    return Fail(ncclInvalidArgument, "%s: argument maxLen is %d, but %s takes %zu bytes", kFunction, capacity,
                variable->name, length);
  }
  std::memcpy(out, bytes, length);
  return ncclSuccess;
}

ncclResult_t AllKeys(const char*** table, int* length) {
  constexpr const char* kFunction = "ncclParamGetAllParameterKeys";
  if (table == nullptr || length == nullptr) {
    return Fail(ncclInvalidArgument, "%s: argument %s is NULL", kFunction, table == nullptr ? "table" : "tableLen");
  }
  return Guarded(kFunction, [&]() -> ncclResult_t {
    ThreadState* state = MyState();
    if (state == nullptr) return Fail(ncclSystemError, "%s: out of host memory", kFunction);
    size_t count = 0;
    const Variable* variables = Variables(&count);
    state->param_keys.clear();
    for (size_t i = 0; i < count; ++i) state->param_keys.push_back(variables[i].name);
    *table = state->param_keys.data();
    *length = static_cast<int>(count);
    return ncclSuccess;
  });
}

void DumpAll() {
  if (EnsureRuntime() != ncclSuccess) return;
  size_t count = 0;
  const Variable* table = Variables(&count);
  char line[512];
  for (size_t i = 0; i < count; ++i) {
    const bool set = VariableText(table[i].name) != nullptr;
    const char* text = ValueText(table[i]);
    std::snprintf(line, sizeof(line), "%s is %s, %s, %s: %s", table[i].name, *text != '\0' ? text : "empty",
                  set ? "set by the environment" : "the default", HandlingName(table[i].handling), table[i].note);
    Log(SL_LOG_INFO, line);
  }
}

}  // namespace
}  // namespace sl::frontend_nccl

namespace fe = sl::frontend_nccl;

SL_NCCL_API(ncclResult_t, ncclParamBind, ncclParamHandle_t* out, const char* key) {
  if (out == nullptr) return fe::Fail(ncclInvalidArgument, "ncclParamBind: argument out is NULL");
  const fe::Variable* variable = fe::FromKey("ncclParamBind", key);
  if (variable == nullptr) return ncclInvalidArgument;
  // The program never looks behind the handle, and neither function of this file writes there.
  *out = reinterpret_cast<ncclParamHandle_t>(reinterpret_cast<uintptr_t>(variable));
  return ncclSuccess;
}

#define SL_NCCL_PARAM_GETTER(name, type) \
  SL_NCCL_API(ncclResult_t, name, ncclParamHandle_t h, type* out) { return fe::GetInteger(#name, h, out); }
SL_NCCL_PARAM_GETTER(ncclParamGetI8, int8_t)
SL_NCCL_PARAM_GETTER(ncclParamGetI16, int16_t)
SL_NCCL_PARAM_GETTER(ncclParamGetI32, int32_t)
SL_NCCL_PARAM_GETTER(ncclParamGetI64, int64_t)
SL_NCCL_PARAM_GETTER(ncclParamGetU8, uint8_t)
SL_NCCL_PARAM_GETTER(ncclParamGetU16, uint16_t)
SL_NCCL_PARAM_GETTER(ncclParamGetU32, uint32_t)
SL_NCCL_PARAM_GETTER(ncclParamGetU64, uint64_t)

SL_NCCL_API(ncclResult_t, ncclParamGetStr, ncclParamHandle_t h, const char** out) {
  const fe::Variable* variable = fe::FromHandle("ncclParamGetStr", h, out);
  if (variable == nullptr) return ncclInvalidArgument;
  return fe::GetText("ncclParamGetStr", *variable, &fe::ThreadState::param_text, out, nullptr);
}

SL_NCCL_API(ncclResult_t, ncclParamGet, ncclParamHandle_t h, void* out, int maxLen, int* len) {
  return fe::GetRaw(h, out, maxLen, len);
}

SL_NCCL_API(ncclResult_t, ncclParamGetParameter, const char* key, const char** value, int* valueLen) {
  if (value == nullptr || valueLen == nullptr) {
    return fe::Fail(ncclInvalidArgument, "ncclParamGetParameter: argument %s is NULL",
                    value == nullptr ? "value" : "valueLen");
  }
  const fe::Variable* variable = fe::FromKey("ncclParamGetParameter", key);
  if (variable == nullptr) return ncclInvalidArgument;
  return fe::GetText("ncclParamGetParameter", *variable, &fe::ThreadState::param_value, value, valueLen);
}

SL_NCCL_API(ncclResult_t, ncclParamGetAllParameterKeys, const char*** table, int* tableLen) {
  return fe::AllKeys(table, tableLen);
}

SL_NCCL_API(void, ncclParamDumpAll, void) { fe::DumpAll(); }
