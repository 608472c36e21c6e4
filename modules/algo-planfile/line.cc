// SPDX-License-Identifier: Apache-2.0
#include "line.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "sdk/plan_writer.h"

namespace sl::algo_planfile {
namespace {

constexpr std::string_view kBlanks = " \t\r";

struct BufferName {
  std::string_view name;
  uint32_t buffer;
};
constexpr BufferName kBuffers[] = {{"send", SL_BUFFER_SEND},
                                   {"recv", SL_BUFFER_RECV},
                                   {"scratch", SL_BUFFER_SCRATCH},
                                   {"inbox", SL_BUFFER_INBOX},
                                   {"outbox", SL_BUFFER_OUTBOX}};

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "send[3,-1]": the buffer's number, the index, and the step, 0 when none is given. Nothing when it is not of this
// form.
std::optional<sl_operand_t> ParseOperand(std::string_view text) {
  const size_t open = text.find('[');
  if (open == std::string_view::npos || text.back() != ']') return std::nullopt;
  const std::string_view name = text.substr(0, open);
  const auto* buffer = std::find_if(std::begin(kBuffers), std::end(kBuffers),
                                    [&](const BufferName& known) { return known.name == name; });
  if (buffer == std::end(kBuffers)) return std::nullopt;
  std::string_view inside = text.substr(open + 1, text.size() - open - 2);
  const size_t comma = inside.find(',');
  std::optional<int32_t> step = 0;
  if (comma != std::string_view::npos) step = ParseNumber<int32_t>(inside.substr(comma + 1));
  const std::optional<int32_t> index = ParseNumber<int32_t>(inside.substr(0, comma));
  if (!step || !index || *index < 0) return std::nullopt;
  sl_operand_t operand{buffer->buffer, 0, 0, -1};
  if (IsMemory(operand)) {
    operand.block = static_cast<uint32_t>(*index);
    operand.block_step = *step;
  } else {
    if (comma != std::string_view::npos) return std::nullopt;
    operand.peer = *index;
  }
  return operand;
}

}  // namespace

Line::Line(std::string_view text, std::string place) : place_(std::move(place)) {
  text = text.substr(0, text.find('#'));
  while (true) {
    const size_t begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return;
    const size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    words_.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
}

void Line::Fail(const std::string& text) {
  if (status_.ok()) status_ = Status(SL_ERR_CONFIG, place_ + ": " + text);
}

std::string Line::Next(const char* what) {
  if (next_ == words_.size()) {
    Fail(std::string("the line ends where ") + what + " must stand");
    return "";
  }
  return std::string(words_[next_++]);
}

std::string Line::Word(const char* what) { return Next(what); }

uint64_t Line::Number(const char* what, uint64_t minimum, uint64_t maximum) {
  const std::string word = Next(what);
  const std::optional<uint64_t> value = ParseNumber<uint64_t>(word);
  if (!value || *value < minimum || *value > maximum) {
    Fail(std::string(what) + " is '" + word + "', it must be a number from " + std::to_string(minimum) + " to " +
         std::to_string(maximum));
    return minimum;
  }
  return *value;
}

uint32_t Line::Choice(const char* what, std::initializer_list<std::string_view> choices) {
  const std::string word = Next(what);
  const auto* found = std::find(choices.begin(), choices.end(), word);
  if (found != choices.end()) return static_cast<uint32_t>(found - choices.begin());
  std::string known;
  for (const std::string_view choice : choices) known += (known.empty() ? "" : ", ") + std::string(choice);
  Fail(std::string(what) + " is '" + word + "', it must be one of " + known);
  return 0;
}

bool Line::Take(std::string_view word) {
  if (next_ == words_.size() || words_[next_] != word) return false;
  ++next_;
  return true;
}

void Line::Expect(std::string_view word) {
  const std::string what = "'" + std::string(word) + "'";
  const std::string found = Next(what.c_str());
  if (found != word) Fail("'" + found + "' stands where " + what + " must stand");
}

bool Line::NextIsOperand() const { return next_ < words_.size() && ParseOperand(words_[next_]).has_value(); }

sl_operand_t Line::Operand() {
  const std::string word = Next("an operand");
  const std::optional<sl_operand_t> operand = ParseOperand(word.empty() ? "?" : word);
  if (operand) return *operand;
  Fail("'" + word +
       "' is no operand; write send[BLOCK], recv[BLOCK] or scratch[BLOCK], inside a repeat [BLOCK,STEP], " +
       "or inbox[RANK], outbox[RANK]");
  return kNoOperand;
}

void Line::End() {
  if (next_ < words_.size()) Fail("'" + std::string(words_[next_]) + "' is too much on this line");
}

}  // namespace sl::algo_planfile
