// SPDX-License-Identifier: Apache-2.0
// Captures, and the graphs that come of them, as the kernel relies on them.
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "modules/device-cuda/tests/fixture.h"

namespace sl::device_cuda {
namespace {

template <typename Done>
bool Comes(Done done) {
  const uint64_t deadline_ns = After(5);
  while (!done() && NowNs() < deadline_ns) usleep(100);
  return done();
}

// Streams of one device, and words that they wait for and write.
class Graph : public ::testing::Test {
 protected:
  void SetUp() override {
    words_ = static_cast<uint64_t*>(cuda_.Allocate(SL_MEMORY_HOST, 4096));
    for (sl_stream_t*& stream : streams_) stream = cuda_.NewStream();
    for (sl_event_t*& event : events_) {
      ASSERT_EQ(cuda_.ops->event_create(cuda_.device, &event), SL_OK) << last_error;
    }
  }
  void TearDown() override {
    for (sl_event_t* event : events_) EXPECT_EQ(cuda_.ops->event_destroy(cuda_.device, event), SL_OK);
    for (sl_stream_t* stream : streams_) EXPECT_EQ(cuda_.ops->stream_destroy(cuda_.device, stream), SL_OK);
    EXPECT_EQ(cuda_.ops->release(cuda_.device, words_), SL_OK);
  }

  void Write(int stream, int word, uint64_t value) {
    EXPECT_EQ(cuda_.ops->stream_write_value(cuda_.device, streams_[stream], words_ + word, value), SL_OK) << last_error;
  }
  void Await(int stream, int word, uint64_t value) {
    EXPECT_EQ(cuda_.ops->stream_wait_value(cuda_.device, streams_[stream], words_ + word, value), SL_OK) << last_error;
  }
  void Follow(int stream, int other) {
    EXPECT_EQ(cuda_.ops->event_record(cuda_.device, events_[other], streams_[other]), SL_OK) << last_error;
    EXPECT_EQ(cuda_.ops->stream_wait_event(cuda_.device, streams_[stream], events_[other]), SL_OK) << last_error;
  }
  void* Instantiate(void* graph) {
    void* exec = nullptr;
    EXPECT_EQ(FakeControl<decltype(cuGraphInstantiateWithFlags)>("cuGraphInstantiateWithFlags")(&exec, graph, 0),
              cu::kSuccess);
    DestroyGraph(graph);
    return exec;
  }
  void Launch(void* exec, int stream) {
    EXPECT_EQ(
        FakeControl<decltype(cuGraphLaunch)>("cuGraphLaunch")(exec, reinterpret_cast<cu::Stream*>(streams_[stream])),
        cu::kSuccess);
  }
  void Destroy(void* exec) {
    EXPECT_EQ(FakeControl<decltype(cuGraphExecDestroy)>("cuGraphExecDestroy")(exec), cu::kSuccess);
  }
  bool IsIdle(int stream) { return cuda_.ops->stream_wait_idle(cuda_.device, streams_[stream], 0) == SL_OK; }

  CudaDevice cuda_;
  const ContextScope scope_{*cuda_.device};
  uint64_t* words_ = nullptr;
  sl_stream_t* streams_[3];
  sl_event_t* events_[3];
};

TEST_F(Graph, KeepsTheOrderOfStreamsInEveryReplay) {
  BeginCapture(streams_[0]);
  Write(0, 0, 1);
  Follow(1, 0);
  Await(1, 1, 1);
  Write(1, 2, 1);
  Write(0, 3, 1);  // beside the wait
  Follow(0, 1);
  Write(0, 4, 1);
  void* exec = Instantiate(EndCapture(streams_[0]));
  EXPECT_EQ(words_[0], 0u) << "captured, not run";
  for (int replay = 0; replay < 3; ++replay) {
    std::fill_n(words_, 5, 0);
    Launch(exec, 2);
    EXPECT_FALSE(IsIdle(2));
    EXPECT_EQ(words_[0], 1u);
    EXPECT_EQ(words_[2], 0u) << "it is behind the wait";
    EXPECT_EQ(words_[3], 1u);
    EXPECT_EQ(words_[4], 0u) << "it is behind both streams";
    words_[1] = 1;
    EXPECT_TRUE(IsIdle(2));
    EXPECT_EQ(words_[4], 1u);
  }
  Destroy(exec);
}

TEST_F(Graph, RunsItsReplaysOneAfterTheOtherOnAnyStream) {
  BeginCapture(streams_[0]);
  Await(0, 0, 1);
  Write(0, 0, 0);
  void* exec = Instantiate(EndCapture(streams_[0]));
  Launch(exec, 1);
  Launch(exec, 2);
  words_[0] = 1;
  EXPECT_TRUE(IsIdle(1));
  EXPECT_FALSE(IsIdle(2)) << "the first replay took the word";
  words_[0] = 1;
  EXPECT_TRUE(IsIdle(2));
  Destroy(exec);
}

TEST_F(Graph, RefusesACaptureWithWorkThatWasNotJoined) {
  BeginCapture(streams_[0]);
  Follow(1, 0);
  Write(1, 0, 1);
  void* graph = nullptr;
  const auto end = FakeControl<decltype(cuStreamEndCapture)>("cuStreamEndCapture");
  EXPECT_NE(end(reinterpret_cast<cu::Stream*>(streams_[0]), &graph), cu::kSuccess);
  EXPECT_EQ(graph, nullptr);
  Write(1, 0, 2);
  EXPECT_TRUE(IsIdle(1)) << "it has left the capture";
  EXPECT_EQ(words_[0], 2u);
}

TEST_F(Graph, TellsWhenAllThatWasMadeOfItIsGone) {
  std::atomic<int> released{0};
  const auto count = [](void* ctx) { ++*static_cast<std::atomic<int>*>(ctx); };
  sl_stream_t* stream = streams_[0];
  EXPECT_EQ(cuda_.ops->capture_retain(cuda_.device, stream, count, &released), SL_ERR_STATE) << "nothing is captured";
  EXPECT_EQ(cuda_.ops->capture_retain(cuda_.device, stream, nullptr, &released), SL_ERR_INVALID);
  BeginCapture(stream);
  EXPECT_EQ(cuda_.ops->capture_retain(cuda_.device, stream, count, &released), SL_OK) << last_error;
  EXPECT_EQ(cuda_.ops->capture_retain(cuda_.device, stream, count, &released), SL_OK) << last_error;
  Await(0, 0, 1);
  void* exec = Instantiate(EndCapture(stream));
  Launch(exec, 1);
  Destroy(exec);
  EXPECT_FALSE(IsIdle(1));
  EXPECT_EQ(released, 0) << "a replay is under way";
  words_[0] = 1;
  EXPECT_TRUE(IsIdle(1));
  EXPECT_TRUE(Comes([&] { return released == 2; }));
}

}  // namespace
}  // namespace sl::device_cuda
