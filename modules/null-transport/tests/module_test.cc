// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sl_transport.h"

namespace {

// A host that keeps what the module says.
struct Host {
  std::vector<std::string> lines;
  std::string error;
  sl_host_t table{};

  Host() {
    table.struct_size = sizeof(table);
    table.ctx = this;
    table.log = [](void* ctx, sl_log_level_t, const char* text) { static_cast<Host*>(ctx)->lines.emplace_back(text); };
    table.set_error = [](void* ctx, sl_status_t status, const char* text) {
      static_cast<Host*>(ctx)->error = text;
      return status;
    };
  }
};

// The module, opened with its option `verbose` on.
class NullTransport : public ::testing::Test {
 protected:
  void SetUp() override {
    sl_hello_t hello{};
    hello.struct_size = sizeof(hello);
    hello.magic = SL_MODULE_MAGIC;
    hello.container_min = SL_CONTAINER_VERSION;
    hello.container_max = SL_CONTAINER_VERSION;
    ASSERT_EQ(SL_OK, sl_module_query(&hello, &module_));
    const sl_option_value_t verbose = {sizeof(sl_option_value_t), SL_OPTION_BOOL, 1, 0, ""};
    const sl_option_value_t* options[] = {&verbose};
    sl_open_args_t args{};
    args.struct_size = sizeof(args);
    args.option_count = 1;
    args.options = options;
    ASSERT_EQ(SL_OK, module_->open(&host_.table, &args, &instance_)) << host_.error;
    ops_ = static_cast<const sl_transport_ops_t*>(module_->provides[0]->ops);
  }
  void TearDown() override {
    if (instance_ == nullptr) return;
    EXPECT_EQ(SL_OK, module_->quiesce(instance_, SL_NO_DEADLINE));
    module_->close(instance_);
  }

  Host host_;
  const sl_module_t* module_ = nullptr;
  sl_instance_t* instance_ = nullptr;
  const sl_transport_ops_t* ops_ = nullptr;
};

TEST_F(NullTransport, SaysWhatItIs) {
  EXPECT_STREQ("null-transport", module_->name);
  ASSERT_EQ(1u, module_->provide_count);
  EXPECT_STREQ(SL_TRANSPORT_ID, module_->provides[0]->id);
  EXPECT_EQ(std::vector<std::string>{"opened"}, host_.lines);
}

TEST_F(NullTransport, HasNoUsablePort) {
  sl_transport_env_t env{};
  env.struct_size = sizeof(env);
  sl_transport_t* transport = nullptr;
  EXPECT_EQ(SL_ERR_NOT_FOUND, ops_->open(instance_, &env, &transport));
  EXPECT_EQ("there is no usable port", host_.error);
}

}  // namespace
