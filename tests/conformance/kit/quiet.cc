// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/kit/quiet.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

namespace sl::conform {

Quiet::Quiet(Trial& trial) : trial_(trial), caught_(memfd_create("caught", MFD_CLOEXEC)), saved_{-1, -1} {
  trial.Require(caught_ >= 0, "no descriptor is left to catch output with");
  std::fflush(nullptr);
  for (int stream : {0, 1}) {
    saved_[stream] = fcntl(stream + STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    dup2(caught_, stream + STDOUT_FILENO);
  }
}

Quiet::~Quiet() {
  std::fflush(nullptr);
  for (int stream : {0, 1}) {
    dup2(saved_[stream], stream + STDOUT_FILENO);
    close(saved_[stream]);
  }
  close(caught_);
}

void Quiet::ExpectSilence(const std::string& when) {
  std::fflush(nullptr);
  char text[200];
  const ssize_t length = pread(caught_, text, sizeof(text), 0);
  trial_.Expect(length <= 0, "{}: it printed \"{}\"; a module speaks through its host's log", when,
                std::string(text, length > 0 ? static_cast<size_t>(length) : 0));
}

}  // namespace sl::conform
