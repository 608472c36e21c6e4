// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/cmd_runtime.h"

#include <dlfcn.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "tools/starling/bench_error.h"

namespace sl::tools {
namespace {

// The answers are some ten thousand bytes; asking twice would load every module twice.
constexpr size_t kFirstCapacity = 1 << 20;

std::string RuntimePath() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path().parent_path() / "lib" / "libstarling.so").string();
}

const sl_runtime_ops_t* Load() {
  const std::string path = RuntimePath();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw CommandError(kExitFailure, std::string("cannot load the runtime: ") + dlerror());
  using Query = sl_status_t (*)(uint32_t, const sl_runtime_ops_t**);
  const auto query = reinterpret_cast<Query>(dlsym(library, "sl_runtime_query"));
  const sl_runtime_ops_t* ops = nullptr;
  if (query == nullptr || query(SL_RUNTIME_REVISION, &ops) != SL_OK) {
    throw CommandError(kExitFailure, path + " does not speak " SL_RUNTIME_ID " in revision " +
                                         std::to_string(SL_RUNTIME_REVISION) + "; it is of another release");
  }
  return ops;
}

}  // namespace

const sl_runtime_ops_t& Runtime() {
  static const sl_runtime_ops_t* const ops = Load();
  return *ops;
}

void CheckRuntime(sl_status_t status) {
  if (status == SL_OK) return;
  const bool profile = status == SL_ERR_CONFIG || status == SL_ERR_NOT_FOUND;
  throw CommandError(profile ? kExitUsage : kExitFailure, Runtime().last_error());
}

std::string FetchText(const std::function<sl_status_t(char* text, uint64_t capacity, uint64_t* out_needed)>& call) {
  std::string text(kFirstCapacity, '\0');
  uint64_t needed = 0;
  CheckRuntime(call(text.data(), text.size(), &needed));
  if (needed > text.size()) {
    text.resize(needed);
    CheckRuntime(call(text.data(), text.size(), &needed));
  }
  text.resize(needed > 0 ? needed - 1 : 0);  // without the NUL
  return text;
}

int RunCommand(const char* name, const std::function<void()>& body) {
  try {
    body();
    return kExitGood;
  } catch (const CommandError& error) {
    const std::string text = error.what();
    FILE* out = error.exit_code() == kExitGood ? stdout : stderr;
    // Lines that begin with a place stay as editors and scripts expect them.
    if (error.exit_code() != kExitGood && text.find('\n') == std::string::npos &&
        text.find(".toml:") == std::string::npos) {
      fprintf(out, "starling %s: ", name);
    }
    fprintf(out, "%s%s", text.c_str(), text.empty() || text.back() != '\n' ? "\n" : "");
    return error.exit_code();
  } catch (const std::exception& error) {
    fprintf(stderr, "starling %s: %s\n", name, error.what());
    return kExitFailure;
  }
}

}  // namespace sl::tools
