// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sl_fault.h"

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
class NullFault : public ::testing::Test {
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
    ops_ = static_cast<const sl_fault_ops_t*>(module_->provides[0]->ops);
  }
  void TearDown() override {
    if (instance_ == nullptr) return;
    EXPECT_EQ(SL_OK, module_->quiesce(instance_, SL_NO_DEADLINE));
    module_->close(instance_);
  }

  Host host_;
  const sl_module_t* module_ = nullptr;
  sl_instance_t* instance_ = nullptr;
  const sl_fault_ops_t* ops_ = nullptr;
};

TEST_F(NullFault, SaysWhatItIs) {
  EXPECT_STREQ("null-fault", module_->name);
  ASSERT_EQ(1u, module_->provide_count);
  EXPECT_STREQ(SL_FAULT_ID, module_->provides[0]->id);
  EXPECT_EQ(std::vector<std::string>{"opened"}, host_.lines);
}

TEST_F(NullFault, SharesEquallyAmongTheHealthy) {
  sl_fault_policy_t* policy = nullptr;
  ASSERT_EQ(SL_OK, ops_->create(instance_, 3, &policy));
  sl_connection_health_t health[3] = {};
  health[1].flags = SL_HEALTH_ERROR;
  uint32_t weights[3] = {9, 9, 9};
  sl_fault_verdict_t verdict{};
  EXPECT_EQ(SL_OK, ops_->evaluate(policy, 0, health, 3, weights, &verdict));
  EXPECT_EQ(1u, weights[0]);
  EXPECT_EQ(0u, weights[1]);
  EXPECT_EQ(1u, weights[2]);
  EXPECT_EQ(SL_NO_DEADLINE, verdict.next_look_ns);
  ops_->destroy(policy);
}

}  // namespace
