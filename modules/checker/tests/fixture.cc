// SPDX-License-Identifier: Apache-2.0
#include "modules/checker/tests/fixture.h"

#include <cstring>

namespace sl::checker {

std::set<std::string>& BrokenSoFar() {
  static std::set<std::string> broken;
  return broken;
}

void CheckerTest::Wrap(const char* id, const void* ops_below, const char* on_violation) {
  const sl_hello_t hello = {sizeof hello,         0,      SL_MODULE_MAGIC, SL_CONTAINER_VERSION,
                            SL_CONTAINER_VERSION, "test", SL_ABI_BUILD_ID};
  ASSERT_EQ(sl_module_query(&hello, &module_), SL_OK);
  host_.struct_size = sizeof host_;
  host_.ctx = this;
  host_.log_enabled = [](void*, sl_log_level_t) { return 1; };
  host_.log = [](void* ctx, sl_log_level_t, const char* text) {
    static_cast<CheckerTest*>(ctx)->lines_.emplace_back(text);
    std::fprintf(stderr, "%s\n", text);
  };
  host_.set_error = [](void* ctx, sl_status_t status, const char* text) {
    static_cast<CheckerTest*>(ctx)->error_ = text;
    return status;
  };
  const sl_option_value_t mode = {sizeof mode, SL_OPTION_CHOICE, 0, 0, on_violation};
  const sl_option_value_t lines = {sizeof lines, SL_OPTION_INT, 3, 0, ""};
  const sl_option_value_t looks = {sizeof looks, SL_OPTION_BOOL, 1, 0, ""};
  const sl_option_value_t* options[] = {&mode, &lines, &looks};
  std::vector<sl_binding_t> bindings;
  std::vector<const sl_binding_t*> pointers;
  bindings.reserve(module_->require_count);
  for (uint32_t i = 0; i < module_->require_count; ++i) {
    const char* wanted = module_->requirements[i]->id;
    const bool bound = std::strcmp(wanted, id) == 0;
    bindings.push_back({sizeof(sl_binding_t), 1, wanted, bound ? ops_below : nullptr, nullptr});
  }
  pointers.reserve(bindings.size());
  for (const sl_binding_t& binding : bindings) pointers.push_back(&binding);
  const sl_open_args_t args = {sizeof args, 3, options, static_cast<uint32_t>(pointers.size()), 0, pointers.data()};
  ASSERT_EQ(module_->open(&host_, &args, &instance_), SL_OK) << error_;
  for (uint32_t i = 0; i < module_->provide_count; ++i) {
    EXPECT_EQ(module_->provides[i]->flags, SL_INTERFACE_LAYER);
    if (std::strcmp(module_->provides[i]->id, id) == 0) ops_ = module_->provides[i]->ops;
  }
}

void CheckerTest::Quiesce() { EXPECT_EQ(module_->quiesce(instance_, SL_NO_DEADLINE), SL_OK); }

void CheckerTest::Close() {
  if (instance_ != nullptr) module_->close(instance_);
  instance_ = nullptr;
}

void CheckerTest::TearDown() {
  ExpectQuiet();
  Close();
}

void CheckerTest::ExpectBroken(const std::string& rule) {
  ASSERT_EQ(lines_.size(), 1u) << rule;
  EXPECT_NE(lines_[0].find("rule " + rule + ")"), std::string::npos) << lines_[0];
  BrokenSoFar().insert(rule);
  lines_.clear();
}

}  // namespace sl::checker
