// SPDX-License-Identifier: Apache-2.0
#include "kernel/profile/value.h"

#include <gtest/gtest.h>

#include "sdk/options.h"

namespace sl::kernel {
namespace {

constexpr sl_option_t kSpin = IntOption("spin_us", "us", "how long", "50", 1, 1000);
constexpr sl_option_t kShare = FloatOption("share", "", "how much", "0.5", 0, 1);
constexpr sl_option_t kMode = ChoiceOption("mode", "which", "fast", "fast,safe");
constexpr sl_option_t kOn = BoolOption("on", "whether", "true");

std::string ErrorOf(const sl_option_t& option, const char* text) {
  return ParseValue(option, option.name, text, Origin::kEnvironment, "environment variable X").status().message();
}

TEST(Value, TextOfTheRightTypeIsRead) {
  EXPECT_EQ(50, ParseValue(kSpin, "spin_us", "50", Origin::kDefault, "default").value().integer);
  EXPECT_DOUBLE_EQ(0.25, ParseValue(kShare, "share", "0.25", Origin::kDefault, "default").value().real);
  EXPECT_EQ("safe", ParseValue(kMode, "mode", "safe", Origin::kDefault, "default").value().text);
  EXPECT_EQ(0, ParseValue(kOn, "on", "Off", Origin::kDefault, "default").value().integer);
}

TEST(Value, ErrorsNameTypeRangeAndUnit) {
  EXPECT_EQ("environment variable X: spin_us must be an integer of us, not \"soon\"", ErrorOf(kSpin, "soon"));
  EXPECT_EQ("environment variable X: spin_us is 0 us, but must be 1 to 1000 us", ErrorOf(kSpin, "0"));
  EXPECT_EQ("environment variable X: spin_us is -9223372036854775808 us, but must be 1 to 1000 us",
            ErrorOf(kSpin, "-9223372036854775808"));
  EXPECT_EQ("environment variable X: share is 1.5, but must be 0 to 1", ErrorOf(kShare, "1.5"));
  EXPECT_EQ("environment variable X: mode is \"fats\", but must be one of fast, safe", ErrorOf(kMode, "fats"));
  EXPECT_EQ("environment variable X: on must be true or false, not \"perhaps\"", ErrorOf(kOn, "perhaps"));
  EXPECT_FALSE(ErrorOf(kSpin, "50us").empty());
  EXPECT_FALSE(ErrorOf(kSpin, "").empty());
  EXPECT_FALSE(ErrorOf(kShare, "nan").empty());
}

TEST(Value, NearestNameIsNearOrNone) {
  const std::vector<std::string> known = {"operation_timeout_ms", "interface", "heap_bytes"};
  EXPECT_EQ("operation_timeout_ms", NearestName("operation_timout_ms", known));
  EXPECT_EQ("heap_bytes", NearestName("heap-bytes", known));
  EXPECT_EQ("", NearestName("colour", known));
  EXPECT_EQ("; known are operation_timeout_ms, interface, heap_bytes", NearestHint("colour", known));
}

TEST(Value, VariablesAreUpperCase) {
  EXPECT_EQ("STARLING_TRANSPORT_SHM_SPIN_US", VariableName("transport-shm", "spin_us"));
  EXPECT_EQ("STARLING_DETERMINISM", VariableName("", "determinism"));
}

TEST(Value, TomlRoundsTrip) {
  OptionValue value;
  value.type = SL_OPTION_STRING;
  value.text = "a\"b\\c\n";
  EXPECT_EQ("\"a\\\"b\\\\c\\u000A\"", ToToml(value));
  value.type = SL_OPTION_FLOAT;
  value.real = 2;
  EXPECT_EQ("2.0", ToToml(value));
  value.real = 1e20;
  EXPECT_EQ("1e+20", ToToml(value));
  value.real = 1e-7;
  EXPECT_EQ("1e-07", ToToml(value));
}

}  // namespace
}  // namespace sl::kernel
