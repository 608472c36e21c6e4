// SPDX-License-Identifier: Apache-2.0
#include "kernel/profile/profile.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "kernel/profile/keys.h"

namespace sl::kernel {
namespace {

// Sets a variable for one test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~ScopedVariable() { unsetenv(name_); }

 private:
  const char* name_;
};

std::string ErrorOf(const std::string& toml) {
  Result<Profile> profile = Profile::Parse(toml, "p.toml");
  EXPECT_FALSE(profile.ok());
  EXPECT_EQ(SL_ERR_CONFIG, profile.status().code());
  return profile.status().message();
}

TEST(Profile, AutoIsBuiltInAndAllDefaults) {
  Result<Profile> profile = Profile::Load("");
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  EXPECT_EQ("auto", profile.value().name());
  EXPECT_EQ("", profile.value().file());
  EXPECT_EQ(120000u, profile.value().settings().comm.bootstrap_timeout_ms);
  EXPECT_EQ(1800000u, profile.value().settings().comm.operation_timeout_ms);
  EXPECT_EQ(131072u, profile.value().settings().link.chunk_bytes);
  EXPECT_EQ(8u, profile.value().settings().link.slots);
  EXPECT_EQ(ProgressMode::kInline, profile.value().settings().engine.progress);
  EXPECT_FALSE(profile.value().lists_modules());
  EXPECT_EQ(Origin::kDefault, profile.value().Find("link.lanes")->origin);
  EXPECT_EQ(nullptr, profile.value().Find("link.lines"));
}

TEST(Profile, FifoIsRefusedAndNotWaitedFor) {
  const std::string path = (std::filesystem::temp_directory_path() / ("fifo-" + std::to_string(getpid()) + ".toml"));
  ASSERT_EQ(0, mkfifo(path.c_str(), 0600));
  EXPECT_EQ(path + ": not a regular file; give a profile in TOML", Profile::Load(path).status().message());
  std::filesystem::remove(path);
}

TEST(Profile, SyntaxErrorHasFileLineColumn) {
  EXPECT_EQ(0u, ErrorOf("profile_version = 1\n[comm\n").find("p.toml:2:")) << ErrorOf("profile_version = 1\n[comm\n");
}

std::string Parts(size_t count) {
  std::string key = "a";
  for (size_t i = 1; i < count; ++i) key += ".a";
  return key;
}

TEST(Profile, KeyOfTooManyPartsIsAnErrorAndNoCrash) {
  const std::string deep = Parts(400000);
  std::string nested;
  for (int i = 0; i < 200; ++i) nested += Parts(200) + " = {";
  const std::string cases[] = {
      deep + " = 1",
      "[" + deep + "]",
      "[[" + deep + "]]",
      "x = {" + deep + " = 1}",
      R"("\"".)" + deep + R"(."b" = 1)",
      R"(x = {y = "\", z\"", "\\" = 1, )" + deep + " = 1}",
      R"(x = {y = """\""""", )" + deep + " = 1}",
      "x = {y = ''''''', " + deep + " = 1}",
      "x = [[[1], [2]], {" + deep + " = 1}]",
      "[" + Parts(200) + "] # table\n" + Parts(100) + " = 1",
      Parts(200) + " = {" + Parts(100) + " = 1}",
      nested + std::string(200, '}'),
  };
  for (const std::string& text : cases) {
    const std::string error = ErrorOf("profile_version = 1\n" + text + "\n");
    const std::string words = ":1: a key more than 256 levels deep; no key of a profile is";
    EXPECT_TRUE(error == "p.toml:2" + words || error == "p.toml:3" + words)
        << text.substr(0, 60) << ": " << error.substr(0, 200);
  }
}

TEST(Profile, DotsOfStringsAndCommentsAreNoKeys) {
  const std::string dots(1000, '.');
  const std::string texts[] = {"  # " + dots + "\n[comm]\ninterface = \"" + dots + "\"\n",
                               "\n[comm]\ninterface = \"\\\"" + dots + "\"\n",
                               "\n[comm]\ninterface = '\\" + dots + "' # \"" + dots + "\n",
                               "\n[comm]\ninterface = \"\"\"\n\"" + dots + "\n\\\"\"\"" + dots + "\"\"\"\n"};
  for (const std::string& text : texts) {
    EXPECT_TRUE(Profile::Parse("profile_version = 1" + text, "p.toml").ok()) << ErrorOf("profile_version = 1" + text);
  }
}

TEST(Profile, MissingOrForeignVersionIsAnError) {
  EXPECT_EQ("p.toml:1:1: profile_version is missing; begin the file with profile_version = 1", ErrorOf("[comm]\n"));
  EXPECT_EQ("p.toml:1:19: profile_version is 7, but this build reads version 1", ErrorOf("profile_version = 7\n"));
}

TEST(Profile, UnknownKeyNamesTheNearest) {
  EXPECT_EQ("p.toml:3:1: unknown key comm.operation_timout_ms; nearest is operation_timeout_ms",
            ErrorOf("profile_version = 1\n[comm]\noperation_timout_ms = 5\n"));
  EXPECT_EQ("p.toml:2:2: unknown section com; nearest is comm", ErrorOf("profile_version = 1\n[com]\n"));
  EXPECT_EQ("p.toml:2:1: unknown key determinsm; nearest is determinism",
            ErrorOf("profile_version = 1\ndeterminsm = \"run\"\n"));
}

TEST(Profile, WrongTypeAndRangeNameUnitAndBounds) {
  EXPECT_EQ("p.toml:3:20: comm.report_wait_ms must be an integer of ms, not a string",
            ErrorOf("profile_version = 1\n[comm]\nreport_wait_ms   = \"5\"\n"));
  EXPECT_EQ("p.toml:3:9: link.slots is 1, but must be 2 to 1024", ErrorOf("profile_version = 1\n[link]\nslots = 1\n"));
  EXPECT_EQ("p.toml:3:12: engine.progress is \"tread\", but must be one of inline, thread",
            ErrorOf("profile_version = 1\n[engine]\nprogress = \"tread\"\n"));
}

TEST(Profile, BudgetOfSmsKnowsNoneAndNoBound) {
  Profile profile = Profile::Parse("profile_version = 1\n[comm]\nsm_budget = 6\nsm_weight = 8\n", "p.toml").Take();
  EXPECT_EQ(profile.settings().comm.sm_budget, 6u);
  EXPECT_FALSE(profile.settings().comm.is_sm_free);
  EXPECT_EQ(profile.settings().comm.sm_weight, 8u);
  EXPECT_TRUE(profile.Set("comm.sm_budget", "0").ok());
  EXPECT_TRUE(profile.settings().comm.is_sm_free);
  EXPECT_EQ(profile.settings().comm.sm_budget, 0u) << "kernels that there must be are not bound";
  EXPECT_TRUE(profile.Set("comm.sm_budget", "-1").ok());
  EXPECT_FALSE(profile.settings().comm.is_sm_free);
  EXPECT_EQ(profile.settings().comm.sm_budget, 0u) << "not bound";
}

TEST(Profile, AllErrorsAreReportedInTheOrderOfTheFile) {
  const std::string text = ErrorOf("profile_version = 1\n[link]\nslots = 1\n[comm]\nreport_wait_ms = true\nx = 1\n");
  EXPECT_EQ(
      "p.toml:3:9: link.slots is 1, but must be 2 to 1024\n"
      "p.toml:5:18: comm.report_wait_ms must be an integer of ms, not a boolean\n"
      "p.toml:6:1: unknown key comm.x; known are bootstrap_timeout_ms, operation_timeout_ms, report_wait_ms, "
      "interface, socket_family, silence_ms, tls, reach_mib, rendezvous, direct_ranks, host_heap, relay_bytes, "
      "sm_budget, "
      "sm_weight",
      text);
}

TEST(Profile, ModulesAndLayersKeepTheirPlaces) {
  Result<Profile> profile = Profile::Parse(
      "profile_version = 1\nenable = [\"algo-ring\",\n  \"transport-shm\"]\nlayers = [\"checker\"]\n"
      "[modules.transport-shm]\nversion = \">=1.2\"\n[modules.transport-shm.options]\nspin_us = 7\n",
      "p.toml");
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  EXPECT_TRUE(profile.value().lists_modules());
  EXPECT_EQ("p.toml:3:3", profile.value().PlaceOf("transport-shm"));
  EXPECT_EQ("p.toml:4:11", profile.value().PlaceOf("checker"));
  const ModuleEntry* entry = profile.value().FindModule("transport-shm");
  ASSERT_NE(nullptr, entry);
  EXPECT_EQ(">=1.2", entry->version);
  EXPECT_EQ("p.toml:6:11", entry->version_place);
  EXPECT_EQ(7, entry->options.at("spin_us").integer);
  EXPECT_EQ("p.toml:8:1", entry->option_key_places.at("spin_us"));
}

TEST(Profile, ModuleSectionsAreChecked) {
  const std::string head = "profile_version = 1\n[modules.x]\n";
  EXPECT_EQ(
      "p.toml:3:1: unknown key modules.x.verson; nearest is version; options of the module belong into "
      "[modules.x.options]",
      ErrorOf(head + "verson = \"1\"\n"));
  EXPECT_EQ("p.toml:3:10: modules.x.sha256 must be 64 hexadecimal digits", ErrorOf(head + "sha256 = \"abc\"\n"));
  EXPECT_EQ("p.toml:2:15: enable names a twice", ErrorOf("profile_version = 1\nenable = [\"a\",\"a\"]\n"));
}

TEST(Profile, SelectRulesAreRead) {
  Result<Profile> profile = Profile::Parse(
      "profile_version = 1\n[[select]]\nop = [\"all_reduce\", \"broadcast\"]\nmax_bytes = 4096\nmin_ranks = 3\n"
      "algorithm = \"tree\"\n[[select]]\nforbid = [\"ring\"]\n[[select]]\nprefer = \"direct\"\n",
      "p.toml");
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  ASSERT_EQ(3u, profile.value().select().size());
  EXPECT_EQ("direct", profile.value().select()[2].prefer);
  const SelectRule& rule = profile.value().select()[0];
  EXPECT_EQ((std::vector<sl_op_kind_t>{SL_OP_ALL_REDUCE, SL_OP_BROADCAST}), rule.ops);
  EXPECT_EQ(4096u, rule.max_bytes);
  EXPECT_EQ(3u, rule.min_ranks);
  EXPECT_EQ(UINT32_MAX, rule.max_ranks);
  EXPECT_EQ("tree", rule.algorithm);
  EXPECT_EQ("p.toml:2:1", rule.place);
  EXPECT_EQ(std::vector<std::string>{"ring"}, profile.value().select()[1].forbid);
}

TEST(Profile, SelectRulesAreChecked) {
  const std::string head = "profile_version = 1\n[[select]]\n";
  EXPECT_EQ("p.toml:3:6: unknown operation allreduce; nearest is all_reduce\n",
            ErrorOf(head + "op = \"allreduce\"\nforbid = [\"x\"]\n") + "\n");
  EXPECT_EQ("p.toml:2:1: this rule says nothing; give it algorithm, prefer or forbid", ErrorOf(head));
  EXPECT_EQ("p.toml:2:1: this rule has both algorithm and prefer; give it one of them",
            ErrorOf(head + "algorithm = \"a\"\nprefer = \"b\"\n"));
  EXPECT_EQ("p.toml:2:1: this rule's min_bytes is above its max_bytes",
            ErrorOf(head + "forbid = [\"x\"]\nmin_bytes = 5\nmax_bytes = 4\n"));
  EXPECT_EQ("p.toml:3:13: select.min_bytes is -1, but must be 0 to 9223372036854775807",
            ErrorOf(head + "min_bytes = -1\nforbid = [\"x\"]\n"));
}

TEST(Profile, SelectRulesKnowHostsAndDevices) {
  const std::string toml =
      "profile_version = 1\n[[select]]\nmin_hosts = 2\nmax_ranks_per_host = 8\ndevice = \"cuda\"\nforbid = [\"x\"]\n";
  const auto check = [](const Result<Profile>& profile) {
    ASSERT_TRUE(profile.ok()) << profile.status().message();
    const SelectRule& rule = profile.value().select().at(0);
    EXPECT_EQ(rule.min_hosts, 2u);
    EXPECT_EQ(rule.max_hosts, UINT32_MAX);
    EXPECT_EQ(rule.min_ranks_per_host, 0u);
    EXPECT_EQ(rule.max_ranks_per_host, 8u);
    EXPECT_EQ(rule.device_kind, std::optional<uint32_t>(1));
  };
  check(Profile::Parse(toml, "p.toml"));
  check(Profile::Parse(Profile::Parse(toml, "p.toml").value().ToToml(), "q.toml"));
  EXPECT_EQ("p.toml:3:6: select.op is empty; leave it out to mean all operations",
            ErrorOf("profile_version = 1\n[[select]]\nop = []\nforbid = [\"x\"]\n"));
  const std::string head = "profile_version = 1\n[[select]]\nforbid = [\"x\"]\n";
  EXPECT_EQ("p.toml:4:10: select.device is \"gpu\", but must be one of host, cuda",
            ErrorOf(head + "device = \"gpu\"\n"));
  EXPECT_EQ("p.toml:2:1: this rule's min_ranks_per_host is above its max_ranks_per_host",
            ErrorOf(head + "min_ranks_per_host = 3\nmax_ranks_per_host = 2\n"));
}

TEST(Profile, EnvironmentBeatsProfileAndApiBeatsBoth) {
  ScopedVariable variable("STARLING_LINK_SLOTS", "32");
  Result<Profile> parsed = Profile::Parse("profile_version = 1\n[link]\nslots = 16\nlanes = 4\n", "p.toml");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  Profile profile = parsed.Take();
  EXPECT_EQ(32u, profile.settings().link.slots);
  EXPECT_EQ(4u, profile.settings().link.lanes);
  EXPECT_EQ(Origin::kEnvironment, profile.Find("link.slots")->origin);
  ASSERT_TRUE(profile.Set("link.slots", "64").ok());
  EXPECT_EQ(64u, profile.settings().link.slots);
  EXPECT_EQ(Origin::kApi, profile.Find("link.slots")->origin);
  EXPECT_EQ("API: unknown key link.slot; nearest is link.slots", profile.Set("link.slot", "1").message());
}

TEST(Profile, EnvironmentPutsLayersAroundThoseOfTheProfile) {
  const auto names = [](const std::string& toml) {
    const auto profile = Profile::Parse("profile_version = 1\n" + toml, "p.toml");
    std::vector<std::string> layers;
    for (const NamedPlace& layer : profile.value().layers()) layers.push_back(layer.name);
    return layers;
  };
  using Names = std::vector<std::string>;
  const ScopedVariable variable("STARLING_LAYERS", "checker,*");
  EXPECT_EQ(names(""), Names({"checker"}));
  EXPECT_EQ(names("layers = [\"fault-inject\"]"), Names({"checker", "fault-inject"}));
  EXPECT_EQ(names("layers = [\"fault-inject\", \"checker\"]"), Names({"checker", "fault-inject"}));
  const ScopedVariable inside("STARLING_LAYERS", "*,checker");
  EXPECT_EQ(names("layers = [\"fault-inject\"]"), Names({"fault-inject", "checker"}));
  const ScopedVariable instead("STARLING_LAYERS", "checker");
  EXPECT_EQ(names("layers = [\"fault-inject\"]"), Names({"checker"}));
  const auto profile = Profile::Parse("profile_version = 1\n", "p.toml");
  EXPECT_EQ(profile.value().PlaceOf("checker"), "environment variable STARLING_LAYERS");
}

TEST(Profile, EnvironmentErrorsNameTheVariable) {
  ScopedVariable variable("STARLING_COMM_OPERATION_TIMEOUT_MS", "soon");
  Result<Profile> profile = Profile::Load("auto");
  ASSERT_FALSE(profile.ok());
  EXPECT_EQ(
      "environment variable STARLING_COMM_OPERATION_TIMEOUT_MS: comm.operation_timeout_ms must be an integer of "
      "ms, not \"soon\"",
      profile.status().message());
}

TEST(Profile, NcclsInterfaceVariableIsTheLastChoice) {
  ScopedVariable nccl("NCCL_SOCKET_IFNAME", "=eth0");
  EXPECT_EQ("=eth0", Profile::Load("auto").value().settings().comm.interface);
  ScopedVariable ours("STARLING_COMM_INTERFACE", "lo");
  EXPECT_EQ("lo", Profile::Load("auto").value().settings().comm.interface);
}

// Job scripts set them for another library: one that is empty or misspelt decides nothing.
TEST(Profile, NcclsVariableThatMeansNothingIsIgnored) {
  ScopedVariable nccl("NCCL_SOCKET_FAMILY", "");
  Result<Profile> profile = Profile::Load("auto");
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  EXPECT_TRUE(profile.value().ignored().empty());
  setenv("NCCL_SOCKET_FAMILY", "AF_INET7", 1);
  profile = Profile::Load("auto");
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  EXPECT_EQ(Origin::kDefault, profile.value().Find("comm.socket_family")->origin);
  ASSERT_EQ(1u, profile.value().ignored().size());
  EXPECT_EQ(
      "environment variable NCCL_SOCKET_FAMILY: comm.socket_family is \"AF_INET7\", but must be one of any, AF_INET, "
      "AF_INET6; ignored",
      profile.value().ignored()[0]);
}

class ProfileFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/sl-profile-XXXXXX";
    folder_ = mkdtemp(pattern);
    std::ofstream(folder_ + "/site.toml") << "profile_version = 1\n[link]\nlanes = 5\n";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(ProfileFileTest, NamesAreSearchedAndPathsAreRead) {
  ScopedVariable path("STARLING_PROFILE_PATH", "/no/such:" + folder_);
  EXPECT_EQ(5u, Profile::Load("site").value().settings().link.lanes);
  EXPECT_EQ(5u, Profile::Load(folder_ + "/site.toml").value().settings().link.lanes);
  ScopedVariable name("STARLING_PROFILE", "site");
  EXPECT_EQ("site", Profile::Load("").value().name());
}

TEST_F(ProfileFileTest, MissingProfileNamesTheFoldersSearched) {
  ScopedVariable path("STARLING_PROFILE_PATH", folder_);
  const Status status = Profile::Load("sight").status();
  EXPECT_EQ(SL_ERR_NOT_FOUND, status.code());
  EXPECT_NE(status.message().find("no sight.toml in " + folder_), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("/etc/starling"), std::string::npos) << status.message();
  EXPECT_EQ(SL_ERR_NOT_FOUND, Profile::Load(folder_ + "/none.toml").status().code());
  EXPECT_EQ(SL_ERR_CONFIG, Profile::Load(folder_ + "/").status().code());
}

TEST(Profile, PrintedTextReadsBackAndNamesOrigins) {
  ScopedVariable variable("STARLING_LINK_SLOTS", "32");
  const std::string toml =
      "profile_version = 1\nenable = [\"a\"]\n[link]\nlanes = 4\n[[select]]\nop = \"send\"\n"
      "algorithm = \"p2p\"\n";
  const std::string text = Profile::Parse(toml, "p.toml").value().ToToml();
  EXPECT_NE(text.find("lanes = 4  # p.toml:4:9\n"), std::string::npos) << text;
  EXPECT_NE(text.find("slots = 32  # environment variable STARLING_LINK_SLOTS\n"), std::string::npos) << text;
  EXPECT_NE(text.find("resend_ms = 1000  # default\n"), std::string::npos) << text;
  Result<Profile> again = Profile::Parse(text, "q.toml");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(4u, again.value().settings().link.lanes);
  EXPECT_EQ("p2p", again.value().select().at(0).algorithm);
}

TEST(Profile, SharedHashLooksAtWhatRanksMustShare) {
  const auto hash = [](const std::string& text) {
    return Profile::Parse("profile_version = 1\n" + text, "p.toml").value().SharedHash();
  };
  EXPECT_EQ(hash(""), hash("[comm]\ninterface = \"eth0\"\n"));
  EXPECT_NE(hash(""), hash("[link]\nlanes = 4\n"));
  EXPECT_NE(hash(""), hash("[[select]]\nforbid = [\"ring\"]\n"));
}

TEST(ProfileKeys, EveryDefaultFitsAndEveryVariableIsDistinct) {
  std::vector<std::string> variables;
  for (const Key& key : KernelKeys()) {
    const Result<OptionValue> value =
        ParseValue(key.option, key.FullName(), key.option.default_text, Origin::kDefault, "default");
    EXPECT_TRUE(value.ok()) << value.status().message();
    variables.push_back(VariableName(key.section, key.option.name));
    EXPECT_NE(KeysReference().find("`" + key.FullName() + "`"), std::string::npos);
  }
  std::sort(variables.begin(), variables.end());
  EXPECT_EQ(variables.end(), std::adjacent_find(variables.begin(), variables.end()));
}

}  // namespace
}  // namespace sl::kernel
