// SPDX-License-Identifier: Apache-2.0
//
// The rules: one line for each statement of an ABI header that is asserted at run time. `words` stand in the header,
// word for word (a test looks), so that a rule and the promise it guards cannot drift apart.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sl_base.h"

namespace sl::checker {

// Who broke it, and what a refused call returns.
enum class Fault : uint8_t {
  kArgument,  // the caller, by an argument: SL_ERR_INVALID
  kState,     // the caller, by the moment: SL_ERR_STATE
  kModule,    // the module below: SL_ERR_INTERNAL
};

struct Rule {
  const char* name;
  Fault fault;
  const char* header;
  const char* words;
};

// clang-format off
#define SL_CHECKER_RULES(RULE)                                                                                         \
  /* Every interface. */                                                                                               \
  RULE(Overlap, "overlap", kState, "sl_base.h", "calls on one object do not overlap")                                  \
  RULE(UsedAfterEnd, "used-after-end", kState, "sl_base.h", "whoever created one destroys it")                         \
  RULE(EndedTwice, "ended-twice", kState, "sl_base.h", "whoever created one destroys it")                              \
  RULE(Foreign, "foreign", kArgument, "sl_base.h", "with the table that created it")                                   \
  RULE(LeftBehind, "left-behind", kState, "sl_base.h", "whoever created one destroys it")                              \
  RULE(StructSize, "struct-size", kArgument, "sl_base.h", "begin with `struct_size`, set by whoever allocates the struct") \
  RULE(OutNull, "out-null", kArgument, "sl_base.h", "`out_…` parameters come last")                                    \
  RULE(OutWritten, "out-written", kModule, "sl_base.h", "are written only on SL_OK")                                   \
  RULE(NoObject, "no-object", kModule, "sl_base.h", "are written only on SL_OK")                                       \
  RULE(StatusPositive, "status-positive", kModule, "sl_base.h", "an int32_t status: SL_OK or negative")                \
  RULE(TextOpen, "text-open", kModule, "sl_base.h", "UTF-8, NUL-terminated")                                           \
  RULE(TypeRange, "type-range", kArgument, "sl_base.h", "an argument is out of its documented range")                  \
  RULE(DataBlocks, "data-blocks", kModule, "sl_base.h", "never blocks, allocates, locks or logs")                      \
  RULE(AfterQuiesce, "after-quiesce", kState, "sl_module.h", "Refuses new work")                                       \
  /* Transports. */                                                                                                    \
  RULE(PortRange, "port-range", kArgument, "sl_transport.h", "local port index")                                       \
  RULE(PeerRange, "peer-range", kArgument, "sl_transport.h", "of the communicator; names this end in messages")        \
  RULE(SignalCount, "signal-count", kArgument, "sl_transport.h", "each end's signal words, at most 64")                \
  RULE(SignalRange, "signal-range", kArgument, "sl_transport.h", "peer's signal word to store, or SL_NO_SIGNAL")       \
  RULE(SignalShrinks, "signal-shrinks", kArgument, "sl_transport.h", "A signal word may be stored the same value again, never a smaller one")  \
  RULE(WindowOverrun, "window-overrun", kArgument, "sl_transport.h", "bytes that the other end may write")             \
  RULE(RegionOverrun, "region-overrun", kArgument, "sl_transport.h", "of the source")                                  \
  RULE(RegionBorrowed, "region-borrowed", kState, "sl_transport.h", "borrows the source until its completion")         \
  RULE(KeyLength, "key-length", kModule, "sl_transport.h", "uint32_t max_key_bytes;")                                  \
  RULE(CompletedTwice, "completed-twice", kModule, "sl_transport.h", "the source may be reused")                       \
  RULE(CompletedAfterRetire, "completed-after-retire", kModule, "sl_transport.h", "frees `connection` and its completions")          \
  RULE(CompletionUnasked, "completion-unasked", kModule, "sl_transport.h", "0: no completion wanted")                  \
  RULE(CompletionFacts, "completion-facts", kModule, "sl_transport.h", "/* SL_COMPLETION_… */")                        \
  RULE(PollOverrun, "poll-overrun", kModule, "sl_transport.h", "Takes up to `capacity` completions")                  \
  RULE(StateReturns, "state-returns", kModule, "sl_transport.h", "an error; nothing more will be delivered")           \
  RULE(WindowFacts, "window-facts", kModule, "sl_transport.h", "A connection seen from one end.")                      \
  RULE(AcceptFacts, "accept-facts", kModule, "sl_transport.h", "with what it said in connect")                         \
  RULE(WaitFacts, "wait-facts", kModule, "sl_transport.h", "How to sleep until something happens.")                    \
  /* Devices. */                                                                                                       \
  RULE(DeviceLeft, "device-left", kState, "sl_device.h", "everything made from it must be gone")                       \
  RULE(DeviceFacts, "device-facts", kModule, "sl_device.h", "of one launch, at least 4,096")                           \
  RULE(ArgumentLimit, "argument-limit", kArgument, "sl_device.h", "of one launch, at least 4,096")                     \
  RULE(KernelRange, "kernel-range", kArgument, "sl_device.h", "index into the image")                                  \
  RULE(FrameLimit, "frame-limit", kArgument, "sl_device.h", "at most 1,024")                                           \
  RULE(CallbackCalls, "callback-calls", kState, "sl_device.h", "must not call back into the device")                   \
  RULE(WordAligned, "word-aligned", kArgument, "sl_device.h", "8-byte aligned memory of SL_MEMORY_HOST")       \
  RULE(CopyOverlap, "copy-overlap", kArgument, "sl_device.h", "copies; ranges do not overlap")                         \
  RULE(ReleaseUnknown, "release-unknown", kArgument, "sl_device.h", "Frees what allocate() made")                      \
  RULE(MemoryAligned, "memory-aligned", kModule, "sl_device.h", "aligned to at least 4,096 when exportable, else 64")  \
  RULE(MemoryZeroed, "memory-zeroed", kModule, "sl_device.h", "Memory, zeroed")                                        \
  RULE(CaptureFacts, "capture-facts", kModule, "sl_device.h", "1 capturing, with the capture's id; 0 none")            \
  RULE(ReduceConstant, "reduce-constant", kModule, "sl_device.h", "Constant while the device is open.")                \
  RULE(ReduceSources, "reduce-sources", kArgument, "sl_device.h", "n_srcs >= 1")                                       \
  /* Algorithms. */                                                                                                    \
  RULE(DemandDiffers, "demand-differs", kModule, "sl_algorithm.h", "needs from the symmetric heap; equal on all ranks") \
  RULE(EstimateImpure, "estimate-impure", kModule, "sl_algorithm.h", "Cost of an operation: pure")                     \
  RULE(EstimateLooks, "estimate-looks", kModule, "sl_algorithm.h", "pointers in `op` are not looked at")               \
  RULE(EstimateReason, "estimate-reason", kModule, "sl_algorithm.h", "with out_estimate->reason filled all the same")  \
  RULE(EstimateFacts, "estimate-facts", kModule, "sl_algorithm.h", "How the result depends on order")                  \
  RULE(PlanFrame, "plan-frame", kModule, "sl_algorithm.h", "Says the plan's frame; once, first.")                      \
  RULE(PlanLane, "plan-lane", kModule, "sl_algorithm.h", "Begins the next lane; steps are added to it.")               \
  RULE(LaunchRoom, "launch-room", kArgument, "sl_algorithm.h", "4,096, 16-byte aligned")                               \
  RULE(LaunchFacts, "launch-facts", kModule, "sl_algorithm.h", "args stay in `args`")                                  \
  RULE(CopyFacts, "copy-facts", kModule, "sl_algorithm.h", "One of the two ranks is the one that copies")              \
  RULE(PartFacts, "part-facts", kModule, "sl_algorithm.h", "The parts are operations of the same communicator")        \
  /* Fault policies. */                                                                                                \
  RULE(ConnectionsDiffer, "connections-differ", kArgument, "sl_fault.h", "The policy of one link with `connections` connections") \
  RULE(WeightsZero, "weights-zero", kModule, "sl_fault.h", "never all zero while one connection has no fault")         \
  RULE(Undetermined, "undetermined", kModule, "sl_fault.h", "Deterministic in its inputs and the policy's own past.")  \
  RULE(ProbeRange, "probe-range", kModule, "sl_fault.h", "connections 0…31 to probe now")                              \
  /* Observers. */                                                                                                     \
  RULE(RecordUnwanted, "record-unwanted", kArgument, "sl_observer.h", "says which kinds it wants, bit (1 << kind)")    \
  RULE(RecordOrder, "record-order", kArgument, "sl_observer.h", "oldest first")                                        \
  RULE(DroppedShrinks, "dropped-shrinks", kArgument, "sl_observer.h", "records this ring has lost so far")             \
  RULE(ConsumeThread, "consume-thread", kState, "sl_observer.h", "Called by one thread of the kernel")                 \
  RULE(RecordChanged, "record-changed", kModule, "sl_observer.h", "borrowed during the call")                          \
  /* Topologies. */                                                                                                    \
  RULE(NodeFacts, "node-facts", kModule, "sl_topology.h", "unique; equal names from two providers are one node")       \
  RULE(NodeParent, "node-parent", kModule, "sl_topology.h", "containing node; \"\" for the root")                      \
  RULE(EdgeEnds, "edge-ends", kModule, "sl_topology.h", "reports the nodes and links it found")                        \
  RULE(PlacementFacts, "placement-facts", kModule, "sl_topology.h", "Where one lane of one device goes.")
// clang-format on

#define SL_CHECKER_ID(id, name, fault, header, words) k##id,
enum class RuleId : uint32_t { SL_CHECKER_RULES(SL_CHECKER_ID) kCount };
#undef SL_CHECKER_ID

#define SL_CHECKER_LINE(id, name, fault, header, words) {name, Fault::fault, header, words},
constexpr Rule kRules[] = {SL_CHECKER_RULES(SL_CHECKER_LINE)};
#undef SL_CHECKER_LINE

constexpr size_t kRuleCount = static_cast<size_t>(RuleId::kCount);
constexpr const Rule& RuleOf(RuleId id) { return kRules[static_cast<size_t>(id)]; }

// What a call that broke the rule returns when it is refused.
constexpr sl_status_t RefusalOf(RuleId id) {
  switch (RuleOf(id).fault) {
    case Fault::kArgument:
      return SL_ERR_INVALID;
    case Fault::kState:
      return SL_ERR_STATE;
    default:
      return SL_ERR_INTERNAL;
  }
}

}  // namespace sl::checker
