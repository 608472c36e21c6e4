// SPDX-License-Identifier: Apache-2.0
//
// One line of a plan file, read word by word. The first word that is not as it must be makes an error which says file,
// line, what stands there and what must stand there; everything read after it is ignored, so that a caller reads a
// whole line and asks status() once.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/status.h"
#include "sl_algorithm.h"

namespace sl::algo_planfile {

class Line {
 public:
  // Splits `text` at blanks; what follows a '#' is a comment. `place` is "file:line" of messages.
  Line(std::string_view text, std::string place);

  bool empty() const { return words_.empty(); }
  const Status& status() const { return status_; }

  std::string Word(const char* what);
  // A decimal number from `minimum` to `maximum`; `what` names it in the error.
  uint64_t Number(const char* what, uint64_t minimum, uint64_t maximum);
  // The position of the next word in `choices`.
  uint32_t Choice(const char* what, std::initializer_list<std::string_view> choices);
  // True, and the word is taken, when the next word is `word`.
  bool Take(std::string_view word);
  void Expect(std::string_view word);
  bool NextIsOperand() const;
  // send[3], recv[3], scratch[3]; with a step a repetition, send[3,-1]; inbox[2], outbox[2].
  sl_operand_t Operand();
  // The end of the line.
  void End();
  // Keeps the first error.
  void Fail(const std::string& text);

 private:
  std::string Next(const char* what);

  const std::string place_;
  std::vector<std::string_view> words_;
  size_t next_ = 0;
  Status status_;
};

constexpr bool IsMemory(const sl_operand_t& operand) {
  return operand.buffer == SL_BUFFER_SEND || operand.buffer == SL_BUFFER_RECV || operand.buffer == SL_BUFFER_SCRATCH;
}

}  // namespace sl::algo_planfile
