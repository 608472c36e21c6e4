// SPDX-License-Identifier: Apache-2.0
#include "modules/checker/reporter.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "modules/checker/frame.h"
#include "modules/checker/object.h"

namespace sl::checker {
namespace {

constexpr size_t kLineBytes = 1024;

// Appends to a line of fixed size, so that a breach can be told when memory has run out.
class Line {
 public:
  __attribute__((format(printf, 2, 3))) void Add(const char* format, ...) {
    va_list details;
    va_start(details, format);
    AddList(format, details);
    va_end(details);
  }
  void AddList(const char* format, va_list details) {
    const int length = vsnprintf(text_ + used_, kLineBytes - used_, format, details);
    if (length > 0) used_ = std::min(used_ + static_cast<size_t>(length), kLineBytes - 1);
  }
  const char* text() const { return text_; }

 private:
  char text_[kLineBytes] = "";
  size_t used_ = 0;
};

void AddObject(const Object& object, Line* line) {
  line->Add("; %s #%u", KindName(object.kind), object.number);
  if (object.rank >= 0) line->Add(" rank %d", object.rank);
  if (object.peer >= 0) line->Add(" peer %d", object.peer);
  if (object.lane >= 0) line->Add(" lane %d", object.lane);
  if (object.life.load(std::memory_order_acquire) != Object::kEnded) return;
  const Call* ended_in = object.ended_in.load(std::memory_order_relaxed);
  line->Add(", ended in %s() by thread %#zx", ended_in != nullptr ? ended_in->name : "close",
            static_cast<size_t>(object.ended_by.load(std::memory_order_relaxed)));
}

void AddThread(Line* line) {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  line->Add("; thread %#zx (%ld %s)", static_cast<size_t>(ThisThread()), syscall(SYS_gettid), name);
}

}  // namespace

sl_status_t Reporter::Report(RuleId id, const Call& call, const Object* object, const char* format, va_list details) {
  const Rule& rule = RuleOf(id);
  Line line;
  line.Add("%s breaks \"%s\" (%s, rule %s) in %s(): ", rule.fault == Fault::kModule ? "the module below" : "its caller",
           rule.words, rule.header, rule.name, call.name);
  line.AddList(format, details);
  if (object != nullptr) AddObject(*object, &line);
  AddThread(&line);
  const uint64_t before = counts_[static_cast<size_t>(id)].fetch_add(1, std::memory_order_relaxed);
  if (before < lines_per_rule_ || mode_ == Mode::kAbort) host_->log(host_->ctx, SL_LOG_ERROR, line.text());
  if (before + 1 == lines_per_rule_ && mode_ != Mode::kAbort) {
    Line last;
    last.Add("rule %s: further breaches are only counted", rule.name);
    host_->log(host_->ctx, SL_LOG_WARN, last.text());
  }
  if (mode_ == Mode::kAbort) std::abort();
  return mode_ == Mode::kError ? host_->set_error(host_->ctx, RefusalOf(id), line.text()) : SL_OK;
}

uint64_t Reporter::total() const {
  uint64_t sum = 0;
  for (const auto& count : counts_) sum += count.load(std::memory_order_relaxed);
  return sum;
}

std::string Reporter::Summary() const {
  if (total() == 0) return "";
  std::string text = std::to_string(total()) + " breaches:";
  const char* separator = " ";
  for (size_t i = 0; i < kRuleCount; ++i) {
    const uint64_t count = counts_[i].load(std::memory_order_relaxed);
    if (count == 0) continue;
    text += separator + std::string(kRules[i].name) + " " + std::to_string(count);
    separator = ", ";
  }
  return text;
}

}  // namespace sl::checker
