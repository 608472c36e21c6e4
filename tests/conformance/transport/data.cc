// SPDX-License-Identifier: Apache-2.0
// What [data] slots may not do, puts larger than what the system buffers, and puts that outlive their connection.
#include <algorithm>

#include "tests/conformance/kit/data_watch.h"
#include "tests/conformance/kit/imports.h"
#include "tests/conformance/transport/ranks.h"
#include "tests/conformance/transport/suite.h"

namespace sl::conform::transport {
namespace {

// Puts one after the other with all that goes with them, on one thread: nothing has to be waited for.
void Converse(Ranks& ranks, const End& a, const End& b, const uint8_t* source, uint64_t* round, uint64_t rounds) {
  for (const uint64_t last = *round + rounds; *round < last;) {
    ++*round;
    const sl_status_t status = ranks.Put(a, source, 64, *round % 64 * 64, 0, *round, *round);
    ranks.trial().Require(status == SL_OK, "put {} gave {}", *round, StatusName(status));
    const bool is_here = ranks.Until([&] { return Ranks::Signal(b, 0) == *round; });
    ranks.trial().Require(is_here, "the signal of put {} did not appear", *round);
    ranks.Flush(b);
    ranks.Poll(0);
    ranks.ops().connection_state(b.connection);
  }
}

void KeepsDataPromises(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  const uint8_t* const source = ranks.Lend(64);
  uint64_t round = 0;
  Converse(ranks, a, b, source, &round, 200);  // whatever is set up at the first use is set up
  const Imports imports(trial, ranks.module(), false);
  const DataWatch watch;
  Converse(ranks, a, b, source, &round, trial.full() ? 20'000 : 1'000);
  watch.ExpectNothing(trial);
}

// The receiver reads only when nothing more goes out, so that puts fill what the system buffers, and looks at the bytes
// as soon as it sees the signal.
void LargePuts(Trial& trial) {
  constexpr uint64_t kBytes = 5'000'000;
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b, 0, kBytes);
  uint8_t* const source = ranks.Lend(kBytes);
  for (uint64_t round = 1; round <= (trial.full() ? 20u : 3u); ++round) {
    const Scope scope(fmt::format("put {} of {} bytes", round, kBytes));
    Fill(source, kBytes, round);
    sl_put_t put = {};
    put.struct_size = sizeof put;
    put.signal = 0;
    put.signal_value = round;
    put.source = source;
    put.bytes = kBytes;
    sl_status_t status = SL_ERR_AGAIN;
    for (const uint64_t deadline = DeadlineIn(kPatienceMs); status == SL_ERR_AGAIN && DeadlineIn(0) < deadline;) {
      status = ranks.ops().put(a.connection, &put);
      if (status == SL_ERR_AGAIN) ranks.Progress();
    }
    trial.Require(status == SL_OK, "it gave {}: {}", StatusName(status), ErrorText());
    ranks.ops().notify(a.connection);
    const uint64_t deadline = DeadlineIn(kPatienceMs);
    while (Ranks::Signal(b, 0) < round && DeadlineIn(0) < deadline) {
      ranks.ops().progress(b.transport);
      if (Ranks::Signal(b, 0) == round) break;
      for (int turn = 0; turn < 3; ++turn) ranks.ops().progress(a.transport);
    }
    trial.Require(Ranks::Signal(b, 0) == round, "its signal did not appear within {} ms", kPatienceMs);
    ranks.Flush(b);
    const uint64_t wrong = FirstWrong(static_cast<const uint8_t*>(b.window.local), kBytes, round);
    trial.Require(wrong == kBytes, "byte {} of it is not there when its signal is", wrong);
  }
}

// Puts are under way when the receiving end is retired; another connection takes its place, and stays as it is.
void NothingLandsLate(Trial& trial) {
  constexpr uint64_t kBytes = 8192;
  Ranks ranks(trial, 2);
  uint8_t* const source = ranks.Lend(kBytes);
  std::fill_n(source, kBytes, uint8_t{0xee});
  for (uint64_t round = 1; round <= (trial.full() ? 200u : 20u); ++round) {
    const Scope scope(fmt::format("connection {}", round));
    End a, b, c, d;
    ranks.Connect(0, 1, &a, &b);
    sl_put_t put = {};
    put.struct_size = sizeof put;
    put.signal = 3;
    put.signal_value = round;
    put.source = source;
    put.bytes = kBytes;
    for (int i = 0; i < 8; ++i) ranks.ops().put(a.connection, &put);
    if (round % 2 == 0) ranks.ops().notify(a.connection);
    ranks.Retire(&b);
    if (round % 3 == 0) ranks.Retire(&a);
    ranks.Connect(0, 1, &c, &d);
    for (int turn = 0; turn < 50; ++turn) ranks.Progress();
    if (round % 3 != 0) ranks.Retire(&a);
    for (int turn = 0; turn < 50; ++turn) ranks.Progress();
    for (const End* end : {&c, &d}) {
      const auto* memory = static_cast<const uint8_t*>(end->window.local);
      trial.Expect(std::all_of(memory, memory + kWindow, [](uint8_t byte) { return byte == 0; }),
                   "what was put on a connection that is retired landed in another's window");
      trial.Expect(Ranks::Signal(*end, 3) == 0,
                   "the signal of a put on a connection that is retired appeared on another");
    }
    ranks.Retire(&c);
    ranks.Retire(&d);
  }
}

}  // namespace

std::vector<Test> DataTests() {
  return {
      {"Data.SlotsNeitherBlockNorAllocateNorLog", "[data]: never blocks, allocates, locks or logs", KeepsDataPromises,
       30},
      {"Order.HoldsForLargePuts", "puts of 5 MB, larger than any buffer between: bytes before their signal", LargePuts,
       30},
      {"End.NothingLandsAfterIt", "after retire no old put lands in a window", NothingLandsLate, 20},
  };
}

}  // namespace sl::conform::transport
