// SPDX-License-Identifier: Apache-2.0
#include "sdk/toml_depth.h"

#include <string>

#include "gtest/gtest.h"

namespace sl {
namespace {

constexpr size_t kMost = 4;

TEST(TomlDepth, CountsHeadersKeysAndBrackets) {
  const struct {
    const char* text;
    size_t line;
  } cases[] = {
      {"", 0},
      {"a.b.c.d = 1", 0},
      {"a.b.c.d.e = 1", 1},
      {"a = 1\n a . b . c . d . e = 1", 2},
      {"[a.b.c.d.e]", 1},
      {"[a.b.c]\nd = 1", 0},
      {"[a.b.c]\nd.e = 1", 2},
      {"[a.b.c]\n[d]\ne.f.g = 1", 0},
      {"[[a.b]]\nc = 1", 0},
      {"[[a.b]]\nc.d = 1", 2},
      {"a = {b = {c = 1}}", 1},
      {"a = {b = 1}", 0},
      {"a = {b = 1}\na.b.c = {}", 2},
      {"a = {b = 1, c.d.e = 2}", 1},
      {"a = [1, 2, [3, 4]]\nb.c.d.e = 1.5", 0},
      {"a = [\n[1],\n{b.c = 1}]", 3},
      {"a = [\n[1],\n{b = 1}]", 0},
  };
  for (const auto& [text, line] : cases) EXPECT_EQ(LineOfDeepKey(text, kMost), line) << text;
}

TEST(TomlDepth, SkipsStringsAndComments) {
  const struct {
    const char* text;
    size_t line;
  } cases[] = {
      {"\"a.b.c.d.e\" = 'a.b.c.d.e' # a.b.c.d.e", 0},
      {R"("\"".b.c.d.e = 1)", 1},
      {R"("\\".b.c.d.e = 1)", 1},
      {R"('\'.b.c.d.e = 1)", 1},
      {R"("".b.c.d.e = 1)", 1},
      {"a = \"\"\"\n\\\"\"\" . . . . . \"\" \"\"\"\nb = 1", 0},
      {"a = \"\"\"x\"\"\"\"\"\na.b.c.d.e = 1", 2},
      {"a = '''\\'''\na.b.c.d.e = 1", 2},
      {"a = \"\"\"\"\"\"\na.b.c.d.e = 1", 2},
      {"a = [ # ]\n\"]\", ']', {b = 1}]", 0},
      {"a = \"\"\"\n. . . . . . unterminated", 0},
      {"a = \"unterminated\na.b.c.d.e = 1", 2},
  };
  for (const auto& [text, line] : cases) EXPECT_EQ(LineOfDeepKey(text, kMost), line) << text;
}

TEST(TomlDepth, ReadsAnything) {
  const std::string alphabet = "ab.=,[]{}\"'\\#\n \r";
  uint32_t state = 1;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += alphabet[(state = state * 1664525 + 1013904223) >> 16 & 15];
    EXPECT_LE(LineOfDeepKey(text, kMost), 41u);
  }
}

}  // namespace
}  // namespace sl
