// SPDX-License-Identifier: Apache-2.0
//
// Links over shared memory, and over shared memory with the fault layer between.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include "kernel/events/log.h"
#include "kernel/link/link_table.h"
#include "sdk/clock.h"

namespace sl::kernel {
namespace {

using Values = std::map<std::string, int64_t>;

// A module opened by hand, so that this test needs neither loader nor profile.
class Module {
 public:
  Module(const char* name, const Values& values, const Module* below) {
    const std::string path = std::string(std::getenv("SL_TEST_BUILD_DIR")) + "/lib/starling/" + name + ".so";
    void* file = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(file, nullptr) << dlerror();
    const auto query = reinterpret_cast<sl_module_query_fn>(dlsym(file, "sl_module_query"));
    const sl_hello_t hello = {sizeof hello,         0,      SL_MODULE_MAGIC, SL_CONTAINER_VERSION,
                              SL_CONTAINER_VERSION, "test", SL_ABI_BUILD_ID};
    EXPECT_EQ(query(&hello, &module_), SL_OK);
    ops = static_cast<const sl_transport_ops_t*>(module_->provides[0]->ops);
    host_.struct_size = sizeof host_;
    host_.log_enabled = [](void*, sl_log_level_t) { return 0; };
    host_.log = [](void*, sl_log_level_t, const char*) {};
    host_.set_error = [](void*, sl_status_t status, const char*) { return status; };
    host_.now_ns = [](void*) { return NowNs(); };
    std::vector<sl_option_value_t> options(module_->option_count);
    std::vector<const sl_option_value_t*> pointers;
    for (uint32_t i = 0; i < module_->option_count; ++i) {
      const sl_option_t& option = *module_->options[i];
      const auto found = values.find(option.name);
      int64_t value = found != values.end() ? found->second : std::atoll(option.default_text);
      if (option.type == SL_OPTION_BOOL && found == values.end()) value = std::strcmp(option.default_text, "true") == 0;
      options[i] = {sizeof(sl_option_value_t), option.type, value, 0, option.default_text};
      pointers.push_back(&options[i]);
    }
    sl_binding_t binding = {sizeof binding, 1, SL_TRANSPORT_ID, nullptr, nullptr};
    if (below != nullptr) {
      binding.ops = below->ops;
      binding.instance = below->instance;
    }
    const sl_binding_t* bindings[] = {&binding};
    const sl_open_args_t args = {sizeof args, module_->option_count, pointers.data(), module_->require_count, 0,
                                 bindings};
    EXPECT_EQ(module_->open(&host_, &args, &instance), SL_OK);
  }
  ~Module() { module_->close(instance); }

  const sl_transport_ops_t* ops = nullptr;
  sl_instance_t* instance = nullptr;

 private:
  const sl_module_t* module_ = nullptr;
  sl_host_t host_ = {};
};

// The modules of one process and what its ranks opened.
class Stack {
 public:
  explicit Stack(const Values* faults) : shm_(std::make_unique<Module>("transport-shm", Values{}, nullptr)) {
    top_ = shm_.get();
    if (faults == nullptr) return;
    faults_ = std::make_unique<Module>("fault-inject", *faults, shm_.get());
    top_ = faults_.get();
  }
  ~Stack() {
    for (sl_transport_t* transport : transports_) top_->ops->close(transport);
  }

  // Opens rank's transport and listens.
  sl_transport_t* Open(uint32_t rank, uint32_t size, sl_address_t* out_address) {
    sl_transport_env_t env = {};
    env.struct_size = sizeof env;
    env.rank = rank;
    env.size = size;
    std::memset(env.job_secret, 5, sizeof env.job_secret);
    sl_transport_t* transport = nullptr;
    EXPECT_EQ(top_->ops->open(top_->instance, &env, &transport), SL_OK);
    EXPECT_EQ(top_->ops->listen(transport, 0, out_address), SL_OK);
    transports_.push_back(transport);
    return transport;
  }

  LinkTableConfig Config(uint32_t rank, sl_transport_t* transport, const std::vector<sl_address_t>& addresses) const {
    LinkTableConfig config;
    config.rank = rank;
    config.size = static_cast<uint32_t>(addresses.size());
    config.chunk_bytes = 16384;
    config.slots = 8;
    config.resend_ns = 3'000'000;
    LinkTransport& entry = config.transports.emplace_back();
    entry.ops = top_->ops;
    entry.transport = transport;
    entry.name = "shm";
    entry.fabrics.resize(1);
    LinkPeers peers;
    for (const sl_address_t& address : addresses) peers.push_back({LinkAddress{address, {}}});
    entry.peers = std::make_shared<const LinkPeers>(std::move(peers));
    return config;
  }

 private:
  std::unique_ptr<Module> shm_;
  std::unique_ptr<Module> faults_;
  const Module* top_ = nullptr;
  std::vector<sl_transport_t*> transports_;
};

uint32_t SizeOf(uint64_t sequence) { return static_cast<uint32_t>(sequence * 2654435761u % 16385); }
int ByteOf(uint32_t rank, uint64_t sequence) { return static_cast<uint8_t>(sequence * 31 + rank * 7); }

// Sends and receives `total` chunks; true when all came once, whole and in order, and all were acknowledged by then,
// or `stop` says that the other side is through.
bool Stream(LinkTable* table, uint32_t rank, uint64_t total, std::atomic<int>* finished) {
  const uint32_t peer = 1 - rank;
  Link* link = table->Get(peer, 0);
  uint64_t sent = 0;
  uint64_t received = 0;
  bool counted = false;
  for (const uint64_t end = NowNs() + 50'000'000'000; finished->load() < 2;) {
    if (NowNs() > end) return false;
    void* payload = nullptr;
    if (sent < total && link->Reserve(&payload) == SL_OK) {
      ++sent;
      std::memset(payload, ByteOf(rank, sent), SizeOf(sent));
      if (link->Post(SizeOf(sent), {sent, 0, 0}) != SL_OK) return false;
    }
    Chunk chunk;
    const sl_status_t status = received < total ? link->Peek(&chunk) : SL_ERR_AGAIN;
    if (status == SL_OK) {
      ++received;
      if (chunk.header->op_seq != received || chunk.header->bytes != SizeOf(received)) return false;
      for (uint32_t i = 0; i < chunk.header->bytes; ++i) {
        if (chunk.payload[i] != ByteOf(peer, received)) return false;
      }
      if (link->Release() != SL_OK) return false;
    } else if (status != SL_ERR_AGAIN) {
      return false;
    }
    link->Notify();
    if (table->Progress() != SL_OK) return false;
    if (sent == total && received == total && table->Idle() && !std::exchange(counted, true)) ++*finished;
    if (status == SL_ERR_AGAIN) sched_yield();
  }
  return counted;
}

// Two ranks on two threads of this process. `out_epoch` is the link's at the end.
void StreamBothWays(const Values* faults, uint64_t chunks, uint64_t* out_resends, uint32_t* out_epoch) {
  Stack stack(faults);
  std::vector<sl_address_t> addresses(2);
  sl_transport_t* transports[2];
  for (uint32_t rank = 0; rank < 2; ++rank) transports[rank] = stack.Open(rank, 2, &addresses[rank]);
  LinkTable low(stack.Config(0, transports[0], addresses));
  LinkTable high(stack.Config(1, transports[1], addresses));
  std::atomic<int> finished{0};
  bool high_good = false;
  std::thread other([&] { high_good = Stream(&high, 1, chunks, &finished); });
  EXPECT_TRUE(Stream(&low, 0, chunks, &finished));
  other.join();
  EXPECT_TRUE(high_good);
  *out_resends = low.resends() + high.resends();
  *out_epoch = static_cast<ChunkLink*>(low.Get(1, 0))->EpochOf(0);
}

class Links : public ::testing::Test {
 protected:
  void SetUp() override { ConfigureLog(SL_LOG_ERROR, ""); }
  uint64_t resends_ = 0;
  uint32_t epoch_ = 0;
};

TEST_F(Links, StreamOverSharedMemory) {
  StreamBothWays(nullptr, 5'000, &resends_, &epoch_);
  EXPECT_EQ(resends_, 0u);
  EXPECT_EQ(epoch_, 1u);
}

TEST_F(Links, StreamThroughALayerWithoutFaults) {
  const Values none;
  StreamBothWays(&none, 2'000, &resends_, &epoch_);
  EXPECT_EQ(epoch_, 1u);
}

TEST_F(Links, SurviveDropsAndDelays) {
  const Values faults = {{"drop_per_million", 20'000}, {"delay_us", 50}};
  StreamBothWays(&faults, 1'000, &resends_, &epoch_);
  EXPECT_GT(resends_, 0u);
  EXPECT_EQ(epoch_, 1u);
}

TEST_F(Links, SurviveResetAfterReset) {
  const Values faults = {{"kill_after_puts", 300}, {"kill_limit", 6}};
  StreamBothWays(&faults, 2'000, &resends_, &epoch_);
  EXPECT_GT(epoch_, 6u);
}

TEST_F(Links, SurviveEverythingTogether) {
  const Values faults = {{"drop_per_million", 10'000}, {"delay_us", 20}, {"kill_after_puts", 400}, {"kill_limit", 3}};
  StreamBothWays(&faults, 1'000, &resends_, &epoch_);
  EXPECT_GT(epoch_, 3u);
}

// A killed peer ends the links of the survivor, which waits as the higher or as the lower rank, within two seconds.
class KilledPeer : public ::testing::TestWithParam<uint32_t> {};

TEST_P(KilledPeer, EndsItsLinksInTwoSeconds) {
  ConfigureLog(SL_LOG_ERROR, "/dev/null");
  const uint32_t victim = GetParam();
  int to_child[2];
  int to_parent[2];
  ASSERT_EQ(pipe(to_child), 0);
  ASSERT_EQ(pipe(to_parent), 0);
  const pid_t pid = fork();
  const uint32_t rank = pid == 0 ? victim : 1 - victim;
  Stack stack(nullptr);
  std::vector<sl_address_t> addresses(2);
  sl_transport_t* transport = stack.Open(rank, 2, &addresses[rank]);
  const int out = pid == 0 ? to_parent[1] : to_child[1];
  const int in = pid == 0 ? to_child[0] : to_parent[0];
  const auto bytes = static_cast<ssize_t>(sizeof(sl_address_t));
  ASSERT_EQ(write(out, &addresses[rank], sizeof(sl_address_t)), bytes);
  ASSERT_EQ(read(in, &addresses[1 - rank], sizeof(sl_address_t)), bytes);
  LinkTable table(stack.Config(rank, transport, addresses));
  Link* link = table.Get(1 - rank, 0);
  if (pid == 0) {
    void* payload = nullptr;
    while (link->Reserve(&payload) == SL_ERR_AGAIN) table.Progress();
    link->Post(1, {7, 0, 0});
    for (;;) table.Progress();
  }
  Chunk chunk;
  const auto peek_for = [&](uint64_t seconds) {
    sl_status_t status = SL_ERR_AGAIN;
    for (const uint64_t end = NowNs() + seconds * 1'000'000'000; status == SL_ERR_AGAIN && NowNs() < end;) {
      table.Progress();
      status = link->Peek(&chunk);
    }
    return status;
  };
  EXPECT_EQ(peek_for(20), SL_OK);
  EXPECT_EQ(chunk.header->op_seq, 7u);
  kill(pid, SIGKILL);
  link->Release();
  const sl_status_t status = peek_for(20);
  EXPECT_TRUE(status == SL_ERR_PEER_LOST || status == SL_ERR_LINK_DOWN) << status;
  waitpid(pid, nullptr, 0);
  for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(fd);
}

INSTANTIATE_TEST_SUITE_P(All, KilledPeer, ::testing::Values(0u, 1u));

}  // namespace
}  // namespace sl::kernel
