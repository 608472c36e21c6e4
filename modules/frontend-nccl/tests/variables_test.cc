// SPDX-License-Identifier: Apache-2.0
//
// After a change of the table: SL_UPDATE=1 build/tests/frontend-nccl.variables_test renews docs/nccl-variables.md.
#include "modules/frontend-nccl/variables.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "modules/frontend-nccl/config.h"
#include "modules/frontend-nccl/tests/fixture.h"

namespace sl::frontend_nccl {
namespace {

TEST(Variables, AreSortedAndDescribed) {
  size_t count = 0;
  const Variable* table = Variables(&count);
  EXPECT_GE(count, 110u);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(std::strncmp(table[i].name, "NCCL_", 5), 0) << table[i].name;
    EXPECT_NE(*table[i].note, '\0') << table[i].name;
    EXPECT_EQ(FindVariable(table[i].name), &table[i]);
    if (i > 0) {
      EXPECT_LT(std::strcmp(table[i - 1].name, table[i].name), 0) << table[i].name;
    }
  }
  EXPECT_EQ(FindVariable("NCCL_NOT_THERE"), nullptr);
}

TEST(Variables, ThatOverrideTheConfigAreHonoured) {
  size_t count = 0;
  const ConfigField* fields = ConfigFields(&count);
  for (size_t i = 0; i < count; ++i) {
    if (fields[i].variable == nullptr) continue;
    const Variable* variable = FindVariable(fields[i].variable);
    ASSERT_NE(variable, nullptr) << fields[i].variable;
    EXPECT_EQ(variable->handling, Handling::kHonoured) << fields[i].variable;
  }
}

TEST(Variables, PageIsTheTable) {
  const std::string page = VariablesPage();
  if (std::getenv("SL_UPDATE") != nullptr) {
    std::ofstream(SL_VARIABLES_PAGE) << page;
    return;
  }
  std::ifstream file(SL_VARIABLES_PAGE);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), page) << "run this test with SL_UPDATE=1 to renew " SL_VARIABLES_PAGE;
}

TEST(Variables, AreReportedOnceWhenSetInVain) {
  Fake().Reset();
  setenv("NCCL_ALGO", "Tree", 1);
  setenv("NCCL_CROSS_NIC", "1", 1);
  setenv("NCCL_COMM_BLOCKING", "1", 1);
  ForgetVariables();
  ncclUniqueId id;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  int algorithm = 0;
  int cross_nic = 0;
  for (const std::string& line : Fake().logs) {
    algorithm += line.rfind("1 NCCL_ALGO is set in vain: ", 0) == 0 ? 1 : 0;
    cross_nic += line.rfind("3 NCCL_CROSS_NIC is set and ignored: ", 0) == 0 ? 1 : 0;
    EXPECT_EQ(line.find("NCCL_COMM_BLOCKING"), std::string::npos) << line;
  }
  EXPECT_EQ(algorithm, 1);
  EXPECT_EQ(cross_nic, 1);
  for (const char* name : {"NCCL_ALGO", "NCCL_CROSS_NIC", "NCCL_COMM_BLOCKING"}) unsetenv(name);
  ForgetVariables();
}

TEST(Integer, IsReadWhole) {
  int64_t value = 0;
  EXPECT_TRUE(ParseInteger("-5", &value));
  EXPECT_EQ(value, -5);
  EXPECT_TRUE(ParseInteger("0x10", &value));
  EXPECT_EQ(value, 16);
  EXPECT_TRUE(ParseInteger("TRUE", &value));
  EXPECT_EQ(value, 1);
  for (const char* bad : {"", "x", "5x", "99999999999999999999"}) EXPECT_FALSE(ParseInteger(bad, &value)) << bad;
}

}  // namespace
}  // namespace sl::frontend_nccl
