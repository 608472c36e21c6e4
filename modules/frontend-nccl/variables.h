// SPDX-License-Identifier: Apache-2.0
//
// Every documented NCCL variable and what becomes of it here: one table, from which the start-up warnings, the
// ncclParam… functions and docs/nccl-variables.md are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sl::frontend_nccl {

enum class Handling : uint8_t {
  kHonoured,  // acts here
  kIgnored,   // tunes machinery that does not exist here; leaving it set does no harm, so nobody is told
  kWarned,    // asks for something that will not happen; said once per process
};

enum class ValueType : uint8_t { kInteger, kText };

struct Variable {
  const char* name;
  Handling handling;
  ValueType type;
  const char* default_text;  // what ncclParamGet… says when it is unset; "" for no value
  const char* note;          // what it does here, or what to use instead; one clause
};

// Sorted by name.
const Variable* Variables(size_t* out_count);
const Variable* FindVariable(const char* name);

// What the process was given for a variable of the table, by its environment or one of NCCL's files
// (sdk/environment.h), when the first one was asked for; later changes count no more. NULL when unset or empty.
const char* VariableText(const char* name);
// For tests, which change what is there.
void ForgetVariables();

// A whole number, decimal or 0x…, nothing after it. Booleans as words count: true, false, t, f.
bool ParseInteger(const char* text, int64_t* out_value);

const char* HandlingName(Handling handling);

// Logs, as warnings, the variables that are set and ask for what will not happen; at debug those that are ignored.
void ReportVariables();

// docs/nccl-variables.md, whole.
std::string VariablesPage();

}  // namespace sl::frontend_nccl
