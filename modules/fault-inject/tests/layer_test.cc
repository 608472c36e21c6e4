// SPDX-License-Identifier: Apache-2.0
//
// The layer over a transport of one connection whose other end is this test.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "sl_transport.h"

namespace sl::fault_inject {
namespace {

uint64_t g_now_ns = 0;

// What the wrapped transport was told.
struct Inner {
  std::array<uint8_t, 4096> local = {};
  std::array<uint64_t, 64 * 8> signals = {};
  std::array<uint8_t, 4096> peer = {};
  std::vector<std::pair<uint32_t, uint64_t>> seen;  // signal, value
  std::vector<sl_put_t> puts;
  std::vector<std::string> contents;
  std::vector<uint64_t> completed;
  uint32_t signal_count = 0;
  uint32_t state = SL_CONNECTION_UP;
  bool full = false;
  bool lazy = false;  // it borrows what is put: nothing is read, nothing has ended
  int notified = 0;
  int retired = 0;
  int closed = 0;
};
Inner* g_inner = nullptr;

sl_transport_ops_t InnerOps() {
  sl_transport_ops_t ops = {};
  ops.struct_size = sizeof ops;
  ops.open = [](sl_instance_t*, const sl_transport_env_t*, sl_transport_t** out) {
    *out = reinterpret_cast<sl_transport_t*>(g_inner);
    return SL_OK;
  };
  ops.close = [](sl_transport_t*) { ++g_inner->closed; };
  ops.port_count = [](sl_transport_t*, uint32_t* out) {
    *out = 1;
    return SL_OK;
  };
  ops.port_info = [](sl_transport_t*, uint32_t, sl_port_t* out) {
    out->state = SL_PORT_UP;
    return SL_OK;
  };
  ops.connect = [](sl_transport_t*, const sl_address_t*, const sl_connect_args_t* args, sl_connection_t** out) {
    g_inner->signal_count = args->signal_count;
    *out = reinterpret_cast<sl_connection_t*>(g_inner);
    return SL_OK;
  };
  ops.accept = [](sl_transport_t*, sl_connection_t** out, sl_connect_args_t* args) {
    args->signal_count = 5;
    *out = reinterpret_cast<sl_connection_t*>(g_inner);
    return SL_OK;
  };
  ops.connection_state = [](sl_connection_t*) { return g_inner->state; };
  ops.window = [](sl_connection_t*, sl_window_t* out) {
    *out = {sizeof(sl_window_t),     g_inner->signal_count, g_inner->local.data(),
            g_inner->signals.data(), g_inner->peer.data(),  g_inner->peer.size()};
    return SL_OK;
  };
  ops.retire = [](sl_connection_t*) { ++g_inner->retired; };
  ops.put = [](sl_connection_t*, const sl_put_t* put) {
    if (g_inner->full) return SL_ERR_AGAIN;
    if (g_inner->lazy) {
      g_inner->puts.push_back(*put);
      return SL_OK;
    }
    if (put->source != nullptr) std::memcpy(g_inner->peer.data() + put->offset, put->source, put->bytes);
    if (put->signal != SL_NO_SIGNAL) g_inner->seen.emplace_back(put->signal, put->signal_value);
    g_inner->puts.push_back(*put);
    const auto* bytes = static_cast<const char*>(put->source);
    g_inner->contents.emplace_back(bytes != nullptr ? std::string(bytes, put->bytes) : std::string());
    if (put->cookie != 0) g_inner->completed.push_back(put->cookie);
    return SL_OK;
  };
  ops.progress = [](sl_transport_t*) { return SL_OK; };
  ops.poll = [](sl_transport_t*, sl_completion_t* out, uint32_t capacity, uint32_t* count) {
    *count = 0;
    for (; *count < capacity && !g_inner->completed.empty(); ++*count) {
      out[*count] = {g_inner->completed.front(), reinterpret_cast<sl_connection_t*>(g_inner), SL_OK, 0};
      g_inner->completed.erase(g_inner->completed.begin());
    }
    return SL_OK;
  };
  ops.notify = [](sl_connection_t*) { ++g_inner->notified; };
  ops.wait_object = [](sl_transport_t*, sl_wait_object_t*) { return SL_OK; };
  return ops;
}

class Layer : public ::testing::Test {
 protected:
  // Opens the layer with some options set.
  void Open(const std::map<std::string, int64_t>& values, const std::string& control = "") {
    Close();
    g_inner = &inner_.emplace_back();
    const sl_hello_t hello = {sizeof hello,         0,      SL_MODULE_MAGIC, SL_CONTAINER_VERSION,
                              SL_CONTAINER_VERSION, "test", SL_ABI_BUILD_ID};
    ASSERT_EQ(sl_module_query(&hello, &module_), SL_OK);
    EXPECT_EQ(module_->provides[0]->flags, SL_INTERFACE_LAYER);
    EXPECT_STREQ(module_->provides[0]->id, module_->requirements[0]->id);
    ops_ = static_cast<const sl_transport_ops_t*>(module_->provides[0]->ops);
    host_.ctx = this;
    host_.log_enabled = [](void*, sl_log_level_t level) { return level <= SL_LOG_WARN ? 1 : 0; };
    host_.log = [](void* ctx, sl_log_level_t, const char* text) {
      static_cast<Layer*>(ctx)->warnings_.push_back(text);
    };
    host_.set_error = [](void*, sl_status_t status, const char*) { return status; };
    host_.now_ns = [](void*) { return g_now_ns; };
    std::vector<sl_option_value_t> options;
    std::vector<const sl_option_value_t*> pointers;
    for (uint32_t i = 0; i < module_->option_count; ++i) {
      if (module_->options[i]->type == SL_OPTION_STRING) {
        options.push_back({sizeof(sl_option_value_t), SL_OPTION_STRING, 0, 0, control.c_str()});
        continue;
      }
      if (module_->options[i]->type == SL_OPTION_BOOL) {
        // The tests have a clock of their own.
        options.push_back({sizeof(sl_option_value_t), SL_OPTION_BOOL, 0, 0, nullptr});
        continue;
      }
      const auto found = values.find(module_->options[i]->name);
      const int64_t value = found != values.end() ? found->second : std::stoll(module_->options[i]->default_text);
      options.push_back({sizeof(sl_option_value_t), SL_OPTION_INT, value, 0, nullptr});
    }
    for (const sl_option_value_t& option : options) pointers.push_back(&option);
    inner_ops_ = InnerOps();
    const sl_binding_t binding = {sizeof binding, 1, SL_TRANSPORT_ID, &inner_ops_, nullptr};
    const sl_binding_t* bindings[] = {&binding};
    const sl_open_args_t args = {sizeof args, module_->option_count, pointers.data(), 1, 0, bindings};
    ASSERT_EQ(module_->open(&host_, &args, &instance_), SL_OK);
    const sl_transport_env_t env = {sizeof env, 0, 2, 0, {}, {}, nullptr, 0, 0};
    ASSERT_EQ(ops_->open(instance_, &env, &transport_), SL_OK);
    ASSERT_EQ(Connect(), SL_OK);
  }

  sl_status_t Connect() {
    sl_connect_args_t connect = {};
    connect.struct_size = sizeof connect;
    connect.signal_count = 4;
    connect.peer = 1;
    const sl_address_t address = {};
    return ops_->connect(transport_, &address, &connect, &connection_);
  }

  void Progress() { ASSERT_EQ(ops_->progress(transport_), SL_OK); }

  std::vector<sl_completion_t> Polled() {
    std::vector<sl_completion_t> all(16);
    uint32_t count = 0;
    EXPECT_EQ(ops_->poll(transport_, all.data(), 16, &count), SL_OK);
    all.resize(count);
    return all;
  }

  void Close() {
    if (transport_ != nullptr) ops_->close(transport_);
    if (instance_ != nullptr) module_->close(instance_);
    transport_ = nullptr;
    instance_ = nullptr;
  }

  void TearDown() override {
    const bool opened = transport_ != nullptr;
    Close();
    if (opened) {
      EXPECT_EQ(g_inner->closed, 1);
    }
  }

  sl_status_t Put(uint64_t value, uint64_t cookie = 0) {
    sl_put_t put = {};
    put.struct_size = sizeof put;
    put.signal_value = value;
    put.source = &value;
    put.bytes = sizeof value;
    put.cookie = cookie;
    return ops_->put(connection_, &put);
  }

  // What a lazy transport would send now for one of its puts.
  static uint64_t Borrowed(size_t index) {
    uint64_t value = 0;
    std::memcpy(&value, g_inner->puts.at(index).source, sizeof value);
    return value;
  }
  // It has read what it borrowed.
  static void EndPuts() {
    for (const sl_put_t& put : g_inner->puts) {
      if (put.cookie != 0) g_inner->completed.push_back(put.cookie);
    }
    g_inner->puts.clear();
  }
  using Told = std::vector<std::pair<uint64_t, sl_status_t>>;
  Told Ends() {
    Told ends;
    for (const sl_completion_t& completion : Polled()) {
      EXPECT_EQ(completion.kind, SL_COMPLETION_PUT);
      EXPECT_EQ(completion.connection, connection_);
      ends.emplace_back(completion.cookie, completion.status);
    }
    return ends;
  }

  // Values that arrived out of 1 … n.
  std::vector<uint64_t> ArrivedOf(uint64_t n) {
    for (uint64_t i = 1; i <= n; ++i) EXPECT_EQ(Put(i), SL_OK);
    std::vector<uint64_t> values;
    for (const auto& [signal, value] : g_inner->seen) values.push_back(value);
    return values;
  }

  std::deque<Inner> inner_;
  std::vector<std::string> warnings_;
  sl_host_t host_ = {};
  sl_transport_ops_t inner_ops_ = {};
  const sl_module_t* module_ = nullptr;
  const sl_transport_ops_t* ops_ = nullptr;
  sl_instance_t* instance_ = nullptr;
  sl_transport_t* transport_ = nullptr;
  sl_connection_t* connection_ = nullptr;
};

TEST_F(Layer, PassesEverythingWithoutFaultsButHidesThePeersWindow) {
  Open({});
  EXPECT_EQ(ArrivedOf(100).size(), 100u);
  EXPECT_EQ(g_inner->signal_count, 5u);
  sl_window_t window = {};
  window.struct_size = sizeof window;
  ASSERT_EQ(ops_->window(connection_, &window), SL_OK);
  EXPECT_EQ(window.peer, nullptr);
  EXPECT_EQ(window.local, g_inner->local.data());
  EXPECT_EQ(window.signal_count, 4u);
  sl_put_t put = {};
  put.signal = 4;  // the layer's own word
  EXPECT_EQ(ops_->put(connection_, &put), SL_ERR_INVALID);
  sl_connect_args_t args = {};
  args.struct_size = sizeof args;
  sl_connection_t* accepted = nullptr;
  ASSERT_EQ(ops_->accept(transport_, &accepted, &args), SL_OK);
  EXPECT_EQ(args.signal_count, 4u);
}

TEST_F(Layer, DropsTheSamePutsForTheSameSeed) {
  Open({{"drop_per_million", 300'000}, {"seed", 5}});
  const std::vector<uint64_t> first = ArrivedOf(1000);
  EXPECT_GT(first.size(), 600u);
  EXPECT_LT(first.size(), 800u);
  Open({{"drop_per_million", 300'000}, {"seed", 5}});
  EXPECT_EQ(ArrivedOf(1000), first);
  Open({{"drop_per_million", 300'000}, {"seed", 6}});
  EXPECT_NE(ArrivedOf(1000), first);
}

TEST_F(Layer, CompletesWhatItDrops) {
  Open({{"drop_per_million", 1'000'000}});
  EXPECT_EQ(Put(1, 99), SL_OK);
  EXPECT_TRUE(g_inner->seen.empty());
  sl_completion_t done = {};
  uint32_t count = 0;
  ASSERT_EQ(ops_->poll(transport_, &done, 1, &count), SL_OK);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(done.cookie, 99u);
  EXPECT_EQ(done.connection, connection_);
}

TEST_F(Layer, HoldsPutsBackInOrderAndCopiesThem) {
  Open({{"delay_us", 10}});
  sl_wait_object_t object = {};
  EXPECT_EQ(ops_->wait_object(transport_, &object), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(Put(1), SL_OK);
  g_now_ns += 5'000;
  EXPECT_EQ(Put(2), SL_OK);
  ASSERT_EQ(ops_->progress(transport_), SL_OK);
  EXPECT_TRUE(g_inner->seen.empty());
  g_now_ns += 5'000;
  ASSERT_EQ(ops_->progress(transport_), SL_OK);
  EXPECT_EQ(g_inner->seen.size(), 1u);
  EXPECT_EQ(g_inner->peer[0], 1);
  EXPECT_EQ(g_inner->notified, 1) << "a sleeping peer hears of it when it arrives";
  g_inner->full = true;
  g_now_ns += 5'000;
  ASSERT_EQ(ops_->progress(transport_), SL_OK);
  g_inner->full = false;
  ASSERT_EQ(ops_->progress(transport_), SL_OK);
  EXPECT_EQ(g_inner->peer[0], 2);
  EXPECT_EQ(Put(3), SL_OK);
  ops_->retire(connection_);
  EXPECT_EQ(g_inner->peer[0], 3) << "an orderly end loses nothing";
  EXPECT_EQ(g_inner->retired, 1);
}

TEST_F(Layer, ResetsAConnectionAfterSoManyPutsAndTellsThePeer) {
  Open({{"kill_after_puts", 3}});
  EXPECT_EQ(Put(1), SL_OK);
  EXPECT_EQ(Put(2), SL_OK);
  EXPECT_EQ(ops_->connection_state(connection_), SL_CONNECTION_UP);
  EXPECT_EQ(Put(3), SL_OK);
  EXPECT_EQ(ops_->connection_state(connection_), SL_CONNECTION_DOWN);
  EXPECT_EQ(Put(4), SL_ERR_LINK_DOWN);
  ASSERT_EQ(g_inner->seen.size(), 3u);
  EXPECT_EQ(g_inner->seen[2], (std::pair<uint32_t, uint64_t>(4, 1)));
  EXPECT_EQ(g_inner->retired, 0) << "windows live until retire";
}

TEST_F(Layer, KeepsABufferUntilTheTransportBelowHasReadIt) {
  Open({{"delay_us", 10}});
  g_inner->lazy = true;
  for (uint64_t value = 1; value <= 4; ++value) {
    EXPECT_EQ(Put(value, value == 3 ? 33 : 0), SL_OK);
    g_now_ns += 10'000;
    Progress();
  }
  ASSERT_EQ(g_inner->puts.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(Borrowed(i), i + 1) << "used again while it was lent";
  const void* const first = g_inner->puts[0].source;
  EXPECT_EQ(Ends(), Told{});
  EndPuts();
  EXPECT_EQ(Ends(), (Told{{33, SL_OK}})) << "the layer's own cookies stay its own";
  bool again = false;
  for (uint64_t value = 5; value <= 8; ++value) {
    EXPECT_EQ(Put(value), SL_OK);
    g_now_ns += 10'000;
    Progress();
    again |= g_inner->puts.back().source == first;
  }
  EXPECT_TRUE(again) << "buffers that were read are used again";
}

TEST_F(Layer, TakesTheEndsBelowOfAUserWhoAsksForNone) {
  Open({});
  g_inner->lazy = true;
  for (uint64_t value = 1; value <= 10; ++value) {
    EXPECT_EQ(Put(value), SL_OK);
    EndPuts();
    Progress();
    EXPECT_TRUE(g_inner->completed.empty()) << "else the transport below takes no puts when it is full of them";
  }
}

TEST_F(Layer, LeavesSourcesAloneOnceItIsDown) {
  Open({{"kill_after_puts", 2}});
  g_inner->lazy = true;
  uint64_t source = 7;
  sl_put_t put = {};
  put.struct_size = sizeof put;
  put.source = &source;
  put.bytes = sizeof source;
  put.cookie = 11;
  ASSERT_EQ(ops_->put(connection_, &put), SL_OK);
  put.cookie = 12;
  ASSERT_EQ(ops_->put(connection_, &put), SL_OK);
  ASSERT_EQ(ops_->connection_state(connection_), SL_CONNECTION_DOWN);
  EXPECT_EQ(Ends(), (Told{{11, SL_ERR_LINK_DOWN}, {12, SL_ERR_LINK_DOWN}}));
  source = 8;
  EXPECT_EQ(Borrowed(0), 7u) << "the transport below still sends from memory that is its user's again";
  EndPuts();
  EXPECT_EQ(Ends(), Told{}) << "a cookie comes back once";
}

TEST_F(Layer, EndsRegisteredPutsWhenTheyHaveBeenRead) {
  Open({{"kill_after_puts", 3}});
  inner_ops_.register_memory = [](sl_transport_t*, void*, uint64_t, sl_region_t** out) {
    *out = reinterpret_cast<sl_region_t*>(g_inner);
    return SL_OK;
  };
  inner_ops_.deregister_memory = [](sl_region_t*) {};
  g_inner->lazy = true;
  uint64_t source = 7;
  sl_put_t put = {};
  put.struct_size = sizeof put;
  put.source = &source;
  put.bytes = sizeof source;
  put.cookie = 11;
  ASSERT_EQ(ops_->register_memory(transport_, &source, sizeof source, &put.region), SL_OK);
  ASSERT_EQ(ops_->put(connection_, &put), SL_OK);
  EXPECT_EQ(g_inner->puts[0].source, &source);
  EXPECT_EQ(Put(1, 12), SL_OK);
  EXPECT_EQ(Put(2, 13), SL_OK);
  EXPECT_EQ(Ends(), Told{}) << "it is still read";
  EndPuts();
  EXPECT_EQ(Ends(), (Told{{11, SL_OK}, {12, SL_ERR_LINK_DOWN}, {13, SL_ERR_LINK_DOWN}}));
  ops_->deregister_memory(put.region);
}

TEST_F(Layer, CompletesWhatIsLostWithItsConnection) {
  Open({{"delay_us", 10}});
  EXPECT_EQ(Put(1, 11), SL_OK);
  EXPECT_EQ(Put(2, 12), SL_OK);
  g_inner->signals[4 * 8] = 1;  // the peer's layer resets it
  EXPECT_EQ(ops_->connection_state(connection_), SL_CONNECTION_DOWN);
  EXPECT_EQ(Ends(), (Told{{11, SL_ERR_LINK_DOWN}, {12, SL_ERR_LINK_DOWN}}));
  g_now_ns += 10'000;
  Progress();
  EXPECT_TRUE(g_inner->puts.empty());
  EXPECT_EQ(Ends(), Told{});
}

TEST_F(Layer, TellsThePeerOfAResetWhenThereIsRoomAgain) {
  for (const bool retires : {false, true}) {
    Open({{"kill_after_puts", 1}});
    g_inner->full = true;
    inner_ops_.progress = [](sl_transport_t*) {
      g_inner->full = false;
      return SL_OK;
    };
    EXPECT_EQ(Put(1), SL_OK);
    EXPECT_EQ(ops_->connection_state(connection_), SL_CONNECTION_DOWN);
    EXPECT_TRUE(g_inner->seen.empty());
    if (retires) {
      ops_->retire(connection_);
    } else {
      Progress();
      Progress();
    }
    ASSERT_EQ(g_inner->seen.size(), 1u);
    EXPECT_EQ(g_inner->seen[0], (std::pair<uint32_t, uint64_t>(4, 1)));
    EXPECT_EQ(g_inner->notified, 1);
  }
}

TEST_F(Layer, GoesDownWhenThePeersLayerResets) {
  Open({});
  EXPECT_EQ(ops_->connection_state(connection_), SL_CONNECTION_UP);
  g_inner->signals[4 * 8] = 1;
  g_inner->state = SL_CONNECTION_CLOSED;
  EXPECT_EQ(ops_->connection_state(connection_), SL_CONNECTION_DOWN);
  EXPECT_EQ(Put(1), SL_ERR_LINK_DOWN);
}

// Everything that reaches the transport below, put for put.
using Trace = std::vector<std::tuple<uint32_t, uint64_t, uint64_t, std::string>>;

class EveryFault : public Layer {
 protected:
  Trace Run(int64_t seed, bool full_now_and_then) {
    Open({{"seed", seed},
          {"drop_per_million", 50'000},
          {"duplicate_per_million", 50'000},
          {"reorder_per_million", 200'000},
          {"truncate_per_million", 50'000},
          {"corrupt_per_million", 50'000}});
    Trace trace;
    for (uint64_t i = 1; i <= 2000; ++i) {
      const std::array<uint64_t, 4> bytes = {i, i, i, i};
      sl_put_t put = {};
      put.struct_size = sizeof put;
      put.signal = i % 3 == 0 ? 1u : SL_NO_SIGNAL;
      put.signal_value = i;
      put.source = bytes.data();
      put.bytes = sizeof bytes;
      g_inner->full = full_now_and_then && i % 7 == 0;
      while (ops_->put(connection_, &put) == SL_ERR_AGAIN) g_inner->full = false;
      g_inner->full = false;
      if (i % 10 == 0) Progress();
    }
    Progress();
    for (size_t i = 0; i < g_inner->puts.size(); ++i) {
      const sl_put_t& put = g_inner->puts[i];
      trace.emplace_back(put.signal, put.signal_value, put.bytes, g_inner->contents[i]);
    }
    return trace;
  }
};

TEST_F(EveryFault, IsTheSameForTheSameSeed) {
  const Trace first = Run(3, false);
  EXPECT_EQ(Run(3, false), first);
  EXPECT_NE(Run(4, false), first);
}

TEST_F(EveryFault, IsTheSameWhenPutsAreTriedAgain) {
  // What is asked again meets the same fate; what is held back may arrive a call later, but in the same order.
  EXPECT_EQ(Run(3, true), Run(3, false));
}

TEST_F(EveryFault, NeverLetsSignalsOvertakeEachOther) {
  Run(5, false);
  uint64_t last = 0;
  for (const auto& [signal, value] : g_inner->seen) {
    EXPECT_GE(value, last);
    last = value;
  }
}

TEST_F(Layer, DuplicatesWithoutASecondCompletion) {
  Open({{"duplicate_per_million", 1'000'000}});
  EXPECT_EQ(Put(7, 99), SL_OK);
  ASSERT_EQ(g_inner->seen.size(), 2u);
  EXPECT_EQ(g_inner->seen[0], g_inner->seen[1]);
  EXPECT_EQ(Polled().size(), 1u);
}

TEST_F(Layer, TruncatesButSignals) {
  Open({{"truncate_per_million", 1'000'000}});
  EXPECT_EQ(Put(0x1111111111111111), SL_OK);
  ASSERT_EQ(g_inner->puts.size(), 1u);
  EXPECT_LT(g_inner->puts[0].bytes, 8u);
  EXPECT_EQ(g_inner->seen.size(), 1u);
}

TEST_F(Layer, CorruptsOneBitAndNotTheSource) {
  Open({{"corrupt_per_million", 1'000'000}});
  uint64_t value = 0;
  EXPECT_EQ(Put(value), SL_OK);
  uint64_t arrived = 0;
  std::memcpy(&arrived, g_inner->peer.data(), sizeof arrived);
  EXPECT_EQ(std::popcount(arrived), 1);
  EXPECT_EQ(value, 0u);
}

TEST_F(Layer, LetsPutsWithoutSignalsOvertakeEachOther) {
  Open({{"reorder_per_million", 1'000'000}});
  const auto put = [&](uint64_t offset, uint32_t signal) {
    sl_put_t one = {};
    one.struct_size = sizeof one;
    one.signal = signal;
    one.source = &offset;
    one.bytes = sizeof offset;
    one.offset = offset;
    EXPECT_EQ(ops_->put(connection_, &one), SL_OK);
  };
  put(8, SL_NO_SIGNAL);
  EXPECT_TRUE(g_inner->puts.empty()) << "it waits for who overtakes it";
  put(16, SL_NO_SIGNAL);
  ASSERT_EQ(g_inner->puts.size(), 2u);
  EXPECT_EQ(g_inner->puts[0].offset, 16u);
  EXPECT_EQ(g_inner->puts[1].offset, 8u);
  put(24, SL_NO_SIGNAL);
  put(32, 0);
  Progress();
  ASSERT_EQ(g_inner->puts.size(), 4u);
  EXPECT_EQ(g_inner->puts[2].offset, 24u) << "no signal comes before what was put before it";
}

TEST_F(Layer, CarriesNoMoreThanItsRate) {
  Open({{"rate_bytes_per_second", 8'000'000}});  // a put of 8 bytes takes 1 us
  g_now_ns = 1'000'000;
  for (uint64_t i = 1; i <= 100; ++i) EXPECT_EQ(Put(i), SL_OK);
  Progress();
  EXPECT_EQ(g_inner->seen.size(), 0u);
  g_now_ns += 50'000;
  Progress();
  EXPECT_EQ(g_inner->seen.size(), 50u);
  g_now_ns += 50'000;
  Progress();
  EXPECT_EQ(g_inner->seen.size(), 100u);
}

TEST_F(Layer, SpacesPutsWhenSlow) {
  Open({{"slow_us", 10}});
  g_now_ns = 1'000'000;
  for (uint64_t i = 1; i <= 10; ++i) EXPECT_EQ(Put(i), SL_OK);
  g_now_ns += 45'000;
  Progress();
  EXPECT_EQ(g_inner->seen.size(), 5u);
}

// 120 km at 10 GB/s and more: the line holds what is under way, whatever that is.
TEST_F(Layer, HoldsAsMuchAsALongLineDoes) {
  Open({{"delay_us", 600}, {"rate_bytes_per_second", 10'000'000'000}});
  std::vector<uint8_t> chunk(2048);
  g_now_ns = 0;
  sl_put_t put = {};
  put.struct_size = sizeof put;
  put.source = chunk.data();
  put.bytes = chunk.size();
  uint64_t sent = 0;
  for (; sent < 20'000; ++sent) {
    put.signal_value = sent + 1;
    ASSERT_EQ(ops_->put(connection_, &put), SL_OK) << sent;
  }
  // 40 MB take 4.096 ms on the wire; everything is there one delay later.
  g_now_ns = 4'096'000;
  Progress();
  const uint64_t expected = (4'096'000 - 600'000) / 204.8;
  EXPECT_NEAR(static_cast<double>(g_inner->seen.size()), static_cast<double>(expected), 120);
  g_now_ns += 700'000;
  Progress();
  EXPECT_EQ(g_inner->seen.size(), sent);
}

TEST_F(Layer, StandsStillAndLosesNothing) {
  Open({{"stall_after_puts", 3}, {"stall_ms", 5}});
  g_now_ns = 0;
  for (uint64_t i = 1; i <= 5; ++i) EXPECT_EQ(Put(i), SL_OK);
  Progress();
  EXPECT_EQ(g_inner->seen.size(), 2u);
  g_now_ns += 5'000'000;
  Progress();
  EXPECT_EQ(g_inner->seen.size(), 5u);
  EXPECT_EQ(Put(6), SL_OK);
  EXPECT_EQ(g_inner->seen.size(), 6u);
}

TEST_F(Layer, TakesPortsDownAndUp) {
  Open({{"port_down_after_puts", 2}, {"port_down_ms", 5}});
  g_now_ns = 0;
  EXPECT_EQ(Put(1), SL_OK);
  EXPECT_EQ(Put(2), SL_OK);
  EXPECT_EQ(ops_->connection_state(connection_), SL_CONNECTION_DOWN);
  EXPECT_EQ(Connect(), SL_ERR_LINK_DOWN);
  sl_port_t port = {};
  port.struct_size = sizeof port;
  ASSERT_EQ(ops_->port_info(transport_, 0, &port), SL_OK);
  EXPECT_EQ(port.state & SL_PORT_UP, 0u);
  auto events = Polled();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, SL_COMPLETION_PORT);
  EXPECT_EQ(events[0].cookie, 0u);
  g_now_ns += 5'000'000;
  Progress();
  EXPECT_EQ(Polled().size(), 1u);
  ASSERT_EQ(ops_->port_info(transport_, 0, &port), SL_OK);
  EXPECT_EQ(port.state & SL_PORT_UP, SL_PORT_UP);
  EXPECT_EQ(Connect(), SL_OK);
  EXPECT_EQ(Put(3), SL_OK);
}

// A control file of its own, gone at the end.
class Controlled : public Layer {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "fault-inject-" + std::to_string(getpid()) + ".control";
    g_now_ns = 0;
  }
  void TearDown() override {
    unlink(path_.c_str());
    Layer::TearDown();
  }
  void Say(const std::string& text) {
    const std::string next = path_ + ".next";
    std::ofstream(next) << text;
    ASSERT_EQ(rename(next.c_str(), path_.c_str()), 0);
    g_now_ns += 10'000'000;
    Progress();
  }
  std::string path_;
};

TEST_F(Controlled, ChangesFaultsWhileItRuns) {
  Open({}, path_);
  sl_wait_object_t object = {};
  EXPECT_EQ(ops_->wait_object(transport_, &object), SL_ERR_UNSUPPORTED) << "the file must be looked at";
  EXPECT_EQ(Put(1), SL_OK);
  Say("stalled = 1\n");
  EXPECT_EQ(Put(2), SL_OK);
  Progress();
  EXPECT_EQ(g_inner->seen.size(), 1u);
  Say("# nothing\n\n");
  EXPECT_EQ(g_inner->seen.size(), 2u);
  Say("drop_per_million = 1000000 peer 1  # this one\n");
  EXPECT_EQ(Put(3), SL_OK);
  EXPECT_EQ(g_inner->seen.size(), 2u);
  Say("drop_per_million = 1000000 peer 0\ndrop_per_million = 1000000 rank 1\n");
  EXPECT_EQ(Put(4), SL_OK);
  EXPECT_EQ(g_inner->seen.size(), 3u);
  ASSERT_EQ(unlink(path_.c_str()), 0);
  EXPECT_TRUE(warnings_.empty());
}

// As one who writes it twice at once, so that no fact of the file tells the second time but its text.
TEST_F(Controlled, HearsOfAChangeThatOnlyTheTextShows) {
  const auto write = [this](const char* text) {
    std::ofstream(path_, std::ios::trunc) << text;
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    const timespec times[] = {now, {now.tv_sec + 1, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  };
  write("stalled = 1\n");
  Open({}, path_);
  EXPECT_EQ(Put(1), SL_OK);
  EXPECT_TRUE(g_inner->seen.empty());
  write("stalled = 0\n");
  g_now_ns += 10'000'000;
  Progress();
  EXPECT_EQ(g_inner->seen.size(), 1u);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Controlled, ResetsWheneverTheCountGrows) {
  Open({}, path_);
  Say("resets = 1 peer 1 lane 0\n");
  EXPECT_EQ(ops_->connection_state(connection_), SL_CONNECTION_DOWN);
  ASSERT_EQ(Connect(), SL_OK);
  EXPECT_EQ(ops_->connection_state(connection_), SL_CONNECTION_UP) << "it was reset before this one";
  Say("resets = 2\n");
  EXPECT_EQ(ops_->connection_state(connection_), SL_CONNECTION_DOWN);
}

TEST_F(Controlled, TakesPortsDownForAsLongAsItSays) {
  Open({}, path_);
  Say("port_down = 1 rank 0\n");
  EXPECT_EQ(Polled().size(), 1u);
  EXPECT_EQ(Connect(), SL_ERR_LINK_DOWN);
  Say("port_down = 0\n");
  EXPECT_EQ(Polled().size(), 1u);
  EXPECT_EQ(Connect(), SL_OK);
}

TEST_F(Controlled, KeepsToWhatWasWhenTheFileIsWrong) {
  Open({}, path_);
  Say("drop_per_million = 1000000\n");
  const char* const wrong[] = {"dorp_per_million = 1\n",       "drop_per_million 1\n",
                               "drop_per_million = 1000001\n", "seed = 5\n",
                               "drop_per_million = -1\n",      "drop_per_million = 1 rank\n",
                               "delay_us = 1 host 3\n",        "drop_per_million = 1 rank x\n"};
  for (const char* text : wrong) {
    warnings_.clear();
    Say(text);
    Progress();
    EXPECT_EQ(warnings_.size(), 1u) << text;
    EXPECT_EQ(Put(1), SL_OK);
    EXPECT_TRUE(g_inner->seen.empty()) << text;
  }
  warnings_.clear();
  Say(std::string(65537, '\n'));
  EXPECT_EQ(warnings_.size(), 1u) << "too large";
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  warnings_.clear();
  std::ofstream(path_, std::ios::trunc) << "drop_per_million = 0\n";
  g_now_ns += 10'000'000;
  Progress();
  EXPECT_EQ(warnings_.size(), 1u) << "anybody could have written it";
  EXPECT_EQ(Put(1), SL_OK);
  EXPECT_TRUE(g_inner->seen.empty());
}

}  // namespace
}  // namespace sl::fault_inject
