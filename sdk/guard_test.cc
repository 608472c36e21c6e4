// SPDX-License-Identifier: Apache-2.0
#include "sdk/guard.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace sl {
namespace {

// A host that keeps the last text.
struct Texts {
  std::string last;
  sl_host_t host{};
  Texts() {
    host.struct_size = sizeof(host);
    host.ctx = this;
    host.set_error = [](void* ctx, sl_status_t status, const char* text) {
      static_cast<Texts*>(ctx)->last = text;
      return status;
    };
  }
};

TEST(Guard, HandsCodeAndTextToTheHost) {
  Texts texts;
  EXPECT_EQ(SL_ERR_LIMIT, Guard(&texts.host, [] { return Status(SL_ERR_LIMIT, "no slot is left"); }));
  EXPECT_EQ("no slot is left", texts.last);
}

TEST(Guard, KeepsTheTextOfAnErrorPassedOn) {
  Texts texts;
  texts.last = "what the callee said";
  EXPECT_EQ(SL_ERR_INVALID, Guard(&texts.host, [] { return Status(SL_ERR_INVALID); }));
  EXPECT_EQ("what the callee said", texts.last);
}

TEST(Guard, StopsExceptions) {
  Texts texts;
  EXPECT_EQ(SL_ERR_MEMORY, Guard(&texts.host, []() -> Status { throw std::bad_alloc(); }));
  EXPECT_EQ(SL_ERR_EXCEPTION, Guard(&texts.host, []() -> Status { throw std::runtime_error("odd"); }));
  EXPECT_EQ("odd", texts.last);
  EXPECT_EQ(SL_ERR_EXCEPTION, Guard(&texts.host, []() -> Status { throw 42; }));
}

}  // namespace
}  // namespace sl
