// SPDX-License-Identifier: Apache-2.0
// The slots of every table with the thread word of their comment.
#include "tests/conformance/kit/calls.h"

#include <cstddef>
#include <iterator>

#include "sl_algorithm.h"
#include "sl_device.h"
#include "sl_fault.h"
#include "sl_observer.h"
#include "sl_topology.h"
#include "sl_transport.h"

namespace sl::conform {
namespace {

constexpr bool kData = true;

constexpr SlotInfo kDeviceSlots[] = {
    {"count"},
    {"current"},
    {"open"},
    {"close"},
    {"info"},
    {"allocate"},
    {"release"},
    {"free_memory"},
    {"pointer_info"},
    {"export_memory"},
    {"reserve"},
    {"unreserve"},
    {"import_memory"},
    {"unmap"},
    {"stream_create"},
    {"stream_destroy"},
    {"stream_wait_idle"},
    {"event_create"},
    {"event_destroy"},
    {"event_record"},
    {"event_query"},
    {"stream_wait_event"},
    {"stream_write_value"},
    {"stream_wait_value"},
    {"stream_callback"},
    {"copy"},
    {"reduce"},
    {"capture_state"},
    {"image_load"},
    {"image_unload"},
    {"launch"},
    {"launch_batch"},
    {"reduce_function"},
    {"capture_retain"},
    {"host_attach"},
    {"host_detach"},
    {"stream_batch_values"},
};
static_assert(2 * sizeof(uint32_t) + std::size(kDeviceSlots) * sizeof(void (*)()) == sizeof(sl_device_ops_t));

constexpr SlotInfo kTransportSlots[] = {
    {"open"},          {"close"},        {"port_count"},      {"port_info"},
    {"listen"},        {"connect"},      {"accept"},          {"connection_state", kData},
    {"window", kData}, {"retire"},       {"register_memory"}, {"deregister_memory"},
    {"region_key"},    {"import_key"},   {"release_key"},     {"put", kData},
    {"flush", kData},  {"probe", kData}, {"progress", kData}, {"poll", kData},
    {"notify", kData}, {"wait_object"},
};
static_assert(2 * sizeof(uint32_t) + std::size(kTransportSlots) * sizeof(void (*)()) == sizeof(sl_transport_ops_t));

constexpr SlotInfo kAlgorithmSlots[] = {
    {"demand"}, {"create"}, {"destroy"}, {"estimate"}, {"plan"}, {"launch", kData}, {"launch_group", kData},
    {"copies"}, {"parts"},  {"retract"},
};
static_assert(2 * sizeof(uint32_t) + std::size(kAlgorithmSlots) * sizeof(void (*)()) == sizeof(sl_algorithm_ops_t));

constexpr SlotInfo kFaultSlots[] = {
    {"create"},
    {"destroy"},
    {"evaluate", kData},
};
static_assert(2 * sizeof(uint32_t) + std::size(kFaultSlots) * sizeof(void (*)()) == sizeof(sl_fault_ops_t));

constexpr SlotInfo kObserverSlots[] = {
    {"create"},
    {"destroy"},
    {"consume"},
};
static_assert(2 * sizeof(uint32_t) + std::size(kObserverSlots) * sizeof(void (*)()) == sizeof(sl_observer_ops_t));

constexpr SlotInfo kTopologySlots[] = {
    {"create"},
    {"destroy"},
    {"discover"},
    {"place"},
};
static_assert(2 * sizeof(uint32_t) + std::size(kTopologySlots) * sizeof(void (*)()) == sizeof(sl_topology_ops_t));

}  // namespace

template <>
const SlotInfo* SlotsOf<sl_device_ops_t>() {
  return kDeviceSlots;
}
template <>
const SlotInfo* SlotsOf<sl_transport_ops_t>() {
  return kTransportSlots;
}
template <>
const SlotInfo* SlotsOf<sl_algorithm_ops_t>() {
  return kAlgorithmSlots;
}
template <>
const SlotInfo* SlotsOf<sl_fault_ops_t>() {
  return kFaultSlots;
}
template <>
const SlotInfo* SlotsOf<sl_observer_ops_t>() {
  return kObserverSlots;
}
template <>
const SlotInfo* SlotsOf<sl_topology_ops_t>() {
  return kTopologySlots;
}

}  // namespace sl::conform
