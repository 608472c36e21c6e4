// SPDX-License-Identifier: Apache-2.0
// Host kernels: resumable functions that the device calls until they are done, and everything that ends their waits.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "tests/conformance/device/bench.h"
#include "tests/conformance/device/suite.h"

namespace sl::conform::device {
namespace {

// What a kernel of these tests is given.
struct Work {
  Word* mine = nullptr;         // counted up at the end of every call
  const Word* other = nullptr;  // waited for, until it is `wanted`; NULL: nothing
  uint64_t wanted = 0;
  uint32_t agains = 0;  // so often it is not done yet
  sl_status_t result = SL_OK;
};

struct Frame {
  uint32_t calls;
  uint32_t magic;
};
constexpr uint32_t kMagic = 0x51a7;

// Keeps a count in its frame, which must be zero at first and stay what it was.
sl_status_t Run(const void* args, void* frame, sl_wait_t* wait) {
  const auto* work = static_cast<const Work*>(args);
  auto* own = static_cast<Frame*>(frame);
  if (own->calls == 0 ? own->magic != 0 : own->magic != kMagic) return SL_ERR_INTERNAL;
  own->magic = kMagic;
  wait->peer = -1;
  wait->doorbell = nullptr;
  wait->what = "word";
  wait->seen = own->calls;
  wait->wanted = work->agains;
  const bool waits = own->calls++ < work->agains;
  if (waits || (work->other != nullptr && work->other->Load() < work->wanted)) return SL_ERR_AGAIN;
  if (work->mine != nullptr) work->mine->Store(work->mine->Load() + 1);
  return work->result;
}

// Fails when its frame is not all zero; fills it whole.
constexpr uint32_t kLargeFrame = 1024;
sl_status_t FillFrame(const void*, void* frame, sl_wait_t* wait) {
  auto* bytes = static_cast<uint8_t*>(frame);
  wait->what = "frame";
  wait->doorbell = nullptr;
  if (reinterpret_cast<uintptr_t>(frame) % 16 != 0) return SL_ERR_INVALID;
  if (bytes[0] == 0) {
    if (std::any_of(bytes, bytes + kLargeFrame, [](uint8_t byte) { return byte != 0; })) return SL_ERR_INTERNAL;
    std::memset(bytes, 1, kLargeFrame);
    return SL_ERR_AGAIN;
  }
  return std::all_of(bytes, bytes + kLargeFrame, [](uint8_t byte) { return byte == 1; }) ? SL_OK : SL_ERR_INTERNAL;
}

constexpr sl_host_kernel_t kKernels[] = {{"run", Run, sizeof(Frame), 0}, {"fill_frame", FillFrame, kLargeFrame, 0}};

// The kernels, loaded; skips the test on devices that run no host kernels.
class Image {
 public:
  explicit Image(Bench& bench) : bench_(bench) {
    bench.Need(SL_DEVICE_RUNS_HOST_KERNELS, "host kernels");
    const sl_image_desc_t desc{sizeof(desc), 2, kKernels, nullptr, 0, nullptr};
    bench.Good(bench.ops.image_load(bench.device, &desc, &image_), "image_load");
  }
  ~Image() {
    if (image_ != nullptr) bench_.ops.image_unload(bench_.device, image_);
  }
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  sl_launch_t Launch(const Work* work, uint32_t kernel = 0) const {
    sl_launch_t launch{};
    launch.struct_size = sizeof(launch);
    launch.image = image_;
    launch.kernel = kernel;
    launch.grid[0] = launch.grid[1] = launch.grid[2] = 1;
    launch.block[0] = launch.block[1] = launch.block[2] = 1;
    launch.args = work;
    launch.args_bytes = sizeof(*work);
    return launch;
  }

 private:
  Bench& bench_;
  sl_image_t* image_ = nullptr;
};

// Where done() of a launch leaves the outcome.
struct Outcomes {
  std::atomic<int> count{0};
  std::atomic<sl_status_t> last{1};
  static void Done(void* ctx, sl_status_t status) {
    auto* own = static_cast<Outcomes*>(ctx);
    own->last.store(status);
    own->count.fetch_add(1);
  }
  void Watch(sl_launch_t* launch) {
    launch->done = &Done;
    launch->done_ctx = this;
  }
};

void OnDefaultStream(Trial& trial) {
  Bench bench(trial);
  const Image image(bench);
  for (const uint32_t agains : {0u, 1u, 5000u}) {
    for (const sl_status_t result : {SL_OK, SL_ERR_PEER_LOST}) {
      Word mine;
      Work work{&mine, nullptr, 0, agains, result};
      Outcomes outcomes;
      sl_launch_t launch = image.Launch(&work);
      outcomes.Watch(&launch);
      const sl_status_t status = bench.ops.launch(bench.device, nullptr, &launch);
      trial.Expect(status == result, "a kernel that returns {} after {} waits gave {}", StatusName(result), agains,
                   StatusName(status));
      trial.Expect(mine.Load() == 1, "on return the kernel has run {} times to its end", mine.Load());
      trial.Expect(outcomes.count == 1 && outcomes.last == result, "done() was called {} times, last with {}",
                   outcomes.count.load(), StatusName(outcomes.last));
    }
  }
}

void OnStreams(Trial& trial) {
  Bench bench(trial);
  const Image image(bench);
  sl_stream_t* stream = bench.MakeStream();
  Word gate;
  Word mine;
  Outcomes outcomes;
  constexpr int kLaunches = 50;
  for (int i = 0; i < kLaunches; ++i) {
    Work work{&mine, &gate, 1, 3, i % 7 == 6 ? SL_ERR_DEVICE : SL_OK};  // gone when launch returns: args are copied
    sl_launch_t launch = image.Launch(&work);
    outcomes.Watch(&launch);
    bench.Good(bench.ops.launch(bench.device, stream, &launch), "launch");
    work = Work{};
  }
  trial.Expect(mine.Load() == 0, "a kernel ended that must wait");
  gate.Store(1);
  bench.Wait(stream);
  trial.Expect(mine.Load() == kLaunches, "{} of {} launches ran", mine.Load(), kLaunches);
  trial.Expect(outcomes.count == kLaunches, "done() was called {} times for {} launches", outcomes.count.load(),
               kLaunches);
}

void FramesZeroed(Trial& trial) {
  Bench bench(trial);
  const Image image(bench);
  sl_stream_t* stream = bench.MakeStream();
  const Work work;
  for (int round = 0; round < 20; ++round) {
    sl_launch_t launch = image.Launch(&work, 1);
    Outcomes outcomes;
    outcomes.Watch(&launch);
    sl_stream_t* on = round % 2 == 0 ? stream : nullptr;
    bench.ops.launch(bench.device, on, &launch);
    bench.Wait(on);
    trial.Expect(outcomes.last == SL_OK, "round {}: a frame of {} bytes is not zero, aligned or kept: {}", round,
                 kLargeFrame, StatusName(outcomes.last));
  }
}

sl_status_t GiveUp(void* ctx, const sl_wait_t* wait, uint64_t) {
  auto* calls = static_cast<std::atomic<int>*>(ctx);
  calls->fetch_add(1);
  if (wait == nullptr || wait->what == nullptr) return SL_ERR_INTERNAL;
  return calls->load() >= 3 ? SL_ERR_TIMEOUT : SL_OK;
}

void WaitsEnd(Trial& trial) {
  Bench bench(trial);
  const Image image(bench);
  sl_stream_t* stream = bench.MakeStream();
  for (sl_stream_t* on : {stream, static_cast<sl_stream_t*>(nullptr)}) {
    Word never;
    const Work work{nullptr, &never, 1, 0, SL_OK};
    sl_launch_t launch = image.Launch(&work);
    Outcomes checked;
    checked.Watch(&launch);
    std::atomic<int> calls{0};
    launch.check = &GiveUp;
    launch.check_ctx = &calls;
    launch.check_interval_ns = 1'000'000;
    bench.ops.launch(bench.device, on, &launch);
    bench.Wait(on);
    trial.Expect(checked.last == SL_ERR_TIMEOUT && calls == 3, "check ended the wait with {} after {} calls",
                 StatusName(checked.last), calls.load());
    launch = image.Launch(&work);
    Outcomes aborted;
    aborted.Watch(&launch);
    const int32_t abort_word = SL_ERR_ABORTED;
    launch.abort_word = &abort_word;
    bench.ops.launch(bench.device, on, &launch);
    bench.Wait(on);
    trial.Expect(aborted.last == SL_ERR_ABORTED, "an abort word of {} ended the wait with {}", StatusName(abort_word),
                 StatusName(aborted.last));
  }
}

// Two kernels that wait for each other, from one thread: only together do they come to an end.
void BatchTogether(Trial& trial) {
  Bench bench(trial);
  const Image image(bench);
  sl_stream_t* stream = bench.MakeStream();
  sl_stream_t* second = bench.MakeStream();
  const std::pair<sl_stream_t*, sl_stream_t*> pairs[] = {
      {nullptr, nullptr}, {stream, stream}, {stream, second}, {nullptr, stream}};
  for (const auto& [a, b] : pairs) {
    Word words[2];
    // The first ends when the second has begun to count; the second needs many turns.
    const Work first{&words[0], &words[1], 1, 0, SL_OK};
    const Work other{&words[1], nullptr, 0, 2000, SL_OK};
    sl_launch_t launches[] = {image.Launch(&first), image.Launch(&other)};
    Outcomes outcomes;
    for (sl_launch_t& launch : launches) outcomes.Watch(&launch);
    sl_stream_t* const streams[] = {a, b};
    const sl_launch_t* const pointers[] = {&launches[0], &launches[1]};
    bench.Good(bench.ops.launch_batch(bench.device, 2, streams, pointers), "launch_batch");
    bench.Wait(a);
    bench.Wait(b);
    trial.Expect(words[0].Load() == 1 && words[1].Load() == 1 && outcomes.count == 2,
                 "kernels of one batch that need each other did not both end");
  }
}

// Equal chains run one after the other, whatever the streams.
void ChainsOrdered(Trial& trial) {
  Bench bench(trial);
  const Image image(bench);
  Word words[2];
  const int chain = 0;
  const Work slow{&words[0], nullptr, 0, 3000, SL_OK};
  const Work quick{&words[1], &words[0], 1, 0, SL_OK};
  sl_launch_t launches[] = {image.Launch(&slow), image.Launch(&quick)};
  sl_stream_t* const streams[] = {nullptr, nullptr};
  const sl_launch_t* const pointers[] = {&launches[0], &launches[1]};
  for (sl_launch_t& launch : launches) launch.chain = &chain;
  bench.Good(bench.ops.launch_batch(bench.device, 2, streams, pointers), "launch_batch");
  trial.Expect(words[0].Load() == 1 && words[1].Load() == 1, "a chain did not run to its end");
}

void RefusesLaunches(Trial& trial) {
  Bench bench(trial);
  const Image image(bench);
  const Work work;
  const auto refused = [&](const sl_launch_t& launch, const char* what) {
    const sl_status_t status = bench.ops.launch(bench.device, nullptr, &launch);
    trial.Expect(status < SL_OK && status != SL_ERR_AGAIN, "launching {} gave {}", what, StatusName(status));
  };
  sl_launch_t launch = image.Launch(&work);
  launch.kernel = 2;
  refused(launch, "a kernel that the image does not have");
  launch = image.Launch(&work);
  launch.image = nullptr;
  refused(launch, "without an image");
  launch = image.Launch(&work);
  launch.args_bytes = bench.info.max_argument_bytes + 1;
  refused(launch, "more arguments than the device takes");
  const sl_image_desc_t none{sizeof(none), 0, nullptr, nullptr, 0, nullptr};
  sl_image_t* loaded = nullptr;
  const sl_status_t status = bench.ops.image_load(bench.device, &none, &loaded);
  trial.Expect(status == SL_ERR_UNSUPPORTED, "an image without kernels for the device gave {}", StatusName(status));
}

}  // namespace

std::vector<Test> LaunchTests() {
  return {
      {"Launch.HasRunOnTheDefaultStream", "on return it is done; its status is returned and told to done()",
       OnDefaultStream},
      {"Launch.RunsInStreamOrder", "arguments are copied, done() hears of each once, a failure stops nobody",
       OnStreams},
      {"Launch.ZeroesFrames", "1,024 bytes, aligned to 16, kept between calls", FramesZeroed},
      {"Launch.EndsWaits", "check() and the abort word end a wait with their status", WaitsEnd},
      {"Launch.RefusesWhatCannotRun", "no image, no such kernel, too many arguments", RefusesLaunches},
      {"Batch.ProgressesTogether", "kernels that need each other, on any streams, from one thread", BatchTogether},
      {"Batch.OrdersChains", "launches of equal chains run one after the other", ChainsOrdered},
  };
}

}  // namespace sl::conform::device
