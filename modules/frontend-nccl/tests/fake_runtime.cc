// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/tests/fake_runtime.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "sdk/datatype.h"

struct sl_comm_t : sl::frontend_nccl::FakeComm {};

namespace sl::frontend_nccl {

FakeRuntime& Fake() {
  static FakeRuntime fake;
  return fake;
}

int FakeRuntime::Count(const std::string& beginning) {
  const std::lock_guard<std::mutex> lock(mutex);
  return static_cast<int>(std::count_if(calls.begin(), calls.end(),
                                        [&](const std::string& call) { return call.rfind(beginning, 0) == 0; }));
}

void FakeRuntime::Reset() {
  const std::lock_guard<std::mutex> lock(mutex);
  calls.clear();
  ops.clear();
  settings.clear();
  tags.clear();
  events.clear();
  logs.clear();
  error_text.clear();
  in_comm_state = in_window_deregister = nullptr;
  on_call = nullptr;
  estimate_ns = 0;
  create_status = wait_status = state_status = enqueue_status = window_status = SL_OK;
  settings_status = SL_OK;
}

namespace {

sl_status_t Answer(sl_status_t status) {
  Fake().error_text = status < SL_OK ? "the fake said so" : "";
  return status;
}

void Note(const std::string& call) {
  {
    const std::lock_guard<std::mutex> lock(Fake().mutex);
    Fake().calls.push_back(call);
  }
  if (Fake().on_call) Fake().on_call(call);
}

// As Note, of a call that looks at the communicator afterwards, as the kernel does: a sanitizer sees if it has gone.
void NoteOn(const sl_comm_t* comm, const std::string& call) {
  Note(call);
  const volatile uint32_t rank = comm->rank;
  static_cast<void>(rank);
}

const char* LastError() { return Fake().error_text.c_str(); }

sl_status_t UniqueId(sl_unique_id_t* out_id) {
  Note("unique_id");
  std::memset(out_id, 0, sizeof(*out_id));
  const int number = ++Fake().unique_ids;
  std::memcpy(out_id->bytes, &number, sizeof(number));
  return SL_OK;
}

sl_comm_t* NewComm(uint32_t rank, uint32_t size, uint64_t comm_id, const sl_comm_config_t& config) {
  auto* comm = new sl_comm_t;
  comm->rank = rank;
  comm->size = size;
  comm->comm_id = comm_id;
  comm->name = config.name != nullptr ? config.name : "";
  comm->processors_min = config.processors_min;
  comm->processors_max = config.processors_max;
  comm->processor_weight = config.processor_weight;
  comm->processor_free = config.processor_free;
  const std::lock_guard<std::mutex> lock(Fake().mutex);
  ++Fake().arrived[comm_id];
  Fake().live.push_back(comm);
  return comm;
}

sl_status_t CommCreate(const sl_comm_config_t* config, sl_comm_t** out_comm) {
  Note("comm_create " + std::to_string(config->rank) + "/" + std::to_string(config->size));
  if (Fake().create_status != SL_OK) return Answer(Fake().create_status);
  int number = 0;
  std::memcpy(&number, config->ids[0].bytes, sizeof(number));
  *out_comm = NewComm(config->rank, config->size, static_cast<uint64_t>(number), *config);
  return SL_IN_PROGRESS;
}

// Children of colour c of parent p have the id 1000 * p + c + 1; key is the new rank.
sl_status_t CommSplit(sl_comm_t* parent, int32_t color, int32_t key, const sl_comm_config_t* config,
                      sl_comm_t** out_comm) {
  Note("comm_split " + std::to_string(color));
  const uint64_t comm_id = parent->comm_id * 1000 + static_cast<uint64_t>(color + 1);
  *out_comm = color < 0 ? nullptr : NewComm(static_cast<uint32_t>(key), parent->size, comm_id, *config);
  return SL_IN_PROGRESS;
}

sl_status_t CurrentDevice(int32_t* out_kind, int32_t* out_ordinal) {
  *out_kind = SL_DEVICE_HOST;
  *out_ordinal = 0;
  return SL_OK;
}

// The child has the id 1000 * p; ranks keep their order.
sl_status_t CommShrink(sl_comm_t* parent, const uint32_t* excluded, uint32_t excluded_count, uint32_t flags,
                       const sl_comm_config_t* config, sl_comm_t** out_comm) {
  Note("comm_shrink -" + std::to_string(excluded_count) + " flags " + std::to_string(flags));
  const auto before =
      std::count_if(excluded, excluded + excluded_count, [parent](uint32_t rank) { return rank < parent->rank; });
  *out_comm = NewComm(parent->rank - static_cast<uint32_t>(before), parent->size - excluded_count,
                      parent->comm_id * 1000, *config);
  return SL_IN_PROGRESS;
}

// The child has the id's number, as if made by it.
sl_status_t CommGrow(sl_comm_t* parent, uint32_t size, const sl_unique_id_t* id, const sl_comm_config_t* config,
                     sl_comm_t** out_comm) {
  Note("comm_grow " + std::to_string(size));
  int number = 0;
  std::memcpy(&number, id->bytes, sizeof(number));
  *out_comm = NewComm(parent->rank, size, static_cast<uint64_t>(number), *config);
  return SL_IN_PROGRESS;
}

sl_status_t CommDecline(sl_comm_t* comm, sl_call_t call) {
  Note("comm_decline " + std::to_string(call));
  return SL_OK;
}

sl_status_t CommRevoke(sl_comm_t* comm) {
  Note("comm_revoke " + std::to_string(comm->rank));
  return SL_IN_PROGRESS;
}

sl_status_t CommSuspend(sl_comm_t* comm) {
  Note("comm_suspend " + std::to_string(comm->rank));
  comm->suspended = true;
  return SL_IN_PROGRESS;
}

sl_status_t CommResume(sl_comm_t* comm) {
  Note("comm_resume " + std::to_string(comm->rank));
  comm->suspended = false;
  return SL_IN_PROGRESS;
}

bool AllHere(const sl_comm_t* comm) {
  const std::lock_guard<std::mutex> lock(Fake().mutex);
  if (comm->finalizing) return Fake().finalizing[comm->comm_id] >= comm->size;
  return Fake().arrived[comm->comm_id] >= comm->size;
}

sl_status_t CommState(sl_comm_t* comm, char* text, uint64_t capacity, uint64_t* out_needed) {
  if (Fake().in_comm_state) Fake().in_comm_state();
  const sl_status_t status = Fake().state_status;
  const std::string words = status < SL_OK ? "the fake is ill" : "";
  if (out_needed != nullptr) *out_needed = words.size() + 1;
  if (text != nullptr && capacity > words.size()) std::memcpy(text, words.c_str(), words.size() + 1);
  if (status != SL_OK) return status;
  return AllHere(comm) ? SL_OK : SL_IN_PROGRESS;
}

// Whoever waits before all have come would hang with the real kernel.
sl_status_t CommWait(sl_comm_t* comm, uint64_t) {
  Note("comm_wait " + std::to_string(comm->rank));
  if (Fake().wait_status != SL_OK) return Answer(Fake().wait_status);
  return AllHere(comm) ? SL_OK : Answer(SL_ERR_INTERNAL);
}

sl_status_t CommFinalize(sl_comm_t* comm) {
  Note("comm_finalize " + std::to_string(comm->rank));
  comm->finalizing = true;
  const std::lock_guard<std::mutex> lock(Fake().mutex);
  ++Fake().finalizing[comm->comm_id];
  return SL_IN_PROGRESS;
}

void Forget(sl_comm_t* comm) {
  const std::lock_guard<std::mutex> lock(Fake().mutex);
  std::vector<FakeComm*>& live = Fake().live;
  const auto at = std::find(live.begin(), live.end(), comm);
  if (at == live.end()) std::abort();  // freed twice
  live.erase(at);
  delete comm;
}

sl_status_t CommDestroy(sl_comm_t* comm) {
  Note("comm_destroy " + std::to_string(comm->rank));
  Forget(comm);
  return SL_OK;
}

sl_status_t CommAbort(sl_comm_t* comm) {
  Note("comm_abort " + std::to_string(comm->rank));
  Forget(comm);
  return SL_OK;
}

sl_status_t CommCancel(sl_comm_t* comm) {
  Note("comm_cancel " + std::to_string(comm->rank));
  return SL_OK;
}

sl_status_t CommInfo(sl_comm_t* comm, sl_comm_info_t* out_info) {
  sl_comm_info_t info{};
  info.struct_size = sizeof(info);
  info.rank = comm->rank;
  info.size = comm->size;
  info.comm_id = comm->comm_id;
  info.host_bytes = 1000;
  info.releasable_bytes = 200;
  info.shared_bytes = comm->suspended ? 0 : 200;
  info.suspended = comm->suspended ? 1 : 0;
  *out_info = info;
  return SL_OK;
}

sl_status_t Enqueue(sl_comm_t* comm, const sl_op_t* op, sl_stream_t*) {
  NoteOn(comm, std::string("enqueue ") + OpKindName(op->kind));
  if (Fake().enqueue_status != SL_OK) return Answer(Fake().enqueue_status);
  const std::lock_guard<std::mutex> lock(Fake().mutex);
  Fake().ops.push_back(*op);
  return SL_OK;
}

sl_status_t EnqueueGroup(const sl_group_entry_t* entries, uint32_t count) {
  NoteOn(entries[0].comm, "enqueue_group " + std::to_string(count));
  if (Fake().enqueue_status != SL_OK) return Answer(Fake().enqueue_status);
  const std::lock_guard<std::mutex> lock(Fake().mutex);
  for (uint32_t i = 0; i < count; ++i) {
    Fake().ops.push_back(*entries[i].op);
    if (entries[i].tag != 0) Fake().tags.push_back(entries[i].tag);
    if (entries[i].launched != nullptr) Fake().events.push_back(entries[i].launched);
  }
  return SL_OK;
}

std::string InWords(const sl_call_settings_t& wanted) {
  std::string text = std::to_string(wanted.processors_min) + " to " + std::to_string(wanted.processors_max) + " SMs";
  if (wanted.has_policy != 0) {
    text += ", worth " + std::to_string(wanted.processor_weight) + (wanted.processor_free != 0 ? ", none wanted" : "");
  }
  if (wanted.ways != nullptr) text += std::string(wanted.is_forced != 0 ? ", by " : ", rather by ") + wanted.ways;
  if (wanted.rule != nullptr) text += std::string(", rule ") + wanted.rule;
  return text;
}

sl_status_t CallSettings(sl_comm_t* comm, const sl_call_settings_t* settings, uint32_t* out_number) {
  if (settings->ways != nullptr && Fake().settings_status != SL_OK) return Answer(Fake().settings_status);
  const std::string text = InWords(*settings);
  *out_number = 0;
  if (text == "0 to 0 SMs") return SL_OK;
  NoteOn(comm, "call_settings");
  const std::lock_guard<std::mutex> lock(Fake().mutex);
  std::vector<std::string>& known = Fake().settings;
  if (std::find(known.begin(), known.end(), text) == known.end()) known.push_back(text);
  *out_number = 2 * static_cast<uint32_t>(std::find(known.begin(), known.end(), text) - known.begin() + 1);
  return SL_OK;
}

sl_status_t MemoryAllocate(int32_t, uint64_t bytes, void** out_memory) {
  *out_memory = std::malloc(bytes);
  return SL_OK;
}

sl_status_t MemoryRelease(void* memory) {
  std::free(memory);
  return SL_OK;
}

sl_status_t RegisterMemory(sl_comm_t* comm, void* memory, uint64_t, sl_registration_t** out_registration) {
  NoteOn(comm, "register_memory");
  *out_registration = static_cast<sl_registration_t*>(memory);
  return SL_OK;
}

sl_status_t DeregisterMemory(sl_comm_t* comm, sl_registration_t*) {
  NoteOn(comm, "deregister_memory");
  return Answer(Fake().window_status);
}

sl_status_t WindowRegister(sl_comm_t* comm, void* memory, uint64_t, uint32_t flags, sl_comm_window_t** out_window) {
  NoteOn(comm, "window_register " + std::to_string(comm->rank) + " flags " + std::to_string(flags));
  if (Fake().window_status != SL_OK) return Answer(Fake().window_status);
  *out_window = static_cast<sl_comm_window_t*>(memory);
  return SL_OK;
}

sl_status_t WindowDeregister(sl_comm_t*, sl_comm_window_t*) {
  Note("window_deregister");
  if (Fake().in_window_deregister) Fake().in_window_deregister();
  return SL_OK;
}

sl_status_t WindowMemory(sl_comm_t*, sl_comm_window_t* window, void** out_memory) {
  *out_memory = window;
  return SL_OK;
}

sl_status_t PutSignal(sl_comm_t* comm, const void*, uint64_t bytes, uint32_t peer, sl_comm_window_t*, uint64_t offset,
                      sl_stream_t*) {
  NoteOn(comm, "put_signal " + std::to_string(bytes) + " to " + std::to_string(peer) + " at " + std::to_string(offset));
  return Answer(Fake().enqueue_status);
}

sl_status_t WaitSignals(sl_comm_t* comm, const sl_signal_count_t* counts, uint32_t count, sl_stream_t*) {
  std::string text = "wait_signals";
  for (uint32_t i = 0; i < count; ++i) {
    text += " " + std::to_string(counts[i].count) + " of " + std::to_string(counts[i].peer);
  }
  NoteOn(comm, text);
  return Answer(Fake().enqueue_status);
}

sl_status_t Estimate(sl_comm_t* comm, const sl_op_t*, sl_estimate_t* out_estimate) {
  NoteOn(comm, "estimate");
  if (Fake().estimate_ns == 0) return SL_ERR_UNSUPPORTED;
  out_estimate->time_ns = Fake().estimate_ns;
  return SL_OK;
}

void LogLine(sl_log_level_t level, const char* text) {
  const std::lock_guard<std::mutex> lock(Fake().mutex);
  Fake().logs.push_back(std::to_string(level) + " " + text);
}

sl_runtime_ops_t MakeTable() {
  sl_runtime_ops_t table{};
  table.struct_size = sizeof(table);
  table.revision = SL_RUNTIME_REVISION;
  table.last_error = LastError;
  table.unique_id = UniqueId;
  table.comm_create = CommCreate;
  table.comm_split = CommSplit;
  table.comm_state = CommState;
  table.comm_wait = CommWait;
  table.comm_finalize = CommFinalize;
  table.comm_destroy = CommDestroy;
  table.comm_abort = CommAbort;
  table.comm_info = CommInfo;
  table.comm_cancel = CommCancel;
  table.enqueue = Enqueue;
  table.enqueue_group = EnqueueGroup;
  table.call_settings = CallSettings;
  table.memory_allocate = MemoryAllocate;
  table.memory_release = MemoryRelease;
  table.register_memory = RegisterMemory;
  table.deregister_memory = DeregisterMemory;
  table.window_register = WindowRegister;
  table.window_deregister = WindowDeregister;
  table.window_memory = WindowMemory;
  table.estimate = Estimate;
  table.log = LogLine;
  table.comm_shrink = CommShrink;
  table.current_device = CurrentDevice;
  table.comm_revoke = CommRevoke;
  table.comm_grow = CommGrow;
  table.comm_suspend = CommSuspend;
  table.comm_resume = CommResume;
  table.comm_decline = CommDecline;
  table.put_signal = PutSignal;
  table.wait_signals = WaitSignals;
  return table;
}

}  // namespace
}  // namespace sl::frontend_nccl

sl_status_t sl_runtime_query(uint32_t revision, const sl_runtime_ops_t** out_ops) {
  static const sl_runtime_ops_t table = sl::frontend_nccl::MakeTable();
  if (revision != SL_RUNTIME_REVISION) return SL_ERR_UNSUPPORTED;
  *out_ops = &table;
  return SL_OK;
}
