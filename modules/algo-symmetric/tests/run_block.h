// SPDX-License-Identifier: Apache-2.0
//
// What kernels do in one block, on a host: a thread stands for the threads that play one role.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "modules/algo-symmetric/kernels/direct/direct.h"
#include "modules/algo-symmetric/kernels/direct/push_block.h"
#include "modules/algo-symmetric/kernels/p2p/mail_group.h"
#include "modules/algo-symmetric/kernels/p2p/p2p.h"
#include "modules/algo-symmetric/kernels/packets/hand_on.h"
#include "modules/algo-symmetric/kernels/packets/one_shot.h"
#include "modules/algo-symmetric/kernels/packets/prompt.h"
#include "modules/algo-symmetric/kernels/packets/two_shot.h"
#include "modules/algo-symmetric/kernels/rounds/staged.h"

namespace sl::algo_symmetric {

using namespace kernels;  // NOLINT(google-build-using-namespace): what is tested

// A thread for each role of a block.
template <typename F>
void RunRoles(const Args& args, uint32_t block) {
  uint64_t* rounds = Staged<F>::Rounds(args.team, block);
  const uint64_t base = *rounds;
  if (base == kEnded) return;
  std::atomic<bool> given_up = false;
  std::vector<std::thread> threads;
  for (Role role : {Role::kStage, Role::kTake, Role::kCollect}) {
    threads.emplace_back([&args, &given_up, block, base, role] {
      if (!Staged<F>(args, dev::Block::Whole(block), base).Run(role)) given_up = true;
    });
  }
  for (std::thread& thread : threads) thread.join();
  *rounds = given_up ? kEnded : base + args.rounds;
  args.team.LetNextIn(Trigger::kHeard);
}

template <typename F>
void RunLong(const LongArgs& args, uint32_t block) {
  auto table = std::make_unique<DirectTable>();
  if (!RunDirect<F>(args, dev::Block::Whole(block), table.get())) RunRoles<F>(args.args, block);
}

// A thread each for the pushers of a block, its teller and its reducers.
template <typename F>
void RunPushReduce(const LongArgs& args, uint32_t index) {
  Places places{};
  const dev::Block block = dev::Block::Whole(index);
  if (!BeginPushReduce(args, block, &places)) return;
  const PushReduce<F> reduce(args, block, places);
  bool pushed = false;
  std::thread pusher([&] { pushed = reduce.Push(0); });
  std::thread teller([&] { reduce.TellPeers(); });
  const bool reduced = reduce.Reduce();
  pusher.join();
  teller.join();
  EndPushReduce(args, block, !pushed || !reduced);
}

template <template <typename, typename> class Protocol, typename F, typename Format>
void RunPackets(const Args& args, uint32_t block) {
  std::vector<typename Format::Data> shared(kSharedBytes / sizeof(typename Format::Data));
  Protocol<F, Format>(args, dev::Block::Whole(block), shared.data()).Run();
}

// A thread for each channel.
template <typename GroupArgs>
void RunChannels(const GroupArgs& args, uint32_t block) {
  std::vector<std::thread> threads;
  for (uint32_t part = 0; part < kChannelsOfBlock; ++part) {
    threads.emplace_back([&args, block, part] {
      uint32_t told[kOfferWords];
      P2pChannel(args, dev::Block::Whole(block), part, told).Run();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

template <typename GroupArgs>
void RunMailBlock(const GroupArgs& args, uint32_t block) {
  const dev::Block whole = dev::Block::Whole(block);
  if (block >= args.waiting) return RunShort(args.team, args.task[block], whole);
  std::vector<std::thread> threads;
  for (uint32_t part = 0; part < kChannelsOfBlock; ++part) {
    const MailTask& task = args.task[WaitingTaskOf(block, part, args.waiting)];
    threads.emplace_back([&args, &task, whole, part] { RunMail(args.team, task, whole, part); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace sl::algo_symmetric
