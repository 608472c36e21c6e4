// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/config.h"

#include <cstdlib>
#include <cstring>

#include "modules/frontend-nccl/tests/fixture.h"
#include "modules/frontend-nccl/variables.h"

namespace sl::frontend_nccl {
namespace {

// Sets a variable for one test.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    setenv(name, value, 1);
    ForgetVariables();
  }
  ~Environment() {
    unsetenv(name_);
    ForgetVariables();
  }

 private:
  const char* name_;
};

class Config : public Fixture {
 protected:
  ncclResult_t Parse(const ncclConfig_t* config) { return ParseConfig("f", config, nullptr, &settings_); }
  ncclConfig_t config_ = NCCL_CONFIG_INITIALIZER;
  CommSettings settings_;
};

TEST_F(Config, TakesDefaultsWhenNothingIsAsked) {
  ASSERT_EQ(Parse(nullptr), ncclSuccess);
  EXPECT_EQ(settings_.values.blocking, 1);
  EXPECT_EQ(settings_.values.cgaClusterSize, 4);
  EXPECT_EQ(settings_.values.minCTAs, 1);
  EXPECT_EQ(settings_.values.maxCTAs, 64);
  EXPECT_EQ(settings_.values.splitShare, 0);
  EXPECT_EQ(settings_.values.trafficClass, NCCL_CONFIG_UNDEF_INT);
  EXPECT_EQ(settings_.values.graphUsageMode, 2);
  EXPECT_EQ(settings_.values.numRmaCtx, 1);
}

TEST_F(Config, TakesWhatIsAsked) {
  config_.blocking = 0;
  config_.minCTAs = 4;
  config_.trafficClass = 7;
  char name[] = "gradients";
  config_.commName = name;
  ASSERT_EQ(Parse(&config_), ncclSuccess);
  name[0] = 'X';  // our own copy
  EXPECT_FALSE(settings_.blocking());
  EXPECT_EQ(settings_.values.minCTAs, 4);
  EXPECT_EQ(settings_.values.trafficClass, 7);
  EXPECT_EQ(settings_.comm_name, "gradients");
}

TEST_F(Config, RefusesWhatWasNotInitialised) {
  config_.magic = 0;
  EXPECT_EQ(Parse(&config_), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("NCCL_CONFIG_INITIALIZER")) << Text();
  config_ = NCCL_CONFIG_INITIALIZER;
  config_.size = 8;
  EXPECT_EQ(Parse(&config_), ncclInvalidArgument);
}

// A caller of 2.14 had 24 bytes, of which the last four are padding with anything in it.
TEST_F(Config, ReadsNoFurtherThanTheCallersStruct) {
  struct {
    size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
    int padding;
  } old = {sizeof(old), NCCL_API_MAGIC, NCCL_VERSION(2, 14, 3), 0, -12345};
  static_assert(sizeof(old) == 24);
  ncclConfig_t config;
  std::memset(&config, 0x5a, sizeof(config));
  std::memcpy(static_cast<void*>(&config), &old, sizeof(old));
  ASSERT_EQ(Parse(&config), ncclSuccess) << Text();
  EXPECT_EQ(settings_.values.blocking, 0);
  EXPECT_EQ(settings_.values.cgaClusterSize, 4);
  EXPECT_EQ(settings_.comm_name, "");
}

TEST_F(Config, ReadsNoFurtherThanItsOwnStruct) {
  struct {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    int later[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
  } longer;
  longer.config.size = sizeof(longer);
  longer.config.version = NCCL_VERSION(9, 9, 9);
  longer.config.maxCTAs = 8;
  ASSERT_EQ(Parse(&longer.config), ncclSuccess) << Text();
  EXPECT_EQ(settings_.values.maxCTAs, 8);
}

TEST_F(Config, ForgetsFieldsYoungerThanTheCallersVersion) {
  config_.graphUsageMode = 0;  // of 2.29
  config_.version = NCCL_VERSION(2, 28, 9);
  ASSERT_EQ(Parse(&config_), ncclSuccess);
  EXPECT_EQ(settings_.values.graphUsageMode, 2);
  config_.version = NCCL_VERSION(2, 29, 2);
  ASSERT_EQ(Parse(&config_), ncclSuccess);
  EXPECT_EQ(settings_.values.graphUsageMode, 0);
}

TEST_F(Config, RefusesEveryFieldOutOfRangeByName) {
  size_t count = 0;
  const ConfigField* fields = ConfigFields(&count);
  EXPECT_EQ(count, 21u);
  for (size_t i = 0; i < count; ++i) {
    config_ = NCCL_CONFIG_INITIALIZER;
    config_.version = NCCL_VERSION(9, 9, 9);
    config_.*fields[i].member = fields[i].minimum - 1;
    EXPECT_EQ(Parse(&config_), ncclInvalidArgument) << fields[i].name;
    EXPECT_TRUE(TextHas(std::string("config.") + fields[i].name + " is ")) << Text();
  }
}

TEST_F(Config, RefusesMoreBlocksAtLeastThanAtMost) {
  config_.minCTAs = 9;
  config_.maxCTAs = 8;
  EXPECT_EQ(Parse(&config_), ncclInvalidArgument);
}

TEST_F(Config, LetsTheEnvironmentOverrideTheProgram) {
  config_.blocking = 1;
  const Environment blocking("NCCL_COMM_BLOCKING", "0");
  const Environment least("NCCL_MIN_CTAS", "100");
  ASSERT_EQ(Parse(&config_), ncclSuccess);
  EXPECT_FALSE(settings_.blocking());
  EXPECT_EQ(settings_.values.minCTAs, 100);
  EXPECT_EQ(settings_.values.maxCTAs, 100);
}

TEST_F(Config, BindsSmsOnlyWhenSomebodyAsks) {
  ASSERT_EQ(Parse(&config_), ncclSuccess);
  EXPECT_EQ(settings_.least_ctas, 0u);
  EXPECT_EQ(settings_.most_ctas, 0u) << "the default of maxCTAs is nobody's wish";
  config_.maxCTAs = 8;
  ASSERT_EQ(Parse(&config_), ncclSuccess);
  EXPECT_EQ(settings_.least_ctas, 0u);
  EXPECT_EQ(settings_.most_ctas, 8u);
  const Environment least("NCCL_MIN_CTAS", "12");
  ASSERT_EQ(Parse(&config_), ncclSuccess);
  EXPECT_EQ(settings_.least_ctas, 12u);
  EXPECT_EQ(settings_.most_ctas, 12u);
  config_ = NCCL_CONFIG_INITIALIZER;
  ASSERT_EQ(Parse(&config_), ncclSuccess);
  EXPECT_EQ(settings_.least_ctas, 12u);
  EXPECT_EQ(settings_.most_ctas, 0u);
}

TEST_F(Config, IgnoresAnEnvironmentThatMeansNothing) {
  const Environment blocking("NCCL_COMM_BLOCKING", "perhaps");
  const Environment least("NCCL_MIN_CTAS", "0");
  config_.blocking = 0;
  ASSERT_EQ(Parse(&config_), ncclSuccess);
  EXPECT_FALSE(settings_.blocking());
  EXPECT_EQ(settings_.values.minCTAs, 1);
}

TEST_F(Config, InheritsFromTheParentOnlyWithoutAConfigOfItsOwn) {
  CommSettings parent;
  parent.values.blocking = 0;
  parent.comm_name = "parent";
  parent.most_ctas = 4;
  ASSERT_EQ(ParseConfig("f", nullptr, &parent, &settings_), ncclSuccess);
  EXPECT_FALSE(settings_.blocking());
  EXPECT_EQ(settings_.comm_name, "parent");
  EXPECT_EQ(settings_.most_ctas, 4u);
  ASSERT_EQ(ParseConfig("f", &config_, &parent, &settings_), ncclSuccess);
  EXPECT_TRUE(settings_.blocking());
  EXPECT_EQ(settings_.comm_name, "");
  EXPECT_EQ(settings_.most_ctas, 0u);
}

}  // namespace
}  // namespace sl::frontend_nccl
