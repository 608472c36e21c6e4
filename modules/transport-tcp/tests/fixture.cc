// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/tests/fixture.h"

#include <cstdlib>

#include "modules/transport-tcp/transport.h"

namespace sl::transport_tcp {
namespace {

std::string& ErrorText() {
  thread_local std::string text;
  return text;
}

}  // namespace

const std::string& Module::LastError() { return ErrorText(); }

Module::Module(const Options& given) {
  const sl_hello_t hello = {sizeof hello,         0,      SL_MODULE_MAGIC, SL_CONTAINER_VERSION,
                            SL_CONTAINER_VERSION, "test", SL_ABI_BUILD_ID};
  EXPECT_EQ(sl_module_query(&hello, &module_), SL_OK);
  ops = static_cast<const sl_transport_ops_t*>(module_->provides[0]->ops);
  host_.struct_size = sizeof host_;
  host_.ctx = this;
  host_.log_enabled = [](void*, sl_log_level_t) { return 1; };
  host_.log = [](void* ctx, sl_log_level_t level, const char* text) {
    auto* module = static_cast<Module*>(ctx);
    const std::lock_guard lock(module->mutex_);
    module->lines_.push_back({level, text});
  };
  host_.set_error = [](void*, sl_status_t code, const char* text) {
    ErrorText() = text;
    return code;
  };
  host_.now_ns = [](void*) { return NowNs(); };
  std::vector<std::string> texts(module_->option_count);
  std::vector<sl_option_value_t> values(module_->option_count);
  std::vector<const sl_option_value_t*> pointers;
  for (uint32_t i = 0; i < module_->option_count; ++i) {
    const sl_option_t& option = *module_->options[i];
    const auto found = given.find(option.name);
    texts[i] = found != given.end() ? found->second : option.default_text;
    const int64_t number = texts[i] == "true" ? 1 : std::atoll(texts[i].c_str());
    values[i] = {sizeof(sl_option_value_t), option.type, number, 0, texts[i].c_str()};
    pointers.push_back(&values[i]);
  }
  const sl_open_args_t args = {sizeof args, module_->option_count, pointers.data(), 0, 0, nullptr};
  status = module_->open(&host_, &args, &instance_);
}

Module::~Module() {
  if (instance_ != nullptr) module_->close(instance_);
}

sl_transport_t* Module::Open(uint32_t rank, uint32_t size, uint8_t secret, uint8_t host) {
  const sl_transport_env_t env = transport_test::Env(rank, size, secret, host);
  sl_transport_t* transport = nullptr;
  EXPECT_EQ(ops->open(instance_, &env, &transport), SL_OK) << LastError();
  return transport;
}

sl_status_t Module::TryOpen(std::string* out_error, const char* interfaces, uint32_t family) {
  sl_transport_env_t env = transport_test::Env(0, 1, 0, 0);
  env.interfaces = interfaces;
  env.address_family = family;
  sl_transport_t* transport = nullptr;
  const sl_status_t code = ops->open(instance_, &env, &transport);
  *out_error = code == SL_OK ? "" : LastError();
  if (code != SL_OK) return code;
  sl_port_t port = {};
  port.struct_size = sizeof port;
  EXPECT_EQ(ops->port_info(transport, 0, &port), SL_OK);
  first_port_ = port.name;
  ops->close(transport);
  return code;
}

size_t Module::CountLines(sl_log_level_t level, const std::string& part) const {
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const Line& line : lines_) count += line.level <= level && line.text.find(part) != std::string::npos ? 1 : 0;
  return count;
}

const Counters& CountersOf(sl_transport_t* transport) { return reinterpret_cast<Transport*>(transport)->counters(); }

Pair::Pair(const Options& options, uint64_t window_bytes) : module(options), ops(module.ops) {
  a = module.Open(0, 2);
  b = module.Open(1, 2);
  EXPECT_EQ(ops->listen(b, 0, &address), SL_OK) << Module::LastError();
  const sl_connect_args_t args = Args(1, window_bytes);
  EXPECT_EQ(ops->connect(a, &address, &args, &from), SL_OK) << Module::LastError();
  sl_connect_args_t said = {};
  said.struct_size = sizeof said;
  EXPECT_TRUE(Until([&] { return to != nullptr || ops->accept(b, &to, &said) == SL_OK; }));
  EXPECT_TRUE(Until([&] { return ops->connection_state(from) == SL_CONNECTION_UP; }));
  window_a.struct_size = window_b.struct_size = sizeof(sl_window_t);
  EXPECT_EQ(ops->window(from, &window_a), SL_OK);
  EXPECT_EQ(ops->window(to, &window_b), SL_OK);
}

Pair::~Pair() {
  ops->close(a);
  ops->close(b);
}

void Pair::Progress() {
  ops->progress(a);
  ops->progress(b);
}

sl_status_t Pair::Put(const sl_put_t& put) {
  sl_status_t code = SL_ERR_AGAIN;
  Until([&] { return (code = ops->put(from, &put)) != SL_ERR_AGAIN; });
  ops->notify(from);
  return code;
}

std::vector<sl_completion_t> Pair::Poll(sl_transport_t* transport) {
  std::vector<sl_completion_t> found(64);
  uint32_t count = 0;
  EXPECT_EQ(ops->poll(transport, found.data(), 64, &count), SL_OK);
  found.resize(count);
  return found;
}

void Pair::Retire(sl_connection_t** connection) {
  ops->retire(*connection);
  *connection = nullptr;
}

}  // namespace sl::transport_tcp
