// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/coll_config.h"

#include <strings.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "modules/frontend-nccl/nccl_starling.h"
#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"
#include "modules/frontend-nccl/variables.h"

namespace sl::frontend_nccl {
namespace {

constexpr int kUndefined = NCCL_CONFIG_UNDEF_INT;
constexpr size_t kFewestBytes = offsetof(ncclCollConfig_t, launchCompletionEvent);  // 2.31's
constexpr unsigned kEventVersion = 23200;
constexpr uint64_t kReservedTags = uint64_t{1} << 63;
constexpr int kMostOptions = 4096;  // of a list that ends
constexpr int kPolicies = NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO;

// Names of NCCL that mean something here, and what. One of ours without '/' is an algorithm, of ours with it a way of
// one.
constexpr struct {
  const char* nccl;
  const char* ours;
} kMeanings[] = {
    {"ring_simple", "ring"},
    {"tree_simple", "tree"},
    {"symk_agxll_r", "symmetric_one_shot|symmetric_lamport_one_shot"},
    {"symk_rsxld_agxst", "symmetric_direct|symmetric_push|symmetric_two_shot|symmetric_lamport_two_shot"},
    {"symk_ll", "symmetric_one_shot|symmetric_lamport_one_shot"},
    {"symk_st", "symmetric_direct"},
    {"symk_ld", "symmetric_direct|symmetric_push"},
    {"symk_tmast", "symmetric_bulk"},
};
constexpr const char kAnySymmetric[] = "symk_";  // what is shorter stands for all of them

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == '/';
}

std::string Meanings(const std::string& name) {
  std::string all = name;
  if (strncasecmp(name.c_str(), kAnySymmetric, name.size()) == 0) return all + "|symmetric";
  for (const auto& [nccl, ours] : kMeanings) {
    if (strncasecmp(name.c_str(), nccl, name.size()) == 0) all += std::string("|") + ours;
  }
  return all;
}

ncclResult_t Copy(const char* function, const ncclCollConfig_t& user, ncclCollConfig_t* out) {
  if (user.magic != NCCL_API_MAGIC || user.size < kFewestBytes) {
    return Fail(ncclInvalidArgument, "%s: argument config was not initialised; start from NCCL_COLLCONFIG_INITIALIZER",
                function);
  }
  std::memcpy(out, &user, std::min(user.size, sizeof(*out)));
  if (user.version < kEventVersion) out->launchCompletionEvent = nullptr;
  return ncclSuccess;
}

void TellOnce(std::atomic<bool>* told, const char* field, int value, const char* why) {
  if (told->exchange(true)) return;
  char line[256];
  std::snprintf(line, sizeof(line), "ncclCollConfig_t.%s = %d has no effect: %s", field, value, why);
  Log(SL_LOG_WARN, line);
}

// A bound on SMs; 0: the communicator's. The environment wins over a call, as over a communicator.
uint32_t Bound(const char* field, const char* variable, int value, std::atomic<bool>* told) {
  if (value == kUndefined || VariableText(variable) != nullptr) return 0;
  if (value >= 1) return static_cast<uint32_t>(value);
  TellOnce(told, field, value, "it must be at least 1; the communicator's bound holds");
  return 0;
}

ncclResult_t ReadBounds(const char* function, const ncclCollConfig_t& config, sl_call_settings_t* wanted) {
  static std::atomic<bool> told[4];
  if (config.CTAPolicy != kUndefined && (config.CTAPolicy & ~kPolicies) != 0) {
    return Fail(ncclInvalidArgument, "%s: config.CTAPolicy is %d, must be 0 to %d or undefined", function,
                config.CTAPolicy, kPolicies);
  }
  wanted->processors_min = Bound("minCTAs", "NCCL_MIN_CTAS", config.minCTAs, &told[0]);
  wanted->processors_max = Bound("maxCTAs", "NCCL_MAX_CTAS", config.maxCTAs, &told[1]);
  if (wanted->processors_max != 0 && wanted->processors_min > wanted->processors_max) wanted->processors_min = 1;
  if (config.CTAPolicy != kUndefined && VariableText("NCCL_CTA_POLICY") == nullptr) {
    wanted->has_policy = 1;
    FillPolicy(config.CTAPolicy, &wanted->processor_weight, &wanted->processor_free);
  }
  if (config.nvlsCTAs != kUndefined) TellOnce(&told[2], "nvlsCTAs", config.nvlsCTAs, "multicast is not used");
  if (config.cgaClusterSize != kUndefined) {
    TellOnce(&told[3], "cgaClusterSize", config.cgaClusterSize, "kernels use no clusters");
  }
  return ncclSuccess;
}

// Of options those of this library; those of other vendors are for other libraries.
ncclResult_t ReadOptions(const char* function, const ncclConfigExt_t* option, sl_call_settings_t* wanted) {
  for (int count = 0; option != nullptr; option = option->next) {
    if (++count > kMostOptions) {
      return Fail(ncclInvalidArgument, "%s: the list config.ext does not end after %d options", function, kMostOptions);
    }
    if (option->key.vendorId != NCCL_STARLING_VENDOR_ID) continue;
    if (option->key.optionId != NCCL_STARLING_OPTION_RULE) {
      return Fail(ncclInvalidArgument, "%s: config.ext has option %d of Starling, which knows option %d only (a rule)",
                  function, option->key.optionId, NCCL_STARLING_OPTION_RULE);
    }
    if (option->val.s == nullptr || wanted->rule != nullptr) {
      return Fail(ncclInvalidArgument, "%s: config.ext must have one rule (option %d), a text", function,
                  NCCL_STARLING_OPTION_RULE);
    }
    wanted->rule = option->val.s;
  }
  return ncclSuccess;
}

// A selection that is none counts as one that nothing satisfies.
ncclResult_t NumberOf(const char* function, ncclComm* comm, sl_call_settings_t* wanted, uint32_t* out_number) {
  sl_status_t status = LoadedRuntime().call_settings(comm->kernel, wanted, out_number);
  if (status == SL_ERR_INVALID && wanted->is_forced == 0 && wanted->ways != nullptr) {
    static std::atomic<bool> told{false};
    if (!told.exchange(true)) Log(SL_LOG_WARN, "a ncclCollConfig_t.algSelection is no selection, and not insisted on");
    wanted->ways = nullptr;
    status = LoadedRuntime().call_settings(comm->kernel, wanted, out_number);
  }
  if (status == SL_ERR_CONFIG) return (FailWith(function, status), ncclInvalidArgument);
  return status == SL_OK ? ncclSuccess : FailWith(function, status);
}

}  // namespace

std::string WaysOfSelection(const char* selection) {
  std::string ways;
  for (const char* at = selection; *at != '\0';) {
    const char* end = at;
    while (IsNameCharacter(*end)) ++end;
    if (end == at) {
      ways += *at++;
    } else {
      ways += Meanings({at, end});
      at = end;
    }
  }
  return ways;
}

ncclResult_t ReadCallConfig(const char* function, const ncclCollConfig_t& user, ncclComm* comm, CallConfig* out) {
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  ncclResult_t result = Copy(function, user, &config);
  if (result != ncclSuccess) return result;
  if (config.forceAlgSelection != 0 && config.forceAlgSelection != 1) {
    return Fail(ncclInvalidArgument, "%s: config.forceAlgSelection is %d, must be 0 or 1", function,
                config.forceAlgSelection);
  }
  if (config.userProfilerTag >= kReservedTags) {
    return Fail(ncclInvalidArgument, "%s: config.userProfilerTag is 0x%llx; values from 2^63 on are reserved", function,
                static_cast<unsigned long long>(config.userProfilerTag));
  }
  sl_call_settings_t wanted{};
  wanted.struct_size = sizeof(wanted);
  if (result = ReadBounds(function, config, &wanted); result != ncclSuccess) return result;
  if (result = ReadOptions(function, config.ext, &wanted); result != ncclSuccess) return result;
  std::string ways;
  if (config.algSelection != nullptr && config.algSelection[0] != '\0') {
    ways = WaysOfSelection(config.algSelection);
    wanted.ways = ways.c_str();
    wanted.is_forced = static_cast<uint32_t>(config.forceAlgSelection);
  }
  if (result = NumberOf(function, comm, &wanted, &out->settings); result != ncclSuccess) return result;
  out->tag = config.userProfilerTag;
  out->launched = reinterpret_cast<sl_event_t*>(config.launchCompletionEvent);
  out->is_forced = wanted.is_forced != 0;
  return ncclSuccess;
}

}  // namespace sl::frontend_nccl
