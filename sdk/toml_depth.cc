// SPDX-License-Identifier: Apache-2.0
#include "sdk/toml_depth.h"

#include <algorithm>
#include <vector>

namespace sl {
namespace {

class DepthScanner {
 public:
  DepthScanner(std::string_view text, size_t most) : text_(text), most_(most) {}

  // Where the first key lies that is too deep; npos: nowhere.
  size_t Find() {
    while (at_ < text_.size()) {
      if (!Step(text_[at_])) return at_;
    }
    return std::string_view::npos;
  }

 private:
  // Takes one character, string or comment. False: the key here is too deep.
  bool Step(char c) {
    const bool begins_line = at_line_begin_;
    at_line_begin_ = begins_line && (c == ' ' || c == '\t' || c == '\r');
    switch (c) {
      case '\n':
        EndLine();
        break;
      case '#':
        at_ = std::min(text_.find('\n', at_), text_.size());
        return true;
      case '"':
      case '\'':
        SkipString(c);
        return true;
      case '.':
        ++dots_;
        break;
      case '=':
        key_ = dots_ + 1;
        dots_ = 0;
        break;
      case ',':
        key_ = dots_ = 0;
        break;
      case '[':
        if (begins_line && open_.empty()) {
          in_header_ = true;
          header_ = 0;
          break;
        }
        [[fallthrough]];
      case '{':
        Open();
        break;
      case ']':
      case '}':
        Close();
        break;
      default:
        break;
    }
    if (Depth() > most_) return false;
    ++at_;
    return true;
  }

  size_t Depth() const { return header_ + around_ + (key_ != 0 ? key_ : dots_ + 1); }

  // A header of an array of tables has two brackets, of which the second counts as one that is open.
  void EndHeader() {
    header_ = around_ + dots_ + 1;
    around_ = key_ = dots_ = 0;
    open_.clear();
    in_header_ = false;
  }

  void EndLine() {
    if (in_header_) EndHeader();
    at_line_begin_ = true;
    if (open_.empty()) key_ = dots_ = 0;
  }

  // What is inside lies under the key, too.
  void Open() {
    open_.push_back(around_);
    around_ += key_ + 1;
    key_ = dots_ = 0;
  }

  void Close() {
    if (in_header_) return EndHeader();
    key_ = dots_ = 0;
    if (open_.empty()) return;
    around_ = open_.back();
    open_.pop_back();
  }

  // A string of one line ends there at the latest. Up to two quotes before the three that end a longer one are its own.
  void SkipString(char quote) {
    const bool is_long = text_.substr(at_).starts_with(quote == '"' ? "\"\"\"" : "'''");
    at_ += is_long ? 3 : 1;
    size_t quotes = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (quotes >= 3 && (c != quote || quotes == 5)) return;
      quotes = c == quote ? quotes + 1 : 0;
      if (!is_long && c == '\n') return;
      if (!is_long && quotes != 0) break;
      if (c == '\\' && quote == '"') ++at_;
    }
    at_ = std::min(at_ + (is_long ? 0 : 1), text_.size());
  }

  const std::string_view text_;
  const size_t most_;
  size_t at_ = 0;
  std::vector<size_t> open_;  // of each bracket that is open, `around_` outside of it
  size_t header_ = 0;         // parts of the newest header
  size_t around_ = 0;         // levels of what is open
  size_t key_ = 0;            // parts of the key whose value is being read; 0: a key is, or an element
  size_t dots_ = 0;           // of the key that is being read
  bool in_header_ = false;
  bool at_line_begin_ = true;  // only blanks since the line began
};

}  // namespace

size_t LineOfDeepKey(std::string_view text, size_t most) {
  const size_t at = DepthScanner(text, most).Find();
  if (at == std::string_view::npos) return 0;
  return 1 + static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n'));
}

}  // namespace sl
