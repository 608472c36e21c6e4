// SPDX-License-Identifier: Apache-2.0
#include "tools/gpu/bench_conditions.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/gpu/cuda_api.h"
#include "tools/starling/bench_error.h"

namespace sl::bench {
namespace {

constexpr char kRuntime[] = "libstarling.so";

class Fnv1a {
 public:
  void Add(const char* bytes, size_t count) {
    for (size_t i = 0; i < count; ++i) hash_ = (hash_ ^ static_cast<uint8_t>(bytes[i])) * 0x100000001b3;
  }
  void AddFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<char> piece(size_t{1} << 20);
    while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0)
      Add(piece.data(), static_cast<size_t>(file.gcount()));
    if (!file.eof()) {
      throw tools::CommandError(tools::kExitFailure, path + ": cannot be read: " + std::strerror(errno));
    }
  }
  std::string Text() const {
    std::array<char, 17> text{};
    std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash_));
    return text.data();
  }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

// The file that a library came from, wherever the loader found it.
std::string FileOf(const tools::NcclApi& library) {
  Dl_info info{};
  const bool is_found = dladdr(reinterpret_cast<void*>(library.GetVersion), &info) != 0 && info.dli_fname != nullptr;
  return is_found ? info.dli_fname : library.path;
}

std::string Processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  }
  return "";
}

// What libraries read.
std::map<std::string, std::string> Environment() {
  constexpr const char* kPrefixes[] = {"NCCL_", "STARLING_", "CUDA_DEVICE_", "CUDA_MODULE_"};
  std::map<std::string, std::string> found;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    const size_t equals = entry.find('=');
    const auto begins = [&](const char* prefix) { return entry.starts_with(prefix); };
    if (equals == std::string::npos || std::none_of(std::begin(kPrefixes), std::end(kPrefixes), begins)) continue;
    found[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return found;
}

}  // namespace

Conditions ConditionsHere(const std::vector<tools::NcclApi>& libraries, int gpus, int rounds,
                          const std::string& datatype, const std::string& op, int more_elements) {
  Conditions here{Processor(), gpu::DeviceName(0), gpu::DriverVersion(), gpus, rounds, datatype,
                  op,          more_elements,      Environment(),        {}};
  for (const tools::NcclApi& library : libraries) {
    int version = 0;
    CheckNccl(library, library.GetVersion(&version), "ncclGetVersion", nullptr);
    here.libraries.push_back({version, FingerprintOf(FileOf(library))});
  }
  return here;
}

std::string FingerprintOf(const std::string& path) {
  std::vector<std::filesystem::path> files = {path};
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  for (const std::filesystem::path& root : {folder, folder.parent_path().parent_path()}) {  // built, installed
    if (!std::filesystem::exists(root / kRuntime)) continue;
    files.push_back(root / kRuntime);
    std::error_code ignored;  // a folder that is not there holds no modules
    for (const auto& entry : std::filesystem::directory_iterator(root / "starling", ignored)) {
      if (entry.path().extension() == ".so") files.push_back(entry.path());
    }
    break;
  }
  std::sort(files.begin() + 1, files.end());
  Fnv1a hash;
  for (const std::filesystem::path& file : files) {
    const std::string name = file.filename().string();
    if (&file != files.data()) hash.Add(name.c_str(), name.size() + 1);
    hash.AddFile(file.string());
  }
  return hash.Text();
}

void to_json(nlohmann::json& json, const Conditions& conditions) {
  nlohmann::json libraries = nlohmann::json::array();
  for (const Conditions::Library& library : conditions.libraries)
    libraries.push_back({{"version", library.version}, {"fingerprint", library.fingerprint}});
  json = {{"processor", conditions.processor},
          {"gpu", conditions.gpu},
          {"cuda_driver", conditions.cuda_driver},
          {"gpus", conditions.gpus},
          {"rounds", conditions.rounds},
          {"datatype", conditions.datatype},
          {"op", conditions.op},
          {"more_elements", conditions.more_elements},
          {"environment", conditions.environment},
          {"libraries", std::move(libraries)}};
}

}  // namespace sl::bench
