// SPDX-License-Identifier: Apache-2.0
// Many puts, many connections, several threads: order, back-pressure and sleep.
#include <poll.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <thread>

#include "sdk/doorbell.h"
#include "tests/conformance/kit/random.h"
#include "tests/conformance/transport/process.h"
#include "tests/conformance/transport/ranks.h"
#include "tests/conformance/transport/stream.h"
#include "tests/conformance/transport/suite.h"

namespace sl::conform::transport {
namespace {

void Streams(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  Stream stream(&ranks, a, b, trial.full() ? 200'000 : 5'000, trial.seed());
  std::thread sender([&] { stream.Send(); });
  stream.Receive();
  sender.join();
}

// The same with the ends in two processes.
void BetweenProcesses(Trial& trial) {
  const uint64_t chunks = trial.full() ? 200'000 : 5'000;
  const uint64_t seed = trial.seed();
  OtherProcess other(trial, [=](Ranks& ranks, const Talk& talk) {
    End end;
    if (!talk.Tell(ranks.address(1))) return;
    ranks.Take(1, &end);
    ranks.AwaitUp(&end);
    Stream(&ranks, end, end, chunks, seed).Receive();
    talk.Tell(true);
    bool may_end = false;
    talk.Hear(&may_end);
  });
  Ranks ranks(trial, 2);  // its own rank 1 stays out of this
  ranks.SetAddress(1, other.Hear<sl_address_t>());
  End end;
  ranks.Dial(0, 1, &end);
  ranks.AwaitUp(&end);
  Stream(&ranks, end, end, chunks, seed).Send();
  other.Hear<bool>();
  other.talk().Tell(true);
  other.Join();
}

// Both directions at once, each end on one thread that does both.
void BothWays(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  const uint64_t rounds = trial.full() ? 50'000 : 2'000;
  uint8_t* const lent = ranks.Lend(4096);
  const auto sources_of = [&](const End& end) { return &end == &a ? lent : lent + 2048; };
  const auto drive = [&](const End& end, uint64_t mine, uint64_t theirs) {
    uint8_t* const sources = sources_of(end);
    for (uint64_t round = 1; round <= rounds; ++round) {
      uint8_t* const source = sources + round % 2 * 1024;  // the peer had round - 2 before it put round - 1
      Fill(source, 1024, round + mine);
      sl_put_t put = {};
      put.struct_size = sizeof put;
      put.signal = 3;
      put.signal_value = round;
      put.source = source;
      put.bytes = 1024;
      put.offset = round % 2 * 1024;
      const uint64_t deadline = DeadlineIn(kPatienceMs);
      while (ranks.ops().put(end.connection, &put) == SL_ERR_AGAIN && DeadlineIn(0) < deadline) {
        ranks.ops().progress(end.transport);
      }
      ranks.ops().notify(end.connection);
      while (Ranks::Signal(end, 3) < round && DeadlineIn(0) < deadline) {
        ranks.ops().progress(end.transport);
        sched_yield();
      }
      if (!trial.Expect(Ranks::Signal(end, 3) >= round, "round {} did not come", round)) return;
      ranks.Flush(end);
      const auto* slot = static_cast<const uint8_t*>(end.window.local) + round % 2 * 1024;
      const uint64_t wrong = FirstWrong(slot, 1024, round + theirs);
      if (!trial.Expect(wrong == 1024, "round {}: byte {} is wrong though the signal is there", round, wrong)) return;
    }
  };
  std::thread other([&] { drive(b, 7, 100); });
  drive(a, 100, 7);
  other.join();
}

// The words of one connection appear in the order of their calls.
void SignalOrder(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  const uint64_t count = trial.full() ? 200'000 : 20'000;
  std::atomic<bool> stop{false};
  std::thread sender([&] {
    for (uint64_t value = 1; value <= count && !stop; ++value) {
      for (uint32_t word = 0; word < kSignals && !stop; ++word) {
        sl_put_t put = {};
        put.struct_size = sizeof put;
        put.signal = word;
        put.signal_value = value;
        while (ranks.ops().put(a.connection, &put) == SL_ERR_AGAIN && !stop) ranks.ops().progress(a.transport);
      }
    }
    while (!stop) {
      ranks.ops().progress(a.transport);
      sched_yield();
    }
  });
  // Later words are read first: what they show must have appeared on earlier ones.
  const uint64_t deadline = DeadlineIn(2 * kPatienceMs);
  uint64_t last = 0;
  while (last < count && DeadlineIn(0) < deadline) {
    ranks.ops().progress(b.transport);
    uint64_t later = 0;
    for (uint32_t word = kSignals; word-- > 0;) {
      const uint64_t value = Ranks::Signal(b, word);
      if (word == kSignals - 1) last = value;
      if (!trial.Expect(value >= later, "word {} shows {} after word {} showed {}", word, value, word + 1, later)) {
        last = count;
        break;
      }
      later = value;
    }
  }
  stop = true;
  sender.join();
  trial.Expect(last >= count, "signals stopped at {} of {}", last, count);
}

// Nobody takes completions or drives the receiver: the queue fills, says so, and goes on.
void BackPressure(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  const uint64_t most = trial.full() ? 1'000'000 : 100'000;
  const uint8_t* const source = ranks.Lend(8);
  uint64_t accepted = 0;
  uint64_t completed = 0;
  const auto put = [&] {
    sl_put_t one = {};
    one.struct_size = sizeof one;
    one.signal = 0;
    one.signal_value = accepted + 1;
    one.source = source;
    one.bytes = 8;
    one.cookie = accepted + 1;
    return ranks.ops().put(a.connection, &one);
  };
  sl_status_t status = SL_OK;
  while (accepted < most && status == SL_OK) {
    status = put();
    accepted += status == SL_OK ? 1 : 0;
  }
  trial.Require(status == SL_OK || status == SL_ERR_AGAIN, "put {} gave {}; a full queue says again", accepted + 1,
                StatusName(status));
  const auto take = [&] {
    for (const sl_completion_t& completion : ranks.Poll(0)) completed += completion.kind == SL_COMPLETION_PUT ? 1 : 0;
    return completed == accepted;
  };
  trial.Require(ranks.Until(take), "{} of {} accepted puts completed", completed, accepted);
  status = SL_ERR_AGAIN;
  ranks.Until([&] {
    status = put();
    return status != SL_ERR_AGAIN;
  });
  trial.Require(status == SL_OK, "with everything completed, put gave {}", StatusName(status));
  ++accepted;
  trial.Require(ranks.Until(take), "the last put did not complete");
  trial.Expect(ranks.Until([&] { return Ranks::Signal(b, 0) == accepted; }), "{} puts were accepted, {} arrived",
               accepted, Ranks::Signal(b, 0));
}

void Many(Trial& trial) {
  Ranks ranks(trial, 2);
  const uint32_t count = trial.full() ? 200 : 48;
  std::deque<End> froms(count);
  std::deque<End> tos(count);
  for (uint32_t i = 0; i < count; ++i) ranks.Connect(0, 1, &froms[i], &tos[i], i, 4096);
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t* const source = ranks.Lend(64);
    Fill(source, 64, i);
    ranks.MustPut(froms[i], source, 64, 0, 0, i + 1);
    ranks.MustPut(tos[i], source, 64, 64, 0, i + 1);
  }
  for (uint32_t i = 0; i < count; ++i) {
    for (const auto& [end, offset] : {std::pair{&tos[i], 0}, {&froms[i], 64}}) {
      trial.Require(ranks.Until([&, at = end] { return Ranks::Signal(*at, 0) == i + 1; }), "connection {} is silent",
                    i);
      ranks.Flush(*end);
      const auto* bytes = static_cast<const uint8_t*>(end->window.local) + offset;
      trial.Expect(FirstWrong(bytes, 64, i) == 64, "connection {} carries another's bytes", i);
    }
  }
  // Ended in another order than made; the others go on.
  Random random(trial.seed());
  std::vector<uint32_t> left(count);
  for (uint32_t i = 0; i < count; ++i) left[i] = i;
  while (!left.empty()) {
    const size_t pick = random.Below(left.size());
    ranks.Retire(&froms[left[pick]]);
    ranks.Retire(&tos[left[pick]]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(pick));
    if (left.empty()) break;
    const uint32_t other = left[random.Below(left.size())];
    const uint64_t value = 10'000 - left.size();
    ranks.MustPut(froms[other], nullptr, 0, 0, 1, value);
    trial.Require(ranks.Until([&] { return Ranks::Signal(tos[other], 1) == value; }),
                  "connection {} is silent after others were retired", other);
  }
}

void AllToAll(Trial& trial) {
  const uint32_t size = trial.full() ? 16 : 6;
  Ranks ranks(trial, size);
  std::deque<End> ends(size_t{size} * size);
  const auto end = [&](uint32_t rank, uint32_t peer) -> End& { return ends[size_t{rank} * size + peer]; };
  for (uint32_t low = 0; low < size; ++low) {
    for (uint32_t high = low + 1; high < size; ++high) ranks.Connect(low, high, &end(low, high), &end(high, low));
  }
  for (uint32_t rank = 0; rank < size; ++rank) {
    for (uint32_t peer = 0; peer < size; ++peer) {
      const uint64_t value = 1000 + rank * size + peer;
      if (peer != rank) ranks.MustPut(end(rank, peer), nullptr, 0, 0, 0, value);
    }
  }
  for (uint32_t rank = 0; rank < size; ++rank) {
    for (uint32_t peer = 0; peer < size; ++peer) {
      const uint64_t value = 1000 + peer * size + rank;
      if (peer == rank) continue;
      trial.Expect(ranks.Until([&] { return Ranks::Signal(end(rank, peer), 0) == value; }),
                   "rank {} has {} from rank {}, wanted {}", rank, Ranks::Signal(end(rank, peer), 0), peer, value);
    }
  }
}

// One thread a connection, and one that drives the transport: different objects, so all of them at once.
void Threads(Trial& trial) {
  constexpr uint32_t kThreads = 3;
  Ranks ranks(trial, 2);
  std::deque<End> froms(kThreads);
  std::deque<End> tos(kThreads);
  for (uint32_t i = 0; i < kThreads; ++i) ranks.Connect(0, 1, &froms[i], &tos[i], i);
  const uint64_t puts = trial.full() ? 50'000 : 2'000;
  const uint8_t* const source = ranks.Lend(8);
  std::atomic<uint32_t> running{kThreads};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (uint64_t value = 1; value <= puts; ++value) {
        sl_put_t put = {};
        put.struct_size = sizeof put;
        put.signal = 0;
        put.signal_value = value;
        put.source = source;
        put.bytes = 8;
        sl_status_t status = SL_ERR_AGAIN;
        for (const uint64_t deadline = DeadlineIn(kPatienceMs); status == SL_ERR_AGAIN && DeadlineIn(0) < deadline;) {
          status = ranks.ops().put(froms[i].connection, &put);
          if (status == SL_ERR_AGAIN) sched_yield();
        }
        if (!trial.Expect(status == SL_OK, "put {} of thread {} gave {}", value, i, StatusName(status))) break;
        ranks.ops().notify(froms[i].connection);
      }
      --running;
    });
  }
  while (running != 0) ranks.Progress();
  for (std::thread& thread : threads) thread.join();
  for (uint32_t i = 0; i < kThreads; ++i) {
    trial.Expect(ranks.Until([&] { return Ranks::Signal(tos[i], 0) == puts; }), "thread {} put {}, {} arrived", i, puts,
                 Ranks::Signal(tos[i], 0));
  }
}

// Somebody sleeps on the wait object; a put with notify wakes it.
// Until the thread sleeps, most probably: nobody can tell that it does. On a busy machine it may be long in coming.
void AwaitSleeper(const sl_wait_object_t& object) {
  const uint64_t deadline = DeadlineIn(kPatienceMs);
  const auto has_come = [&object] {
    return object.type != SL_WAIT_DOORBELL ||
           std::atomic_ref<uint32_t>(object.doorbell->sleepers).load(std::memory_order_acquire) != 0;
  };
  while (!has_come() && DeadlineIn(0) < deadline) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

void Wakes(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  sl_wait_object_t object = {};
  object.struct_size = sizeof object;
  if (ranks.ops().wait_object(ranks.transport(1), &object) != SL_OK) trial.Skip("it has no wait object");
  std::atomic<bool> woken{true};
  for (uint64_t round = 1; round <= 20 && woken; ++round) {
    std::thread sleeper([&] {
      const uint64_t deadline = DeadlineIn(kPatienceMs);
      while (Ranks::Signal(b, 0) < round && DeadlineIn(0) < deadline) {
        if (object.type == SL_WAIT_DOORBELL) {
          BellGuard guard(object.doorbell);
          ranks.ops().progress(b.transport);
          if (Ranks::Signal(b, 0) >= round) break;
          guard.Sleep(kPatienceMs * 1'000'000);
        } else {
          pollfd descriptor = {object.fd, POLLIN, 0};
          ranks.ops().progress(b.transport);
          if (Ranks::Signal(b, 0) >= round) break;
          poll(&descriptor, 1, static_cast<int>(kPatienceMs));
        }
        ranks.ops().progress(b.transport);
      }
      woken = trial.Expect(DeadlineIn(0) < deadline, "round {}: the sleeper was not woken within {} ms", round,
                           kPatienceMs);
    });
    if (round % 2 == 0) AwaitSleeper(object);
    const sl_status_t status = ranks.Put(a, nullptr, 0, 0, 0, round);
    trial.Expect(status == SL_OK, "put gave {}", StatusName(status));
    sleeper.join();
  }
}

void Probes(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  for (uint64_t cookie = 1; cookie <= 5; ++cookie) {
    sl_status_t status = SL_ERR_AGAIN;
    ranks.Until([&] {
      status = ranks.ops().probe(a.connection, cookie);
      return status != SL_ERR_AGAIN;
    });
    if (status == SL_ERR_UNSUPPORTED) trial.Skip("it has no probe");
    trial.Require(status == SL_OK, "probe gave {}", StatusName(status));
    std::vector<sl_completion_t> answers;
    ranks.Until([&] {
      for (const sl_completion_t& completion : ranks.Poll(0)) answers.push_back(completion);
      return !answers.empty();
    });
    trial.Require(answers.size() == 1, "a probe was answered {} times within {} ms", answers.size(), kPatienceMs);
    trial.Expect(answers[0].kind == SL_COMPLETION_PROBE && answers[0].cookie == cookie &&
                     answers[0].connection == a.connection && answers[0].status == SL_OK,
                 "its answer has kind {}, cookie {}, status {}", answers[0].kind, answers[0].cookie,
                 StatusName(answers[0].status));
  }
}

}  // namespace

std::vector<Test> FlowTests() {
  return {
      {"Order.SignalsFollowTheirBytes", "two threads stream chunks through slots", Streams, 30},
      {"Order.HoldsBetweenProcesses", "the same with the receiver in another process", BetweenProcesses, 30},
      {"Order.HoldsBothWays", "both ends put at once", BothWays, 30},
      {"Order.SignalsKeepTheirOrder", "signals of one connection appear in the order of their calls", SignalOrder, 30},
      {"Pressure.IsSaidAndPasses", "a full queue says again; taken completions make room", BackPressure, 30},
      {"Many.ConnectionsKeepApart", "between the same ranks, ended in any order", Many, 20},
      {"Many.RanksOfOneProcess", "every rank is connected with every other", AllToAll, 20},
      {"Threads.UseConnectionsAtOnce", "calls on different objects may overlap", Threads, 30},
      {"Sleep.EndsWithNotify", "notify wakes who sleeps on the wait object", Wakes, 30},
      {"Probe.IsAnsweredOnce", "answered by the peer's transport", Probes},
  };
}

}  // namespace sl::conform::transport
