// SPDX-License-Identifier: Apache-2.0
#include "modules/checker/object.h"

#include <sys/mman.h>

#include <mutex>
#include <new>
#include <utility>

namespace sl::checker {
namespace {

constexpr size_t kBytes = size_t{Heap::kObjects} * sizeof(Object);

// Constant-initialised; empty again when the last instance has been closed.
struct State {
  std::mutex mutex;
  std::atomic<Object*> base = nullptr;
  // Guarded by mutex:
  uint32_t users = 0;
  uint32_t used = 0;  // slots that ever were
  uint32_t ended = 0;
  uint32_t numbers = 0;
  Object* first_ended = nullptr;
  Object* last_ended = nullptr;
  Object* first_vain = nullptr;  // slots that were reserved for nothing: no handle of theirs was ever given out
};
constinit State g_state;

Object* Slot(uint32_t index) { return g_state.base.load(std::memory_order_relaxed) + index; }

void Enqueue(Object* object) {
  object->next = nullptr;
  (g_state.last_ended == nullptr ? g_state.first_ended : g_state.last_ended->next) = object;
  g_state.last_ended = object;
  ++g_state.ended;
}

bool HasParts(const Object* object) { return object->kind == Kind::kTransport || object->kind == Kind::kDevice; }

void DropLocked(Object* object) {
  if (object->life.load(std::memory_order_relaxed) == Object::kEnded) delete std::exchange(object->facts, nullptr);
}

bool EndLocked(Object* object, const Call* call) {
  if (object->life.load(std::memory_order_relaxed) != Object::kAlive) return false;
  object->ended_in.store(call, std::memory_order_relaxed);
  object->ended_by.store(ThisThread(), std::memory_order_relaxed);
  object->life.store(Object::kEnded, std::memory_order_release);
  Enqueue(object);
  return true;
}

}  // namespace

const char* KindName(Kind kind) {
  constexpr const char* kNames[] = {
      "nothing", "transport", "connection", "region",       "remote region", "device",   "stream",   "event",
      "image",   "mapping",   "algorithm",  "plan builder", "policy",        "observer", "topology", "topology sink"};
  return kNames[static_cast<uint32_t>(kind)];
}

bool Heap::Acquire() {
  const std::lock_guard lock(g_state.mutex);
  if (g_state.users == 0) {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    g_state.base.store(static_cast<Object*>(memory), std::memory_order_release);
  }
  ++g_state.users;
  return true;
}

void Heap::Release() {
  const std::lock_guard lock(g_state.mutex);
  if (--g_state.users != 0) return;
  for (uint32_t i = 0; i < g_state.used; ++i) delete Slot(i)->facts;
  munmap(g_state.base.exchange(nullptr), kBytes);
  g_state.used = g_state.ended = 0;
  g_state.first_ended = g_state.last_ended = g_state.first_vain = nullptr;
}

Object* Heap::Find(const void* handle) {
  const auto base = reinterpret_cast<uintptr_t>(g_state.base.load(std::memory_order_acquire));
  const uintptr_t offset = reinterpret_cast<uintptr_t>(handle) - base;
  if (base == 0 || offset >= kBytes || offset % sizeof(Object) != 0) return nullptr;
  return reinterpret_cast<Object*>(base + offset);
}

Object* Heap::Reserve() {
  const std::lock_guard lock(g_state.mutex);
  Object* object = nullptr;
  if (g_state.first_vain != nullptr) {
    object = g_state.first_vain;
    g_state.first_vain = object->next;
  } else if (g_state.ended > kQuarantine || (g_state.used == kObjects && g_state.ended != 0)) {
    object = g_state.first_ended;
    g_state.first_ended = object->next;
    if (g_state.first_ended == nullptr) g_state.last_ended = nullptr;
    --g_state.ended;
    delete object->facts;
  } else if (g_state.used < kObjects) {
    object = Slot(g_state.used++);
  } else {
    return nullptr;
  }
  new (object) Object{};
  object->life.store(Object::kReserved, std::memory_order_relaxed);
  object->number = ++g_state.numbers;
  object->rank = object->peer = object->lane = -1;
  return object;
}

// It is used again first, and pushes nothing out of the quarantine: calls that make nothing may be many.
void Heap::GiveBack(Object* reserved) {
  const std::lock_guard lock(g_state.mutex);
  reserved->life.store(Object::kFree, std::memory_order_relaxed);
  reserved->next = g_state.first_vain;
  g_state.first_vain = reserved;
}

void Heap::Begin(Object* reserved, Kind kind, sl_instance_t* owner, Object* parent, void* inner) {
  const std::lock_guard lock(g_state.mutex);
  reserved->kind = kind;
  reserved->owner = owner;
  reserved->parent = parent;
  reserved->inner = inner;
  reserved->life.store(Object::kAlive, std::memory_order_release);
}

bool Heap::End(Object* object, const Call* call) {
  const std::lock_guard lock(g_state.mutex);
  if (!EndLocked(object, call)) return false;
  for (uint32_t i = 0; HasParts(object) && i < g_state.used; ++i) {
    if (Slot(i)->parent == object) EndLocked(Slot(i), call);
  }
  return true;
}

void Heap::Drop(Object* ended) {
  const std::lock_guard lock(g_state.mutex);
  DropLocked(ended);
  for (uint32_t i = 0; HasParts(ended) && i < g_state.used; ++i) {
    if (Slot(i)->parent == ended) DropLocked(Slot(i));
  }
}

uint32_t Heap::CountAlive(const Object* parent, const sl_instance_t* owner, const Object** out_one) {
  const std::lock_guard lock(g_state.mutex);
  uint32_t count = 0;
  for (uint32_t i = 0; i < g_state.used; ++i) {
    const Object* object = Slot(i);
    if (object->life.load(std::memory_order_relaxed) != Object::kAlive) continue;
    if (parent != nullptr ? object->parent != parent : object->owner != owner) continue;
    if (count++ == 0) *out_one = object;
  }
  return count;
}

void Heap::Forget(const sl_instance_t* owner) {
  const std::lock_guard lock(g_state.mutex);
  for (uint32_t i = 0; i < g_state.used; ++i) {
    if (Slot(i)->owner != owner) continue;
    EndLocked(Slot(i), nullptr);
    DropLocked(Slot(i));
    Slot(i)->owner = nullptr;
  }
}

}  // namespace sl::checker
