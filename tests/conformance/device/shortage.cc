// SPDX-License-Identifier: Apache-2.0
// A device that gets no memory, thread, mapping or descriptor fails the call at hand and loses nothing.
#include <unistd.h>

#include "tests/conformance/device/bench.h"
#include "tests/conformance/device/suite.h"
#include "tests/conformance/kit/shortage.h"

namespace sl::conform::device {
namespace {

// Everything a device does, once; a call that fails leaves out what would have built on it.
class Life {
 public:
  Life(Trial& trial, const sl_device_ops_t& ops, sl_device_t* device) : trial_(trial), ops_(ops), device_(device) {}

  void Run() {
    Memory(SL_MEMORY_PLAIN);
    Memory(SL_MEMORY_EXPORTABLE);
    sl_stream_t* stream = nullptr;
    if (!Good(ops_.stream_create(device_, &stream), "stream_create")) return;
    Work(stream);
    const sl_status_t status = ops_.stream_destroy(device_, stream);
    trial_.Expect(status == SL_OK, "stream_destroy gave {}", StatusName(status));
  }

 private:
  // Whether a call succeeded; if not, it has to say why.
  bool Good(sl_status_t status, const char* what) {
    const bool has_text = status == SL_OK || status == SL_ERR_UNSUPPORTED || !ErrorText().empty();
    trial_.Expect(has_text, "{} gave {} without a text", what, StatusName(status));
    ClearError();
    return status == SL_OK;
  }

  void Memory(uint32_t kind) {
    void* memory = nullptr;
    if (!Good(ops_.allocate(device_, kind, 8192, &memory), "allocate")) return;
    sl_memory_handle_t handle{};
    handle.struct_size = sizeof(handle);
    if (kind == SL_MEMORY_EXPORTABLE &&
        Good(ops_.export_memory(device_, memory, SL_HANDLE_FD, &handle), "export_memory")) {
      sl_mapping_t* mapping = nullptr;
      void* address = nullptr;
      if (Good(ops_.import_memory(device_, &handle, nullptr, &mapping, &address), "import_memory")) {
        trial_.Expect(ops_.unmap(device_, mapping) == SL_OK, "unmap: {}", ErrorText());
      }
      close(handle.fd);
    }
    trial_.Expect(ops_.release(device_, memory) == SL_OK, "release: {}", ErrorText());
  }

  void Work(sl_stream_t* stream) {
    sl_event_t* event = nullptr;
    void* word = nullptr;
    const bool has_word = Good(ops_.allocate(device_, SL_MEMORY_HOST, sizeof(uint64_t), &word), "allocate");
    const bool has_event = Good(ops_.event_create(device_, &event), "event_create");
    if (has_event) Good(ops_.event_record(device_, event, stream), "event_record");
    if (has_word) {
      Good(ops_.stream_write_value(device_, stream, static_cast<uint64_t*>(word), 1), "stream_write_value");
    }
    if (has_event) Good(ops_.stream_wait_event(device_, stream, event), "stream_wait_event");
    Good(ops_.stream_callback(
             device_, stream, [](void*) {}, nullptr),
         "stream_callback");
    const sl_status_t status = ops_.stream_wait_idle(device_, stream, DeadlineIn(5000));
    trial_.Expect(status == SL_OK, "with a refusal before it, stream_wait_idle gave {}", StatusName(status));
    if (has_event) ops_.event_destroy(device_, event);
    if (has_word) trial_.Expect(ops_.release(device_, word) == SL_OK, "release: {}", ErrorText());
  }

  Trial& trial_;
  const sl_device_ops_t& ops_;
  sl_device_t* const device_;
};

void FailsCleanly(Trial& trial, Imports::Kind kind) {
  const Subject<sl_device_ops_t> subject(trial, SL_DEVICE_ID);
  // Skips when there is no device. Kept open: what its driver sets up while anybody has it open is no leak, and slow.
  const Bench bench(trial);
  ForEachShortage(trial, subject.module(), kind, trial.full() ? 1000 : 150, [&] {
    ClearError();
    sl_device_t* device = nullptr;
    const sl_status_t status = subject.ops.open(subject.instance(), 0, &device);
    if (status == SL_OK) {
      Life(trial, subject.ops, device).Run();
      subject.ops.close(device);
    } else {
      trial.Expect(device == nullptr && !ErrorText().empty(), "open gave {}, a device or no text", StatusName(status));
    }
  });
}

}  // namespace

std::vector<Test> ShortageTests() {
  return {
      {"Shortage.OfMemoryFailsCleanly", "any allocation refused: an error in words, or none, and nothing is lost",
       [](Trial& trial) { FailsCleanly(trial, Imports::Kind::kMemory); }, 20},
      {"Shortage.OfResourcesFailsCleanly", "the same for mappings, threads and descriptors",
       [](Trial& trial) { FailsCleanly(trial, Imports::Kind::kResource); }, 20},
  };
}

}  // namespace sl::conform::device
