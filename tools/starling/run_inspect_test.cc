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

// Programs that have NCCL's functions inside, made by the compiler of this machine.
class NcclInside : public RunInspectTest {
 protected:
  void SetUp() override {
    if (std::system("cc --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no C compiler here";
    std::ofstream(folder_ / "own.c")
        << "__attribute__((visibility(V))) int ncclGetVersion(int* v) { return *v = 1; }\n";
    std::ofstream(folder_ / "main.c")
        << "int ncclGetVersion(int*); int main(void) { int v; ncclGetVersion(&v); return 0; }\n";
    std::ofstream(folder_ / "none.c") << "int main(void) { return 0; }\n";
  }
  std::string Build(const std::string& arguments) {
    const std::string out = folder_ / "built";
    const std::string command = "cd " + folder_.string() + " && cc " + arguments + " -o built";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return out;
  }
  bool IsInside(const std::string& arguments, bool is_program) {
    return !WhyNcclInside(Build(arguments), is_program).empty();
  }
};

TEST_F(NcclInside, IsFoundInAProgramHiddenOrExported) {
  EXPECT_TRUE(IsInside("-DV='\"hidden\"' own.c main.c", true));
  EXPECT_TRUE(IsInside("-DV='\"default\"' own.c main.c", true));
  EXPECT_TRUE(IsInside("-rdynamic -DV='\"default\"' own.c main.c", true));
  EXPECT_TRUE(IsInside("-s -rdynamic -DV='\"default\"' own.c main.c", true));
  EXPECT_FALSE(IsInside("none.c", true));
}

TEST_F(NcclInside, IsFoundInALibraryThatIsBoundToItself) {
  EXPECT_TRUE(IsInside("-shared -fPIC -DV='\"hidden\"' own.c", false));
  EXPECT_TRUE(IsInside("-shared -fPIC -DV='\"protected\"' own.c", false));
  EXPECT_TRUE(IsInside("-shared -fPIC -Wl,-Bsymbolic -DV='\"default\"' own.c", false));
  EXPECT_FALSE(IsInside("-shared -fPIC -DV='\"default\"' own.c", false)) << "a preloaded library takes its place";
}

TEST_F(NcclInside, IsNotWhatAProgramOnlyCalls) {
  EXPECT_FALSE(IsInside("-Wl,--unresolved-symbols=ignore-all main.c", true));
  EXPECT_EQ(WhyNcclInside(Write("cut", "\177ELF", 4), true), "");
  EXPECT_EQ(WhyNcclInside(WriteElf("short", ELFCLASS64), true), "");
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
