// SPDX-License-Identifier: Apache-2.0
// launch() fills a description that the kernel launches; what is filled must be launchable.
#include <cstring>
#include <vector>

#include "sdk/datatype.h"
#include "sl_device.h"
#include "tests/conformance/algorithm/suite.h"
#include "tests/conformance/algorithm/team.h"

namespace sl::conform::algorithm {
namespace {

constexpr uint32_t kCapacity = 4096;  // the least a kernel gives
constexpr uint8_t kCanary = 0xa5;

void Legal(Trial& trial) {
  const Subject subject(trial, SL_ALGORITHM_ID);
  if (!HasSlot(subject.table, offsetof(sl_algorithm_ops_t, launch))) trial.Skip("it has no launch()");
  bool is_any = false;
  for (const TeamShape& shape : {TeamShape{2}, TeamShape{3}, TeamShape{8}}) {
    const Team team(trial, subject, shape);
    if (!team.IsServed()) continue;
    for (const sl_op_t& op : ManyOps(trial, team.size())) {
      const Scope scope(fmt::format("{} ranks, {}", team.size(), OpText(op)));
      sl_estimate_t estimate{};
      estimate.struct_size = sizeof(estimate);
      if (subject.ops.estimate(team.algorithm(0), &op, &estimate) != SL_OK || estimate.run != SL_RUN_LAUNCH) continue;
      is_any = true;
      alignas(16) uint8_t args[kCapacity + 64];
      std::memset(args, kCanary, sizeof(args));
      sl_launch_t launch{};
      launch.struct_size = sizeof(launch);
      const sl_status_t status = subject.ops.launch(team.algorithm(0), &op, args, kCapacity, &launch);
      if (!trial.Expect(status == SL_OK, "launch() gave {}: {}", StatusName(status), ErrorText())) continue;
      trial.Expect(launch.image != nullptr, "the launch has no image");
      trial.Expect(launch.args_bytes <= kCapacity, "its arguments have {} bytes, {} are given", launch.args_bytes,
                   kCapacity);
      trial.Expect(launch.args_bytes == 0 || launch.args != nullptr, "it has {} bytes of arguments and no pointer",
                   launch.args_bytes);
      trial.Expect(std::memcmp(args + kCapacity, std::vector<uint8_t>(64, kCanary).data(), 64) == 0,
                   "it wrote behind its arguments");
      trial.Expect(launch.done == nullptr && launch.check == nullptr && launch.abort_word == nullptr,
                   "abort word, check and done are the kernel's, not the algorithm's");
    }
  }
  if (!is_any) trial.Skip("it launches nothing");
}

}  // namespace

std::vector<Test> LaunchTests() {
  return {{"Launch.IsLegal", "an image, arguments within what is given, nothing that is the kernel's", Legal}};
}

}  // namespace sl::conform::algorithm
