// SPDX-License-Identifier: Apache-2.0
//
// Encryption of the process's TCP connections.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "modules/frontend-nccl/status.h"

namespace sl::frontend_nccl {
namespace {

constexpr const char* kFunction = "ncclSetEncryption";
constexpr size_t kFewestKeyBytes = 32;

// Copies what both sides know of `user`.
ncclResult_t Read(const ncclEncryptionConfig_t* user, ncclEncryptionConfig_t* out) {
  if (user->magic != NCCL_API_MAGIC || user->size < offsetof(ncclEncryptionConfig_t, psk)) {
    return Fail(ncclInvalidArgument,
                "%s: argument config was not initialised; start from NCCL_ENCRYPTION_CONFIG_INITIALIZER", kFunction);
  }
  std::memcpy(out, user, std::min(user->size, sizeof(*out)));
  return ncclSuccess;
}

ncclResult_t SetEncryption(const ncclEncryptionConfig_t* user) {
  ncclEncryptionConfig_t config = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  if (user != nullptr) {
    if (const ncclResult_t read = Read(user, &config); read != ncclSuccess) return read;
  }
  if (config.mode == NCCL_ENCRYPTION_MODE_NONE) return ncclSuccess;
  if (config.mode != NCCL_ENCRYPTION_MODE_PSK) {
    return Fail(ncclInvalidArgument, "%s: config.mode is %d, must be NCCL_ENCRYPTION_MODE_NONE (0) or _PSK (1)",
                kFunction, config.mode);
  }
  if (config.psk == nullptr || strnlen(config.psk, kFewestKeyBytes) < kFewestKeyBytes) {
    return Fail(ncclInvalidArgument, "%s: config.psk must be a key of at least %zu bytes", kFunction, kFewestKeyBytes);
  }
  return Fail(ncclInvalidUsage,
              "%s: the data of operations between hosts is not encrypted; comm.tls = true in the profile encrypts what "
              "else ranks say to each other",
              kFunction);
}

}  // namespace
}  // namespace sl::frontend_nccl

SL_NCCL_API(ncclResult_t, ncclSetEncryption, const ncclEncryptionConfig_t* config) {
  return sl::frontend_nccl::SetEncryption(config);
}
