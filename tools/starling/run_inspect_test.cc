// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/run_inspect.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace sl::tools {
namespace {

class RunInspectTest : public ::testing::Test {
 protected:
  RunInspectTest() : folder_(std::filesystem::temp_directory_path() / ("starling-run-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~RunInspectTest() override { std::filesystem::remove_all(folder_); }

  // An executable file of these bytes.
  std::string Write(const std::string& name, const void* data, size_t bytes) {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary).write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    chmod(path.c_str(), 0755);
    return path;
  }
  std::string WriteElf(const std::string& name, unsigned char elf_class) {
    Elf64_Ehdr header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = elf_class;
    header.e_phentsize = sizeof(Elf64_Phdr);
    return Write(name, &header, sizeof header);
  }

  std::filesystem::path folder_;
};

TEST_F(RunInspectTest, HasNothingAgainstAnOrdinaryProgram) { EXPECT_EQ(WhyPreloadFails("/proc/self/exe"), ""); }

TEST_F(RunInspectTest, SeesWhatCannotBePreloaded) {
  EXPECT_NE(WhyPreloadFails(WriteElf("static", ELFCLASS64)).find("statically linked"), std::string::npos);
  EXPECT_NE(WhyPreloadFails(WriteElf("old", ELFCLASS32)).find("32-bit"), std::string::npos);
}

TEST_F(RunInspectTest, FollowsAScriptToItsInterpreter) {
  const std::string text = "#! " + WriteElf("interpreter", ELFCLASS64) + " -x\n";
  const std::string why = WhyPreloadFails(Write("script", text.data(), text.size()));
  EXPECT_NE(why.find("its interpreter"), std::string::npos);
  EXPECT_NE(why.find("statically linked"), std::string::npos);
}

TEST_F(RunInspectTest, FindsProgramsInPath) {
  EXPECT_NE(FindProgram("sh"), "");
  EXPECT_EQ(FindProgram("no-such-program-at-all"), "");
  EXPECT_EQ(FindProgram("/etc/passwd"), "");  // not executable
}

TEST_F(RunInspectTest, SeesThatALibraryIsNotMapped) {
  const std::string library = Write("libnccl.so.2", "", 0);
  std::string other;
  EXPECT_EQ(InspectProcess(getpid(), library, &other), Preload::kAbsent);
  EXPECT_EQ(InspectProcess(-1, library, &other), Preload::kUnknown);
}

}  // namespace
}  // namespace sl::tools
