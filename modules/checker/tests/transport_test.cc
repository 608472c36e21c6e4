// SPDX-License-Identifier: Apache-2.0
//
// Callers and transports that break one word each.
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "modules/checker/tests/fixture.h"
#include "sl_transport.h"

namespace sl::checker {
namespace {

constexpr uint32_t kSignals = 4;
constexpr uint64_t kWindow = 1024;

// The transport below: well-behaved, but for what a test sets.
struct Fake {
  std::vector<sl_completion_t> completions;
  sl_put_t last_put = {};
  sl_status_t put_status = SL_OK;
  uint32_t state = SL_CONNECTION_UP;
  sl_doorbell_t doorbell = {};
  alignas(64) std::array<uint64_t, 64 * 8> signals = {};
  std::array<uint8_t, kWindow> window = {};
  uint32_t connections = 0;
  bool sleeps = false;  // in put()
  bool writes_on_failure = false;
  bool makes_nothing = false;
  bool nobody_connects = false;
  bool window_misfits = false;
  bool name_without_end = false;
  bool bad_wait = false;
  uint32_t accepted_peer = 1;
  uint32_t key_bytes = 8;
  uint32_t completions_claimed = 0;
  std::atomic<bool>* hold = nullptr;  // progress() waits for it
  std::atomic<bool> inside = false;
  std::function<void()> amid_poll;  // what another thread does when poll() has taken its completions
};
Fake* g_fake = nullptr;

sl_status_t MakeConnection(sl_connection_t** out) {
  if (!g_fake->makes_nothing) *out = Below<sl_connection_t>(100 + ++g_fake->connections);
  return SL_OK;
}

sl_status_t Progress(sl_transport_t*) {
  g_fake->inside = true;
  while (g_fake->hold != nullptr && !g_fake->hold->load()) std::this_thread::yield();
  return SL_OK;
}

sl_status_t Put(sl_connection_t* connection, const sl_put_t* put) {
  g_fake->last_put = *put;
  if (g_fake->sleeps) std::this_thread::sleep_for(std::chrono::microseconds(1));
  if (g_fake->put_status == SL_OK && put->cookie != 0) {
    g_fake->completions.push_back({put->cookie, connection, SL_OK, SL_COMPLETION_PUT});
  }
  return g_fake->put_status;
}

sl_status_t Poll(sl_transport_t*, sl_completion_t* out, uint32_t capacity, uint32_t* count) {
  *count = 0;
  for (; *count < capacity && !g_fake->completions.empty(); ++*count) {
    out[*count] = g_fake->completions.front();
    g_fake->completions.erase(g_fake->completions.begin());
  }
  if (g_fake->completions_claimed != 0) *count = g_fake->completions_claimed;
  if (g_fake->amid_poll) std::exchange(g_fake->amid_poll, nullptr)();
  return SL_OK;
}

sl_status_t Window(sl_connection_t*, sl_window_t* out) {
  *out = {sizeof *out, kSignals, g_fake->window.data(), g_fake->signals.data(), nullptr, kWindow};
  if (g_fake->window_misfits) ++out->local_signals;
  return SL_OK;
}

sl_transport_ops_t FakeOps() {
  sl_transport_ops_t ops = {};
  ops.struct_size = sizeof ops;
  ops.open = [](sl_instance_t*, const sl_transport_env_t*, sl_transport_t** out) {
    if (!g_fake->makes_nothing) *out = Below<sl_transport_t>(1);
    return SL_OK;
  };
  ops.close = [](sl_transport_t*) {};
  ops.port_count = [](sl_transport_t*, uint32_t* out) {
    *out = 1;
    return SL_OK;
  };
  ops.port_info = [](sl_transport_t*, uint32_t, sl_port_t* out) {
    if (g_fake->name_without_end) std::memset(out->name, 'x', sizeof out->name);
    return SL_OK;
  };
  ops.listen = [](sl_transport_t*, uint32_t, sl_address_t* out) {
    if (!g_fake->writes_on_failure) return SL_OK;
    out->bytes = 7;
    return SL_ERR_LIMIT;
  };
  ops.connect = [](sl_transport_t*, const sl_address_t*, const sl_connect_args_t*, sl_connection_t** out) {
    return MakeConnection(out);
  };
  ops.accept = [](sl_transport_t*, sl_connection_t** out, sl_connect_args_t* args) {
    if (g_fake->nobody_connects) return SL_ERR_AGAIN;
    args->peer = g_fake->accepted_peer;
    args->signal_count = kSignals;
    args->window_bytes = kWindow;
    return MakeConnection(out);
  };
  ops.connection_state = [](sl_connection_t*) { return g_fake->state; };
  ops.window = Window;
  ops.retire = [](sl_connection_t*) {};
  ops.register_memory = [](sl_transport_t*, void*, uint64_t, sl_region_t** out) {
    *out = Below<sl_region_t>(7);
    return SL_OK;
  };
  ops.deregister_memory = [](sl_region_t*) {};
  ops.region_key = [](sl_region_t*, void*, uint32_t, uint32_t* out) {
    *out = g_fake->key_bytes;
    return SL_OK;
  };
  ops.import_key = [](sl_connection_t*, const void*, uint32_t, sl_remote_region_t** out) {
    *out = Below<sl_remote_region_t>(8);
    return SL_OK;
  };
  ops.release_key = [](sl_remote_region_t*) {};
  ops.put = Put;
  ops.flush = [](sl_connection_t*) { return sl_status_t{1}; };
  ops.probe = [](sl_connection_t* connection, uint64_t cookie) {
    g_fake->completions.push_back({cookie, connection, SL_OK, SL_COMPLETION_PROBE});
    return SL_OK;
  };
  ops.progress = Progress;
  ops.poll = Poll;
  ops.notify = [](sl_connection_t*) {};
  ops.wait_object = [](sl_transport_t*, sl_wait_object_t* out) {
    out->type = SL_WAIT_DOORBELL;
    out->doorbell = g_fake->bad_wait ? nullptr : &g_fake->doorbell;
    return SL_OK;
  };
  return ops;
}

class Transport : public CheckerTest {
 protected:
  void SetUp() override {
    g_fake = &fake_;
    Start("error");
  }
  void TearDown() override {
    if (instance_ != nullptr && transport_ != nullptr) t()->close(transport_);
    CheckerTest::TearDown();
  }

  void Start(const char* mode) {
    below_ = FakeOps();
    Wrap(SL_TRANSPORT_ID, &below_, mode);
    const sl_transport_env_t env = {sizeof env, 0, 2, 0, {}, {}, nullptr, 0, 0};
    ASSERT_EQ(t()->open(instance_, &env, &transport_), SL_OK);
    connection_ = Connect();
  }

  static sl_connect_args_t Args() {
    sl_connect_args_t args = {};
    args.struct_size = sizeof args;
    args.peer = 1;
    args.signal_count = kSignals;
    args.window_bytes = kWindow;
    return args;
  }

  sl_connection_t* Connect() {
    const sl_address_t address = {};
    const sl_connect_args_t args = Args();
    sl_connection_t* connection = nullptr;
    EXPECT_EQ(t()->connect(transport_, &address, &args, &connection), SL_OK);
    return connection;
  }

  static sl_put_t SomePut() {
    sl_put_t put = {};
    put.struct_size = sizeof put;
    put.signal = SL_NO_SIGNAL;
    return put;
  }

  sl_status_t Signal(uint32_t word, uint64_t value) {
    sl_put_t put = SomePut();
    put.signal = word;
    put.signal_value = value;
    return t()->put(connection_, &put);
  }

  // Puts with a cookie; what the module below was given instead.
  uint64_t PutFor(uint64_t cookie) {
    sl_put_t put = SomePut();
    put.cookie = cookie;
    EXPECT_EQ(t()->put(connection_, &put), SL_OK);
    return fake_.last_put.cookie;
  }

  std::vector<sl_completion_t> Polled(uint32_t capacity = 8) {
    std::vector<sl_completion_t> all(8);
    uint32_t count = 0;
    t()->poll(transport_, all.data(), capacity, &count);
    all.resize(count);
    return all;
  }

  const sl_transport_ops_t* t() const { return ops<sl_transport_ops_t>(); }

  Fake fake_;
  sl_transport_ops_t below_ = {};
  sl_transport_t* transport_ = nullptr;
  sl_connection_t* connection_ = nullptr;
};

TEST_F(Transport, SaysNothingWhenAllWordsAreKept) {
  EXPECT_EQ(Signal(0, 1), SL_OK);
  EXPECT_EQ(Signal(0, 1), SL_OK);
  EXPECT_EQ(Signal(3, 9), SL_OK);
  PutFor(77);
  ASSERT_EQ(t()->probe(connection_, 0), SL_OK);
  const auto done = Polled();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].cookie, 77u);
  EXPECT_EQ(done[0].connection, connection_);
  EXPECT_EQ(done[1].kind, SL_COMPLETION_PROBE);
  EXPECT_EQ(done[1].cookie, 0u);
  sl_window_t window = {};
  window.struct_size = sizeof window;
  EXPECT_EQ(t()->window(connection_, &window), SL_OK);
  sl_wait_object_t object = {};
  object.struct_size = sizeof object;
  EXPECT_EQ(t()->wait_object(transport_, &object), SL_OK);
  t()->notify(connection_);
  t()->retire(connection_);
}

TEST_F(Transport, NamesADataSlotThatSleeps) {
  fake_.sleeps = true;
  for (uint64_t value = 1; lines_.empty() && value <= 4096; ++value) Signal(0, value);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_NE(lines_[0].find("in put(): it slept or waited in "), std::string::npos) << lines_[0];
  ExpectBroken("data-blocks");
  // One call that waits, as for a page, is nothing.
  for (uint64_t value = 4097; value <= 4097 + 4096; ++value) {
    fake_.sleeps = value % 160 == 0;
    Signal(0, value);
  }
}

TEST_F(Transport, NamesBothThreadsWhenCallsOverlap) {
  std::atomic<bool> go = false;
  fake_.hold = &go;
  std::thread other([&] { EXPECT_EQ(t()->progress(transport_), SL_OK); });
  while (!fake_.inside) std::this_thread::yield();
  uint32_t count = 0;
  sl_completion_t completion;
  EXPECT_EQ(t()->poll(transport_, &completion, 1, &count), SL_ERR_STATE);
  go = true;
  other.join();
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_NE(lines_[0].find("is inside progress()"), std::string::npos) << lines_[0];
  ExpectBroken("overlap");
  EXPECT_EQ(t()->poll(transport_, &completion, 1, &count), SL_OK) << "the next call is fine";
}

TEST_F(Transport, KnowsWhatWasRetired) {
  t()->retire(connection_);
  EXPECT_EQ(Signal(0, 1), SL_ERR_STATE);
  ExpectBroken("used-after-end");
  EXPECT_EQ(t()->connection_state(connection_), SL_CONNECTION_DOWN);
  ExpectBroken("used-after-end");
  t()->retire(connection_);
  ExpectBroken("ended-twice");
}

// A listener asks again and again, mostly without result.
TEST_F(Transport, KnowsWhatWasRetiredWhateverWasNotMadeSince) {
  t()->retire(connection_);
  fake_.nobody_connects = true;
  for (int call = 0; call < 3000; ++call) {
    sl_connect_args_t args = Args();
    sl_connection_t* accepted = nullptr;
    ASSERT_EQ(t()->accept(transport_, &accepted, &args), SL_ERR_AGAIN);
  }
  EXPECT_EQ(Signal(0, 1), SL_ERR_STATE);
  ExpectBroken("used-after-end");
}

TEST_F(Transport, KnowsThatConnectionsEndWithTheirTransport) {
  t()->close(transport_);
  EXPECT_EQ(Signal(0, 1), SL_ERR_STATE);
  ExpectBroken("used-after-end");
  t()->close(transport_);
  ExpectBroken("ended-twice");
  transport_ = nullptr;
}

TEST_F(Transport, RefusesHandlesOfOtherTables) {
  EXPECT_EQ(t()->progress(Below<sl_transport_t>(1)), SL_ERR_INVALID);
  ExpectBroken("foreign");
  EXPECT_EQ(t()->progress(reinterpret_cast<sl_transport_t*>(connection_)), SL_ERR_INVALID);
  ExpectBroken("foreign");
}

TEST_F(Transport, LooksAtStructSizesAndOutputs) {
  sl_connect_args_t args = Args();
  args.struct_size = 8;
  const sl_address_t address = {};
  sl_connection_t* connection = nullptr;
  EXPECT_EQ(t()->connect(transport_, &address, &args, &connection), SL_ERR_INVALID);
  ExpectBroken("struct-size");
  args = Args();
  EXPECT_EQ(t()->connect(transport_, &address, &args, nullptr), SL_ERR_INVALID);
  ExpectBroken("out-null");
  fake_.writes_on_failure = true;
  sl_address_t mine = {};
  EXPECT_EQ(t()->listen(transport_, 0, &mine), SL_ERR_INTERNAL);
  ExpectBroken("out-written");
  fake_.makes_nothing = true;
  EXPECT_EQ(t()->connect(transport_, &address, &args, &connection), SL_ERR_INTERNAL);
  EXPECT_EQ(connection, nullptr);
  ExpectBroken("no-object");
  EXPECT_EQ(t()->flush(connection_), SL_ERR_INTERNAL);
  ExpectBroken("status-positive");
  sl_port_t port = {};
  port.struct_size = sizeof port;
  fake_.name_without_end = true;
  EXPECT_EQ(t()->port_info(transport_, 0, &port), SL_ERR_INTERNAL);
  ExpectBroken("text-open");
}

TEST_F(Transport, LooksAtRanges) {
  sl_address_t address = {};
  EXPECT_EQ(t()->listen(transport_, 3, &address), SL_ERR_INVALID);
  ExpectBroken("port-range");
  sl_connection_t* connection = nullptr;
  sl_connect_args_t args = Args();
  args.peer = 2;
  EXPECT_EQ(t()->connect(transport_, &address, &args, &connection), SL_ERR_INVALID);
  ExpectBroken("peer-range");
  args = Args();
  args.signal_count = 65;
  EXPECT_EQ(t()->connect(transport_, &address, &args, &connection), SL_ERR_INVALID);
  ExpectBroken("signal-count");
  EXPECT_EQ(Signal(kSignals, 1), SL_ERR_INVALID);
  ExpectBroken("signal-range");
  sl_put_t put = SomePut();
  put.bytes = 16;
  put.offset = kWindow - 15;
  EXPECT_EQ(t()->put(connection_, &put), SL_ERR_INVALID);
  ExpectBroken("window-overrun");
  put.offset = UINT64_MAX;
  EXPECT_EQ(t()->put(connection_, &put), SL_ERR_INVALID);
  ExpectBroken("window-overrun");
}

TEST_F(Transport, SeesSignalsThatShrink) {
  EXPECT_EQ(Signal(1, 5), SL_OK);
  fake_.put_status = SL_ERR_AGAIN;
  EXPECT_EQ(Signal(1, 9), SL_ERR_AGAIN) << "it was not put";
  fake_.put_status = SL_OK;
  EXPECT_EQ(Signal(1, 6), SL_OK);
  EXPECT_EQ(Signal(1, 4), SL_ERR_INVALID);
  ExpectBroken("signal-shrinks");
}

TEST_F(Transport, KnowsWhatARegionIsFor) {
  std::array<uint8_t, 64> memory = {};
  sl_region_t* region = nullptr;
  ASSERT_EQ(t()->register_memory(transport_, memory.data(), 32, &region), SL_OK);
  sl_put_t put = SomePut();
  put.region = region;
  put.source = memory.data() + 16;
  put.bytes = 16;
  put.cookie = 5;
  ASSERT_EQ(t()->put(connection_, &put), SL_OK);
  EXPECT_EQ(fake_.last_put.region, Below<sl_region_t>(7)) << "the module below gets its own handle";
  t()->deregister_memory(region);
  ExpectBroken("region-borrowed");
  EXPECT_EQ(Polled().size(), 1u);
  put.bytes = 17;
  EXPECT_EQ(t()->put(connection_, &put), SL_ERR_INVALID);
  ExpectBroken("region-overrun");
  sl_remote_region_t* remote = nullptr;
  ASSERT_EQ(t()->import_key(connection_, "key", 3, &remote), SL_OK);
  put = SomePut();
  put.target = remote;
  put.bytes = 10 * kWindow;
  EXPECT_EQ(t()->put(connection_, &put), SL_OK) << "not the window";
  EXPECT_EQ(fake_.last_put.target, Below<sl_remote_region_t>(8));
  t()->release_key(remote);
  EXPECT_EQ(t()->put(connection_, &put), SL_ERR_STATE);
  ExpectBroken("used-after-end");
  uint32_t bytes = 0;
  uint8_t key[4];
  EXPECT_EQ(t()->region_key(region, key, sizeof key, &bytes), SL_ERR_INTERNAL);
  ExpectBroken("key-length");
  t()->deregister_memory(region);
}

TEST_F(Transport, CountsCompletions) {
  const uint64_t token = PutFor(9);
  EXPECT_EQ(Polled().size(), 1u);
  fake_.completions.push_back({token, Below<sl_connection_t>(101), SL_OK, SL_COMPLETION_PUT});
  EXPECT_EQ(Polled().size(), 0u) << "the caller never sees it";
  ExpectBroken("completed-twice");
  fake_.completions.push_back({12345, Below<sl_connection_t>(101), SL_OK, SL_COMPLETION_PUT});
  EXPECT_EQ(Polled().size(), 0u);
  ExpectBroken("completion-unasked");
  PutFor(10);
  fake_.completions[0].kind = SL_COMPLETION_PROBE;
  Polled();
  ExpectBroken("completion-facts");
  PutFor(11);
  fake_.completions_claimed = 2;
  Polled(1);
  ExpectBroken("poll-overrun");
  fake_.completions_claimed = 0;
  PutFor(12);
  t()->retire(connection_);
  EXPECT_EQ(Polled().size(), 0u);
  ExpectBroken("completed-after-retire");
}

// Calls on a transport and on its connection may overlap.
TEST_F(Transport, AllowsAConnectionToBeRetiredBesideAPoll) {
  PutFor(9);
  fake_.amid_poll = [&] { std::thread([&] { t()->retire(connection_); }).join(); };
  EXPECT_EQ(Polled().size(), 0u) << "not after retire()";
  connection_ = Connect();
  const uint64_t token = PutFor(10);
  EXPECT_EQ(Polled().size(), 1u);
  fake_.completions.push_back({token, Below<sl_connection_t>(102), SL_OK, SL_COMPLETION_PUT});
  fake_.amid_poll = [&] { std::thread([&] { t()->retire(connection_); }).join(); };
  EXPECT_EQ(Polled().size(), 0u);
  ExpectBroken("completed-twice");
}

TEST_F(Transport, AnswersAgainWhenTooMuchIsOutstanding) {
  for (int i = 0; i < 4096; ++i) PutFor(1);
  sl_put_t put = SomePut();
  put.cookie = 1;
  EXPECT_EQ(t()->put(connection_, &put), SL_ERR_AGAIN);
  EXPECT_EQ(Polled().size(), 8u);
  EXPECT_EQ(t()->put(connection_, &put), SL_OK);
}

TEST_F(Transport, LooksAtWhatATransportSays) {
  fake_.state = SL_CONNECTION_DOWN;
  EXPECT_EQ(t()->connection_state(connection_), SL_CONNECTION_DOWN);
  fake_.state = SL_CONNECTION_UP;
  EXPECT_EQ(t()->connection_state(connection_), SL_CONNECTION_UP);
  ExpectBroken("state-returns");
  sl_window_t window = {};
  window.struct_size = sizeof window;
  fake_.window_misfits = true;
  EXPECT_EQ(t()->window(connection_, &window), SL_ERR_INTERNAL);
  ExpectBroken("window-facts");
  fake_.accepted_peer = 5;
  sl_connection_t* accepted = nullptr;
  sl_connect_args_t args = Args();
  EXPECT_EQ(t()->accept(transport_, &accepted, &args), SL_OK) << "what was made stays";
  ExpectBroken("accept-facts");
  sl_wait_object_t object = {};
  object.struct_size = sizeof object;
  fake_.bad_wait = true;
  EXPECT_EQ(t()->wait_object(transport_, &object), SL_ERR_INTERNAL);
  ExpectBroken("wait-facts");
}

TEST_F(Transport, RefusesNewWorkWhenQuiescing) {
  Quiesce();
  const sl_address_t address = {};
  const sl_connect_args_t args = Args();
  sl_connection_t* connection = nullptr;
  EXPECT_EQ(t()->connect(transport_, &address, &args, &connection), SL_ERR_STATE);
  ExpectBroken("after-quiesce");
  EXPECT_EQ(Signal(0, 1), SL_OK) << "what is under way may end";
}

TEST_F(Transport, NamesWhatIsLeftAtTheEnd) {
  Close();
  ASSERT_EQ(lines_.size(), 2u);
  EXPECT_NE(lines_[0].find("2 objects are left"), std::string::npos) << lines_[0];
  EXPECT_EQ(lines_[1], "sl.transport/1: 1 breaches: left-behind 1");
  lines_.pop_back();
  ExpectBroken("left-behind");
}

TEST_F(Transport, LogsOnlySoManyLinesAndGoesOnWhenToldTo) {
  t()->close(transport_);
  Close();
  Start("log");
  EXPECT_EQ(Signal(1, 5), SL_OK);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Signal(1, 4), SL_OK);
  EXPECT_EQ(lines_.size(), 1u) << "4 is no less than 4";
  lines_.clear();
  for (uint64_t value = 100; value > 90; --value) EXPECT_EQ(Signal(2, value), SL_OK);
  EXPECT_EQ(lines_.size(), 3u) << "two more of three lines, and that there will be no more";
  lines_.clear();
  EXPECT_EQ(t()->progress(nullptr), SL_ERR_INVALID) << "what cannot go on does not, in any mode";
  ExpectBroken("foreign");
  EXPECT_EQ(t()->put(connection_, nullptr), SL_ERR_INVALID);
  ExpectBroken("struct-size");
  t()->close(transport_);
  transport_ = nullptr;
  Close();
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0], "sl.transport/1: 12 breaches: foreign 1, struct-size 1, signal-shrinks 10");
  lines_.clear();
}

TEST_F(Transport, EndsTheProcessWhenToldTo) {
  t()->close(transport_);
  Close();
  Start("abort");
  EXPECT_DEATH(Signal(kSignals, 1), "rule signal-range");
}

}  // namespace
}  // namespace sl::checker
