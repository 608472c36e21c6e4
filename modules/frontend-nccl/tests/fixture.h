// SPDX-License-Identifier: Apache-2.0
//
// What the tests share: a clean fake kernel, communicators of one process, and the last error's text.
#pragma once

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "modules/frontend-nccl/tests/fake_runtime.h"
#include "nccl.h"

namespace sl::frontend_nccl {

class Fixture : public testing::Test {
 protected:
  void SetUp() override { Fake().Reset(); }

  // All ranks of one communicator in this thread.
  static std::vector<ncclComm_t> MakeComms(int size) {
    std::vector<ncclComm_t> comms(static_cast<size_t>(size));
    EXPECT_EQ(ncclCommInitAll(comms.data(), size, nullptr), ncclSuccess) << Text();
    return comms;
  }
  static ncclComm_t MakeComm() { return MakeComms(1)[0]; }

  static void DestroyComms(const std::vector<ncclComm_t>& comms) {
    for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << Text();
  }

  static std::string Text() { return ncclGetLastError(nullptr); }
  static bool TextHas(const std::string& part) { return Text().find(part) != std::string::npos; }
};

}  // namespace sl::frontend_nccl
