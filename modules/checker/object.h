// SPDX-License-Identifier: Apache-2.0
//
// Objects: what stands behind every handle the checker gives out. A handle is a slot of one array that outlives it, so
// any pointer can be judged without touching foreign memory, also one whose object ended long ago.
//
// thread: Find and the fields marked so: any thread. Making and ending take the array's lock; they are [control].
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "sl_algorithm.h"
#include "sl_device.h"
#include "sl_fault.h"
#include "sl_observer.h"
#include "sl_topology.h"
#include "sl_transport.h"

namespace sl::checker {

struct Call;  // frame.h

enum class Kind : uint32_t {
  kNone,
  kTransport,
  kConnection,
  kRegion,
  kRemoteRegion,
  kDevice,
  kStream,
  kEvent,
  kImage,
  kMapping,
  kAlgorithm,
  kBuilder,
  kPolicy,
  kObserver,
  kTopology,
  kSink,
};
const char* KindName(Kind kind);

// The kind behind a handle type; kNone: not a handle.
template <typename T>
inline constexpr Kind kKindOf = Kind::kNone;
template <>
inline constexpr Kind kKindOf<sl_transport_t> = Kind::kTransport;
template <>
inline constexpr Kind kKindOf<sl_connection_t> = Kind::kConnection;
template <>
inline constexpr Kind kKindOf<sl_region_t> = Kind::kRegion;
template <>
inline constexpr Kind kKindOf<sl_remote_region_t> = Kind::kRemoteRegion;
template <>
inline constexpr Kind kKindOf<sl_device_t> = Kind::kDevice;
template <>
inline constexpr Kind kKindOf<sl_stream_t> = Kind::kStream;
template <>
inline constexpr Kind kKindOf<sl_event_t> = Kind::kEvent;
template <>
inline constexpr Kind kKindOf<sl_image_t> = Kind::kImage;
template <>
inline constexpr Kind kKindOf<sl_mapping_t> = Kind::kMapping;
template <>
inline constexpr Kind kKindOf<sl_algorithm_t> = Kind::kAlgorithm;
template <>
inline constexpr Kind kKindOf<sl_plan_builder_t> = Kind::kBuilder;
template <>
inline constexpr Kind kKindOf<sl_fault_policy_t> = Kind::kPolicy;
template <>
inline constexpr Kind kKindOf<sl_observer_t> = Kind::kObserver;
template <>
inline constexpr Kind kKindOf<sl_topology_t> = Kind::kTopology;
template <>
inline constexpr Kind kKindOf<sl_topology_sink_t> = Kind::kSink;

// What the rules of one kind remember about an object.
struct Facts {
  virtual ~Facts() = default;
};

struct alignas(64) Object {
  enum Life : uint32_t { kFree, kReserved, kAlive, kEnded };

  std::atomic<uint32_t> life;  // Life; any thread
  Kind kind;
  sl_instance_t* owner;  // NULL: the module it belonged to was closed
  void* inner;           // the handle of the module below
  Object* parent;        // the transport or device it was made from, or NULL; ends with it, hence never stale
  Facts* facts;          // owned; dropped when the call that ends the object is over
  Object* next;          // in the queue of ended objects, or the list of those reserved for nothing
  uint32_t number;       // names it in messages
  int32_t rank;          // -1: not known; likewise the next two
  int32_t peer;
  int32_t lane;
  std::atomic<uint32_t> users;      // puts that borrow a region; any thread
  std::atomic<uintptr_t> busy;      // the thread inside a call on it, or 0; any thread
  std::atomic<const Call*> inside;  // what that thread calls; any thread
  std::atomic<const Call*> ended_in;
  std::atomic<uintptr_t> ended_by;

  template <typename F>
  F* As() const {
    return static_cast<F*>(facts);
  }
};
static_assert(sizeof(Object) == 128);

// The array of all objects of this process. Mapped while at least one instance of the module is open.
class Heap {
 public:
  static constexpr uint32_t kObjects = 1 << 16;
  static constexpr uint32_t kQuarantine = 1024;  // ended objects before the oldest one's slot is used again

  // false: no memory.
  static bool Acquire();
  static void Release();

  // The object behind a handle, alive or not; NULL: not one of ours.
  static Object* Find(const void* handle);
  // Takes a slot for an object that is about to be made; NULL: all are taken.
  static Object* Reserve();
  static void GiveBack(Object* reserved);
  // Brings a reserved slot to life.
  static void Begin(Object* reserved, Kind kind, sl_instance_t* owner, Object* parent, void* inner);
  // Ends an object and what was made from it. False: it was not alive.
  static bool End(Object* object, const Call* call);
  // Frees what was remembered of an object that has ended, and of what was made from it.
  static void Drop(Object* ended);
  // How many objects are alive that were made from `parent`, or belong to `owner`; and one of them.
  static uint32_t CountAlive(const Object* parent, const sl_instance_t* owner, const Object** out_one);
  // Ends and forgets everything of an instance that is being closed.
  static void Forget(const sl_instance_t* owner);
};

template <typename T>
T* HandleOf(Object* object) {
  static_assert(kKindOf<T> != Kind::kNone);
  return reinterpret_cast<T*>(object);
}

inline uintptr_t ThisThread() { return static_cast<uintptr_t>(pthread_self()); }

}  // namespace sl::checker
