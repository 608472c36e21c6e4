// SPDX-License-Identifier: Apache-2.0
//
// Status and Result<T>: how Starling's C++ says that something failed. A Status is a code of sl_base.h and, when it is
// an error, a text that names the thing, the place and the remedy. Convert at the C boundary only (sdk/guard.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "sl_base.h"

namespace sl {

// Copyable, one pointer and one int; no allocation while it is good.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(sl_status_t code, std::string message)
      : code_(code), message_(message.empty() ? nullptr : std::make_unique<std::string>(std::move(message))) {}
  explicit Status(sl_status_t code) : code_(code) {}
  Status(const Status& other)
      : code_(other.code_), message_(other.message_ ? std::make_unique<std::string>(*other.message_) : nullptr) {}
  Status& operator=(const Status& other) {
    if (this != &other) *this = Status(other);
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  bool ok() const { return code_ >= SL_OK; }
  sl_status_t code() const { return code_; }
  bool has_message() const { return message_ != nullptr; }
  std::string message() const { return message_ ? *message_ : std::string(); }

 private:
  sl_status_t code_ = SL_OK;
  std::unique_ptr<std::string> message_;
};

// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T Take() { return std::move(*value_); }

 private:
  Status status_;
  std::optional<T> value_;
};

// Short name of a code, such as "timeout", for messages and tables.
const char* StatusName(sl_status_t code);

#define SL_CONCAT_INNER(a, b) a##b
#define SL_CONCAT(a, b) SL_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expression`, a Status, is an error.
#define SL_TRY(expression)                                                                    \
  do {                                                                                        \
    if (::sl::Status sl_try_status = (expression); !sl_try_status.ok()) return sl_try_status; \
  } while (false)

// Declares `variable` from a Result, or returns its Status.
#define SL_ASSIGN(variable, expression) SL_ASSIGN_INNER(SL_CONCAT(sl_result_, __LINE__), variable, expression)
#define SL_ASSIGN_INNER(result, variable, expression) \
  auto result = (expression);                         \
  if (!result.ok()) return result.status();           \
  variable = result.Take()

}  // namespace sl
