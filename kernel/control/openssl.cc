// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/openssl.h"

#include <dlfcn.h>

#include <string>

namespace sl::kernel {
namespace {

constexpr const char* kLibrary = "libssl.so.3";
constexpr const char* kRemedy = "; install OpenSSL 3 (Debian: libssl3), or set comm.tls = false";

Result<OpenSsl> Open() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Status(SL_ERR_NOT_FOUND, std::string("comm.tls is on, but ") + dlerror() + kRemedy);
  }
  OpenSsl functions;
  const char* missing = nullptr;
  const auto find = [&](const char* name) {
    void* const found = dlsym(library, name);
    if (found == nullptr) missing = name;
    return found;
  };
#define SL_FIND(name) functions.name = reinterpret_cast<decltype(functions.name)>(find(#name));
  SL_OPENSSL_FUNCTIONS(SL_FIND)
#undef SL_FIND
  if (missing == nullptr) return functions;
  return Status(SL_ERR_NOT_FOUND, std::string("comm.tls is on, but ") + kLibrary + " has no " + missing + kRemedy);
}

}  // namespace

Result<const OpenSsl*> OpenSsl::Get() {
  static const Result<OpenSsl> opened = Open();
  if (!opened.ok()) return opened.status();
  return &opened.value();
}

}  // namespace sl::kernel
