// SPDX-License-Identifier: Apache-2.0
//
// One child process of the runner: this program run again, in a process group of its own, with its report and its
// output on pipes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sl::conform {

class Process {
 public:
  // Starts the running executable with `arguments`; "--x=FD" is completed by the report's descriptor when an argument
  // ends with '='. Throws CommandError (failure) when the system cannot.
  Process(const std::vector<std::string>& arguments, uint64_t limit_ms);
  // Ends it and what it started.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Reads what there is. True when it has ended: nothing of its group runs any more.
  bool Poll();
  // Descriptors to wait for; closed ones are -1.
  int report_fd() const { return report_; }
  int output_fd() const { return output_; }
  // When it will be killed, CLOCK_MONOTONIC.
  uint64_t deadline_ms() const { return deadline_ms_; }

  const std::string& report() const { return report_text_; }  // once it has ended, without where it ended
  const std::string& output() const { return output_text_; }  // the last bytes of it
  uint64_t elapsed_ms() const { return elapsed_ms_; }
  // "" when it ended with exit code 0 in time and left nobody behind; else how it ended, and in which slot.
  const std::string& trouble() const { return trouble_; }

 private:
  void Finish(int status);

  const uint64_t started_ms_;
  const uint64_t deadline_ms_;
  pid_t pid_ = -1;
  int report_ = -1;
  int output_ = -1;
  bool was_asked_ = false;  // at its deadline, to say where it is and to end
  bool was_killed_ = false;
  uint64_t elapsed_ms_ = 0;
  std::string report_text_;
  std::string output_text_;
  std::string trouble_;
};

uint64_t NowMs();

}  // namespace sl::conform
