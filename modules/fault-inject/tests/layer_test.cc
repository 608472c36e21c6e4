// SPDX-License-Identifier: Apache-2.0
//
// The layer over a transport of one connection whose other end is this test.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
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
  std::vector<uint64_t> completed;
  uint32_t signal_count = 0;
  uint32_t state = SL_CONNECTION_UP;
  bool full = false;
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
    if (put->source != nullptr) std::memcpy(g_inner->peer.data() + put->offset, put->source, put->bytes);
    if (put->signal != SL_NO_SIGNAL) g_inner->seen.emplace_back(put->signal, put->signal_value);
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
  void Open(const std::map<std::string, int64_t>& values) {
    Close();
    g_inner = &inner_.emplace_back();
    const sl_hello_t hello = {sizeof hello,         0,      SL_MODULE_MAGIC, SL_CONTAINER_VERSION,
                              SL_CONTAINER_VERSION, "test", SL_ABI_BUILD_ID};
    ASSERT_EQ(sl_module_query(&hello, &module_), SL_OK);
    EXPECT_EQ(module_->provides[0]->flags, SL_INTERFACE_LAYER);
    EXPECT_STREQ(module_->provides[0]->id, module_->requirements[0]->id);
    ops_ = static_cast<const sl_transport_ops_t*>(module_->provides[0]->ops);
    host_.log_enabled = [](void*, sl_log_level_t) { return 0; };
    host_.set_error = [](void*, sl_status_t status, const char*) { return status; };
    host_.now_ns = [](void*) { return g_now_ns; };
    std::vector<sl_option_value_t> options;
    std::vector<const sl_option_value_t*> pointers;
    for (uint32_t i = 0; i < module_->option_count; ++i) {
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
    const sl_transport_env_t env = {sizeof env, 0, 2, 0, {}, {}};
    ASSERT_EQ(ops_->open(instance_, &env, &transport_), SL_OK);
    sl_connect_args_t connect = {};
    connect.struct_size = sizeof connect;
    connect.signal_count = 4;
    connect.peer = 1;
    const sl_address_t address = {};
    ASSERT_EQ(ops_->connect(transport_, &address, &connect, &connection_), SL_OK);
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

  // Values that arrived out of 1 … n.
  std::vector<uint64_t> ArrivedOf(uint64_t n) {
    for (uint64_t i = 1; i <= n; ++i) EXPECT_EQ(Put(i), SL_OK);
    std::vector<uint64_t> values;
    for (const auto& [signal, value] : g_inner->seen) values.push_back(value);
    return values;
  }

  std::deque<Inner> inner_;
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

TEST_F(Layer, GoesDownWhenThePeersLayerResets) {
  Open({});
  EXPECT_EQ(ops_->connection_state(connection_), SL_CONNECTION_UP);
  g_inner->signals[4 * 8] = 1;
  g_inner->state = SL_CONNECTION_CLOSED;
  EXPECT_EQ(ops_->connection_state(connection_), SL_CONNECTION_DOWN);
  EXPECT_EQ(Put(1), SL_ERR_LINK_DOWN);
}

}  // namespace
}  // namespace sl::fault_inject
