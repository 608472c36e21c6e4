// SPDX-License-Identifier: Apache-2.0
// How connections end: retired, closed with their transport, or with the process of their peer.
#include "tests/conformance/transport/process.h"
#include "tests/conformance/transport/ranks.h"
#include "tests/conformance/transport/stream.h"
#include "tests/conformance/transport/suite.h"

namespace sl::conform::transport {
namespace {

// What the peer put before it left is there, then the end shows.
void Goodbye(Trial& trial, bool close) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  std::vector<uint8_t> source(3000);
  Fill(source.data(), source.size(), 5);
  ranks.MustPut(a, source.data(), source.size(), 10, 4, 99);
  if (close) {
    ranks.Close(0);
    a.connection = nullptr;
  } else {
    ranks.Retire(&a);
  }
  uint32_t state = SL_CONNECTION_UP;
  const bool ended = ranks.Until([&] {
    state = ranks.ops().connection_state(b.connection);
    return state == SL_CONNECTION_CLOSED || state == SL_CONNECTION_DOWN;
  });
  trial.Require(ended, "{} ms after the peer left the connection is still in state {}", kPatienceMs, state);
  trial.Expect(state == SL_CONNECTION_CLOSED, "the peer left in good order, but the state is {}", state);
  trial.Expect(Ranks::Signal(b, 4) == 99, "a signal that was put before the end is not there after it");
  const auto* bytes = static_cast<const uint8_t*>(b.window.local) + 10;
  trial.Expect(FirstWrong(bytes, source.size(), 5) == source.size(), "bytes put before the end are not there after it");
  const sl_status_t status = ranks.Put(b, nullptr, 0, 0, 0, 1);
  trial.Expect(SL_IS_LINK_ERROR(status) || SL_IS_PEER_ERROR(status), "a put to a peer that has left gave {}",
               StatusName(status));
  for (int i = 0; i < 100; ++i) {
    ranks.Progress();
    const uint32_t now = ranks.ops().connection_state(b.connection);
    if (!trial.Expect(now >= SL_CONNECTION_DOWN, "a connection that had ended is in state {}", now)) break;
  }
  ranks.Retire(&b);
}

void RetireSaysGoodbye(Trial& trial) { Goodbye(trial, false); }
void CloseSaysGoodbye(Trial& trial) { Goodbye(trial, true); }

// Made, used, ended and made again, by either end first.
void Again(Trial& trial) {
  Ranks ranks(trial, 2);
  for (uint64_t round = 1; round <= (trial.full() ? 500u : 30u); ++round) {
    const Scope scope(fmt::format("connection {}", round));
    End a, b;
    ranks.Connect(0, 1, &a, &b, 0, 4096);
    trial.Expect(Ranks::Signal(b, 0) == 0, "a new connection begins with a signal of {}", Ranks::Signal(b, 0));
    ranks.MustPut(a, &round, sizeof round, 0, 0, round);
    trial.Require(ranks.Until([&] { return Ranks::Signal(b, 0) == round; }), "its signal did not appear");
    ranks.Retire(round % 2 == 0 ? &a : &b);
    ranks.Retire(round % 2 == 0 ? &b : &a);
  }
}

// Whatever state it is in.
void AnyMoment(Trial& trial) {
  Ranks ranks(trial, 2);
  sl_status_t status = SL_OK;
  sl_connection_t* fresh = ranks.Start(0, 1, Ranks::Args(1), &status);
  trial.Require(fresh != nullptr, "connect gave {}", StatusName(status));
  ranks.ops().retire(fresh);
  for (int turn = 0; turn < 50; ++turn) ranks.Progress();
  // The other end may or may not have heard of it; if it did, it can be taken and ended.
  sl_connection_t* half = nullptr;
  sl_connect_args_t said = {};
  said.struct_size = sizeof said;
  while (ranks.ops().accept(ranks.transport(1), &half, &said) == SL_OK) ranks.ops().retire(half);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  sl_put_t put = {};
  put.struct_size = sizeof put;
  put.signal = SL_NO_SIGNAL;
  put.source = ranks.Lend(8);
  put.bytes = 8;
  put.cookie = 5;
  for (int i = 0; i < 10; ++i) ranks.ops().put(a.connection, &put);
  ranks.Retire(&a);
  for (int turn = 0; turn < 50; ++turn) {
    ranks.Progress();
    for (const sl_completion_t& completion : ranks.Poll(0)) {
      trial.Expect(completion.kind == SL_COMPLETION_PORT, "a completion of a connection that was retired");
    }
  }
  ranks.Retire(&b);
}

// Whatever the peer had put stays; its end shows, as one that was not in good order.
void ExpectDown(Ranks& ranks, const End& end) {
  uint32_t state = SL_CONNECTION_UP;
  ranks.Until([&] {
    state = ranks.ops().connection_state(end.connection);
    return state == SL_CONNECTION_DOWN || state == SL_CONNECTION_CLOSED;
  });
  Trial& trial = ranks.trial();
  trial.Require(state == SL_CONNECTION_DOWN || state == SL_CONNECTION_CLOSED,
                "{} ms after its peer was killed the connection is still in state {}", kPatienceMs, state);
  trial.Expect(state == SL_CONNECTION_DOWN,
               "a peer that was killed did not close in good order, but the state says so");
  ranks.Flush(end);  // what was put stays readable, whether or not it says that the connection is down
  const sl_status_t late = ranks.Put(end, nullptr, 0, 0, 2, 1);
  trial.Expect(SL_IS_LINK_ERROR(late) || SL_IS_PEER_ERROR(late), "a put to a dead peer gave {}", StatusName(late));
}

// Rank 1 accepts, puts once, and is killed at rest.
void Killed(Trial& trial) {
  OtherProcess other(trial, [](Ranks& ranks, const Talk& talk) {
    End end;
    if (!talk.Tell(ranks.address(1))) return;
    ranks.Take(1, &end);
    ranks.AwaitUp(&end);
    uint8_t* const news = ranks.Lend(8);
    Fill(news, 8, 4242);
    ranks.Put(end, news, 8, 0, 1, 1);
    for (;;) ranks.Progress();  // until it is killed
  });
  Ranks ranks(trial, 2);  // its own rank 1 stays out of this
  ranks.SetAddress(1, other.Hear<sl_address_t>());
  End end;
  ranks.Dial(0, 1, &end);
  ranks.AwaitUp(&end);
  trial.Require(ranks.Until([&] { return Ranks::Signal(end, 1) == 1; }),
                "what rank 1, in another process, put did not arrive within {} ms", kPatienceMs);
  other.Kill();
  ExpectDown(ranks, end);
  trial.Expect(FirstWrong(static_cast<const uint8_t*>(end.window.local), 8, 4242) == 8,
               "what the peer had put is not there any more");
  ranks.Retire(&end);
}

// Rank 1 connects, streams, and is killed in the middle of it: what was signalled is whole all the same.
void KilledWhileItStreams(Trial& trial) {
  const uint64_t seed = trial.seed();
  OtherProcess other(trial, [seed](Ranks& ranks, const Talk& talk) {
    sl_address_t address = {};
    if (!talk.Hear(&address)) return;
    ranks.SetAddress(0, address);
    End end;
    ranks.Dial(1, 0, &end);
    ranks.AwaitUp(&end);
    Stream(&ranks, end, end, UINT64_MAX, seed).Send();
  });
  Ranks ranks(trial, 2);
  trial.Require(other.talk().Tell(ranks.address(0)), "the other process is not there");
  End end;
  ranks.Take(0, &end);
  ranks.AwaitUp(&end);
  Stream stream(&ranks, end, end, UINT64_MAX, seed);
  constexpr uint64_t kTaken = 500;
  if (!stream.ReceiveUpTo(kTaken)) return;
  other.Kill();
  ExpectDown(ranks, end);
  const uint64_t signalled = Ranks::Signal(end, 0);
  trial.Expect(signalled <= kTaken + Stream::kSlots, "{} chunks were signalled, {} could be", signalled,
               kTaken + Stream::kSlots);
  for (uint64_t chunk = kTaken + 1; chunk <= signalled && stream.IsWhole(chunk);) ++chunk;
  ranks.Retire(&end);
}

// Rank 1 stops reading, then is killed: whatever was still under way comes back, once and in order.
void GivesCookiesBack(Trial& trial) {
  OtherProcess other(trial, [](Ranks& ranks, const Talk& talk) {
    End end;
    if (!talk.Tell(ranks.address(1))) return;
    ranks.Take(1, &end);
    ranks.AwaitUp(&end);
    talk.Tell(true);
    bool may_end = false;
    talk.Hear(&may_end);  // without a look at the connection, until it is killed
  });
  Ranks ranks(trial, 2);  // its own rank 1 stays out of this
  ranks.SetAddress(1, other.Hear<sl_address_t>());
  End end;
  ranks.Dial(0, 1, &end);
  ranks.AwaitUp(&end);
  other.Hear<bool>();
  const std::vector<uint8_t> source(kWindow, 0x5a);
  sl_put_t put = {};
  put.struct_size = sizeof put;
  put.signal = SL_NO_SIGNAL;
  put.source = source.data();
  put.bytes = source.size();
  uint64_t given = 0;
  for (; given < 400; ++given) {
    put.cookie = given + 1;
    if (ranks.ops().put(end.connection, &put) != SL_OK) break;
  }
  trial.Require(given > 0, "the first put of {} bytes is not taken", put.bytes);
  other.Kill();
  ExpectDown(ranks, end);
  uint64_t back = 0;
  const auto take = [&] {
    for (const sl_completion_t& completion : ranks.Poll(0)) {
      if (completion.kind != SL_COMPLETION_PUT) continue;
      trial.Expect(completion.cookie == ++back, "cookie {} comes back as number {}", completion.cookie, back);
      trial.Expect(completion.status == SL_OK || SL_IS_LINK_ERROR(completion.status), "cookie {} comes back with {}",
                   completion.cookie, StatusName(completion.status));
    }
    return back >= given;
  };
  trial.Expect(ranks.Until(take), "{} of {} cookies came back from a connection that went down", back, given);
  ranks.Retire(&end);
}

// Changes of ports, if any happen while something runs.
void PortEvents(Trial& trial) {
  Ranks ranks(trial, 2);
  End a, b;
  ranks.Connect(0, 1, &a, &b);
  uint32_t count = 0;
  trial.Require(ranks.ops().port_count(ranks.transport(0), &count) == SL_OK, "port_count failed: {}", ErrorText());
  uint64_t events = 0;
  for (uint64_t value = 1; value <= 200; ++value) {
    if (ranks.Put(a, nullptr, 0, 0, 0, value) != SL_OK) break;
    ranks.Progress();
    for (const sl_completion_t& completion : ranks.Poll(0)) {
      if (completion.kind != SL_COMPLETION_PORT) continue;
      ++events;
      trial.Expect(completion.cookie < count, "a port event of port {}; there are {}", completion.cookie, count);
      sl_port_t port = {};
      port.struct_size = sizeof port;
      const auto index = static_cast<uint32_t>(completion.cookie);
      trial.Expect(ranks.ops().port_info(ranks.transport(0), index, &port) == SL_OK, "port {} cannot be asked", index);
    }
  }
  if (events == 0) trial.Skip("no port changed its state meanwhile");
}

}  // namespace

std::vector<Test> EndTests() {
  return {
      {"End.RetireSaysGoodbye", "what was put before is there, the peer sees closed, puts are refused",
       RetireSaysGoodbye},
      {"End.CloseRetiresEverything", "close of a transport is goodbye on every connection", CloseSaysGoodbye},
      {"End.LeavesRoomForAnother", "connections are made and ended over and over, each begins fresh", Again, 20},
      {"End.MayComeAtAnyMoment", "retire before it is up, and with puts under way; no completion after it", AnyMoment},
      {"End.OfTheProcessIsSeen", "a killed peer: down, what it had put stays readable", Killed, 20},
      {"End.MayComeInTheMiddle", "a peer killed while it streams: down, what was signalled is whole",
       KilledWhileItStreams, 20},
      {"End.GivesEveryCookieBack", "a killed peer: every put under way completes, once and in order", GivesCookiesBack,
       20},
      {"Port.EventsNameAPort", "a completion of kind port names a port that exists", PortEvents},
  };
}

}  // namespace sl::conform::transport
