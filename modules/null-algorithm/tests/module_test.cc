// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sl_algorithm.h"

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
class NullAlgorithm : public ::testing::Test {
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
    ops_ = static_cast<const sl_algorithm_ops_t*>(module_->provides[0]->ops);
  }
  void TearDown() override {
    if (instance_ == nullptr) return;
    EXPECT_EQ(SL_OK, module_->quiesce(instance_, SL_NO_DEADLINE));
    module_->close(instance_);
  }

  Host host_;
  const sl_module_t* module_ = nullptr;
  sl_instance_t* instance_ = nullptr;
  const sl_algorithm_ops_t* ops_ = nullptr;
};

TEST_F(NullAlgorithm, SaysWhatItIs) {
  EXPECT_STREQ("null-algorithm", module_->name);
  ASSERT_EQ(1u, module_->provide_count);
  EXPECT_STREQ(SL_ALGORITHM_ID, module_->provides[0]->id);
  EXPECT_EQ(std::vector<std::string>{"opened"}, host_.lines);
}

TEST_F(NullAlgorithm, ServesNothingAndSaysWhy) {
  sl_comm_shape_t shape{};
  shape.struct_size = sizeof(shape);
  shape.size = 2;
  sl_demand_t demand{};
  demand.symmetric_bytes = 7;
  EXPECT_EQ(SL_OK, ops_->demand(instance_, &shape, &demand));
  EXPECT_EQ(0u, demand.symmetric_bytes);
  sl_algorithm_env_t env{};
  env.struct_size = sizeof(env);
  env.shape = &shape;
  sl_algorithm_t* algorithm = nullptr;
  ASSERT_EQ(SL_OK, ops_->create(instance_, &env, &algorithm));
  sl_op_t op{};
  op.struct_size = sizeof(op);
  sl_estimate_t estimate{};
  estimate.struct_size = sizeof(estimate);
  EXPECT_EQ(SL_ERR_UNSUPPORTED, ops_->estimate(algorithm, &op, &estimate));
  EXPECT_STREQ("a skeleton serves nothing", estimate.reason);
  ops_->destroy(algorithm);
}

}  // namespace
