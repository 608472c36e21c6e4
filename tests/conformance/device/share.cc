// SPDX-License-Identifier: Apache-2.0
// Memory that other processes map: handles, reservations, and a second process that does it.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/conformance/device/bench.h"
#include "tests/conformance/device/suite.h"

namespace sl::conform::device {
namespace {

// A handle, its descriptor closed at the end of the scope.
struct Exported {
  sl_memory_handle_t handle{};
  Exported() { handle.fd = -1; }
  ~Exported() {
    if (handle.fd >= 0) close(handle.fd);
  }
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;
};

// Exports by the first type that the device has.
void Export(const Bench& bench, void* memory, Exported* out) {
  sl_status_t status = SL_ERR_UNSUPPORTED;
  for (const uint32_t type : {SL_HANDLE_FD, SL_HANDLE_FABRIC}) {
    out->handle.struct_size = sizeof(out->handle);
    status = bench.ops.export_memory(bench.device, memory, type, &out->handle);
    if (status != SL_ERR_UNSUPPORTED) break;
  }
  bench.Good(status, "export_memory");
}

void Imports(Trial& trial) {
  Bench bench(trial);
  bench.Need(SL_DEVICE_CAN_EXPORT, "export of memory");
  const uint64_t bytes = bench.info.export_granularity * 3;
  uint8_t* memory = bench.Allocate(bytes, SL_MEMORY_EXPORTABLE);
  Exported exported;
  Export(bench, memory, &exported);
  trial.Expect(exported.handle.bytes >= bytes, "the handle of {} bytes says {}", bytes, exported.handle.bytes);
  sl_mapping_t* mapping = nullptr;
  void* address = nullptr;
  bench.Good(bench.ops.import_memory(bench.device, &exported.handle, nullptr, &mapping, &address), "import_memory");
  const uint8_t there[] = {1, 2, 3, 4};
  bench.Write(memory + bytes - 4, there, 4);
  trial.Expect(bench.Read(static_cast<uint8_t*>(address) + bytes - 4, 4) == std::vector<uint8_t>(there, there + 4),
               "what was written to the allocation is not read through the mapping");
  const uint8_t back[] = {9, 8};
  bench.Write(address, back, 2);
  trial.Expect(bench.Read(memory, 2) == std::vector<uint8_t>(back, back + 2),
               "what was written through the mapping is not read in the allocation");
  // The mapping outlives the allocation.
  bench.Release(memory);
  trial.Expect(bench.Read(address, 2) == std::vector<uint8_t>(back, back + 2), "a mapping ended with its allocation");
  bench.Good(bench.ops.unmap(bench.device, mapping), "unmap");
}

// Where it lies, for devices of one process: the same bytes, and the mapping's end does not touch the allocation.
void ImportsLocally(Trial& trial) {
  Bench bench(trial);
  bench.Need(SL_DEVICE_CAN_EXPORT, "export of memory");
  uint8_t* memory = bench.Allocate(bench.info.export_granularity, SL_MEMORY_EXPORTABLE);
  Exported exported;
  exported.handle.struct_size = sizeof(exported.handle);
  const sl_status_t status = bench.ops.export_memory(bench.device, memory, SL_HANDLE_LOCAL, &exported.handle);
  if (status == SL_ERR_UNSUPPORTED) trial.Skip("no SL_HANDLE_LOCAL");
  bench.Good(status, "export_memory");
  sl_mapping_t* mapping = nullptr;
  void* address = nullptr;
  bench.Good(bench.ops.import_memory(bench.device, &exported.handle, nullptr, &mapping, &address), "import_memory");
  const uint8_t mark[] = {7, 9};
  bench.Write(address, mark, 2);
  trial.Expect(bench.Read(memory, 2) == std::vector<uint8_t>(mark, mark + 2),
               "what was written through the mapping is not read in the allocation");
  bench.Good(bench.ops.unmap(bench.device, mapping), "unmap");
  trial.Expect(bench.Read(memory, 2) == std::vector<uint8_t>(mark, mark + 2), "an allocation ended with its mapping");
  const sl_status_t refused = bench.ops.export_memory(bench.device, memory + 64, SL_HANDLE_LOCAL, &exported.handle);
  trial.Expect(refused < SL_OK, "exporting the middle of an allocation gave {}", StatusName(refused));
}

// What a handle says is not believed: a peer may be wrong or hostile.
void RefusesHandles(Trial& trial) {
  Bench bench(trial);
  bench.Need(SL_DEVICE_CAN_EXPORT, "export of memory");
  uint8_t* memory = bench.Allocate(bench.info.export_granularity, SL_MEMORY_EXPORTABLE);
  Exported exported;
  Export(bench, memory, &exported);
  const auto refused = [&](const sl_memory_handle_t& handle, const char* what) {
    ClearError();
    sl_mapping_t* mapping = nullptr;
    void* address = nullptr;
    const sl_status_t status = bench.ops.import_memory(bench.device, &handle, nullptr, &mapping, &address);
    trial.Expect(status < SL_OK, "importing {} gave {}", what, StatusName(status));
    if (status >= SL_OK) bench.ops.unmap(bench.device, mapping);
    trial.Expect(status >= SL_OK || !ErrorText().empty(), "importing {} was refused without a text", what);
  };
  sl_memory_handle_t handle = exported.handle;
  handle.bytes *= 2;
  refused(handle, "a handle that says twice its bytes");
  handle = exported.handle;
  handle.bytes = 0;
  refused(handle, "a handle of 0 bytes");
  handle = exported.handle;
  handle.type = 77;
  refused(handle, "a handle of unknown type");
  if (exported.handle.type != SL_HANDLE_FD) return;
  handle = exported.handle;
  handle.fd = -1;
  refused(handle, "a handle without a descriptor");
  handle.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  refused(handle, "a descriptor that is no memory");
  close(handle.fd);
  handle.fd = memfd_create("short", MFD_CLOEXEC);
  refused(handle, "a descriptor of an empty file");
  close(handle.fd);
}

void RefusesToExport(Trial& trial) {
  Bench bench(trial);
  bench.Need(SL_DEVICE_CAN_EXPORT, "export of memory");
  uint8_t* plain = bench.Allocate(4096);
  uint8_t* memory = bench.Allocate(bench.info.export_granularity, SL_MEMORY_EXPORTABLE);
  for (void* wrong : {static_cast<void*>(plain), static_cast<void*>(memory + 64)}) {
    Exported exported;
    exported.handle.struct_size = sizeof(exported.handle);
    const sl_status_t status = bench.ops.export_memory(bench.device, wrong, SL_HANDLE_FD, &exported.handle);
    trial.Expect(status < SL_OK, "exporting what cannot be exported gave {}", StatusName(status));
  }
  // Plain memory may have a handle of its own kind.
  Exported ipc;
  ipc.handle.struct_size = sizeof(ipc.handle);
  const bool has_ipc = bench.ops.export_memory(bench.device, plain, SL_HANDLE_IPC, &ipc.handle) == SL_OK;
  for (const auto& [address, exportable] : {std::pair{plain, has_ipc ? 1u : 0u}, std::pair{memory, 1u}}) {
    sl_pointer_info_t info{};
    info.struct_size = sizeof(info);
    bench.Good(bench.ops.pointer_info(bench.device, address, &info), "pointer_info");
    trial.Expect(info.exportable == exportable, "pointer_info says exportable {}, must be {}", info.exportable,
                 exportable);
  }
}

// The slices of all ranks, side by side in one reservation.
void Reserves(Trial& trial) {
  Bench bench(trial);
  bench.Need(SL_DEVICE_CAN_EXPORT, "export of memory");
  const uint64_t slice = bench.info.export_granularity;
  constexpr uint64_t kSlices = 3;
  void* base = nullptr;
  const sl_status_t reserved = bench.ops.reserve(bench.device, slice * kSlices, &base);
  if (reserved == SL_ERR_UNSUPPORTED) trial.Skip("the device reserves no address space");
  bench.Good(reserved, "reserve");
  sl_mapping_t* mappings[kSlices];
  for (uint64_t i = 0; i < kSlices; ++i) {
    uint8_t* memory = bench.Allocate(slice, SL_MEMORY_EXPORTABLE);
    const auto mark = static_cast<uint8_t>(i + 1);
    bench.Write(memory, &mark, 1);
    Exported exported;
    Export(bench, memory, &exported);
    uint8_t* place = static_cast<uint8_t*>(base) + i * slice;
    void* address = nullptr;
    bench.Good(bench.ops.import_memory(bench.device, &exported.handle, place, &mappings[i], &address),
               "import_memory inside a reservation");
    trial.Expect(address == place, "asked to lie at {}, it lies at {}", fmt::ptr(place), fmt::ptr(address));
    sl_mapping_t* second = nullptr;
    const sl_status_t status = bench.ops.import_memory(bench.device, &exported.handle, place, &second, &address);
    trial.Expect(status < SL_OK, "two mappings at one place: {}", StatusName(status));
  }
  for (uint64_t i = 0; i < kSlices; ++i) {
    trial.Expect(bench.Read(static_cast<uint8_t*>(base) + i * slice, 1)[0] == i + 1, "slice {} is another's", i);
  }
  const sl_status_t early = bench.ops.unreserve(bench.device, base, slice * kSlices);
  trial.Expect(early < SL_OK, "a reservation with mappings in it was given back: {}", StatusName(early));
  for (sl_mapping_t* mapping : mappings) bench.Good(bench.ops.unmap(bench.device, mapping), "unmap");
  bench.Good(bench.ops.unreserve(bench.device, base, slice * kSlices), "unreserve");
}

// A handle and its descriptor over a socket.
bool SendHandle(int socket, const sl_memory_handle_t& handle) {
  sl_memory_handle_t copy = handle;
  iovec part = {&copy, sizeof(copy)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (handle.type == SL_HANDLE_FD) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &handle.fd, sizeof(int));
  }
  return sendmsg(socket, &message, 0) == static_cast<ssize_t>(sizeof(copy));
}

bool ReceiveHandle(int socket, sl_memory_handle_t* out) {
  iovec part = {out, sizeof(*out)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof(*out))) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr) std::memcpy(&out->fd, CMSG_DATA(header), sizeof(int));
  return true;
}

constexpr uint8_t kFromOwner = 0x11;
constexpr uint8_t kFromPeer = 0x22;

// The second process: opens the module for itself, maps what it is sent, answers in the shared memory.
int BePeer(const Assignment& assignment, int socket) {
  Trial trial(assignment);
  try {
    Bench bench(trial);
    Exported received;
    trial.Require(ReceiveHandle(socket, &received.handle), "no handle came");
    sl_mapping_t* mapping = nullptr;
    void* address = nullptr;
    bench.Good(bench.ops.import_memory(bench.device, &received.handle, nullptr, &mapping, &address), "import_memory");
    trial.Require(bench.Read(address, 1)[0] == kFromOwner, "the owner's bytes are not there");
    bench.Write(static_cast<uint8_t*>(address) + received.handle.bytes - 1, &kFromPeer, 1);
    bench.Good(bench.ops.unmap(bench.device, mapping), "unmap");
  } catch (const TrialEnd&) {  // noted
  }
  for (const std::string& message : trial.messages()) dprintf(STDERR_FILENO, "the peer: %s\n", message.c_str());
  return trial.outcome() == Outcome::kFailed ? 1 : 0;
}

// The other process, which ends with this object.
class Peer {
 public:
  // Before anything of the module is in this process.
  explicit Peer(Trial& trial) {
    int sockets[2];
    trial.Require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0, "no socket pair");
    pid_ = fork();
    if (pid_ == 0) _exit(BePeer(trial.assignment(), sockets[1]));
    close(sockets[1]);
    socket_ = sockets[0];
  }
  ~Peer() {
    close(socket_);
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  int socket() const { return socket_; }
  // Whether it ended well.
  bool Join() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

void BetweenProcesses(Trial& trial) {
  Peer peer(trial);
  Bench bench(trial);
  bench.Need(SL_DEVICE_CAN_EXPORT, "export of memory");
  const uint64_t bytes = bench.info.export_granularity;
  uint8_t* memory = bench.Allocate(bytes, SL_MEMORY_EXPORTABLE);
  bench.Write(memory, &kFromOwner, 1);
  Exported exported;
  Export(bench, memory, &exported);
  trial.Require(SendHandle(peer.socket(), exported.handle), "the handle cannot be sent");
  trial.Expect(peer.Join(), "the peer failed; its words are in the output");
  trial.Expect(bench.Read(memory + exported.handle.bytes - 1, 1)[0] == kFromPeer, "what the peer wrote did not arrive");
}

}  // namespace

std::vector<Test> ShareTests() {
  return {
      {"Share.MapsAnExportedAllocation", "the same bytes both ways; the mapping outlives the allocation", Imports},
      {"Share.LetsOtherDevicesOfTheProcessIn", "memory mapped where it lies, where the device does that",
       ImportsLocally},
      {"Share.RefusesBadHandles", "wrong sizes, types and descriptors, each in words", RefusesHandles},
      {"Share.ExportsExportableMemoryOnly", "and pointer_info says which that is", RefusesToExport},
      {"Share.FillsReservations", "mappings at fixed places, none over another", Reserves},
      {"Share.WorksBetweenProcesses", "a handle sent to another process leads to the same bytes", BetweenProcesses},
  };
}

}  // namespace sl::conform::device
