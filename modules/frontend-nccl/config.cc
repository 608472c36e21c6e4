// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/config.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "modules/frontend-nccl/runtime.h"
#include "modules/frontend-nccl/status.h"
#include "modules/frontend-nccl/variables.h"

namespace sl::frontend_nccl {
namespace {

constexpr int kUndefined = NCCL_CONFIG_UNDEF_INT;

// What an SM is worth under NCCL_CTA_POLICY_EFFICIENCY, in thousandths of an operation's time: one of the 132 of an
// H100 to a program that computes all the while.
constexpr uint32_t kEfficientWeight = 8;

constexpr const char* kNoNetworkParts = "the profile's link settings and modules decide about the network";
constexpr const char* kNoMulticast = "multicast is not used";
constexpr const char* kNoSharing = "a communicator has memory of its own in every case";
constexpr const char* kOneSignal = "one signal in one context is served for each pair of ranks";

using C = ncclConfig_t;
constexpr ConfigField kFields[] = {
    {"blocking", "NCCL_COMM_BLOCKING", 21400, &C::blocking, 0, 1, 1, nullptr},
    {"cgaClusterSize", "NCCL_CGA_CLUSTER_SIZE", 21700, &C::cgaClusterSize, 0, 8, 4, "kernels use no clusters"},
    {"minCTAs", "NCCL_MIN_CTAS", 21700, &C::minCTAs, 1, INT_MAX, 1, nullptr},
    {"maxCTAs", "NCCL_MAX_CTAS", 21700, &C::maxCTAs, 1, INT_MAX, 64, nullptr},
    {"splitShare", "NCCL_COMM_SPLIT_SHARE_RESOURCES", 21800, &C::splitShare, 0, 1, 0, kNoSharing},
    {"trafficClass", nullptr, 22600, &C::trafficClass, 0, INT_MAX, kUndefined,
     "set the option traffic_class of transport-tcp in the profile"},
    {"collnetEnable", "NCCL_COLLNET_ENABLE", 22700, &C::collnetEnable, 0, 1, 0,
     "there is no reduction inside the network"},
    {"CTAPolicy", "NCCL_CTA_POLICY", 22700, &C::CTAPolicy, 0, 3, 0, nullptr},
    {"shrinkShare", "NCCL_COMM_SHRINK_SHARE_RESOURCES", 22700, &C::shrinkShare, 0, 1, 0, kNoSharing},
    {"nvlsCTAs", "NCCL_NVLS_NCHANNELS", 22700, &C::nvlsCTAs, 1, INT_MAX, kUndefined, kNoMulticast},
    {"nChannelsPerNetPeer", "NCCL_NCHANNELS_PER_NET_PEER", 22800, &C::nChannelsPerNetPeer, 1, 1024, kUndefined,
     kNoNetworkParts},
    {"nvlinkCentricSched", "NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE", 22800, &C::nvlinkCentricSched, 0, 1, 0,
     "operations are not scheduled by the use of NVLink"},
    {"graphUsageMode", nullptr, 22900, &C::graphUsageMode, 0, 2, 2, nullptr},
    {"numRmaCtx", "NCCL_NUM_RMA_CTX", 22900, &C::numRmaCtx, 1, INT_MAX, 1, kOneSignal},
    {"maxP2pPeers", "NCCL_P2P_MAX_PEERS", 23003, &C::maxP2pPeers, 1, INT_MAX, kUndefined,
     "a rank may send to all its peers at once"},
    {"graphStreamOrdering", "NCCL_GRAPH_STREAM_ORDERING", 23007, &C::graphStreamOrdering, 0, 1, kUndefined,
     "graphs are ordered by the streams that they are launched into"},
    {"launchOrderImplicit", "NCCL_LAUNCH_ORDER_IMPLICIT", 23100, &C::launchOrderImplicit, 0, 1, 0,
     "operations of several communicators are ordered by their streams alone"},
    {"numRmaSig", nullptr, 23100, &C::numRmaSig, 1, INT_MAX, 1, kOneSignal},
    {"rmaEagerInit", "NCCL_RMA_EAGER_INIT", 23100, &C::rmaEagerInit, 0, 1, 0, nullptr},
    {"hostCftMode", nullptr, 23100, &C::hostCftMode, ncclHostCftEnable, ncclHostCftFallback, kUndefined, nullptr},
    {"nvlsHostMode", nullptr, 23100, &C::nvlsHostMode, ncclNvlsHostModeEnable, ncclNvlsHostModeDisable, kUndefined,
     nullptr},
};

constexpr int kNetNameVersion = 21700;
constexpr int kCommNameVersion = 22700;

ncclConfig_t Undefined() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  return config;
}

// Copies what both sides know of `user`, and forgets what its version did not have yet.
ncclResult_t CopyKnownFields(const char* function, const ncclConfig_t* user, ncclConfig_t* out) {
  if (user->magic != NCCL_API_MAGIC) {
    return Fail(ncclInvalidArgument, "%s: argument config was not initialised; start from NCCL_CONFIG_INITIALIZER",
                function);
  }
  const size_t header = offsetof(ncclConfig_t, blocking);
  if (user->size < header) {
    return Fail(ncclInvalidArgument,
                "%s: config.size is %zu, smaller than its own header of %zu bytes; start from "
                "NCCL_CONFIG_INITIALIZER",
                function, user->size, header);
  }
  const size_t known = std::min(user->size, sizeof(ncclConfig_t));
  std::memcpy(out, user, known);
  const int version = static_cast<int>(std::min<unsigned>(user->version, INT_MAX));
  // The size alone does not tell: it includes padding, which an older caller never initialised.
  for (const ConfigField& field : kFields) {
    if (field.version > version) out->*field.member = kUndefined;
  }
  if (version < kNetNameVersion) out->netName = nullptr;
  if (version < kCommNameVersion) out->commName = nullptr;
  return ncclSuccess;
}

ncclResult_t CheckRange(const char* function, const ConfigField& field, int value) {
  if (value == kUndefined || (value >= field.minimum && value <= field.maximum)) return ncclSuccess;
  if (field.maximum == INT_MAX) {
    return Fail(ncclInvalidArgument, "%s: config.%s is %d, must be at least %d or undefined", function, field.name,
                value, field.minimum);
  }
  return Fail(ncclInvalidArgument, "%s: config.%s is %d, must be %d to %d or undefined", function, field.name, value,
              field.minimum, field.maximum);
}

// A variable overrides the program; one that means nothing is said to be ignored and changes nothing, so that a typing
// error in a job script does not decide whether the job runs.
void Override(const ConfigField& field, ncclConfig_t* config) {
  if (field.variable == nullptr) return;
  const char* text = VariableText(field.variable);
  if (text == nullptr) return;
  int64_t value = 0;
  if (ParseInteger(text, &value) && value >= field.minimum && value <= field.maximum) {
    config->*field.member = static_cast<int>(value);
    return;
  }
  char line[256];
  std::snprintf(line, sizeof(line), "%s is \"%.64s\", must be a number from %d to %d; ignored", field.variable, text,
                field.minimum, field.maximum);
  Log(SL_LOG_WARN, line);
}

// A value other than the default that changes nothing is told once a process, by name.
void TellUnmet(const ConfigField& field, int value) {
  static std::atomic<bool> told[std::size(kFields)];
  if (field.unmet == nullptr || value == kUndefined || value == field.default_value) return;
  if (told[&field - kFields].exchange(true)) return;
  char line[256];
  std::snprintf(line, sizeof(line), "config.%s = %d has no effect: %s", field.name, value, field.unmet);
  Log(SL_LOG_WARN, line);
}

void TellUnusedNetwork(const char* name) {
  static std::atomic<bool> told{false};
  if (name == nullptr || told.exchange(true)) return;
  char line[256];
  std::snprintf(line, sizeof(line), "config.netName = \"%.64s\" has no effect: the profile chooses the transports",
                name);
  Log(SL_LOG_WARN, line);
}

// Logical endpoints are for kernels, as what is asked of them with ncclGet…DeviceLeInfo, which is refused.
ncclResult_t CheckEndpoints(const char* function, const ncclConfig_t& asked) {
  if (asked.hostCftMode != ncclHostCftEnable) return ncclSuccess;
  return Fail(ncclInvalidUsage,
              "%s: config.hostCftMode is ncclHostCftEnable, but logical endpoints serve kernels, and the device API is "
              "not served; leave it undefined, or use ncclHostCftFallback",
              function);
}

ncclResult_t CheckTogether(const char* function, const ncclConfig_t& asked) {
  if (asked.minCTAs != kUndefined && asked.maxCTAs != kUndefined && asked.minCTAs > asked.maxCTAs) {
    return Fail(ncclInvalidArgument, "%s: config.minCTAs is %d, more than config.maxCTAs %d", function, asked.minCTAs,
                asked.maxCTAs);
  }
  return ncclSuccess;
}

}  // namespace

void FillPolicy(int policy, uint32_t* out_weight, uint32_t* out_free) {
  *out_weight = (policy & NCCL_CTA_POLICY_EFFICIENCY) != 0 ? kEfficientWeight : 0;
  *out_free = (policy & NCCL_CTA_POLICY_ZERO) != 0 ? 1 : 0;
}

const ConfigField* ConfigFields(size_t* out_count) {
  *out_count = sizeof(kFields) / sizeof(kFields[0]);
  return kFields;
}

CommSettings::CommSettings() : values(Undefined()) {
  for (const ConfigField& field : kFields) values.*field.member = field.default_value;
}

ncclResult_t ParseConfig(const char* function, const ncclConfig_t* user, const CommSettings* parent,
                         CommSettings* out_settings) {
  ncclConfig_t asked = Undefined();
  if (user != nullptr) {
    const ncclResult_t copied = CopyKnownFields(function, user, &asked);
    if (copied != ncclSuccess) return copied;
  }
  for (const ConfigField& field : kFields) {
    const ncclResult_t checked = CheckRange(function, field, asked.*field.member);
    if (checked != ncclSuccess) return checked;
  }
  const ncclResult_t together = CheckTogether(function, asked);
  if (together != ncclSuccess) return together;
  if (const ncclResult_t served = CheckEndpoints(function, asked); served != ncclSuccess) return served;
  // A split without a config is made as its parent was, which the environment has shaped already.
  CommSettings settings = user == nullptr && parent != nullptr ? *parent : CommSettings();
  for (const ConfigField& field : kFields) {
    Override(field, &asked);
    TellUnmet(field, asked.*field.member);
    if (asked.*field.member != kUndefined) settings.values.*field.member = asked.*field.member;
  }
  TellUnusedNetwork(asked.netName);
  if (asked.netName != nullptr) settings.net_name = asked.netName;
  if (asked.commName != nullptr) settings.comm_name = asked.commName;
  if (const char* net = VariableText("NCCL_NET"); net != nullptr) settings.net_name = net;
  settings.values.netName = nullptr;
  settings.values.commName = nullptr;
  // Only a default or the environment can contradict here; the larger bound is the one somebody asked for.
  settings.values.maxCTAs = std::max(settings.values.minCTAs, settings.values.maxCTAs);
  if (asked.minCTAs != kUndefined) settings.least_ctas = static_cast<uint32_t>(asked.minCTAs);
  if (asked.maxCTAs != kUndefined) settings.most_ctas = static_cast<uint32_t>(asked.maxCTAs);
  if (settings.most_ctas != 0) settings.most_ctas = std::max(settings.least_ctas, settings.most_ctas);
  *out_settings = std::move(settings);
  return ncclSuccess;
}

}  // namespace sl::frontend_nccl
