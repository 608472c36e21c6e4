// SPDX-License-Identifier: Apache-2.0
// Every fault policy: its weights are legal, it reacts when it said it would, and its past alone decides.
#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "sl_fault.h"
#include "tests/conformance/kit/data_watch.h"
#include "tests/conformance/kit/random.h"
#include "tests/conformance/kit/shortage.h"
#include "tests/conformance/kit/subject.h"
#include "tests/conformance/kit/suite.h"

namespace sl::conform::fault {
namespace {

constexpr uint32_t kFaulty = SL_HEALTH_PORT_DOWN | SL_HEALTH_REMOTE_DOWN | SL_HEALTH_ERROR | SL_HEALTH_PROBE_LOST;
constexpr uint64_t kSecond = 1'000'000'000;

using Health = std::vector<sl_connection_health_t>;

Health Healthy(uint32_t connections) {
  sl_connection_health_t one = {};
  one.struct_size = sizeof one;
  one.bytes_per_second = 10'000'000'000;
  one.measured_bytes_per_second = 9'000'000'000;
  one.rtt_ns = 5'000;
  one.since_fault_ns = UINT64_MAX;
  return Health(connections, one);
}

// Any state a link may be in.
void Shake(Random* random, Health* health) {
  for (sl_connection_health_t& one : *health) {
    one.flags = random->Below(3) == 0 ? static_cast<uint32_t>(random->Below(32)) : 0;
    one.measured_bytes_per_second = random->Below(4) == 0 ? 0 : random->Below(20'000'000'000);
    one.rtt_ns = random->Below(4) == 0 ? 0 : random->Below(kSecond);
    one.outstanding_bytes = random->Below(1 << 30);
    one.oldest_outstanding_ns = random->Below(2) == 0 ? 0 : random->Below(10 * kSecond);
    one.faults += one.flags != 0 ? 1 : 0;
    one.since_fault_ns = one.faults == 0 ? UINT64_MAX : random->Below(100 * kSecond);
    one.last_status = (one.flags & SL_HEALTH_ERROR) != 0 ? SL_ERR_LINK_DOWN : SL_OK;
  }
}

struct Decision {
  std::vector<uint32_t> weights;
  uint32_t probes = 0;
  uint64_t next_look_ns = 0;
  bool operator==(const Decision&) const = default;
};

// One policy of the module under test.
class Policy {
 public:
  Policy(Trial& trial, const Subject<sl_fault_ops_t>& subject, uint32_t connections)
      : trial_(trial), ops_(subject.ops) {
    const sl_status_t status = ops_.create(subject.instance(), connections, &policy_);
    if (status == SL_ERR_UNSUPPORTED) trial.Skip("it makes no policy here");
    trial.Require(status == SL_OK && policy_ != nullptr, "create for {} connections gave {}: {}", connections,
                  StatusName(status), ErrorText());
  }
  ~Policy() { ops_.destroy(policy_); }
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  // Asks, and looks at what every decision must be.
  Decision Ask(uint64_t now_ns, const Health& health, uint32_t canary = 0xdecafbad) {
    const auto connections = static_cast<uint32_t>(health.size());
    Decision decision;
    decision.weights.assign(connections + 1, canary);  // one more, which is not its own
    sl_fault_verdict_t verdict = {};
    verdict.struct_size = sizeof verdict;
    const sl_status_t status =
        ops_.evaluate(policy_, now_ns, health.data(), connections, decision.weights.data(), &verdict);
    trial_.Require(status == SL_OK, "evaluate gave {}: {}", StatusName(status), ErrorText());
    trial_.Expect(decision.weights.back() == canary, "it wrote a weight behind the last connection's");
    decision.weights.pop_back();
    decision.probes = verdict.probe_mask_lo;
    decision.next_look_ns = verdict.next_look_ns;
    bool healthy = false;
    for (const sl_connection_health_t& one : health) healthy = healthy || (one.flags & kFaulty) == 0;
    const bool weighs =
        std::any_of(decision.weights.begin(), decision.weights.end(), [](uint32_t w) { return w != 0; });
    trial_.Expect(weighs || !healthy, "all {} weights are 0, though a connection has no fault", connections);
    trial_.Expect(connections >= 32 || decision.probes >> connections == 0, "it probes {:#x}, there are {} connections",
                  decision.probes, connections);
    trial_.Expect(decision.next_look_ns > now_ns, "it wants its next look {} ns ago", now_ns - decision.next_look_ns);
    return decision;
  }

 private:
  Trial& trial_;
  const sl_fault_ops_t ops_;
  sl_fault_policy_t* policy_ = nullptr;
};

void WeighsHealthy(Trial& trial) {
  const Subject<sl_fault_ops_t> subject(trial, SL_FAULT_ID);
  for (const uint32_t connections : {1u, 2u, 3u, 8u, 31u, 32u}) {
    const Scope scope(fmt::format("{} connections", connections));
    Policy policy(trial, subject, connections);
    Policy other(trial, subject, connections);
    const Health health = Healthy(connections);
    // What is not written keeps its canary, and two canaries differ.
    trial.Expect(policy.Ask(kSecond, health, 0x11111111) == other.Ask(kSecond, health, 0x22222222),
                 "it leaves a weight unwritten, or decides by what stood there");
  }
}

void Fuzz(Trial& trial) {
  const Subject<sl_fault_ops_t> subject(trial, SL_FAULT_ID);
  Random random(trial.seed());
  for (int link = 0; link < (trial.full() ? 300 : 30); ++link) {
    const auto connections = static_cast<uint32_t>(1 + random.Below(12));
    Policy policy(trial, subject, connections);
    Health health = Healthy(connections);
    uint64_t now_ns = random.Below(kSecond);
    for (int look = 0; look < 100; ++look) {
      const Scope scope(
          fmt::format("link {} of {} connections, look {}, seed {}", link, connections, look, trial.seed()));
      Shake(&random, &health);
      policy.Ask(now_ns, health);
      now_ns += 1 + random.Below(kSecond);
    }
  }
}

void Deterministic(Trial& trial) {
  const Subject<sl_fault_ops_t> subject(trial, SL_FAULT_ID);
  Random random(trial.seed());
  for (int link = 0; link < (trial.full() ? 200 : 20); ++link) {
    const auto connections = static_cast<uint32_t>(2 + random.Below(6));
    Policy one(trial, subject, connections);
    Policy bystander(trial, subject, connections);
    Policy two(trial, subject, connections);
    Health health = Healthy(connections);
    Health elsewhere = Healthy(connections);
    uint64_t now_ns = random.Below(kSecond);
    for (int look = 0; look < 60; ++look) {
      Shake(&random, &health);
      Shake(&random, &elsewhere);
      const Decision first = one.Ask(now_ns, health);
      bystander.Ask(now_ns + random.Below(kSecond), elsewhere);
      trial.Require(first == two.Ask(now_ns, health),
                    "two policies with the same past decide differently, link {} look {} seed {}", link, look,
                    trial.seed());
      now_ns += 1 + random.Below(kSecond);
    }
  }
}

// Its weight goes at once, or at the latest when the policy itself wants to look again.
void Reacts(Trial& trial) {
  constexpr int kLooks = 100;
  const Subject<sl_fault_ops_t> subject(trial, SL_FAULT_ID);
  for (const uint32_t fault : {SL_HEALTH_ERROR, SL_HEALTH_PORT_DOWN, SL_HEALTH_REMOTE_DOWN}) {
    for (uint32_t lost = 0; lost < 4; ++lost) {
      const Scope scope(fmt::format("fault {:#x} of connection {}", fault, lost));
      Policy policy(trial, subject, 4);
      Health health = Healthy(4);
      uint64_t now_ns = kSecond;
      policy.Ask(now_ns, health);
      now_ns += 1000;
      const uint64_t began_ns = now_ns;
      health[lost].flags = fault;
      health[lost].faults = 1;
      health[lost].last_status = fault == SL_HEALTH_ERROR ? SL_ERR_LINK_DOWN : SL_OK;
      for (int look = 0;; ++look) {
        health[lost].since_fault_ns = now_ns - began_ns;
        const Decision decision = policy.Ask(now_ns, health);
        if (decision.weights[lost] == 0) break;
        const bool again = decision.next_look_ns != SL_NO_DEADLINE && look < kLooks;
        if (!trial.Expect(again, "it still has weight {} after {} looks, and the policy wants no other soon",
                          decision.weights[lost], look + 1)) {
          break;
        }
        now_ns = decision.next_look_ns;
      }
    }
  }
}

void AllLost(Trial& trial) {
  const Subject<sl_fault_ops_t> subject(trial, SL_FAULT_ID);
  Policy policy(trial, subject, 3);
  Health health = Healthy(3);
  policy.Ask(kSecond, health);
  for (sl_connection_health_t& one : health) {
    one.flags = SL_HEALTH_ERROR;
    one.faults = 1;
    one.last_status = SL_ERR_LINK_DOWN;
  }
  policy.Ask(2 * kSecond, health);
  health[1].flags = SL_HEALTH_PROBED;
  health[1].since_fault_ns = kSecond;
  const Decision decision = policy.Ask(3 * kSecond, health);
  trial.Expect(decision.weights[1] != 0 || decision.weights[0] + decision.weights[2] == 0,
               "weight goes to lost connections and none to the one that came back");
}

void AnyThread(Trial& trial) {
  const Subject<sl_fault_ops_t> subject(trial, SL_FAULT_ID);
  Policy policy(trial, subject, 2);
  const Health health = Healthy(2);
  for (uint64_t i = 1; i <= 20; ++i) {
    std::thread([&] {
      try {
        policy.Ask(i * kSecond, health);
      } catch (const TrialEnd&) {  // noted already
      }
    }).join();
  }
}

void ShortOfMemory(Trial& trial) {
  constexpr uint32_t kConnections = 4;
  const Subject<sl_fault_ops_t> subject(trial, SL_FAULT_ID);
  { const Policy policy(trial, subject, kConnections); }  // skips when it makes none
  ForEachShortage(trial, subject.module(), Imports::Kind::kMemory, 200, [&] {
    ClearError();
    sl_fault_policy_t* policy = nullptr;
    const sl_status_t status = subject.ops.create(subject.instance(), kConnections, &policy);
    if (status != SL_OK) {
      trial.Expect(policy == nullptr && !ErrorText().empty(), "create gave {}, a policy or no text",
                   StatusName(status));
      return;
    }
    Random random(trial.seed());
    Health health = Healthy(kConnections);
    for (uint64_t look = 1; look <= 20; ++look) {
      Shake(&random, &health);
      uint32_t weights[kConnections] = {};
      sl_fault_verdict_t verdict = {};
      verdict.struct_size = sizeof verdict;
      subject.ops.evaluate(policy, look * kSecond, health.data(), kConnections, weights, &verdict);
    }
    subject.ops.destroy(policy);
  });
}

void KeepsDataPromises(Trial& trial) {
  const Subject<sl_fault_ops_t> subject(trial, SL_FAULT_ID);
  constexpr uint32_t kConnections = 4;
  Policy policy(trial, subject, kConnections);
  Random random(trial.seed());
  Health health = Healthy(kConnections);
  uint64_t look = 0;
  const auto ask = [&](uint64_t looks) {
    for (const uint64_t last = look + looks; look < last;) {
      Shake(&random, &health);
      policy.Ask(++look * kSecond, health);
    }
  };
  ask(50);  // whatever is set up at the first use is set up
  const Imports imports(trial, subject.module(), false);
  const DataWatch watch;
  ask(500);
  watch.ExpectNothing(trial);
}

}  // namespace

Suite MakeSuite() {
  return {
      SL_FAULT_ID,
      {
          {"Weights.AreWrittenForEveryConnection", "one weight for each, whatever stood there", WeighsHealthy},
          {"Weights.AreNeverAllZeroWhileOneIsHealthy", "fuzzed health, many looks", Fuzz, 20},
          {"Weights.ReactWithinTheDeclaredTime", "a lost connection has none by the policy's own next look", Reacts},
          {"Weights.GoToWhoComesBack", "after all were lost", AllLost},
          {"Policy.IsDeterministic", "its inputs and its own past decide, not another link's", Deterministic, 20},
          {"Policy.IsAskedByAnyThread", "calls do not overlap, but come from anywhere", AnyThread},
          {"Data.EvaluateNeitherBlocksNorAllocatesNorLogs", "[data]: never blocks, allocates, locks or logs",
           KeepsDataPromises},
          {"Shortage.OfMemoryFailsCleanly", "any allocation refused: an error in words, or none, and nothing is lost",
           ShortOfMemory},
      }};
}

}  // namespace sl::conform::fault
