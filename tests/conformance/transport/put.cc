// SPDX-License-Identifier: Apache-2.0
// What one put does: its bytes, then its signal, nothing else.
#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/conformance/kit/random.h"
#include "tests/conformance/transport/ranks.h"
#include "tests/conformance/transport/suite.h"

namespace sl::conform::transport {
namespace {

const uint8_t* Local(const End& end) { return static_cast<const uint8_t*>(end.window.local); }

void EverySize(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  Random random(trial.seed());
  std::vector<uint64_t> sizes = {0,  1,   2,   3,   4,   7,   8,    9,    15,   16,   63,     64,
                                 65, 127, 128, 255, 256, 511, 1000, 4095, 4096, 4097, kWindow};
  for (int i = trial.full() ? 500 : 40; i > 0; --i) sizes.push_back(random.Below(kWindow + 1));
  std::vector<uint8_t> source(kWindow + 16);
  uint64_t round = 0;
  for (const uint64_t bytes : sizes) {
    ++round;
    const uint64_t offset = random.Below(kWindow - bytes + 1);
    const uint64_t misalignment = random.Below(16);
    const Scope scope(fmt::format("{} bytes to offset {}", bytes, offset));
    Fill(source.data() + misalignment, bytes, round);
    const sl_status_t status =
        ranks.Put(a, bytes == 0 ? nullptr : source.data() + misalignment, bytes, offset, 2, round);
    trial.Require(status == SL_OK, "put gave {}: {}", StatusName(status), ErrorText());
    const bool here = ranks.Until([&] { return Ranks::Signal(b, 2) == round; });
    trial.Require(here, "its signal did not appear within {} ms; the word is {}", kPatienceMs, Ranks::Signal(b, 2));
    ranks.Flush(b);
    const uint64_t wrong = FirstWrong(Local(b) + offset, bytes, round);
    trial.Require(wrong == bytes, "byte {} is wrong though the signal is there", wrong);
  }
}

void LeavesTheRest(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b, 0, 4096);
  std::vector<uint8_t> source(4096, 0xff);
  uint64_t round = 0;
  for (const auto& [offset, bytes] : {std::pair{0, 1}, {1, 63}, {64, 1}, {1000, 100}, {4095, 1}}) {
    const auto at = static_cast<uint64_t>(offset);
    std::vector<uint8_t> before(Local(b), Local(b) + 4096);
    ranks.MustPut(a, source.data(), static_cast<uint64_t>(bytes), at, 0, ++round);
    trial.Require(ranks.Until([&] { return Ranks::Signal(b, 0) == round; }), "its signal did not appear");
    ranks.Flush(b);
    std::fill_n(before.begin() + offset, bytes, uint8_t{0xff});
    trial.Expect(std::equal(before.begin(), before.end(), Local(b)), "a put of {} bytes to {} changed other bytes",
                 bytes, offset);
  }
  for (uint32_t word = 1; word < kSignals; ++word) {
    trial.Expect(Ranks::Signal(b, word) == 0, "signal word {} changed, only word 0 was named", word);
  }
  trial.Expect(Ranks::Signal(a, 0) == 0, "the sender's own signal word changed");
}

void SignalOnly(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  for (uint32_t word = 0; word < kSignals; ++word) {
    const uint64_t value = UINT64_MAX - word;
    ranks.MustPut(a, nullptr, 0, 0, word, value);
    trial.Require(ranks.Until([&] { return Ranks::Signal(b, word) == value; }), "signal word {} is {:#x}, wanted {:#x}",
                  word, Ranks::Signal(b, word), value);
  }
}

void NoSignal(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  constexpr uint64_t kNews = 9;
  uint8_t* const news = ranks.Lend(8);
  Fill(news, 8, kNews);
  ranks.MustPut(a, news, 8, 128);
  ranks.MustPut(a, nullptr, 0, 0, 1, 1);
  trial.Require(ranks.Until([&] { return Ranks::Signal(b, 1) == 1; }), "the signal did not appear");
  ranks.Flush(b);
  trial.Expect(FirstWrong(Local(b) + 128, 8, kNews) == 8,
               "the signal of a later put is here before the bytes of an earlier one");
  for (uint32_t word = 0; word < kSignals; ++word) {
    trial.Expect(Ranks::Signal(b, word) == (word == 1 ? 1 : 0), "signal word {} is {}", word, Ranks::Signal(b, word));
  }
}

// The peer's window is mapped: stores there, then a put of no bytes.
void Mapped(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  if (a.window.peer == nullptr) trial.Skip("CPU stores do not reach the peer's window: only put() writes it");
  for (uint64_t round = 1; round <= 50; ++round) {
    Fill(static_cast<uint8_t*>(a.window.peer), 1000, round);
    ranks.MustPut(a, nullptr, 0, 0, 0, round);
    trial.Require(ranks.Until([&] { return Ranks::Signal(b, 0) == round; }), "the signal did not appear");
    const uint64_t wrong = FirstWrong(Local(b), 1000, round);
    trial.Require(wrong == 1000, "byte {} stored through window.peer is not there when the signal is", wrong);
  }
}

void Refuses(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b, 0, 4096);
  const std::vector<uint8_t> source(8192, 0xaa);
  struct Wrong {
    const char* what;
    uint64_t bytes, offset;
    uint32_t signal;
  };
  for (const Wrong& wrong : {Wrong{"a signal word above the last", 8, 0, kSignals},
                             Wrong{"one byte beyond the window", 8, 4096 - 7, SL_NO_SIGNAL},
                             Wrong{"twice the window", 8192, 0, SL_NO_SIGNAL},
                             Wrong{"an offset far outside", 8, uint64_t{1} << 40, SL_NO_SIGNAL},
                             Wrong{"an offset that wraps round", 8, UINT64_MAX - 3, SL_NO_SIGNAL}}) {
    const sl_status_t status = ranks.Put(a, source.data(), wrong.bytes, wrong.offset, wrong.signal, 1);
    trial.Expect(SL_IS_USAGE_ERROR(status), "a put to {} gave {}", wrong.what, StatusName(status));
  }
  trial.Require(ranks.Put(a, nullptr, 0, 0, 0, 1) == SL_OK, "after a refused put nothing can be put");
  trial.Require(ranks.Until([&] { return Ranks::Signal(b, 0) == 1; }), "the signal did not appear");
  trial.Expect(std::all_of(Local(b), Local(b) + 4096, [](uint8_t byte) { return byte == 0; }),
               "a refused put changed the peer's window");
}

void Inline(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  sl_port_t port = {};
  port.struct_size = sizeof port;
  trial.Require(ranks.ops().port_info(ranks.transport(0), 0, &port) == SL_OK, "port_info of port 0 failed: {}",
                ErrorText());
  const uint64_t bytes = std::min<uint64_t>(port.max_inline_bytes, 4096);
  if (bytes == 0) trial.Skip("it takes nothing inline");
  std::vector<uint8_t> source(bytes);
  constexpr uint64_t kPuts = 15;
  for (uint64_t i = 0; i < kPuts; ++i) {
    Fill(source.data(), bytes, i);
    ranks.MustPut(a, source.data(), bytes, i * 4096, 0, i + 1);
    std::memset(source.data(), 0xdd, bytes);
  }
  trial.Require(ranks.Until([&] { return Ranks::Signal(b, 0) == kPuts; }), "not all arrived");
  ranks.Flush(b);
  for (uint64_t i = 0; i < kPuts; ++i) {
    const uint64_t wrong = FirstWrong(Local(b) + i * 4096, bytes, i);
    trial.Expect(wrong == bytes, "put {}: byte {} is what the source became after put returned; {} bytes are inline", i,
                 wrong, port.max_inline_bytes);
  }
}

// Each cookie once, with its connection, and only those that were asked for.
void Completes(Trial& trial) {
  Ranks ranks(trial, 2);
  End a[2], b[2];
  for (uint32_t i = 0; i < 2; ++i) ranks.Connect(0, 1, &a[i], &b[i], i);
  const uint64_t count = trial.full() ? 20'000 : 500;
  std::vector<uint32_t> seen(count + 1);
  uint64_t completed = 0;
  uint64_t newest[2] = {};
  const uint8_t* const source = ranks.Lend(8);
  const auto take = [&] {
    for (const sl_completion_t& completion : ranks.Poll(0)) {
      if (completion.kind == SL_COMPLETION_PORT) continue;
      if (!trial.Expect(completion.cookie >= 1 && completion.cookie <= count, "cookie {} was never given",
                        completion.cookie)) {
        continue;
      }
      trial.Expect(++seen[completion.cookie] == 1, "cookie {} completed twice", completion.cookie);
      trial.Expect(completion.status == SL_OK, "cookie {} completed with {}", completion.cookie,
                   StatusName(completion.status));
      trial.Expect(completion.kind == SL_COMPLETION_PUT, "cookie {} completed as kind {}", completion.cookie,
                   completion.kind);
      trial.Expect(completion.connection == a[completion.cookie % 2].connection, "cookie {} names another connection",
                   completion.cookie);
      uint64_t& before = newest[completion.cookie % 2];
      trial.Expect(completion.cookie > before, "cookie {} completed after {} of the same connection", completion.cookie,
                   before);
      before = completion.cookie;
      ++completed;
    }
  };
  for (uint64_t cookie = 1; cookie <= count; ++cookie) {
    sl_put_t put = {};
    put.struct_size = sizeof put;
    put.signal = SL_NO_SIGNAL;
    put.source = source;
    put.bytes = 8;
    put.cookie = cookie;
    sl_status_t status = SL_ERR_AGAIN;
    trial.Require(ranks.Until([&] {
      status = ranks.ops().put(a[cookie % 2].connection, &put);
      if (status == SL_ERR_AGAIN) take();
      return status != SL_ERR_AGAIN;
    }),
                  "the queue stays full though completions are taken");
    trial.Require(status == SL_OK, "put gave {}", StatusName(status));
    if (cookie % 3 == 0) ranks.MustPut(a[0], nullptr, 0, 0, 0, cookie);
  }
  ranks.Until([&] {
    take();
    return completed >= count;
  });
  trial.Expect(completed == count, "{} of {} puts that asked for it completed", completed, count);
  for (int turn = 0; turn < 20; ++turn) {
    ranks.Progress();
    take();
  }
}

}  // namespace

std::vector<Test> PutTests() {
  return {
      {"Put.MovesEverySize", "bytes are visible when the signal is: every size, offset and alignment", EverySize},
      {"Put.LeavesTheRestAlone", "only the bytes and the word that it names change", LeavesTheRest},
      {"Put.OfNothingSignals", "a put of no bytes stores its signal", SignalOnly},
      {"Put.WithoutASignalSignalsNothing", "SL_NO_SIGNAL stores none; a later signal covers it", NoSignal},
      {"Put.CoversStoresToAMappedWindow", "what was stored through window.peer is visible when the signal is", Mapped},
      {"Put.RefusesWhatIsOutside", "no word and no byte outside what was asked for", Refuses},
      {"Put.LeavesInlineSourcesFree", "up to max_inline_bytes the source may be reused on return", Inline},
      {"Put.CompletesEachCookieOnce", "completions: one for each cookie, with its connection and kind", Completes},
  };
}

}  // namespace sl::conform::transport
