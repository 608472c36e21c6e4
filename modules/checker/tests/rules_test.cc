// SPDX-License-Identifier: Apache-2.0
//
// The list of rules itself: quoted from the headers, told in the README, and broken by some test of this program.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>

#include "modules/checker/tests/fixture.h"

namespace sl::checker {
namespace {

// The text of a file of the tree, with runs of blanks and comment edges as one blank.
std::string Words(const std::string& path) {
  std::ifstream file(std::string(std::getenv("SL_TEST_SOURCE_DIR")) + "/" + path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return std::regex_replace(text, std::regex("\\s*\n\\s*\\*?\\s*|\\s+"), " ");
}

TEST(Rules, QuoteTheHeadersWordForWord) {
  for (const Rule& rule : kRules) {
    // A header moves when its interface leaves the drafts.
    const std::string header = rule.header;
    const std::string words = Words("abi/" + header) + Words("abi/draft/" + header);
    EXPECT_NE(words.find(rule.words), std::string::npos) << rule.name << " quotes \"" << rule.words << "\"";
  }
}

TEST(Rules, StandInTheReadme) {
  const std::string readme = Words("modules/checker/README.md");
  for (const Rule& rule : kRules) {
    EXPECT_NE(readme.find("`" + std::string(rule.name) + "`"), std::string::npos) << rule.name;
  }
}

TEST(Rules, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const Rule& rule : kRules) EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
}

// After all tests: every rule was broken by one of them.
class EveryRule : public ::testing::Environment {
 public:
  void TearDown() override {
    if (::testing::GTEST_FLAG(filter) != "*") return;
    for (const Rule& rule : kRules) EXPECT_EQ(BrokenSoFar().count(rule.name), 1u) << "no test breaks " << rule.name;
  }
};
::testing::Environment* const g_every_rule = ::testing::AddGlobalTestEnvironment(new EveryRule);

}  // namespace
}  // namespace sl::checker
