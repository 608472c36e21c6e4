// SPDX-License-Identifier: Apache-2.0
#include "tests/loader/fixture.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace sl::kernel {

void LoaderTest::SetUp() {
  char pattern[] = "/tmp/sl-loader-XXXXXX";
  folder_ = mkdtemp(pattern);
  setenv("SAMPLE_JOURNAL", (folder_ + "/journal").c_str(), 1);
  UseTemporary();
}

void LoaderTest::TearDown() { std::filesystem::remove_all(folder_); }

void LoaderTest::UseSamples(const std::string& folder) {
  setenv("STARLING_MODULE_PATH", (std::string(getenv("SL_SAMPLE_DIR")) + "/" + folder).c_str(), 1);
}

void LoaderTest::UseTemporary() { setenv("STARLING_MODULE_PATH", folder_.c_str(), 1); }

std::string LoaderTest::Sample(const std::string& folder, const std::string& file) const {
  return std::string(getenv("SL_SAMPLE_DIR")) + "/" + folder + "/" + file + ".so";
}

std::string LoaderTest::Copy(const std::string& folder, const std::string& file, const std::string& as) {
  std::string path = folder_ + "/" + as + ".so";
  std::filesystem::copy_file(Sample(folder, file), path, std::filesystem::copy_options::overwrite_existing);
  chmod(path.c_str(), 0755);
  return path;
}

Result<std::unique_ptr<Loader>> LoaderTest::Open(const std::string& toml) {
  SL_ASSIGN(const Profile profile, Profile::Parse("profile_version = 1\n" + toml, "p.toml"));
  return Loader::Open(profile);
}

std::string LoaderTest::OpenError(const std::string& toml, sl_status_t code) {
  Result<std::unique_ptr<Loader>> loader = Open(toml);
  EXPECT_FALSE(loader.ok()) << toml;
  EXPECT_EQ(code, loader.status().code()) << loader.status().message();
  return loader.status().message();
}

std::vector<std::string> LoaderTest::Journal() {
  const std::string path = folder_ + "/journal";
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::filesystem::remove(path);
  return lines;
}

bool IsMapped(const std::string& text) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace sl::kernel
