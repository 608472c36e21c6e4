// SPDX-License-Identifier: Apache-2.0
// Every file that must not be loaded is refused, and the refusal names the file, what it offers and what was wanted.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kernel/events/log.h"
#include "kernel/loader/catalog.h"
#include "sl_fault.h"
#include "tests/loader/fixture.h"

namespace sl::kernel {
namespace {

struct BadModule {
  const char* name;
  const char* words;  // part of the message
};

class BadModuleTest : public LoaderTest, public ::testing::WithParamInterface<BadModule> {};

TEST_P(BadModuleTest, IsAnErrorWhenTheProfileAsksForIt) {
  const BadModule& bad = GetParam();
  UseSamples("bad");
  Result<std::unique_ptr<Loader>> loader = Open(std::string("enable = [\"") + bad.name + "\"]\n");
  ASSERT_FALSE(loader.ok());
  const std::string message = loader.status().message();
  EXPECT_EQ(0u, message.find("p.toml:2:11: ")) << message;
  EXPECT_NE(message.find(Sample("bad", bad.name)), std::string::npos) << message;
  EXPECT_NE(message.find(bad.words), std::string::npos) << message;
  EXPECT_FALSE(IsMapped(std::string(bad.name) + ".so"));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadModuleTest,
    ::testing::Values(
        BadModule{"bad-no-entry", "refused: it has no entry sl_module_query"},
        BadModule{"bad-query-refuses",
                  "refused: it does not work with this kernel (unsupported), which speaks container 1"},
        BadModule{"bad-query-throws", "refused: its sl_module_query threw"},
        BadModule{"bad-query-nothing", "refused: its sl_module_query gave no table"},
        BadModule{"bad-magic", "refused: its table has magic 0x0000000000001234, wanted 0x444f4d474e494c53"},
        BadModule{"bad-older", "refused: its container version 0 is older than this kernel's, wanted 1"},
        BadModule{"bad-newer", "refused: its container version 2 is newer than this kernel's, wanted 1"},
        BadModule{"bad-truncated", "refused: its table is truncated: struct_size is"},
        BadModule{"bad-no-close", "refused: its table has no close, which is mandatory"},
        BadModule{"bad-build-id", "of build 1999-01-draft-0, wanted build " SL_ABI_BUILD_ID},
        BadModule{"bad-no-create", "its sl.algorithm/1 table has no create, which is mandatory"},
        BadModule{"bad-truncated-ops", "its sl.algorithm/1 table is truncated: struct_size is 12, wanted"},
        BadModule{"bad-throws", "cannot be opened: it threw in open: no hardware and no manners"},
        BadModule{"bad-fails", "cannot be opened: bad-fails: the firmware is too old; update it to 7"},
        BadModule{"bad-requires", "it requires sl.absent/1 in revisions 1 to 1, which no module in use provides"},
        BadModule{"bad-revision", "it requires sl.device/1 in revisions 8 to 9, this kernel speaks 1 to 2"},
        BadModule{"bad-option", "an option's default does not fit it: default: depth must be an integer, not \"ten\""},
        BadModule{"bad-name", "it says that it is somebody-else, wanted bad-name as the file is named"},
        BadModule{"bad-count",
                  "its table counts 0 options, 4294967295 provided and 0 required interfaces; at most 1024 of each"},
        BadModule{"bad-again", "cannot be opened: status -1, again"},
        BadModule{"bad-no-instance", "refused: its open said SL_OK and made no instance"},
        BadModule{"bad-version", "refused: \"latest\" is no version; write it like 1.2.0"}),
    [](const auto& bad) {
      std::string name = bad.param.name;
      std::erase(name, '-');
      return name;
    });

class RefusalTest : public LoaderTest {};

TEST_F(RefusalTest, InterfaceThatIsAlmostOneOfOurs) {
  UseSamples("unknown");
  const std::string misspelt = OpenError("enable = [\"typo\"]\n", SL_ERR_CONFIG);
  EXPECT_NE(misspelt.find("refused: it offers sl.falt/1, which this kernel does not know; it knows sl.fault/1"),
            std::string::npos)
      << misspelt;
  const std::string to_come = OpenError("enable = [\"future\"]\n", SL_ERR_CONFIG);
  EXPECT_NE(to_come.find("refused: it offers sl.fault/2, which this kernel does not know; it knows sl.fault/1"),
            std::string::npos)
      << to_come;
}

TEST_F(RefusalTest, NoMajorVersionToComeBesideTodays) {
  UseSamples("unknown");
  Result<std::unique_ptr<Loader>> loader = Open("enable = [\"both\"]\n");
  ASSERT_TRUE(loader.ok()) << loader.status().message();
  EXPECT_EQ(1u, loader.value()->Providers(SL_FAULT_ID).size());
}

TEST_F(RefusalTest, FoundButNotAskedForIsAWarningAndLeftOut) {
  UseSamples("bad");
  const std::string log = folder_ + "/log";
  ConfigureLog(SL_LOG_WARN, log);
  Result<std::unique_ptr<Loader>> loader = Open("");
  ConfigureLog(SL_LOG_WARN, "");
  ASSERT_TRUE(loader.ok()) << loader.status().message();
  EXPECT_TRUE(loader.value()->Providers("sl.algorithm/1").empty());
  std::ifstream file(log);
  // One line for all that are refused when they are read, and one for each that fails to open.
  int summaries = 0;
  for (std::string line; std::getline(file, line);) {
    summaries += line.find("files of the search path are refused and left out: ") != std::string::npos ? 1 : 0;
    EXPECT_EQ(line.find("refused: its table"), std::string::npos) << line;
  }
  EXPECT_EQ(1, summaries);
}

TEST_F(RefusalTest, AMissingSymbolIsToldWithTheFile) {
  UseSamples("undefined");
  EXPECT_EQ("p.toml:2:11: " + Sample("undefined", "undefined") +
                ": refused: cannot be loaded: undefined symbol: sl_test_nowhere",
            OpenError("enable = [\"undefined\"]\n", SL_ERR_CONFIG));
}

TEST_F(RefusalTest, NotAnElfFile) {
  std::ofstream(folder_ + "/text.so") << "#!/bin/sh\n" << std::string(200, 'x');
  EXPECT_EQ("p.toml:2:11: " + folder_ + "/text.so: refused: not an ELF file, wanted a shared library",
            OpenError("enable = [\"text\"]\n", SL_ERR_CONFIG));
  std::ofstream(folder_ + "/empty.so");
  EXPECT_NE(OpenError("enable = [\"empty\"]\n", SL_ERR_CONFIG).find("not an ELF file"), std::string::npos);
}

TEST_F(RefusalTest, AProgramOrAnotherMachinesLibrary) {
  const std::string path = Copy("busy", "busy", "busy");
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(18);
  file.write("\x08\x00", 2);  // EM_MIPS
  file.close();
  EXPECT_NE(OpenError("enable = [\"busy\"]\n", SL_ERR_CONFIG).find("machine 8, type 3; wanted a shared library"),
            std::string::npos);
}

TEST_F(RefusalTest, NotARegularFile) {
  ASSERT_EQ(0, mkfifo((folder_ + "/pipe.so").c_str(), 0600));
  EXPECT_NE(OpenError("enable = [\"pipe\"]\n", SL_ERR_CONFIG).find("not a regular file"), std::string::npos);
}

TEST_F(RefusalTest, WorldWritableFile) {
  const std::string path = Copy("busy", "busy", "busy");
  ASSERT_EQ(0, chmod(path.c_str(), 0757));
  EXPECT_EQ("p.toml:2:11: " + path + ": refused: the file is world-writable (mode 0757); run chmod o-w on it",
            OpenError("enable = [\"busy\"]\n", SL_ERR_CONFIG));
}

TEST_F(RefusalTest, WorldWritableFolder) {
  Copy("busy", "busy", "busy");
  ASSERT_EQ(0, chmod(folder_.c_str(), 0777));
  EXPECT_NE(OpenError("enable = [\"busy\"]\n", SL_ERR_CONFIG).find("its folder " + folder_ + " is world-writable"),
            std::string::npos);
}

TEST_F(RefusalTest, LinkIntoAWorldWritableFolder) {
  const std::string open_folder = folder_ + "/open";
  ASSERT_EQ(0, mkdir(open_folder.c_str(), 0777));
  ASSERT_EQ(0, chmod(open_folder.c_str(), 0777));
  Copy("busy", "busy", "open/busy");
  ASSERT_EQ(0, symlink("open/busy.so", (folder_ + "/busy.so").c_str()));
  EXPECT_NE(OpenError("enable = [\"busy\"]\n", SL_ERR_CONFIG).find("its folder " + open_folder + " is world-writable"),
            std::string::npos);
}

TEST_F(RefusalTest, FileOfAnotherUser) {
  const std::string path = Copy("busy", "busy", "busy");
  if (chown(path.c_str(), 12345, static_cast<gid_t>(-1)) != 0) GTEST_SKIP() << "only root can give a file away";
  EXPECT_NE(
      OpenError("enable = [\"busy\"]\n", SL_ERR_CONFIG).find("the file belongs to user 12345, wanted root or user"),
      std::string::npos);
}

TEST_F(RefusalTest, WrongHashIsRefusedAndTheRightOneLoads) {
  const std::string path = Copy("busy", "busy", "busy");
  const std::string head = "enable = [\"busy\"]\n[modules.busy]\nsha256 = \"";
  const std::string message = OpenError(head + std::string(64, '0') + "\"\n", SL_ERR_CONFIG);
  const std::string offered = path + ": refused: its SHA-256 is ";
  ASSERT_NE(message.find(offered), std::string::npos) << message;
  EXPECT_NE(message.find(", wanted " + std::string(64, '0')), std::string::npos) << message;
  const std::string hash = message.substr(message.find(offered) + offered.size(), 64);
  Result<std::unique_ptr<Loader>> loader = Open(head + hash + "\"\n");
  EXPECT_TRUE(loader.ok()) << loader.status().message();
}

TEST_F(RefusalTest, DamagedLibraryGivesTheDynamicLoadersWords) {
  const std::string path = Copy("busy", "busy", "busy");
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(7);
  file.put('\xff');  // of no operating system
  file.close();
  const std::string message = OpenError("enable = [\"busy\"]\n", SL_ERR_CONFIG);
  EXPECT_NE(message.find(path + ": refused: cannot be loaded: "), std::string::npos) << message;
}

// In a process of its own, which sees another /proc than this one.
// A copy that was interrupted: the dynamic loader would map what is not there and end the process.
TEST_F(RefusalTest, CutShortAtAnyPlace) {
  const std::string path = Copy("busy", "busy", "busy");
  const uintmax_t whole = std::filesystem::file_size(path);
  for (const uintmax_t bytes :
       {uintmax_t{60}, uintmax_t{64}, uintmax_t{1000}, uintmax_t{4096}, whole / 16, whole / 8}) {
    std::filesystem::resize_file(path, bytes);
    const std::string message = OpenError("enable = [\"busy\"]\n", SL_ERR_CONFIG);
    EXPECT_EQ(0u, message.find("p.toml:2:11: " + path + ": refused: ")) << bytes << ": " << message;
    const bool has_headers = bytes >= 1000;
    EXPECT_EQ(has_headers, message.find("it is cut short: it has " + std::to_string(bytes)) != message.npos) << message;
    Copy("busy", "busy", "busy");
  }
}

// What a file system leaves that knew the length before a crash, and not yet the contents.
TEST_F(RefusalTest, ZerosWhereContentsWere) {
  const std::string path = Copy("busy", "busy", "busy");
  const uintmax_t whole = std::filesystem::file_size(path);
  for (const uintmax_t bytes : {uintmax_t{64}, uintmax_t{1000}}) {
    std::filesystem::resize_file(path, bytes);
    std::filesystem::resize_file(path, whole);
    const std::string message = OpenError("enable = [\"busy\"]\n", SL_ERR_CONFIG);
    EXPECT_NE(message.find("refused: it has no tables of symbols and names; it is damaged"), message.npos) << message;
    Copy("busy", "busy", "busy");
  }
}

TEST_F(RefusalTest, MissingProcIsNamedWithItsRemedy) {
  const std::string path = Copy("busy", "busy", "busy");
  constexpr int kMayNot = 77;
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", "/proc", "tmpfs", 0, nullptr) != 0) {
      _exit(kMayNot);
    }
    const std::string message = OpenError("enable = [\"busy\"]\n", SL_ERR_CONFIG);
    EXPECT_NE(message.find(path + ": cannot be loaded: there is no /proc/self/fd"), std::string::npos) << message;
    EXPECT_NE(message.find("mount -t proc proc /proc"), std::string::npos) << message;
    _exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kMayNot) GTEST_SKIP() << "needs to mount something over /proc";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace sl::kernel
