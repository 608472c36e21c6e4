// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/gpu_team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "modules/algo-symmetric/tests/cheapest.h"
#include "modules/algo-symmetric/transfer.h"

namespace sl::gpu_test {

using algo_symmetric::CudaRank;
using algo_symmetric::Family;
using algo_symmetric::FamilyAlgorithm;
using algo_symmetric::kFamilies;
using algo_symmetric::TransferAlgorithm;
using algo_symmetric::kernels::kEpochWords;
using algo_symmetric::kernels::kPacketBlocks;
using algo_symmetric::kernels::kSliceHeadBytes;
using algo_symmetric::kernels::LaneLayout;

namespace {

constexpr uint32_t kLanes = 2;          // eager, and one for graphs
constexpr uint64_t kGranule = 2 << 20;  // of a heap
constexpr uint32_t kSharedSms = 112;    // of a GPU that several ranks share: all that wait for one another are resident

const Family* FamilyOf(const std::string& name) {
  for (const Family* family : kFamilies) {
    if ("symmetric_" + name == family->name) return family;
  }
  return nullptr;
}

// The driver's functions by name, so that the program starts where there is no driver.
template <typename Function>
Function Driver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  Demand(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result), name);
  return reinterpret_cast<Function>(found);
}

// The part of sl.device/1 that CudaRank asks for.
struct LoadedImage {
  cudaLibrary_t library;
  std::vector<cudaKernel_t> kernels;
};
sl_status_t LoadImage(sl_device_t*, const sl_image_desc_t* desc, sl_image_t** out) {
  auto image = std::make_unique<LoadedImage>();
  Demand(cudaLibraryLoadData(&image->library, desc->binary, nullptr, nullptr, 0, nullptr, nullptr, 0), "load kernels");
  for (uint32_t i = 0; i < desc->kernel_count; ++i) {
    cudaKernel_t kernel{};
    Demand(cudaLibraryGetKernel(&kernel, image->library, desc->kernel_names[i]), desc->kernel_names[i]);
    image->kernels.push_back(kernel);
  }
  *out = reinterpret_cast<sl_image_t*>(image.release());
  return SL_OK;
}
sl_status_t UnloadImage(sl_device_t*, sl_image_t* image) {
  delete reinterpret_cast<LoadedImage*>(image);
  return SL_OK;
}
const sl_device_ops_t* Ops() {
  static const sl_device_ops_t ops = [] {
    sl_device_ops_t made{};
    made.struct_size = sizeof(made);
    made.image_load = LoadImage;
    made.image_unload = UnloadImage;
    return made;
  }();
  return &ops;
}

sl_status_t AddressesOf(sl_reach_t* reach, const void* memory, uint64_t, uint64_t, uint64_t* out_addresses) {
  auto* same = reinterpret_cast<SameAddresses*>(reach);
  ++same->asked;
  if (same->refuses_every != 0 && same->asked % same->refuses_every == 0) return SL_ERR_UNSUPPORTED;
  for (uint32_t r = 0; r < same->ranks; ++r) out_addresses[r] = reinterpret_cast<uintptr_t>(memory);
  return SL_OK;
}
constexpr sl_reach_ops_t kReachOps = {sizeof(sl_reach_ops_t), 0, AddressesOf};

// As device-cuda decides it: from sm_90 on, and from the driver on that captures such launches.
bool CanDepend(int device) {
  int major = 0;
  int driver = 0;
  Demand(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "ask for the capability");
  Demand(cudaDriverGetVersion(&driver), "ask for the driver");
  return major >= 9 && driver >= 12030;
}

// Every GPU maps what any of them allocates, from the first time on: asking again would be an error of the API, which
// compute-sanitizer counts.
void ConnectAll(int devices) {
  static bool connected = false;
  if (connected) return;
  connected = true;
  for (int d = 0; d < devices; ++d) {
    Demand(cudaSetDevice(d), "set device");
    for (int peer = 0; peer < devices; ++peer) {
      if (peer == d) continue;
      Demand(cudaDeviceEnablePeerAccess(peer, 0), "peer access; are the GPUs connected?");
    }
  }
}

}  // namespace

void Demand(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "FAILED: %s: %s\n", what, cudaGetErrorString(status));
  std::_Exit(1);
}
void Demand(CUresult status, const char* what) {
  if (status == CUDA_SUCCESS) return;
  std::fprintf(stderr, "FAILED: %s: driver error %d\n", what, static_cast<int>(status));
  std::_Exit(1);
}

Heap::Heap(uint32_t ranks, uint64_t slice_bytes, const std::vector<int>& device_of, bool on_host) : on_host_(on_host) {
  stride_ = (slice_bytes + kGranule - 1) / kGranule * kGranule;
  if (!on_host) {
    MapSlices(ranks, device_of);
    return;
  }
  void* memory = nullptr;
  Demand(cudaHostAlloc(&memory, stride_ * ranks, cudaHostAllocPortable | cudaHostAllocMapped), "pin a heap");
  std::memset(memory, 0, stride_ * ranks);
  base_ = reinterpret_cast<uintptr_t>(memory);
}

void Heap::MapSlices(uint32_t ranks, const std::vector<int>& device_of) {
  const auto reserve = Driver<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
  const auto create = Driver<decltype(&cuMemCreate)>("cuMemCreate");
  const auto map = Driver<decltype(&cuMemMap)>("cuMemMap");
  const auto set_access = Driver<decltype(&cuMemSetAccess)>("cuMemSetAccess");
  Demand(reserve(&base_, stride_ * ranks, kGranule, 0, 0), "reserve addresses");
  int devices = 0;
  Demand(cudaGetDeviceCount(&devices), "count GPUs");
  for (uint32_t r = 0; r < ranks; ++r) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device_of[r];
    CUmemGenericAllocationHandle slice{};
    Demand(create(&slice, stride_, &prop, 0), "create a slice");
    slices_.push_back(slice);
    Demand(map(base_ + r * stride_, stride_, 0, slice, 0), "map a slice");
    for (int d = 0; d < devices; ++d) {
      CUmemAccessDesc access{};
      access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      access.location.id = d;
      access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      Demand(set_access(base_ + r * stride_, stride_, &access, 1), "peer access; are the GPUs connected?");
    }
    Demand(cudaSetDevice(device_of[r]), "set device");
    Demand(cudaMemset(base() + r * stride_, 0, stride_), "clear a slice");
    Demand(cudaDeviceSynchronize(), "clear a slice");
  }
}

Heap::~Heap() {
  if (on_host_) {
    Demand(cudaFreeHost(base()), "free the heap");
    return;
  }
  const auto unmap = Driver<decltype(&cuMemUnmap)>("cuMemUnmap");
  const auto release = Driver<decltype(&cuMemRelease)>("cuMemRelease");
  const auto free_addresses = Driver<decltype(&cuMemAddressFree)>("cuMemAddressFree");
  Demand(unmap(base_, stride_ * slices_.size()), "unmap slices");
  for (CUmemGenericAllocationHandle slice : slices_) Demand(release(slice), "release a slice");
  Demand(free_addresses(base_, stride_ * slices_.size()), "free addresses");
}

TeamSettings GpuTeam::SettingsOf(const std::string& name, uint32_t blocks) {
  TeamSettings settings{};
  settings.staged_blocks = blocks;
  settings.graph_lanes = kLanes - 1;
  settings.family = FamilyOf(name);
  settings.serves_all = settings.family != nullptr;
  const bool is_staged = settings.family == &algo_symmetric::families::kStaged;
  settings.reaches = !is_staged;
  if (is_staged || (settings.family != nullptr && settings.family->is_direct)) settings.mailed_bytes = 0;
  return settings;
}

namespace {

TeamSettings SettingsOf(const std::string& family, uint32_t blocks, bool pushes, uint32_t dawdle_ns,
                        uint64_t drawn_bytes) {
  TeamSettings settings = GpuTeam::SettingsOf(family, blocks);
  settings.pushes = pushes;
  settings.dawdle_ns = dawdle_ns;
  settings.drawn_bytes = drawn_bytes;
  return settings;
}

}  // namespace

GpuTeam::GpuTeam(uint32_t ranks, const std::string& family, uint32_t blocks, bool pushes, uint32_t dawdle_ns,
                 uint64_t drawn_bytes)
    : GpuTeam(ranks, gpu_test::SettingsOf(family, blocks, pushes, dawdle_ns, drawn_bytes)) {}

GpuTeam::GpuTeam(uint32_t ranks, const TeamSettings& settings) : settings_(settings), ranks_(ranks) {
  int devices = 0;
  Demand(cudaGetDeviceCount(&devices), "count GPUs");
  ConnectAll(devices);
  sl_comm_shape_t shape{};
  shape.struct_size = sizeof(shape);
  shape.size = ranks;
  shape.heap_on_host = settings.on_host ? 1 : 0;
  if (const uint32_t sharing = (ranks - 1) / static_cast<uint32_t>(devices) + 1; sharing > 1) {
    shape.processors_max = kSharedSms / sharing;
    settings_.staged_blocks = std::min(settings_.staged_blocks, shape.processors_max);
  }
  static_cast<algo_symmetric::GpuSettings&>(settings_) = settings_.On(shape);
  std::vector<int> device_of;
  for (uint32_t r = 0; r < ranks; ++r) device_of.push_back(static_cast<int>(r) % devices);
  const uint64_t bytes = CudaRank::SliceBytes(ranks, settings_);
  heap_ = std::make_unique<Heap>(ranks, bytes, device_of, settings_.on_host);
  for (uint32_t r = 0; r < ranks; ++r) {
    Rank& rank = ranks_[r];
    rank.device = device_of[r];
    rank.can_depend = CanDepend(rank.device);
    Demand(cudaSetDevice(rank.device), "set device");
    Demand(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking), "make a stream");
    void* control = nullptr;
    Demand(cudaHostAlloc(&control, sizeof(sl_control_t), cudaHostAllocPortable | cudaHostAllocMapped), "pin memory");
    rank.control = new (control) sl_control_t{};
    shape.rank = r;
    sl_algorithm_env_t env{};
    env.shape = &shape;
    env.device_ops = Ops();
    env.symmetric = {heap_->base(), heap_->stride(), bytes};
    env.control = rank.control;
    rank.reach.ranks = ranks;
    if (settings_.reaches) env.reach_ops = &kReachOps;
    env.reach = reinterpret_cast<sl_reach_t*>(&rank.reach);
    const auto member = std::make_shared<CudaRank>(env, settings_);
    if (!member->LoadKernels(&images_).ok()) Demand(cudaErrorUnknown, "load kernels");
    if (!member->Take(env.symmetric).ok()) Demand(cudaErrorUnknown, "wind counters");
    for (const Family* family : kFamilies) {
      rank.families.push_back(std::make_unique<FamilyAlgorithm>(nullptr, *family, member));
    }
    rank.transfers = std::make_unique<TransferAlgorithm>(nullptr, member);
  }
}

GpuTeam::~GpuTeam() {
  for (Rank& rank : ranks_) {
    Demand(cudaStreamDestroy(rank.stream), "destroy a stream");
    Demand(cudaFreeHost(rank.control), "free pinned memory");
  }
}

void GpuTeam::Launch(uint32_t r, const sl_op_t& op) {
  alignas(64) uint8_t args[4096];
  sl_launch_t launch{};
  if (AlgorithmFor(r, op)->Launch(op, args, &launch) != SL_OK) Demand(cudaErrorUnknown, "fill a launch");
  Issue(r, launch);
}

sl_algorithm_t* GpuTeam::AlgorithmFor(uint32_t r, const sl_op_t& op) {
  if (algo_symmetric::IsTransfer(op)) return ranks_[r].transfers.get();
  const Family* chosen = settings_.family != nullptr ? ChooseOf(*settings_.family, op, r, size(), settings_).family
                                                     : Choose(op, r, size(), settings_).family;
  const auto place = std::find(kFamilies.begin(), kFamilies.end(), chosen) - kFamilies.begin();
  return ranks_[r].families[static_cast<size_t>(place)].get();
}

void GpuTeam::LaunchGroup(uint32_t r, const std::vector<sl_op_t>& ops) {
  alignas(64) static thread_local uint8_t args[32764];
  sl_launch_t launch{};
  const auto count = static_cast<uint32_t>(ops.size());
  if (ranks_[r].transfers->LaunchGroup(ops.data(), count, args, sizeof(args), &launch) != SL_OK) {
    Demand(cudaErrorUnknown, "fill a group");
  }
  Issue(r, launch);
}

void GpuTeam::Issue(uint32_t r, const sl_launch_t& launch) {
  const auto* image = reinterpret_cast<const LoadedImage*>(launch.image);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(launch.grid[0]);
  config.blockDim = dim3(launch.block[0]);
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = ranks_[r].stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = (launch.flags & SL_LAUNCH_DEPENDENT) != 0 && ranks_[r].can_depend ? 1 : 0;
  cudaKernel_t kernel = image->kernels[launch.kernel];
  Demand(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(launch.shared_bytes), ranks_[r].device),
         "allow shared memory");
  void* parameters[] = {const_cast<void*>(launch.args)};
  Demand(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), parameters), "launch");
}

void GpuTeam::WindEpochs(uint32_t epoch) {
  Restart();  // packets of the epochs before would be taken for ones to come
  const std::vector<uint32_t> epochs(kEpochWords * kPacketBlocks, epoch);
  const std::vector<uint64_t> meetings(settings_.staged_blocks, epoch);
  const LaneLayout layout = LaneLayout::Of(size(), settings_.staged_blocks);
  for (uint32_t r = 0; r < size(); ++r) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      uint8_t* at = heap_->base() + r * heap_->stride() + kSliceHeadBytes + lane * layout.total;
      Demand(cudaMemcpy(at + layout.epochs, epochs.data(), epochs.size() * sizeof(uint32_t), cudaMemcpyHostToDevice),
             "wind epochs");
      Demand(
          cudaMemcpy(at + layout.meetings, meetings.data(), meetings.size() * sizeof(uint64_t), cudaMemcpyHostToDevice),
          "wind meetings");
    }
  }
  AwaitUploads();
}

void GpuTeam::Restart() {
  for (uint32_t r = 0; r < size(); ++r) {
    Demand(cudaSetDevice(ranks_[r].device), "set device");
    Demand(cudaMemset(heap_->base() + r * heap_->stride(), 0, heap_->stride()), "clear a slice");
    Demand(cudaDeviceSynchronize(), "clear a slice");
    *ranks_[r].control = {};
    ranks_[r].asked = 0;
  }
}

void GpuTeam::RefuseNowAndThen() {
  for (uint32_t r = 0; r < size(); ++r) ranks_[r].reach.refuses_every = 3 + r;
}

bool GpuTeam::SaysThatItWaits(uint32_t r) {
  sl_control_t* control = ranks_[r].control;
  const uint32_t question = ++ranks_[r].asked;
  std::atomic_ref<uint32_t>(control->asked).store(question, std::memory_order_release);
  const auto start = std::chrono::steady_clock::now();
  while (std::atomic_ref<uint32_t>(control->answered).load(std::memory_order_acquire) != question) {
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(10)) return false;
    std::this_thread::yield();
  }
  return true;
}

bool GpuTeam::AwaitAll(double seconds) {
  const auto start = std::chrono::steady_clock::now();
  const auto is_late = [&] {
    return std::chrono::steady_clock::now() - start > std::chrono::duration<double>(seconds);
  };
  bool late = false;
  for (Rank& rank : ranks_) {
    Demand(cudaSetDevice(rank.device), "set device");
    while (!late && cudaStreamQuery(rank.stream) == cudaErrorNotReady) {
      late = is_late();
      std::this_thread::yield();
    }
    if (!late) Demand(cudaStreamSynchronize(rank.stream), "run the kernels");
  }
  if (!late) return true;
  for (Rank& rank : ranks_) {
    std::atomic_ref<int32_t>(rank.control->abort).store(SL_ERR_ABORTED, std::memory_order_release);
  }
  return false;
}

void GpuTeam::InThreads(const std::function<void(uint32_t)>& work) {
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < size(); ++r) {
    threads.emplace_back([this, r, &work] {
      Demand(cudaSetDevice(ranks_[r].device), "set device");
      work(r);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace sl::gpu_test
