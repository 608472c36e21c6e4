// SPDX-License-Identifier: Apache-2.0
#include "modules/device-cuda/place.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace sl::device_cuda {
namespace {

// What of NVML's binary interface is used, as NVIDIA documents it (nvml.h, "GPU Fabric information").
struct FabricInfo {
  unsigned version;
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health_mask;
};
constexpr unsigned kFabricInfoVersion = sizeof(FabricInfo) | 2u << 24;
constexpr unsigned char kFabricCompleted = 3;
struct NvmlDevice;

constexpr char kBootId[] = "/proc/sys/kernel/random/boot_id";

// libnvidia-ml.so.1, for one question.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    Find("nvmlInit_v2", &init_);
    Find("nvmlShutdown", &shutdown_);
    Find("nvmlDeviceGetHandleByPciBusId_v2", &by_bus_id_);
    Find("nvmlDeviceGetGpuFabricInfoV", &fabric_info_);
    is_open_ = init_ != nullptr && shutdown_ != nullptr && init_() == 0;
  }
  ~Nvml() {
    if (is_open_) shutdown_();
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Whether the GPU belongs to a fabric that has a name; fabrics of one host have none.
  bool FindFabric(const std::string& pci_bus_id, Place* out) const {
    if (!is_open_ || by_bus_id_ == nullptr || fabric_info_ == nullptr) return false;
    NvmlDevice* device = nullptr;
    FabricInfo info{};
    info.version = kFabricInfoVersion;
    if (by_bus_id_(pci_bus_id.c_str(), &device) != 0 || fabric_info_(device, &info) != 0) return false;
    const bool has_name =
        std::any_of(info.cluster_uuid, info.cluster_uuid + 16, [](unsigned char byte) { return byte != 0; });
    if (info.state != kFabricCompleted || info.status != 0 || !has_name) return false;
    static_assert(sizeof(info.cluster_uuid) == sizeof(out->domain));
    memcpy(out->domain, info.cluster_uuid, sizeof(out->domain));
    out->clique = info.clique;
    return true;
  }

 private:
  template <typename Function>
  void Find(const char* name, Function** out) {
    *out = reinterpret_cast<Function*>(dlsym(library_, name));
  }

  void* const library_;
  bool is_open_ = false;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*by_bus_id_)(const char* bus_id, NvmlDevice** out) = nullptr;
  int (*fabric_info_)(NvmlDevice* device, FabricInfo* out) = nullptr;
};

std::string ReadText(const std::string& path) {
  char text[64];
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t bytes = read(fd, text, sizeof(text));
  close(fd);
  return bytes > 0 ? std::string(text, static_cast<size_t>(bytes)) : std::string();
}

// FNV-1a; no secret is kept by it, it only has to differ between hosts.
uint64_t Hash(std::string_view text, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325u ^ seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

int32_t NumaNodeOf(std::string pci_bus_id) {
  std::transform(pci_bus_id.begin(), pci_bus_id.end(), pci_bus_id.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string text = ReadText("/sys/bus/pci/devices/" + pci_bus_id + "/numa_node");
  return text.empty() ? -1 : static_cast<int32_t>(strtol(text.c_str(), nullptr, 10));
}

}  // namespace

Result<Place> FindPlace(const std::string& pci_bus_id) {
  Place place;
  place.numa_node = NumaNodeOf(pci_bus_id);
  if (Nvml().FindFabric(pci_bus_id, &place)) return place;
  const std::string boot = ReadText(kBootId);
  if (boot.empty()) {
    return Status(SL_ERR_SYSTEM,
                  std::string("device-cuda: ") + kBootId +
                      " cannot be read, which tells this host from others; mount /proc, raise ulimit -n");
  }
  const uint64_t halves[2] = {Hash(boot, 0), Hash(boot, 0x9e3779b97f4a7c15u)};
  static_assert(sizeof(halves) == sizeof(place.domain));
  memcpy(place.domain, halves, sizeof(halves));
  return place;
}

}  // namespace sl::device_cuda
