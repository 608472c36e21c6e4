// SPDX-License-Identifier: Apache-2.0
// Streams, events and kernels of the fake driver. A stream is a queue; whoever calls the driver does what can be done
// of all queues, in order.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "modules/device-cuda/kernels/reduce.h"
#include "modules/device-cuda/tests/fake_driver.h"
#include "modules/device-cuda/tests/fake_graph.h"

namespace sl::fake_cuda {
namespace {

struct Stream {
  cu::Context* context;
  const uint64_t id;
  std::deque<Work> queue = {};
  std::shared_ptr<Capture> capture = {};  // that it is in; NULL: none
  GraphPoint point = {};                  // of the capture
  bool begins_capture = false;            // and ends it
  bool is_destroyed = false;
};

// What programs hold. Given out again as soon as its stream is destroyed, whose work goes on.
struct StreamHandle {
  std::shared_ptr<Stream> stream;
};

using DefaultStreams = std::map<cu::Context*, std::shared_ptr<Stream>>;

// Recorded so often; so many of these points were reached.
struct Marks {
  uint64_t recorded = 0;
  uint64_t reached = 0;
};
struct Event {
  cu::Context* context;
  std::shared_ptr<Marks> marks = std::make_shared<Marks>();
  bool is_captured = false;  // the newest recording, in `capture`, at `point`
  std::weak_ptr<Capture> capture = {};
  GraphPoint point = {};
};

struct Function {
  const FakeKernel* kernel;
  cu::Context* context;
  int compiled_for;  // compute capability
  bool is_loaded = false;
  int max_dynamic_bytes = 49152;
};
struct Module {
  const FakeImage* image;
  cu::Context* context;
  std::map<std::string, Function> functions;
};

using UserObject = std::function<void()>;

// A launch whose blocks wait for others: each is a thread.
class Grid {
 public:
  Grid(const FakeKernel& kernel, std::string args, unsigned blocks) : args_(std::move(args)), running_(blocks) {
    for (unsigned block = 0; block < blocks; ++block) {
      threads_.emplace_back([this, run = kernel.run_block, block] {
        run(args_.data(), block);
        running_.fetch_sub(1);
      });
    }
  }
  ~Grid() {
    for (std::thread& thread : threads_) thread.join();
  }
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  bool IsDone() const { return running_.load() == 0; }

 private:
  const std::string args_;
  std::atomic<unsigned> running_;
  std::vector<std::thread> threads_;
};

struct State {
  std::map<const void*, std::shared_ptr<GraphBody>> graphs;  // that captures have ended with
  std::vector<std::shared_ptr<Stream>> streams;              // destroyed ones until their work is done
  DefaultStreams default_streams;
  std::vector<std::unique_ptr<DefaultStreams>> thread_streams;  // of all threads, those that ended, too
  std::vector<StreamHandle*> free_handles;
  uint64_t stream_ids = 0;
  cu::LaunchConfig last_launch{};
  std::vector<cu::LaunchAttribute> last_attributes;
  bool is_pumping = false;
};
State& TheState() {
  static auto* const state = new State;
  return *state;
}

constexpr int kStaticSharedBytes = 1024;
constexpr size_t kMostArgumentBytes = 32764;
constexpr cu::Code kStreamCaptureUnjoined = 904;

// The kernels of the module, as the host runs them: one thread does it all.
template <sl_datatype_t kType>
bool RunReduceKernel(const void* args, size_t) {
  sl::device_cuda::RunReduction<sl::dev::FormatOf<kType>>(*static_cast<const sl::device_cuda::ReduceArgs*>(args), 0, 1);
  return true;
}
#define SL_FAKE_KERNEL(type, name) {#name, RunReduceKernel<type>},
constexpr FakeKernel kReduceKernels[] = {SL_REDUCE_KERNELS(SL_FAKE_KERNEL){nullptr, nullptr}};
constexpr FakeImage kReductions = {kFakeImageMagic, 90, kReduceKernels};
constexpr uint32_t kFatbinMagic = 0xba55ed50;

cu::Stream* const kStreamLegacy = reinterpret_cast<cu::Stream*>(1);  // another name of NULL
cu::Stream* const kStreamPerThread = reinterpret_cast<cu::Stream*>(2);

std::shared_ptr<Stream> MakeStream() {
  State& state = TheState();
  state.streams.push_back(std::shared_ptr<Stream>(new Stream{.context = CurrentContext(), .id = ++state.stream_ids}));
  return state.streams.back();
}

Stream* Inside(cu::Stream* stream) {
  if (stream == nullptr || stream == kStreamLegacy) {
    std::shared_ptr<Stream>& own = TheState().default_streams[CurrentContext()];
    if (own == nullptr) own = MakeStream();
    return own.get();
  }
  if (stream == kStreamPerThread) {
    thread_local DefaultStreams* t_streams = nullptr;
    if (t_streams == nullptr) t_streams = TheState().thread_streams.emplace_back(new DefaultStreams).get();
    std::shared_ptr<Stream>& own = (*t_streams)[CurrentContext()];
    if (own == nullptr) own = MakeStream();
    return own.get();
  }
  return reinterpret_cast<StreamHandle*>(stream)->stream.get();
}
Event* Inside(cu::Event* event) { return reinterpret_cast<Event*>(event); }
Module* Inside(cu::Module* module) { return reinterpret_cast<Module*>(module); }
Function* Inside(cu::Function* function) { return reinterpret_cast<Function*>(function); }

void Pump() {
  State& state = TheState();
  if (state.is_pumping) return;
  state.is_pumping = true;
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& stream : state.streams) {
      while (!stream->queue.empty() && stream->queue.front()()) {
        stream->queue.pop_front();
        moved = true;
      }
    }
  }
  std::erase_if(state.streams, [](const auto& stream) { return stream->is_destroyed && stream->queue.empty(); });
  state.is_pumping = false;
}

cu::Code Submit(cu::Stream* stream, Work work) {
  Stream* own = Inside(stream);
  if (own->capture != nullptr) {
    own->point = own->capture->body->Add(std::move(work), own->point);
    return cu::kSuccess;
  }
  own->queue.push_back(std::move(work));
  Pump();
  return cu::kSuccess;
}

uint64_t Load(cu::Address word) { return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(word)).load(); }

cu::Code WriteValue(cu::Stream* stream, cu::Address word, uint64_t value) {
  if (!IsHostMemory(word)) return cu::kInvalidValue;
  return Submit(stream, [word, value] {
    std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(word)).store(value);
    return true;
  });
}

// As the driver compares: by the sign of the difference.
cu::Code WaitValue(cu::Stream* stream, cu::Address word, uint64_t value, unsigned flags) {
  if (!IsHostMemory(word) || flags != cu::kStreamWaitValueGeq) return cu::kInvalidValue;
  return Submit(stream, [word, value] { return static_cast<int64_t>(Load(word) - value) >= 0; });
}

}  // namespace

void AwaitStreams() {
  const char* waits = getenv("SL_FAKE_CUDA_FREE_WAITS");
  if (waits == nullptr || *waits != '1') return;
  const auto are_idle = [] {
    const Lock lock;
    Pump();
    const auto& streams = TheState().streams;
    return std::all_of(streams.begin(), streams.end(), [](const auto& stream) { return stream->queue.empty(); });
  };
  {
    const Lock lock;
    static_cast<void>(Enter("AwaitStreams"));  // counts, for tests that wait for somebody to be here
  }
  while (!are_idle()) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

// A relaxed capture forbids nothing, one of a thread only to it.
bool IsForbiddenByCapture() {
  constexpr int kThreadLocal = 1;
  return std::any_of(TheState().streams.begin(), TheState().streams.end(), [](const auto& stream) {
    const Capture* capture = stream->capture.get();
    if (capture == nullptr || capture->mode == cu::kCaptureModeRelaxed) return false;
    return capture->mode != kThreadLocal || capture->thread == std::this_thread::get_id();
  });
}

}  // namespace sl::fake_cuda

using namespace sl::fake_cuda;  // NOLINT(google-build-using-namespace)

cu::LaunchConfig sl_fake_cuda_last_launch(cu::LaunchAttribute* out_attributes) {
  const Lock lock;
  std::copy(TheState().last_attributes.begin(), TheState().last_attributes.end(), out_attributes);
  return TheState().last_launch;
}

cu::Code cuStreamCreate(cu::Stream** out, unsigned) {
  SL_FAKE_ENTER_CONTEXT(cuStreamCreate, true);
  std::vector<StreamHandle*>& free_handles = TheState().free_handles;
  if (free_handles.empty()) free_handles.push_back(new StreamHandle);
  StreamHandle* handle = free_handles.back();
  free_handles.pop_back();
  handle->stream = MakeStream();
  *out = reinterpret_cast<cu::Stream*>(handle);
  return cu::kSuccess;
}

// The work goes on without it.
cu::Code cuStreamDestroy_v2(cu::Stream* stream) {
  SL_FAKE_ENTER_CONTEXT(cuStreamDestroy, true);
  auto* handle = reinterpret_cast<StreamHandle*>(stream);
  handle->stream->is_destroyed = true;
  handle->stream = nullptr;
  TheState().free_handles.push_back(handle);
  Pump();
  return cu::kSuccess;
}

cu::Code cuStreamGetId(cu::Stream* stream, unsigned long long* out_id) {
  SL_FAKE_ENTER_CONTEXT(cuStreamGetId, false);
  if (IsOld()) return cu::kNotSupported;
  *out_id = Inside(stream)->id;
  return cu::kSuccess;
}

cu::Code cuStreamQuery(cu::Stream* stream) {
  SL_FAKE_ENTER_CONTEXT(cuStreamQuery, true);
  Pump();
  if (Inside(stream)->capture != nullptr) return cu::kStreamCaptureUnsupported;
  return Inside(stream)->queue.empty() ? cu::kSuccess : cu::kNotReady;
}

// A stream that waits for an event of a capture is in it from then on.
cu::Code cuStreamWaitEvent(cu::Stream* stream, cu::Event* event, unsigned) {
  SL_FAKE_ENTER_CONTEXT(cuStreamWaitEvent, false);
  Stream* own = Inside(stream);
  if (Inside(event)->is_captured) {
    const std::shared_ptr<Capture> capture = Inside(event)->capture.lock();
    if (capture == nullptr) return cu::kCapturedEvent;
    if (own->capture != nullptr && own->capture != capture) return cu::kStreamCaptureIsolation;
    own->capture = capture;
    const GraphPoint& point = Inside(event)->point;
    own->point.insert(own->point.end(), point.begin(), point.end());
    return cu::kSuccess;
  }
  if (own->capture != nullptr) return cu::kStreamCaptureIsolation;
  const std::shared_ptr<Marks> marks = Inside(event)->marks;
  return Submit(stream, [marks, point = marks->recorded] { return marks->reached >= point; });
}

cu::Code cuStreamWriteValue64_v2(cu::Stream* stream, cu::Address word, uint64_t value, unsigned) {
  SL_FAKE_ENTER_CONTEXT(cuStreamWriteValue64, false);
  return WriteValue(stream, word, value);
}

cu::Code cuStreamWaitValue64_v2(cu::Stream* stream, cu::Address word, uint64_t value, unsigned flags) {
  SL_FAKE_ENTER_CONTEXT(cuStreamWaitValue64, false);
  return WaitValue(stream, word, value, flags);
}

cu::Code cuStreamBatchMemOp_v2(cu::Stream* stream, unsigned count, cu::StreamMemoryOp* ops, unsigned flags) {
  SL_FAKE_ENTER_CONTEXT(cuStreamBatchMemOp, false);
  constexpr unsigned kTooMany = 256;
  if (count >= kTooMany || flags != 0) return cu::kInvalidValue;
  for (const cu::StreamMemoryOp& op : std::span(ops, count)) {
    if (op.operation != cu::kStreamWaitValue64 && op.operation != cu::kStreamWriteValue64) return cu::kInvalidValue;
    const cu::Code code = op.operation == cu::kStreamWaitValue64 ? WaitValue(stream, op.address, op.value, op.flags)
                                                                 : WriteValue(stream, op.address, op.value);
    if (code != cu::kSuccess) return code;
  }
  return cu::kSuccess;
}

cu::Code cuStreamGetCaptureInfo(cu::Stream* stream, cu::CaptureStatus* out, uint64_t* id) {
  return cuStreamGetCaptureInfo_v2(stream, out, id, nullptr, nullptr, nullptr);
}

cu::Code cuStreamGetCaptureInfo_v2(cu::Stream* stream, cu::CaptureStatus* out, uint64_t* id, cu::Graph** graph,
                                   const void**, size_t*) {
  SL_FAKE_ENTER_CONTEXT(cuStreamGetCaptureInfo, false);
  const Capture* capture = Inside(stream)->capture.get();
  *out = capture != nullptr ? cu::kCaptureActive : cu::kCaptureNone;
  *id = capture != nullptr ? capture->id : 0;
  if (graph != nullptr) *graph = capture != nullptr ? reinterpret_cast<cu::Graph*>(capture->body.get()) : nullptr;
  return cu::kSuccess;
}

cu::Code cuUserObjectCreate(cu::UserObject** out, void* ctx, void (*destroy)(void*), unsigned count, unsigned flags) {
  SL_FAKE_ENTER_CONTEXT(cuUserObjectCreate, false);
  if (count != 1 || flags != cu::kUserObjectNoDestructorSync) return cu::kInvalidValue;
  *out = reinterpret_cast<cu::UserObject*>(new UserObject([destroy, ctx] { destroy(ctx); }));
  return cu::kSuccess;
}

cu::Code cuGraphRetainUserObject(cu::Graph* graph, cu::UserObject* object, unsigned count, unsigned flags) {
  SL_FAKE_ENTER_CONTEXT(cuGraphRetainUserObject, false);
  if (graph == nullptr || count != 1 || flags != cu::kGraphUserObjectMove) return cu::kInvalidValue;
  const std::unique_ptr<UserObject> moved(reinterpret_cast<UserObject*>(object));
  reinterpret_cast<GraphBody*>(graph)->Retain(*moved);
  return cu::kSuccess;
}

cu::Code cuLaunchHostFunc(cu::Stream* stream, void (*run)(void*), void* ctx) {
  SL_FAKE_ENTER_CONTEXT(cuLaunchHostFunc, false);
  return Submit(stream, [run, ctx] {
    run(ctx);
    return true;
  });
}

cu::Code cuMemcpyAsync(cu::Address to, cu::Address from, size_t bytes, cu::Stream* stream) {
  SL_FAKE_ENTER_CONTEXT(cuMemcpyAsync, false);
  return Submit(stream, [=] {
    memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return true;
  });
}

cu::Code cuMemcpyHtoDAsync_v2(cu::Address to, const void* from, size_t bytes, cu::Stream* stream) {
  return cuMemcpyAsync(to, reinterpret_cast<cu::Address>(from), bytes, stream);
}

cu::Code cuMemcpyDtoHAsync_v2(void* to, cu::Address from, size_t bytes, cu::Stream* stream) {
  return cuMemcpyAsync(reinterpret_cast<cu::Address>(to), from, bytes, stream);
}

cu::Code cuMemcpyDtoDAsync_v2(cu::Address to, cu::Address from, size_t bytes, cu::Stream* stream) {
  return cuMemcpyAsync(to, from, bytes, stream);
}

cu::Code cuCtxSynchronize() {
  SL_FAKE_ENTER_CONTEXT(cuCtxSynchronize, true);
  Pump();
  const auto& streams = TheState().streams;
  const bool is_idle =
      std::all_of(streams.begin(), streams.end(), [](const auto& stream) { return stream->queue.empty(); });
  return is_idle ? cu::kSuccess : cu::kNotReady;
}

cu::Code cuStreamBeginCapture_v2(cu::Stream* stream, int mode) {
  SL_FAKE_ENTER_CONTEXT(cuStreamBeginCapture, false);
  static uint64_t last_id = 0;
  Stream* own = Inside(stream);
  if (own->capture != nullptr) return cu::kInvalidValue;
  own->capture = std::make_shared<Capture>();
  own->capture->id = ++last_id;
  own->capture->mode = mode;
  own->begins_capture = true;
  return cu::kSuccess;
}

// All streams leave the capture; there is no graph when the work of one was not joined.
cu::Code cuStreamEndCapture(cu::Stream* stream, void** out_graph) {
  SL_FAKE_ENTER_CONTEXT(cuStreamEndCapture, false);
  Stream* own = Inside(stream);
  *out_graph = nullptr;
  if (own->capture == nullptr || !own->begins_capture) return cu::kInvalidValue;
  const std::shared_ptr<GraphBody> body = own->capture->body;
  const std::shared_ptr<Capture> ended = own->capture;
  const GraphPoint point = own->point;
  for (const auto& one : TheState().streams) {
    if (one->capture != ended) continue;
    one->capture = nullptr;
    one->point.clear();
    one->begins_capture = false;
  }
  if (!body->IsJoinedBy(point)) return kStreamCaptureUnjoined;
  TheState().graphs[body.get()] = body;
  *out_graph = body.get();
  return cu::kSuccess;
}

cu::Code cuGraphInstantiateWithFlags(void** out, void* graph, unsigned long long) {
  SL_FAKE_ENTER_CONTEXT(cuGraphInstantiate, false);
  const auto found = TheState().graphs.find(graph);
  if (found == TheState().graphs.end()) return cu::kInvalidValue;
  *out = new GraphExec{found->second, nullptr};
  return cu::kSuccess;
}

cu::Code cuGraphLaunch(void* graph, cu::Stream* stream) {
  SL_FAKE_ENTER_CONTEXT(cuGraphLaunch, false);
  if (Inside(stream)->capture != nullptr) return cu::kNotSupported;
  auto* exec = static_cast<GraphExec*>(graph);
  const auto run = std::make_shared<GraphRun>(exec->body, exec->newest);
  exec->newest = run;
  return Submit(stream, [run] { return run->Advance(); });
}

// What is launched ends all the same.
cu::Code cuGraphDestroy(void* graph) {
  SL_FAKE_ENTER_CONTEXT(cuGraphDestroy, false);
  return TheState().graphs.erase(graph) == 1 ? cu::kSuccess : cu::kInvalidValue;
}

cu::Code cuGraphExecDestroy(void* graph) {
  SL_FAKE_ENTER_CONTEXT(cuGraphExecDestroy, false);
  delete static_cast<GraphExec*>(graph);
  return cu::kSuccess;
}

cu::Code cuMemsetD8Async(cu::Address to, unsigned char value, size_t count, cu::Stream* stream) {
  SL_FAKE_ENTER_CONTEXT(cuMemsetD8Async, false);
  return Submit(stream, [=] {
    memset(reinterpret_cast<void*>(to), value, count);
    return true;
  });
}

cu::Code cuEventCreate(cu::Event** out, unsigned) {
  SL_FAKE_ENTER_CONTEXT(cuEventCreate, true);
  *out = reinterpret_cast<cu::Event*>(new Event{CurrentContext()});
  return cu::kSuccess;
}

cu::Code cuEventDestroy_v2(cu::Event* event) {
  SL_FAKE_ENTER_CONTEXT(cuEventDestroy, true);
  delete Inside(event);
  return cu::kSuccess;
}

cu::Code cuEventRecord(cu::Event* event, cu::Stream* stream) {
  SL_FAKE_ENTER_CONTEXT(cuEventRecord, false);
  if (Inside(event)->context != Inside(stream)->context) return cu::kInvalidHandle;
  Inside(event)->is_captured = Inside(stream)->capture != nullptr;
  Inside(event)->capture = Inside(stream)->capture;
  Inside(event)->point = Inside(stream)->point;
  if (Inside(event)->is_captured) return cu::kSuccess;
  const std::shared_ptr<Marks> marks = Inside(event)->marks;
  return Submit(stream, [marks, point = ++marks->recorded] {
    marks->reached = std::max(marks->reached, point);
    return true;
  });
}

cu::Code cuEventQuery(cu::Event* event) {
  SL_FAKE_ENTER_CONTEXT(cuEventQuery, true);
  Pump();
  if (Inside(event)->is_captured) return cu::kCapturedEvent;
  const Marks& marks = *Inside(event)->marks;
  return marks.reached == marks.recorded ? cu::kSuccess : cu::kNotReady;
}

cu::Code cuModuleLoadData(cu::Module** out, const void* data) {
  SL_FAKE_ENTER_CONTEXT(cuModuleLoadData, true);
  const auto* image = static_cast<const FakeImage*>(data);
  uint32_t magic = 0;
  memcpy(&magic, data, sizeof(magic));
  if (magic == kFatbinMagic) image = &kReductions;  // the only fatbin that tests load here is the module's own
  if (image->magic != kFakeImageMagic) return cu::kInvalidImage;
  if (image->capability > 90) return cu::kNoBinaryForGpu;
  auto module = std::make_unique<Module>();
  module->image = image;
  for (const FakeKernel* kernel = image->kernels; kernel->name != nullptr; ++kernel) {
    module->functions[kernel->name] = Function{kernel, CurrentContext(), image->capability};
  }
  *out = reinterpret_cast<cu::Module*>(module.release());
  return cu::kSuccess;
}

cu::Code cuModuleUnload(cu::Module* module) {
  SL_FAKE_ENTER_CONTEXT(cuModuleUnload, true);
  delete Inside(module);
  return cu::kSuccess;
}

cu::Code cuModuleGetFunction(cu::Function** out, cu::Module* module, const char* name) {
  SL_FAKE_ENTER_CONTEXT(cuModuleGetFunction, true);
  const auto found = Inside(module)->functions.find(name);
  if (found == Inside(module)->functions.end()) return cu::kNotFound;
  *out = reinterpret_cast<cu::Function*>(&found->second);
  return cu::kSuccess;
}

cu::Code cuFuncLoad(cu::Function* function) {
  SL_FAKE_ENTER_CONTEXT(cuFuncLoad, true);
  Inside(function)->is_loaded = true;
  return cu::kSuccess;
}

cu::Code cuFuncGetAttribute(int* out, cu::FunctionAttribute attribute, cu::Function* function) {
  SL_FAKE_ENTER_CONTEXT(cuFuncGetAttribute, true);
  if (attribute != cu::kSharedSizeBytes && attribute != cu::kPtxVersion) return cu::kInvalidValue;
  *out = attribute == cu::kPtxVersion ? Inside(function)->compiled_for : kStaticSharedBytes;
  return cu::kSuccess;
}

cu::Code cuFuncSetAttribute(cu::Function* function, cu::FunctionAttribute attribute, int value) {
  SL_FAKE_ENTER_CONTEXT(cuFuncSetAttribute, true);
  if (attribute != cu::kMaxDynamicSharedSizeBytes || value > 232448 - kStaticSharedBytes) return cu::kInvalidValue;
  Inside(function)->max_dynamic_bytes = value;
  return cu::kSuccess;
}

cu::Code cuLaunchKernelEx(const cu::LaunchConfig* config, cu::Function* function, void** parameters, void** extra) {
  SL_FAKE_ENTER_CONTEXT(cuLaunchKernelEx, false);
  const Function* own = Inside(function);
  if (own->context != CurrentContext() || Inside(config->stream)->context != own->context) return cu::kInvalidContext;
  if (!own->is_loaded || parameters != nullptr) return cu::kInvalidHandle;
  for (int i = 0; i < 3; ++i) {
    if (config->grid[i] == 0 || config->block[i] == 0) return cu::kInvalidValue;
  }
  if (config->shared_bytes > static_cast<unsigned>(own->max_dynamic_bytes)) return cu::kInvalidValue;
  std::string args;
  if (extra != nullptr) {
    const size_t bytes = *static_cast<size_t*>(extra[3]);
    if (reinterpret_cast<uintptr_t>(extra[0]) != cu::kLaunchParamBufferPointer ||
        reinterpret_cast<uintptr_t>(extra[2]) != cu::kLaunchParamBufferSize || bytes > kMostArgumentBytes) {
      return cu::kInvalidValue;
    }
    args.assign(static_cast<const char*>(extra[1]), bytes);
  }
  State& state = TheState();
  state.last_launch = *config;
  state.last_attributes.assign(config->attributes, config->attributes + config->attribute_count);
  if (own->kernel->run != nullptr) {
    return Submit(config->stream, [kernel = own->kernel, args] { return kernel->run(args.data(), args.size()); });
  }
  const unsigned blocks = config->grid[0] * config->grid[1] * config->grid[2];
  return Submit(config->stream, [kernel = own->kernel, args, blocks, grid = std::shared_ptr<Grid>()]() mutable {
    if (grid == nullptr) grid = std::make_shared<Grid>(*kernel, args, blocks);
    return grid->IsDone();
  });
}
