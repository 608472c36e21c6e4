// SPDX-License-Identifier: Apache-2.0
#include "kernel/plan/call_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "kernel/profile/profile.h"

namespace sl::kernel {
namespace {

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// Calls `take` with each piece between separators, empty ones included.
template <typename Take>
Status ForEachPiece(std::string_view text, char separator, Take take) {
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    SL_TRY(take(Trimmed(text.substr(begin, end == std::string_view::npos ? end : end - begin))));
    if (end == std::string_view::npos) return {};
    begin = end + 1;
  }
}

bool IsName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '/';
  });
}

// The text is that of one table: it must not begin another one.
Result<SelectRule> ParseRule(const char* text) {
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1);
    if (Trimmed(rest.substr(0, end + 1)).starts_with('[')) {
      return Status(SL_ERR_CONFIG, "the rule of a call: it holds the keys of one [[select]] rule, and no other table");
    }
    rest.remove_prefix(end + 1);
  }
  SL_ASSIGN(Profile profile,
            Profile::Parse(fmt::format("profile_version = 1\n[[select]]\n{}", text), "rule of a call"));
  SelectRule rule = profile.select().at(0);
  rule.place = "this call's rule";
  return rule;
}

}  // namespace

Result<WayExpression> WayExpression::Parse(std::string_view text) {
  WayExpression expression;
  if (Trimmed(text).empty()) return expression;
  SL_TRY(ForEachPiece(text, ',', [&](std::string_view term) {
    expression.terms_.emplace_back();
    return ForEachPiece(term, '+', [&](std::string_view name) -> Status {
      const bool is_excluded = name.starts_with('^');
      if (is_excluded) name = Trimmed(name.substr(1));
      expression.terms_.back().push_back({is_excluded, {}});
      return ForEachPiece(name, '|', [&](std::string_view one) -> Status {
        if (!IsName(one)) {
          return {SL_ERR_INVALID,
                  fmt::format("\"{:.64}\" is no selection of algorithms: names are joined by , (or) and "
                              "+ (and), ^ before a name excludes it",
                              text)};
        }
        expression.terms_.back().back().any.push_back(LowerCase(one));
        return {};
      });
    });
  }));
  return expression;
}

bool WayExpression::Allows(std::string_view algorithm, std::string_view way) const {
  const std::string whole = LowerCase(algorithm);
  const std::string part = LowerCase(way);
  const std::string both = whole + "/" + part;
  // One of a module's algorithms is also known by what follows the module's name: direct of symmetric_direct.
  const std::string short_name = whole.substr(whole.find('_') + 1);
  const auto stands_for_it = [&](const std::string& name) {
    return whole.starts_with(name) || short_name.starts_with(name) ||
           (!part.empty() && (part.starts_with(name) || both.starts_with(name)));
  };
  const auto holds = [&](const Name& name) {
    return std::any_of(name.any.begin(), name.any.end(), stands_for_it) != name.is_excluded;
  };
  return is_any() || std::any_of(terms_.begin(), terms_.end(), [&](const std::vector<Name>& term) {
           return std::all_of(term.begin(), term.end(), holds);
         });
}

Result<uint32_t> CallSettingsTable::NumberOf(const sl_call_settings_t& wanted) {
  const std::string_view ways = Trimmed(wanted.ways != nullptr ? wanted.ways : "");
  const std::string_view rule = Trimmed(wanted.rule != nullptr ? wanted.rule : "");
  const bool says_nothing = wanted.processors_min == 0 && wanted.processors_max == 0 && wanted.has_policy == 0;
  if (says_nothing && ways.empty() && rule.empty()) return 0u;
  const std::string content =
      fmt::format("{} {} {} {} {} {}\n{}\n{}", wanted.processors_min, wanted.processors_max, wanted.has_policy,
                  wanted.processor_weight, wanted.processor_free, ways.empty() ? 0 : wanted.is_forced, ways, rule);
  const auto number = std::max(static_cast<uint32_t>(HashText(content)) & ~kPartBit, 2u);
  const std::lock_guard lock(mutex_);
  if (const auto known = kept_.find(number); known != kept_.end()) {
    if (known->second->content == content) return number;
    return Status(SL_ERR_LIMIT,
                  "these settings of a call share their number with others of this communicator; change "
                  "one of them a little");
  }
  if (kept_.size() >= kMost) {
    return Status(SL_ERR_LIMIT, fmt::format("{} different settings of calls are all that a communicator knows", kMost));
  }
  auto kept = std::make_unique<Kept>();
  kept->content = content;
  CallSettings& settings = kept->settings;
  SL_ASSIGN(settings.ways, WayExpression::Parse(ways));
  settings.ways_text = ways;
  settings.is_forced = wanted.is_forced != 0;
  if (!rule.empty()) {
    SL_ASSIGN(settings.rule, ParseRule(std::string(rule).c_str()));
  }
  sl_op_settings_t& shown = settings.shown;
  shown = {sizeof(shown),          shape_->processors_min,
           shape_->processors_max, shape_->processor_weight,
           shape_->processor_free, 0};
  if (wanted.processors_max != 0) {
    shown.processors_max =
        shown.processors_max == 0 ? wanted.processors_max : std::min(wanted.processors_max, shown.processors_max);
  }
  if (wanted.processors_min != 0) shown.processors_min = wanted.processors_min;
  if (shown.processors_max != 0) shown.processors_min = std::min(shown.processors_min, shown.processors_max);
  if (wanted.has_policy != 0) {
    shown.processor_weight = wanted.processor_weight;
    shown.processor_free = wanted.processor_free != 0 ? 1 : 0;
  }
  settings.binds = shown.processors_min != shape_->processors_min || shown.processors_max != shape_->processors_max ||
                   shown.processor_weight != shape_->processor_weight || shown.processor_free != shape_->processor_free;
  kept_.emplace(number, std::move(kept));
  return number;
}

const CallSettings* CallSettingsTable::Find(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  const auto known = kept_.find(number & ~kPartBit);
  return known == kept_.end() ? nullptr : &known->second->settings;
}

const sl_settings_ops_t* SettingsView::Ops() {
  static constexpr sl_settings_ops_t kOps = {sizeof(kOps), 0, Get, Allows};
  return &kOps;
}

sl_status_t SettingsView::Get(sl_settings_t* settings, uint32_t number, sl_op_settings_t* out_settings) {
  const CallSettings* found = reinterpret_cast<SettingsView*>(settings)->table_->Find(number);
  if (found == nullptr || out_settings->struct_size < sizeof(uint32_t)) return SL_ERR_NOT_FOUND;
  const uint32_t size = std::min<uint32_t>(out_settings->struct_size, sizeof(*out_settings));
  std::memcpy(out_settings, &found->shown, size);
  out_settings->struct_size = size;
  return SL_OK;
}

int32_t SettingsView::Allows(sl_settings_t* settings, uint32_t number, const char* way) {
  auto* view = reinterpret_cast<SettingsView*>(settings);
  view->asked_.fetch_add(1, std::memory_order_relaxed);
  const CallSettings* found = view->table_->Find(number);
  if (found == nullptr || (number & kPartBit) != 0) return 1;
  return found->ways.Allows(view->algorithm_, way) ? 1 : 0;
}

}  // namespace sl::kernel
