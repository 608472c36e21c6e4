// SPDX-License-Identifier: Apache-2.0
//
// The module under test as the kernel would use it: loaded from its file, opened with effective options and with the
// tables of other modules bound to its requirements.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sl_module.h"
#include "tests/conformance/kit/host.h"
#include "tests/conformance/kit/trial.h"

namespace sl::conform {

// What a kernel of today says to a module.
sl_hello_t Hello();

// A module's file in memory. Ends the test when it cannot be loaded or gives no table.
class LoadedModule {
 public:
  LoadedModule(Trial& trial, const std::string& path);
  ~LoadedModule() { Unload(); }
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  const std::string& path() const { return path_; }
  const sl_module_t& table() const { return *table_; }
  sl_module_query_fn query() const { return query_; }
  void* handle() const { return handle_; }  // of dlopen
  // The provider of `id`, called `name` unless that is ""; NULL when there is none.
  const sl_provide_t* Find(const std::string& id, const std::string& name) const;
  // Whether the interface is among the module's requirements.
  bool Requires(const std::string& id) const;
  void Unload();

 private:
  const std::string path_;
  void* handle_ = nullptr;
  sl_module_query_fn query_ = nullptr;
  const sl_module_t* table_ = nullptr;
};

// The effective value of one option; `text` is what would stand in a profile.
class OptionValues {
 public:
  // The defaults of every option.
  explicit OptionValues(const sl_module_t& module);
  OptionValues(const OptionValues&) = delete;
  OptionValues& operator=(const OptionValues&) = delete;

  // Sets option `index`. False when `text` is no value of its type; ranges are not looked at.
  bool Set(uint32_t index, const std::string& text);
  // Whether the value is inside the option's range, or one of its choices.
  bool Fits(uint32_t index) const;
  // Sets options by name. "" or what is wrong, with the names there are.
  std::string Apply(const std::vector<std::pair<std::string, std::string>>& options);
  // Sets the option of that name when the module has it and `text` suits it.
  void SetByName(const std::string& name, const std::string& text);
  const sl_option_value_t* const* pointers() const { return pointers_.data(); }
  uint32_t count() const { return static_cast<uint32_t>(values_.size()); }
  std::string ToString() const;
  // Overwrites the texts: from open() on they are the module's own business.
  void Scramble();

 private:
  const sl_module_t& module_;
  std::vector<sl_option_value_t> values_;
  std::vector<std::unique_ptr<char[]>> texts_;
  std::vector<const sl_option_value_t*> pointers_;
};

class Bindings;

// One opened instance with a host of its own. Close() before the host's offences are looked at.
class OpenedModule {
 public:
  // Opens with `options` (NULL: the defaults, of the module under test with what the assignment sets). The outcome is
  // status(); a companion that is missing skips the test.
  OpenedModule(Trial& trial, const LoadedModule& module, const OptionValues* options = nullptr,
               const Host::Manner& manner = Host::Manner());
  ~OpenedModule();
  OpenedModule(const OpenedModule&) = delete;
  OpenedModule& operator=(const OpenedModule&) = delete;

  sl_status_t status() const { return status_; }
  const std::string& error() const { return error_; }  // the text the module gave with a failure
  sl_instance_t* instance() const { return instance_; }
  Host& host() { return *host_; }
  // Skips the test when the hardware is absent, ends it when the module did not open for another reason.
  void RequireOpen();
  // Quiesces and closes; what it did wrong with its host meanwhile is a failure of the test.
  void Close();

 private:
  std::string SlotName(const char* function) const;

  Trial& trial_;
  const LoadedModule& module_;
  std::unique_ptr<Host> host_;
  std::unique_ptr<Bindings> bindings_;
  sl_instance_t* instance_ = nullptr;
  sl_status_t status_ = SL_OK;
  std::string error_;
  bool is_closed_ = false;
};

// CLOCK_MONOTONIC in so many milliseconds: a deadline.
uint64_t DeadlineIn(uint64_t milliseconds);

}  // namespace sl::conform
