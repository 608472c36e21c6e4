// SPDX-License-Identifier: Apache-2.0
// Which modules a profile gets: names, versions, roles, options.
#include <stdlib.h>
#include <unistd.h>

#include <fstream>

#include "kernel/loader/catalog.h"
#include "kernel/loader/choice.h"
#include "kernel/loader/stray_variables.h"
#include "sl_fault.h"
#include "tests/loader/fixture.h"

namespace sl::kernel {
namespace {

class ChoiceTest : public LoaderTest {
 protected:
  // The version of the module "many" that the profile gets.
  std::string VersionOf(const std::string& constraint) {
    UseSamples("versions");
    Result<std::unique_ptr<Loader>> loader = Open("[modules.many]\nversion = \"" + constraint + "\"\n");
    if (!loader.ok()) return loader.status().message();
    const std::vector<Provider> providers = loader.value()->Providers("sl.test.a/1");
    return providers.size() == 1 ? providers[0].module->version().ToString() : "none";
  }
  // What `profile check` prints of a profile.
  std::string EffectiveText(const std::string& text) {
    const std::string file = folder_ + "/p.toml";
    std::ofstream(file) << "profile_version = 1\n" << text;
    std::string out;
    const Status status = ProfileText(file.c_str(), &out);
    return status.ok() ? out : status.message();
  }
};

TEST_F(ChoiceTest, FileNamesMayCarryTheVersion) {
  EXPECT_EQ("transport-shm", ModuleNameOfFile("transport-shm.so"));
  EXPECT_EQ("transport-shm", ModuleNameOfFile("transport-shm-1.2.0.so"));
  EXPECT_EQ("transport-shm", ModuleNameOfFile("transport-shm-1.2.0-rc1.so"));
  EXPECT_EQ("algo-2", ModuleNameOfFile("algo-2.so"));
  EXPECT_EQ("", ModuleNameOfFile("libx.so.1"));
  EXPECT_EQ("", ModuleNameOfFile(".so"));
}

TEST_F(ChoiceTest, NewestVersionThatTheConstraintAllows) {
  EXPECT_EQ("2.0.0", VersionOf(""));
  EXPECT_EQ("1.4.0", VersionOf("^1.2"));
  EXPECT_EQ("1.2.0", VersionOf("=1.2"));
  EXPECT_EQ("1.2.0", VersionOf(">=1.1, <1.3"));
}

TEST_F(ChoiceTest, TwoVersionsServeSideBySideUnderTwoNames) {
  UseSamples("versions");
  Result<std::unique_ptr<Loader>> loader = Open(
      "[modules.many]\nversion = \"^1\"\n[modules.many.options]\nweight = 5\n"
      "[modules.next]\nmodule = \"many\"\nversion = \">=2\"\n[modules.next.options]\nweight = 7\n");
  ASSERT_TRUE(loader.ok()) << loader.status().message();
  const std::vector<Provider> providers = loader.value()->Providers("sl.test.a/1");
  ASSERT_EQ(2u, providers.size());
  EXPECT_EQ("many", providers[0].name);
  EXPECT_EQ("1.4.0", providers[0].module->version().ToString());
  EXPECT_EQ("next.many", providers[1].name);
  EXPECT_EQ("2.0.0", providers[1].module->version().ToString());
  EXPECT_NE(providers[0].instance, providers[1].instance);
  EXPECT_EQ((std::vector<std::string>{"open many", "open many"}), Journal());
  const std::string shared = loader.value()->SharedText({});
  EXPECT_NE(shared.find("many 1.4.0\nweight = 5\n"), std::string::npos) << shared;
  EXPECT_NE(shared.find("next is many 2.0.0\nweight = 7\n"), std::string::npos) << shared;
  const std::string described = loader.value()->Describe();
  EXPECT_NE(described.find("\"name\": \"next\", \"version\": \"2.0.0\", \"module\": \"many\""), std::string::npos)
      << described;
}

TEST_F(ChoiceTest, OneVersionServesTwiceWithOtherOptionsAndPathsAndVariablesGoByTheName) {
  UseSamples("versions");
  setenv("STARLING_OTHER_WEIGHT", "9", 1);
  setenv("STARLING_PROFILE_PATH", folder_.c_str(), 1);
  const std::string toml =
      "[modules.many]\n[modules.other]\nmodule = \"many\"\npath = \"" + Sample("versions", "many-2.0.0") + "\"\n";
  Result<std::unique_ptr<Loader>> loader = Open(toml);
  ASSERT_TRUE(loader.ok()) << loader.status().message();
  EXPECT_EQ(2u, loader.value()->Providers("sl.test.a/1").size());
  const std::string shared = loader.value()->SharedText({});
  EXPECT_NE(shared.find("many 2.0.0\nweight = 1\n"), std::string::npos) << shared;
  EXPECT_NE(shared.find("other is many 2.0.0\nweight = 9\n"), std::string::npos) << shared;
  unsetenv("STARLING_OTHER_WEIGHT");
}

TEST_F(ChoiceTest, MistakesInFurtherInstancesNameTheModule) {
  UseSamples("versions");
  EXPECT_EQ(
      0u,
      OpenError("[modules.next]\nmodule = \"mani\"\n", SL_ERR_CONFIG).find("p.toml:2:10: there is no module mani in "));
  EXPECT_EQ(0u, OpenError("[modules.next]\nmodule = \"many\"\nversion = \">=3\"\n", SL_ERR_CONFIG)
                    .find("p.toml:4:11: module next is wanted in version \">=3\", found 1.4.0 ("));
  EXPECT_EQ("p.toml:3:10: modules.next.module must be a string, not an integer",
            OpenError("[modules.next]\nmodule = 5\n", SL_ERR_CONFIG));
}

TEST_F(ChoiceTest, UnsatisfiedVersionNamesWhatThereIs) {
  const std::string message = VersionOf(">=3");
  EXPECT_EQ(0u, message.find("p.toml:3:11: module many is wanted in version \">=3\", found 1.4.0 (")) << message;
  EXPECT_NE(message.find("1.2.0 (" + Sample("versions", "many")), std::string::npos) << message;
  EXPECT_NE(VersionOf("~1").find("is no version constraint; write it like"), std::string::npos) << VersionOf("~1");
}

TEST_F(ChoiceTest, MisspeltVariablesAreNamedWithTheNearest) {
  UseSamples("fault");
  constexpr const char* kNames[] = {"STARLING_LNK_SLOTS", "STARLING_LINK_RESEND_MS", "STARLING_POLICY_B_ANYTHING",
                                    "STARLING_TOOL_ANYTHING"};
  for (const char* name : kNames) setenv(name, "32", 1);
  Result<Profile> profile = Profile::Parse("profile_version = 1\n", "p.toml");
  ASSERT_TRUE(profile.ok());
  const std::vector<std::string> wanted = {"policy-a"};
  const Catalog catalog = Catalog::Read(profile.value(), FindCandidates(profile.value()), &wanted, false);
  EXPECT_EQ(
      StrayVariables(catalog),
      std::vector<std::string>{"environment variable STARLING_LNK_SLOTS means nothing here and is ignored; nearest "
                               "is STARLING_LINK_SLOTS"});
  for (const char* name : kNames) unsetenv(name);
}

TEST_F(ChoiceTest, MissingModuleNamesFolderAndNearest) {
  UseSamples("fault");
  const std::string message = OpenError("enable = [\"policy-a\",\n\"polcy-b\"]\n", SL_ERR_CONFIG);
  EXPECT_EQ(0u, message.find("p.toml:3:1: there is no module polcy-b in ")) << message;
  EXPECT_NE(message.find("; nearest is policy-b"), std::string::npos) << message;
}

TEST_F(ChoiceTest, OneFileFoundTwiceIsOneModule) {
  const std::string path = Copy("busy", "busy", "busy-1.0.0");
  ASSERT_EQ(0, symlink("busy-1.0.0.so", (folder_ + "/busy.so").c_str()));
  ASSERT_EQ(0, setenv("STARLING_MODULE_PATH", (folder_ + ":" + folder_ + "/.").c_str(), 1));
  const Profile profile = Profile::Parse("profile_version = 1\n[modules.twin]\nmodule = \"busy\"\n", "p.toml").Take();
  const std::vector<ModuleCandidate> found = FindCandidates(profile);
  ASSERT_EQ(2u, found.size());
  EXPECT_EQ("busy", found[0].name);
  EXPECT_EQ("twin", found[1].name);
  EXPECT_EQ(path, found[0].path);
}

TEST_F(ChoiceTest, WordsForAModuleThatIsNotListedAreAWarning) {
  UseSamples("fault");
  const std::string file = folder_ + "/p.toml";
  std::ofstream(file)
      << "profile_version = 1\nenable = [\"policy-a\"]\nroles.fault = \"none\"\n[modules.polcy-a]\nversion = \">=1\"\n"
         "[modules.policy-b]\nenabled = false\n";
  std::string text;
  ASSERT_TRUE(ProfileText(file.c_str(), &text).ok());
  EXPECT_NE(text.find("# warning: " + file +
                      ":4:10: modules.polcy-a has no effect: neither enable nor layers names it; "
                      "nearest is policy-a\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("warning"), text.rfind("warning")) << text;
}

TEST_F(ChoiceTest, AMisspeltModuleThatIsSwitchedOffIsAWarning) {
  UseSamples("fault");
  const std::string file = folder_ + "/p.toml";
  std::ofstream(file) << "profile_version = 1\nroles.fault = \"none\"\n[modules.polcy-a]\nenabled = "
                         "false\n[modules.wrap-x]\nenabled = false\n"
                         "[modules.for-other-machines]\nenabled = false\n[modules.policy-b]\nenabled = false\n";
  std::string text;
  ASSERT_TRUE(ProfileText(file.c_str(), &text).ok());
  EXPECT_NE(
      text.find("# warning: " + file + ":3:10: there is no module polcy-a to be switched off; nearest is policy-a\n"),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("warning"), text.rfind("warning")) << text;
}

TEST_F(ChoiceTest, AProfileThatKeepsTheHostDeviceOutIsWarnedAbout) {
  Copy("busy", "busy", "device-host");
  ASSERT_EQ(0, setenv("STARLING_MODULE_PATH", folder_.c_str(), 1));
  const auto why = [](const std::string& lines) {
    return WhyNoHostDevice(Profile::Parse("profile_version = 1\n" + lines, "p.toml").Take());
  };
  EXPECT_EQ("", why(""));
  EXPECT_EQ("", why("enable = [\"device-host\"]\n"));
  EXPECT_EQ("", why("[modules.device-host]\nenabled = false\n[modules.cpu]\nmodule = \"device-host\"\n"));
  EXPECT_EQ(
      "no process works without a host device, and p.toml:2:10 switches device-host off; "
      "remove enabled = false there",
      why("[modules.device-host]\nenabled = false\n"));
  EXPECT_EQ("no process works without a host device, and enable of p.toml does not name device-host; add it",
            why("enable = []\n"));
  const std::string file = folder_ + "/p.toml";
  std::ofstream(file) << "profile_version = 1\nenable = []\n";
  std::string text;
  ASSERT_TRUE(ProfileText(file.c_str(), &text).ok());
  EXPECT_NE(text.find("# warning: no process works without a host device, and enable of " + file + " does"),
            std::string::npos)
      << text;
}

TEST_F(ChoiceTest, PathWithoutAFolderIsNone) {
  ASSERT_EQ(0, unsetenv("STARLING_MODULE_PATH"));
  const std::vector<std::string> folders = ModuleFolders();
  ASSERT_EQ(0, setenv("STARLING_MODULE_PATH", " ::", 1));
  EXPECT_EQ(folders, ModuleFolders());
  EXPECT_EQ(1u, folders.size());
}

TEST_F(ChoiceTest, TwoAskedForModulesForAnExclusiveRoleAreAnError) {
  UseSamples("fault");
  EXPECT_EQ(
      "p.toml:2:23: modules policy-a and policy-b both serve sl.fault/1, which only one may; set roles.fault to the "
      "one "
      "to use, or leave one module out",
      OpenError("enable = [\"policy-a\", \"policy-b\"]\n", SL_ERR_CONFIG));
}

TEST_F(ChoiceTest, RoleSettlesAnExclusiveInterface) {
  UseSamples("fault");
  Result<std::unique_ptr<Loader>> loader =
      Open("enable = [\"policy-a\", \"policy-b\"]\n[roles]\nfault = \"policy-b\"\n");
  ASSERT_TRUE(loader.ok()) << loader.status().message();
  ASSERT_EQ(1u, loader.value()->Providers(SL_FAULT_ID).size());
  EXPECT_EQ("policy-b", loader.value()->Providers(SL_FAULT_ID)[0].name);
  Result<std::unique_ptr<Loader>> none = Open("[roles]\nfault = \"none\"\n");
  ASSERT_TRUE(none.ok()) << none.status().message();
  EXPECT_TRUE(none.value()->Providers(SL_FAULT_ID).empty());
}

TEST_F(ChoiceTest, WarnsOfEveryModuleThatNobodyAsks) {
  UseSamples("fault");
  const std::string text = EffectiveText("[roles]\nfault = \"policy-b\"\n");
  EXPECT_NE(text.find("# warning: module policy-b has no effect as sl.fault/1 policy-b: this release does not ask "
                      "sl.fault/1 yet\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("policy-a has no effect"), std::string::npos) << text;
  EXPECT_EQ(EffectiveText("[roles]\nfault = \"none\"\n").find("no effect"), std::string::npos);
}

TEST_F(ChoiceTest, UnknownRoleIsAnErrorWithItsPlace) {
  UseSamples("fault");
  const std::string message = OpenError("[roles]\nfault = \"policy-c\"\n", SL_ERR_CONFIG);
  EXPECT_EQ(0u, message.find("p.toml:3:9: roles.fault is \"policy-c\", which no module in use provides")) << message;
  EXPECT_EQ(0u, OpenError("[roles]\ndevice = \"tpu\"\n", SL_ERR_CONFIG).find("p.toml:3:10: roles.device is \"tpu\""));
}

TEST_F(ChoiceTest, FoundTwiceTheFirstByNameServesAndAskedForBeatsFound) {
  UseSamples("fault");
  Result<std::unique_ptr<Loader>> found = Open("");
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(1u, found.value()->Providers(SL_FAULT_ID).size());
  EXPECT_EQ("policy-a", found.value()->Providers(SL_FAULT_ID)[0].name);
  Result<std::unique_ptr<Loader>> asked = Open("[modules.policy-b]\n");
  ASSERT_TRUE(asked.ok()) << asked.status().message();
  EXPECT_EQ("policy-b", asked.value()->Providers(SL_FAULT_ID)[0].name);
}

TEST_F(ChoiceTest, TwoProvidersOfOneNameAreAnErrorWhenAskedFor) {
  UseSamples("twins");
  const std::string message = OpenError("enable = [\"twin-a\", \"twin-b\"]\n", SL_ERR_CONFIG);
  EXPECT_EQ(0u, message.find("p.toml:2:21: modules twin-a and twin-b both serve sl.test.a/1 as twin")) << message;
}

TEST_F(ChoiceTest, ModuleOnRequestWaitsForTheProfile) {
  UseSamples("fault");
  Result<std::unique_ptr<Loader>> loader =
      Open("[modules.policy-a]\nenabled = false\n[modules.policy-b]\nenabled = false\n");
  ASSERT_TRUE(loader.ok()) << loader.status().message();
  EXPECT_TRUE(loader.value()->Providers(SL_FAULT_ID).empty());
  Result<std::unique_ptr<Loader>> asked = Open("enable = [\"policy-old\"]\n");
  ASSERT_TRUE(asked.ok()) << asked.status().message();
  EXPECT_EQ(1u, asked.value()->Providers(SL_FAULT_ID).size());
}

TEST_F(ChoiceTest, LayersAndModulesAreNotMixedUp) {
  UseSamples("fault");
  EXPECT_EQ("p.toml:2:11: wrap-x is a layer; name it in layers", OpenError("enable = [\"wrap-x\"]\n", SL_ERR_CONFIG));
  EXPECT_EQ("p.toml:2:11: policy-a is not a layer", OpenError("layers = [\"policy-a\"]\n", SL_ERR_CONFIG));
}

TEST_F(ChoiceTest, MissingLayerIsAnErrorWithItsPlaceAndTheNearest) {
  UseSamples("fault");
  std::string message = OpenError("layers = [\"wrap-z\"]\n", SL_ERR_CONFIG);
  EXPECT_EQ(0u, message.find("p.toml:2:11: there is no module wrap-z in ")) << message;
  EXPECT_NE(message.find("; nearest is wrap-x"), std::string::npos) << message;
  ASSERT_EQ(0, setenv("STARLING_LAYERS", "wrap-z", 1));
  message = OpenError("", SL_ERR_CONFIG);
  unsetenv("STARLING_LAYERS");
  EXPECT_EQ(0u, message.find("environment variable STARLING_LAYERS: there is no module wrap-z in ")) << message;
}

TEST_F(ChoiceTest, OptionErrorsHaveTheirPlaceAndAreReportedTogether) {
  UseSamples("busy");
  EXPECT_EQ(
      "p.toml:3:10: modules.busy.options.weight is 2000, but must be 0 to 1000\n"
      "p.toml:4:1: unknown option modules.busy.options.lable; nearest is label",
      OpenError("[modules.busy.options]\nweight = 2000\nlable = \"x\"\n", SL_ERR_CONFIG));
  EXPECT_EQ("p.toml:3:9: modules.busy.options.label must be a string, not an integer",
            OpenError("[modules.busy.options]\nlabel = 5\n", SL_ERR_CONFIG));
}

TEST_F(ChoiceTest, OptionsFollowThePrecedence) {
  UseSamples("busy");
  std::string text;
  setenv("STARLING_BUSY_WEIGHT", "9", 1);
  setenv("STARLING_PROFILE_PATH", folder_.c_str(), 1);
  const Status status = ProfileText("auto", &text);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_NE(text.find("[modules.busy.options]\nweight = 9  # environment variable STARLING_BUSY_WEIGHT\n"
                      "label = \"none\"  # default\n"),
            std::string::npos)
      << text;
  setenv("STARLING_BUSY_WEIGHT", "heavy", 1);
  EXPECT_EQ("environment variable STARLING_BUSY_WEIGHT: modules.busy.options.weight must be an integer, not \"heavy\"",
            OpenError("", SL_ERR_CONFIG));
  unsetenv("STARLING_BUSY_WEIGHT");
}

TEST_F(ChoiceTest, PinnedAlgorithmMustExist) {
  UseSamples("busy");
  const std::string message = OpenError("[[select]]\nalgorithm = \"rink\"\n", SL_ERR_CONFIG);
  EXPECT_EQ(0u, message.find("p.toml:2:1: this rule's algorithm is rink, which no module in use provides")) << message;
}

TEST_F(ChoiceTest, PathInTheProfileReplacesTheSearch) {
  const std::string path = Sample("busy", "busy");
  Result<std::unique_ptr<Loader>> loader = Open("[modules.busy]\npath = \"" + path + "\"\n");
  ASSERT_TRUE(loader.ok()) << loader.status().message();
  EXPECT_EQ(path, loader.value()->Providers("sl.test.a/1").at(0).module->path());
  EXPECT_NE(OpenError("[modules.busy]\npath = \"/no/such.so\"\n", SL_ERR_CONFIG).find("/no/such.so: cannot open"),
            std::string::npos);
}

TEST_F(ChoiceTest, RuleForAModuleThatWaitsToBeNamedSaysTheLineToAdd) {
  setenv("STARLING_MODULE_PATH", (std::string(getenv("SL_TEST_BUILD_DIR")) + "/lib/starling").c_str(), 1);
  const std::string error = OpenError("[[select]]\nop = \"broadcast\"\nalgorithm = \"null\"\n", SL_ERR_CONFIG);
  EXPECT_NE(
      error.find("this rule's algorithm is null, which no module in use provides; module null-algorithm does, once "
                 "the profile names it: add [modules.null-algorithm]"),
      std::string::npos)
      << error;
}

}  // namespace
}  // namespace sl::kernel
