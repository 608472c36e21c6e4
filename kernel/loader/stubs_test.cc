// SPDX-License-Identifier: Apache-2.0
#include "kernel/loader/stubs.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernel/events/last_error.h"
#include "sl_algorithm.h"
#include "sl_device.h"
#include "sl_fault.h"
#include "sl_transport.h"

namespace sl::kernel {
namespace {

TEST(Stubs, NoSlotOfAnyTableIsEmpty) {
  for (const InterfaceInfo& interface : KnownInterfaces()) {
    const auto* bytes = static_cast<const char*>(interface.stubs);
    uint32_t size = 0;
    std::memcpy(&size, bytes, sizeof(size));
    EXPECT_EQ(interface.bytes, size) << interface.id;
    for (uint32_t offset = 8; offset < interface.bytes; offset += 8) {
      uint64_t slot = 0;
      std::memcpy(&slot, bytes + offset, sizeof(slot));
      EXPECT_NE(0u, slot) << interface.id << " at " << offset;
    }
  }
}

TEST(Stubs, StatusIsUnsupportedPointersAreNullVoidDoesNothing) {
  const auto* device = static_cast<const sl_device_ops_t*>(FindInterface(SL_DEVICE_ID)->stubs);
  uint32_t count = 7;
  EXPECT_EQ(SL_ERR_UNSUPPORTED, device->count(nullptr, &count));
  EXPECT_EQ(7u, count);
  EXPECT_STREQ("this module does not offer this call", LastError());
  EXPECT_EQ(nullptr, device->reduce_function(nullptr, SL_FLOAT32, SL_SUM));
  const auto* transport = static_cast<const sl_transport_ops_t*>(FindInterface(SL_TRANSPORT_ID)->stubs);
  transport->notify(nullptr);
}

sl_status_t Probe(sl_connection_t*, uint64_t) { return SL_OK; }

TEST(Overlay, KeepsWhatIsOfferedAndFillsTheRest) {
  const InterfaceInfo& interface = *FindInterface(SL_TRANSPORT_ID);
  sl_transport_ops_t offered{};
  offered.struct_size = offsetof(sl_transport_ops_t, probe) + sizeof(offered.probe);
  offered.probe = &Probe;
  const OverlaidTable table = OverlayTable(interface, &offered);
  const auto* ops = reinterpret_cast<const sl_transport_ops_t*>(table.data());
  EXPECT_EQ(sizeof(sl_transport_ops_t), ops->struct_size);
  EXPECT_EQ(SL_OK, ops->probe(nullptr, 0));
  EXPECT_EQ(SL_ERR_UNSUPPORTED, ops->flush(nullptr));
  EXPECT_EQ(SL_ERR_UNSUPPORTED, ops->progress(nullptr));
}

TEST(Overlay, SlotsBehindStructSizeAreNotRead) {
  const InterfaceInfo& interface = *FindInterface(SL_TRANSPORT_ID);
  sl_transport_ops_t offered{};
  offered.probe = &Probe;
  offered.struct_size = offsetof(sl_transport_ops_t, probe);
  const OverlaidTable table = OverlayTable(interface, &offered);
  EXPECT_EQ(SL_ERR_UNSUPPORTED, reinterpret_cast<const sl_transport_ops_t*>(table.data())->probe(nullptr, 0));
}

TEST(Overlay, ALongerTableOfTheFutureIsCut) {
  const InterfaceInfo& interface = *FindInterface(SL_FAULT_ID);
  std::vector<uint64_t> longer(interface.bytes / 8 + 3, 0xdead);
  const uint32_t size[2] = {static_cast<uint32_t>(longer.size() * 8), 0};
  std::memcpy(longer.data(), size, sizeof(size));
  EXPECT_TRUE(CheckTable(interface, longer.data()).ok());
  EXPECT_EQ(interface.bytes / 8, OverlayTable(interface, longer.data()).size());
}

TEST(Overlay, MandatorySlotsMustBeThere) {
  const InterfaceInfo& interface = *FindInterface(SL_ALGORITHM_ID);
  sl_algorithm_ops_t offered{};
  offered.struct_size = sizeof(offered);
  EXPECT_EQ("its sl.algorithm/1 table has no create, which is mandatory", CheckTable(interface, &offered).message());
}

}  // namespace
}  // namespace sl::kernel
