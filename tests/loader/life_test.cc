// SPDX-License-Identifier: Apache-2.0
// From loading to unloading: order of requirements, layers, stubs, rest, and nothing left behind.
#include <dirent.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "kernel/loader/catalog.h"
#include "sl_fault.h"
#include "tests/loader/fixture.h"

namespace sl::kernel {
namespace {

class LifeTest : public LoaderTest {
 protected:
  // What the policies around a link say together.
  static uint32_t Weight(const Provider& provider) {
    const auto* ops = static_cast<const sl_fault_ops_t*>(provider.ops);
    sl_fault_policy_t* policy = nullptr;
    EXPECT_EQ(SL_OK, ops->create(provider.instance, 1, &policy));
    sl_connection_health_t health{};
    uint32_t weight = 0;
    sl_fault_verdict_t verdict{};
    EXPECT_EQ(SL_OK, ops->evaluate(policy, 0, &health, 1, &weight, &verdict));
    ops->destroy(policy);
    return weight;
  }

  static int OpenDescriptors() {
    int count = 0;
    DIR* folder = opendir("/proc/self/fd");
    while (readdir(folder) != nullptr) ++count;
    closedir(folder);
    return count;
  }
};

TEST_F(LifeTest, OpensInOrderOfRequirementsAndClosesInReverse) {
  UseSamples("chain");
  {
    Result<std::unique_ptr<Loader>> loader = Open("");
    ASSERT_TRUE(loader.ok()) << loader.status().message();
    EXPECT_EQ((std::vector<std::string>{"open chain-z", "open chain-b", "open chain-a"}), Journal());
    EXPECT_EQ(Loader::State::kActive, loader.value()->state());
    EXPECT_TRUE(loader.value()->Quiesce(SL_NO_DEADLINE).ok());
    EXPECT_EQ(Loader::State::kQuiescing, loader.value()->state());
    EXPECT_EQ((std::vector<std::string>{"quiesce chain-a", "quiesce chain-b", "quiesce chain-z"}), Journal());
  }
  EXPECT_EQ((std::vector<std::string>{"close chain-a", "close chain-b", "close chain-z"}), Journal());
}

TEST_F(LifeTest, RequirementCycleIsNamed) {
  UseSamples("loop");
  const std::string message = OpenError("enable = [\"loop-a\", \"loop-b\"]\n", SL_ERR_CONFIG);
  EXPECT_NE(message.find("its requirements form a cycle: loop-a -> loop-b -> loop-a"), std::string::npos) << message;
  EXPECT_TRUE(Journal().empty());
}

TEST_F(LifeTest, FailureOfOneModuleClosesThoseAlreadyOpen) {
  UseSamples("partial");
  OpenError("enable = [\"first\", \"second\"]\n", SL_ERR_DEVICE);
  EXPECT_EQ((std::vector<std::string>{"open first", "close first"}), Journal());
  // Not asked for, it is left out.
  Result<std::unique_ptr<Loader>> loader = Open("");
  ASSERT_TRUE(loader.ok()) << loader.status().message();
  EXPECT_EQ(1u, loader.value()->Providers("sl.test.a/1").size());
  EXPECT_NE(loader.value()->Describe().find("\"state\": \"left out\""), std::string::npos);
}

TEST_F(LifeTest, LayersWrapInTheProfilesOrder) {
  UseSamples("fault");
  const std::string weights =
      "[modules.policy-a.options]\nweight = 1\n[modules.wrap-x.options]\nweight = 2\n"
      "[modules.wrap-y.options]\nweight = 3\n";
  const std::string head = "enable = [\"policy-a\"]\n";
  Result<std::unique_ptr<Loader>> bare = Open(head + weights);
  ASSERT_TRUE(bare.ok()) << bare.status().message();
  EXPECT_EQ(1u, Weight(bare.value()->Providers(SL_FAULT_ID).at(0)));
  // A call passes the first layer first, so the last digit, added last, is the first layer's.
  Result<std::unique_ptr<Loader>> xy = Open(head + "layers = [\"wrap-x\", \"wrap-y\"]\n" + weights);
  ASSERT_TRUE(xy.ok()) << xy.status().message();
  EXPECT_EQ(132u, Weight(xy.value()->Providers(SL_FAULT_ID).at(0)));
  EXPECT_EQ("policy-a", xy.value()->Providers(SL_FAULT_ID).at(0).name);
  Result<std::unique_ptr<Loader>> yx = Open(head + "layers = [\"wrap-y\", \"wrap-x\"]\n" + weights);
  ASSERT_TRUE(yx.ok()) << yx.status().message();
  EXPECT_EQ(123u, Weight(yx.value()->Providers(SL_FAULT_ID).at(0)));
}

TEST_F(LifeTest, ShortTableOfAnOlderModuleIsFilledWithStubs) {
  UseSamples("fault");
  Result<std::unique_ptr<Loader>> loader = Open("enable = [\"policy-old\"]\n");
  ASSERT_TRUE(loader.ok()) << loader.status().message();
  const Provider* provider = loader.value()->Find(SL_FAULT_ID, "policy-old");
  ASSERT_NE(nullptr, provider);
  const auto* ops = static_cast<const sl_fault_ops_t*>(provider->ops);
  EXPECT_EQ(sizeof(sl_fault_ops_t), ops->struct_size);
  sl_fault_policy_t* policy = nullptr;
  ASSERT_EQ(SL_OK, ops->create(provider->instance, 1, &policy));
  EXPECT_EQ(SL_ERR_UNSUPPORTED, ops->evaluate(policy, 0, nullptr, 0, nullptr, nullptr));
  ops->destroy(policy);
}

TEST_F(LifeTest, BusyModuleIsNamedWithItsHolder) {
  UseSamples("busy");
  Result<std::unique_ptr<Loader>> loader = Open("");
  ASSERT_TRUE(loader.ok()) << loader.status().message();
  const Status status = loader.value()->Quiesce(0);
  EXPECT_EQ(SL_ERR_TIMEOUT, status.code());
  EXPECT_EQ("module busy does not come to rest: timeout: busy: graph 7 still holds it", status.message());
}

TEST_F(LifeTest, NothingStaysMappedOpenOrRunning) {
  UseSamples("fault");
  const int descriptors = OpenDescriptors();
  {
    Result<std::unique_ptr<Loader>> loader = Open("enable = [\"policy-a\"]\nlayers = [\"wrap-x\"]\n");
    ASSERT_TRUE(loader.ok()) << loader.status().message();
    EXPECT_TRUE(IsMapped("policy-a.so"));
    EXPECT_TRUE(IsMapped("wrap-x.so"));
    EXPECT_EQ(descriptors, OpenDescriptors());
  }
#if !defined(SL_SANITIZED)  // sanitizers keep libraries
  EXPECT_FALSE(IsMapped("policy-a.so"));
  EXPECT_FALSE(IsMapped("wrap-x.so"));
#endif
  EXPECT_EQ(descriptors, OpenDescriptors());
}

TEST_F(LifeTest, LoadersOverlapAndDescriptorsComeBackWithoutMixingModulesUp) {
  UseSamples("fault");
  Result<std::unique_ptr<Loader>> first = Open("enable = [\"policy-a\"]\n");
  Result<std::unique_ptr<Loader>> again = Open("enable = [\"policy-a\"]\n");
  Result<std::unique_ptr<Loader>> other = Open("enable = [\"policy-b\"]\n");
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ("policy-a", first.value()->Providers(SL_FAULT_ID).at(0).module->name());
  EXPECT_EQ("policy-a", again.value()->Providers(SL_FAULT_ID).at(0).module->name());
  EXPECT_EQ("policy-b", other.value()->Providers(SL_FAULT_ID).at(0).module->name());
}

TEST_F(LifeTest, DescribeNamesModulesOptionsAndRefusals) {
  UseSamples("busy");
  Result<std::unique_ptr<Loader>> loader = Open("[modules.busy.options]\nweight = 3\n");
  ASSERT_TRUE(loader.ok()) << loader.status().message();
  const std::string text = loader.value()->Describe();
  EXPECT_NE(text.find("\"name\": \"busy\", \"version\": \"1.0.0\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"value\": \"3\", \"origin\": \"profile\", \"place\": \"p.toml:3:10\""), std::string::npos)
      << text;
  EXPECT_NE(text.find("\"state\": \"active\""), std::string::npos) << text;
  EXPECT_EQ("busy 1.0.0\nweight = 3\nlabel = \"none\"\n", loader.value()->SharedText({}));
}

TEST_F(LifeTest, ModulesTextListsEverythingWithHashesAndReasons) {
  UseSamples("bad");
  std::string text;
  const Status status = ModulesText(nullptr, &text);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_NE(text.find("\"name\": \"bad-fails\""), std::string::npos);
  EXPECT_NE(text.find("refused: it has no entry sl_module_query"), std::string::npos);
  EXPECT_EQ(text.find("\"sha256\": \"\""), std::string::npos);
}

TEST_F(LifeTest, ModulesTextIsJsonWhateverAFileIsCalled) {
  std::ofstream(folder_ + "/caf\xe9.so") << "no module";
  std::ofstream(folder_ + "/na\xc3\xafve.so") << "no module";
  std::string text;
  ASSERT_TRUE(ModulesText(nullptr, &text).ok());
  EXPECT_NE(text.find("\"name\": \"caf\xEF\xBF\xBD\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"name\": \"na\xc3\xafve\""), std::string::npos) << text;
}

TEST_F(LifeTest, ProfileTextReadsBackAsTheSameModules) {
  UseSamples("versions");
  const std::string busy = Copy("busy", "busy", "my.busy");
  const std::string file = folder_ + "/p.toml";
  std::ofstream(file) << "profile_version = 1\n[modules.many]\nversion = \"<2\"\n[modules.\"my.other\"]\n"
                         "enabled = false\n[modules.\"my.busy\"]\nmodule = \"busy\"\npath = \"my.busy.so\"\n"
                         "[modules.\"my.busy\".options]\nweight = 3\n";
  std::string text;
  Status status = ProfileText(file.c_str(), &text);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_NE(text.find("[modules.many]  # 1.4.0"), std::string::npos) << text;
  EXPECT_NE(text.find("version = \"<2\"  # " + file + ":3:11\n"), std::string::npos) << text;
  EXPECT_NE(text.find("path = \"" + busy + "\""), std::string::npos) << text;
  EXPECT_NE(text.find("[modules.\"my.other\"]\nenabled = false"), std::string::npos) << text;
  std::filesystem::create_directory(folder_ + "/elsewhere");
  const std::string saved = folder_ + "/elsewhere/p.toml";
  std::ofstream(saved) << text;
  std::string again;
  status = ProfileText(saved.c_str(), &again);
  ASSERT_TRUE(status.ok()) << status.message() << text;
  EXPECT_NE(again.find("[modules.many]  # 1.4.0"), std::string::npos) << again;
  EXPECT_NE(again.find("weight = 3"), std::string::npos) << again;
}

}  // namespace
}  // namespace sl::kernel
