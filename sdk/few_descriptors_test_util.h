// SPDX-License-Identifier: Apache-2.0
//
// For tests of shortages: a process that can open so many descriptors more, and whose limit nobody can raise. Included
// by one source of a test program, since it takes the place of the C library's getrlimit there.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

#include "sdk/fd.h"

namespace sl {

inline bool limit_is_hard = false;

// While it lives, this process can open `left` descriptors more.
class FewDescriptors {
 public:
  explicit FewDescriptors(size_t left = 0) {
    EXPECT_EQ(prlimit(0, RLIMIT_NOFILE, nullptr, &before_), 0);
    std::vector<Fd> next(left + 1);
    for (Fd& fd : next) fd = Fd(dup(0));
    rlimit low = before_;
    low.rlim_cur = static_cast<rlim_t>(next.back().get());
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    limit_is_hard = true;
  }
  ~FewDescriptors() {
    limit_is_hard = false;
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_ = {};
};

}  // namespace sl

// Weak: headers may be included twice in a program.
extern "C" [[gnu::weak]] int getrlimit(__rlimit_resource_t resource, rlimit* limit) noexcept {
  if (prlimit(0, static_cast<__rlimit_resource>(resource), nullptr, limit) != 0) return -1;
  if (sl::limit_is_hard) limit->rlim_max = limit->rlim_cur;
  return 0;
}
