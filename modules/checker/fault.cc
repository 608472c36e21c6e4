// SPDX-License-Identifier: Apache-2.0
//
// sl.fault/1, checked. Determinism is asserted with a twin: a second policy that gets the same inputs.
#include "modules/checker/call.h"

namespace sl::checker {
namespace {

constexpr Interface kInterface = Interface::kFault;
constexpr uint32_t kMaxTwin = 64;  // connections up to which the twin is asked
constexpr uint32_t kFaulty = SL_HEALTH_PORT_DOWN | SL_HEALTH_REMOTE_DOWN | SL_HEALTH_ERROR | SL_HEALTH_PROBE_LOST;

struct PolicyFacts final : Facts {
  uint32_t connections = 0;
  sl_fault_policy_t* twin = nullptr;
};

struct CreateHook : MakingHook<PolicyFacts> {
  template <typename Values>
  void After(Frame& frame, sl_status_t, Values& values) {
    PolicyFacts* facts = Remember(frame);
    if (facts == nullptr) return;
    facts->connections = std::get<1>(values);
    const auto* ops = frame.ops<sl_fault_ops_t>();
    sl_fault_policy_t* twin = nullptr;
    if (ops->create(frame.inner(), facts->connections, &twin) == SL_OK) facts->twin = twin;
  }
};

struct DestroyHook : NoHook {
  template <typename Values>
  void After(Frame& frame, Nothing, Values&) {
    auto* facts = frame.object(0)->template As<PolicyFacts>();
    if (facts->twin != nullptr) frame.ops<sl_fault_ops_t>()->destroy(facts->twin);
  }
};

struct EvaluateHook : NoHook {
  template <typename Values>
  void Before(Frame& frame, Values& values) {
    const auto* facts = frame.object(0)->template As<PolicyFacts>();
    const uint32_t connections = std::get<3>(values);
    if (connections != facts->connections) {
      frame.Break(RuleId::kConnectionsDiffer, "%u connections, created for %u", connections, facts->connections);
    }
  }
  template <typename Values>
  void After(Frame& frame, sl_status_t status, Values& values) {
    auto& [policy, now_ns, health, connections, weights, verdict] = values;
    AskTwin(frame, status, values);
    if (status != SL_OK) return;
    bool healthy = false;
    bool weighs = false;
    for (uint32_t i = 0; i < connections; ++i) {
      healthy = healthy || (health[i].flags & kFaulty) == 0;
      weighs = weighs || weights[i] != 0;
    }
    if (healthy && !weighs) frame.Break(RuleId::kWeightsZero, "all %u weights are 0", connections);
    if (connections < 32 && verdict->probe_mask_lo >> connections != 0) {
      frame.Break(RuleId::kProbeRange, "probes %#x with %u connections", verdict->probe_mask_lo, connections);
    }
  }

 private:
  template <typename Values>
  static void AskTwin(Frame& frame, sl_status_t status, Values& values) {
    auto& [policy, now_ns, health, connections, weights, verdict] = values;
    auto* facts = frame.object(0)->template As<PolicyFacts>();
    if (facts->twin == nullptr || connections > kMaxTwin || connections != facts->connections) return;
    uint32_t twin_weights[kMaxTwin] = {};
    sl_fault_verdict_t twin_verdict = {};
    twin_verdict.struct_size = sizeof twin_verdict;
    const sl_status_t twin_status =
        frame.ops<sl_fault_ops_t>()->evaluate(facts->twin, now_ns, health, connections, twin_weights, &twin_verdict);
    const bool same =
        twin_status == status && (status != SL_OK || (std::equal(weights, weights + connections, twin_weights) &&
                                                      twin_verdict.probe_mask_lo == verdict->probe_mask_lo &&
                                                      twin_verdict.next_look_ns == verdict->next_look_ns));
    if (!same) frame.Break(RuleId::kUndetermined, "a second policy with the same past decides otherwise");
  }
};

constexpr Call kCreate = {
    .name = "create", .interface = kInterface, .words = Words::kControl, .outs = 1, .makes = true};
constexpr Call kDestroy = {.name = "destroy", .interface = kInterface, .words = Words::kControl, .ends = true};
constexpr Call kEvaluate = {.name = "evaluate", .interface = kInterface, .words = Words::kData, .outs = 2};

}  // namespace

constexpr sl_fault_ops_t kFaultOps = {
    .struct_size = sizeof(sl_fault_ops_t),
    .reserved = 0,
    .create = Checked<&sl_fault_ops_t::create, kCreate, CreateHook>,
    .destroy = Checked<&sl_fault_ops_t::destroy, kDestroy, DestroyHook>,
    .evaluate = Checked<&sl_fault_ops_t::evaluate, kEvaluate, EvaluateHook>,
};

}  // namespace sl::checker
