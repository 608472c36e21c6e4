// SPDX-License-Identifier: Apache-2.0
//
// The table itself. A test holds it sorted, and docs/nccl-variables.md equal to it. Notes are clauses: lower case, no
// full stop.
#include <iterator>

#include "modules/frontend-nccl/variables.h"

namespace sl::frontend_nccl {
namespace {

constexpr Handling kHonoured = Handling::kHonoured;
constexpr Handling kIgnored = Handling::kIgnored;
constexpr Handling kWarned = Handling::kWarned;
constexpr ValueType kInteger = ValueType::kInteger;
constexpr ValueType kText = ValueType::kText;

constexpr const char* kSelection = "algorithms are chosen by estimate; pin or forbid one in the profile's [[select]]";
constexpr const char* kVerbs = "there is no verbs transport in this release";
constexpr const char* kGpu = "tunes NCCL's own ways on GPUs; docs/gpu.md says how they are used here";
constexpr const char* kNoPlugin = "NCCL plug-ins are not loaded; modules are chosen by the profile";
constexpr const char* kNoProtocols = "there are no LL, LL128 or Simple protocols to choose from or to size";
constexpr const char* kStored = "checked and kept with the communicator; without effect";

constexpr Variable kTable[] = {
    {"NCCL_ALGO", kWarned, kText, "", kSelection},
    {"NCCL_ALLOC_P2P_NET_LL_BUFFERS", kIgnored, kInteger, "0", kNoProtocols},
    {"NCCL_BUFFSIZE", kIgnored, kInteger, "", "the profile's link settings size the buffers"},
    {"NCCL_CGA_CLUSTER_SIZE", kHonoured, kInteger, "", kStored},
    {"NCCL_CHECKS_DISABLE", kIgnored, kInteger, "0", "arguments are always checked; it costs nanoseconds"},
    {"NCCL_CHECK_MODE", kIgnored, kText, "", "arguments are always checked, calls of all ranks compared"},
    {"NCCL_CHECK_POINTERS", kIgnored, kInteger, "0", "null pointers are always found, others never looked at"},
    {"NCCL_COLLNET_ENABLE", kHonoured, kInteger, "", kStored},
    {"NCCL_COLLNET_NODE_THRESHOLD", kIgnored, kInteger, "2", "there is no reduction inside the network"},
    {"NCCL_COMM_BLOCKING", kHonoured, kInteger, "", "0 or 1 overrides config.blocking of every communicator"},
    {"NCCL_COMM_ID", kHonoured, kText, "", "sets comm.rendezvous: host:port of rank 0"},
    {"NCCL_COMM_SHRINK_SHARE_RESOURCES", kHonoured, kInteger, "", kStored},
    {"NCCL_COMM_SPLIT_SHARE_RESOURCES", kHonoured, kInteger, "", kStored},
    {"NCCL_CONF_FILE", kHonoured, kText, "~/.nccl.conf",
     "file of NAME=value lines, behind the environment; /etc/nccl.conf is read behind it"},
    {"NCCL_CROSS_NIC", kIgnored, kInteger, "2", kVerbs},
    {"NCCL_CTA_POLICY", kHonoured, kInteger, "",
     "1 (EFFICIENCY): on GPUs an SM more must make an operation 0.8 % shorter; 2 (ZERO): none where there is a way "
     "without"},
    {"NCCL_CUMEM_ENABLE", kIgnored, kInteger, "", kGpu},
    {"NCCL_CUMEM_HOST_ENABLE", kIgnored, kInteger, "", kGpu},
    {"NCCL_DEBUG", kHonoured, kText, "", "level of the log: VERSION, WARN, INFO or TRACE; STARLING_LOG wins over it"},
    {"NCCL_DEBUG_FILE", kHonoured, kText, "", "file of the log; %h is the host's name, %p the process id"},
    {"NCCL_DEBUG_SUBSYS", kIgnored, kText, "", "the log has levels only"},
    {"NCCL_DEBUG_TIMESTAMP_FORMAT", kIgnored, kText, "", "every line of the log carries the time in one form"},
    {"NCCL_DEBUG_TIMESTAMP_LEVELS", kIgnored, kText, "", "every line of the log carries the time"},
    {"NCCL_DMABUF_ENABLE", kIgnored, kInteger, "1", kVerbs},
    {"NCCL_ENV_PLUGIN", kWarned, kText, "", kNoPlugin},
    {"NCCL_GRAPH_MIXING_SUPPORT", kIgnored, kInteger, "", kGpu},
    {"NCCL_GRAPH_REGISTER", kIgnored, kInteger, "1", kGpu},
    {"NCCL_GRAPH_STREAM_ORDERING", kHonoured, kInteger, "", kStored},
    {"NCCL_HOSTID", kHonoured, kText, "", "ranks with equal texts are taken to be on one host"},
    {"NCCL_IB_ADAPTIVE_ROUTING", kIgnored, kInteger, "", kVerbs},
    {"NCCL_IB_ADDR_FAMILY", kIgnored, kText, "", kVerbs},
    {"NCCL_IB_ADDR_RANGE", kIgnored, kText, "", kVerbs},
    {"NCCL_IB_AR_THRESHOLD", kIgnored, kInteger, "8192", kVerbs},
    {"NCCL_IB_CUDA_SUPPORT", kIgnored, kInteger, "", kVerbs},
    {"NCCL_IB_DISABLE", kIgnored, kInteger, "0", kVerbs},
    {"NCCL_IB_ECE_ENABLE", kIgnored, kInteger, "1", kVerbs},
    {"NCCL_IB_FIFO_TC", kIgnored, kInteger, "-1", kVerbs},
    {"NCCL_IB_GID_INDEX", kIgnored, kInteger, "-1", kVerbs},
    {"NCCL_IB_HCA", kWarned, kText, "", kVerbs},
    {"NCCL_IB_MERGE_NICS", kIgnored, kInteger, "1", kVerbs},
    {"NCCL_IB_OOO_RQ", kIgnored, kInteger, "0", kVerbs},
    {"NCCL_IB_PCI_RELAXED_ORDERING", kIgnored, kInteger, "2", kVerbs},
    {"NCCL_IB_QPS_PER_CONNECTION", kIgnored, kInteger, "1", kVerbs},
    {"NCCL_IB_RETRY_CNT", kIgnored, kInteger, "7", kVerbs},
    {"NCCL_IB_RETURN_ASYNC_EVENTS", kIgnored, kInteger, "1", kVerbs},
    {"NCCL_IB_ROCE_VERSION_NUM", kIgnored, kInteger, "2", kVerbs},
    {"NCCL_IB_SL", kIgnored, kInteger, "-1", kVerbs},
    {"NCCL_IB_SPLIT_DATA_ON_QPS", kIgnored, kInteger, "0", kVerbs},
    {"NCCL_IB_TC", kIgnored, kInteger, "-1", kVerbs},
    {"NCCL_IB_TIMEOUT", kIgnored, kInteger, "20", kVerbs},
    {"NCCL_IGNORE_COLLNET_MISMATCH", kIgnored, kInteger, "0", "there is no reduction inside the network"},
    {"NCCL_IGNORE_CPU_AFFINITY", kIgnored, kInteger, "0", "the caller's affinity is never changed"},
    {"NCCL_IGNORE_NET_MISMATCH", kIgnored, kInteger, "1", "ranks compare their whole profile instead"},
    {"NCCL_IPC_USE_ABSTRACT_SOCKET", kIgnored, kInteger, "1", "no socket in the file system is made"},
    {"NCCL_LAUNCH_MODE", kIgnored, kText, "", "groups are issued together in every case"},
    {"NCCL_LAUNCH_ORDER_IMPLICIT", kHonoured, kInteger, "", kStored},
    {"NCCL_LAUNCH_RACE_FATAL", kIgnored, kInteger, "1", kGpu},
    {"NCCL_LEGACY_CUDA_REGISTER", kIgnored, kInteger, "0", kGpu},
    {"NCCL_LL_THRESHOLD", kIgnored, kInteger, "", kNoProtocols},
    {"NCCL_LOCAL_REGISTER", kIgnored, kInteger, "1",
     "ncclCommRegister checks and remembers buffers in every case, and operations are as quick without; only puts and "
     "collectives without SMs need something: windows"},
    {"NCCL_MAX_CTAS", kHonoured, kInteger, "",
     "SMs of a GPU that an operation holds at most; comm.sm_budget of the profile may allow fewer"},
    {"NCCL_MAX_NCHANNELS", kIgnored, kInteger, "", "the profile's lanes play the part of channels"},
    {"NCCL_MEM_SYNC_DOMAIN", kIgnored, kInteger, "1", kGpu},
    {"NCCL_MIN_CTAS", kHonoured, kInteger, "", "SMs of a GPU that a collective holds at least, where it can use them"},
    {"NCCL_MIN_NCHANNELS", kIgnored, kInteger, "", "the profile's lanes play the part of channels"},
    {"NCCL_MNNVL_CLIQUE_ID", kIgnored, kInteger, "-1", kGpu},
    {"NCCL_MNNVL_ENABLE", kIgnored, kInteger, "2", kGpu},
    {"NCCL_MNNVL_UUID", kIgnored, kInteger, "-1", kGpu},
    {"NCCL_MULTI_RANK_GPU_ENABLE", kHonoured, kInteger, "0", "1 lets ncclCommInitAll name a device twice"},
    {"NCCL_NCHANNELS_PER_NET_PEER", kHonoured, kInteger, "", kStored},
    {"NCCL_NET", kHonoured, kText, "", kStored},
    {"NCCL_NETDEVS_POLICY", kIgnored, kText, "", kVerbs},
    {"NCCL_NET_GDR_C2C", kIgnored, kInteger, "1", kVerbs},
    {"NCCL_NET_GDR_LEVEL", kIgnored, kText, "", kVerbs},
    {"NCCL_NET_GDR_READ", kIgnored, kInteger, "", kVerbs},
    {"NCCL_NET_MERGE_LEVEL", kIgnored, kText, "", kVerbs},
    {"NCCL_NET_MERGE_POLICY", kIgnored, kText, "", kVerbs},
    {"NCCL_NET_PLUGIN", kWarned, kText, "", kNoPlugin},
    {"NCCL_NET_SHARED_BUFFERS", kIgnored, kInteger, "", kVerbs},
    {"NCCL_NET_SHARED_COMMS", kIgnored, kInteger, "1", kVerbs},
    {"NCCL_NSOCKS_PERTHREAD", kIgnored, kInteger, "", "the profile's link.connections counts the streams of a link"},
    {"NCCL_NTHREADS", kIgnored, kInteger, "", kGpu},
    {"NCCL_NUM_RMA_CTX", kHonoured, kInteger, "", kStored},
    {"NCCL_NVB_DISABLE", kIgnored, kInteger, "0", kGpu},
    {"NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE", kHonoured, kInteger, "", kStored},
    {"NCCL_NVLS_ENABLE", kIgnored, kInteger, "2", "multicast is not used"},
    {"NCCL_NVLS_NCHANNELS", kHonoured, kInteger, "", kStored},
    {"NCCL_OOB_NET_ENABLE", kIgnored, kInteger, "0", "ranks always meet over sockets"},
    {"NCCL_OOB_NET_IFNAME", kIgnored, kText, "", "ranks always meet over sockets; use NCCL_SOCKET_IFNAME"},
    {"NCCL_P2P_DIRECT_DISABLE", kIgnored, kInteger, "0", kGpu},
    {"NCCL_P2P_DISABLE", kIgnored, kInteger, "0", kGpu},
    {"NCCL_P2P_LEVEL", kIgnored, kText, "", kGpu},
    {"NCCL_P2P_LL_THRESHOLD", kIgnored, kInteger, "16384", kNoProtocols},
    {"NCCL_P2P_MAX_PEERS", kHonoured, kInteger, "", kStored},
    {"NCCL_P2P_NET_CHUNKSIZE", kIgnored, kInteger, "", "the profile's link settings size the chunks"},
    {"NCCL_P2P_PXN_LEVEL", kIgnored, kInteger, "2", kVerbs},
    {"NCCL_PROFILER_PLUGIN", kWarned, kText, "", kNoPlugin},
    {"NCCL_PROTO", kWarned, kText, "", kNoProtocols},
    {"NCCL_PXN_C2C", kIgnored, kInteger, "1", kVerbs},
    {"NCCL_PXN_DISABLE", kIgnored, kInteger, "0", kVerbs},
    {"NCCL_RAS_ADDR", kIgnored, kText, "", "there is no RAS service; a stuck rank is named in the log and the error"},
    {"NCCL_RAS_ENABLE", kIgnored, kInteger, "1", "there is no RAS service; a stuck rank is named without it"},
    {"NCCL_RAS_TIMEOUT_FACTOR", kIgnored, kInteger, "1", "there is no RAS service; the profile holds the time limits"},
    {"NCCL_RMA_EAGER_INIT", kHonoured, kInteger, "", "signals need no window in either case"},
    {"NCCL_RUNTIME_CONNECT", kIgnored, kInteger, "1", "ranks always connect at their first use of each other"},
    {"NCCL_SET_STACK_SIZE", kIgnored, kInteger, "0", kGpu},
    {"NCCL_SET_THREAD_NAME", kIgnored, kInteger, "0", "threads are always named"},
    {"NCCL_SHM_DISABLE", kWarned, kInteger, "0", "leave transport-shm out of the profile's modules instead"},
    {"NCCL_SINGLE_RING_THRESHOLD", kIgnored, kInteger, "", kSelection},
    {"NCCL_SOCKET_FAMILY", kHonoured, kText, "", "sets comm.socket_family: AF_INET or AF_INET6"},
    {"NCCL_SOCKET_IFNAME", kHonoured, kText, "",
     "sets comm.interface, over which ranks of several hosts meet; one host needs none"},
    {"NCCL_SOCKET_MAGIC", kIgnored, kText, "", "every unique id holds a random secret instead"},
    {"NCCL_SOCKET_NTHREADS", kIgnored, kInteger, "", "who waits moves the bytes; there are no threads for it"},
    {"NCCL_SOCKET_POLL_TIMEOUT_MSEC", kIgnored, kInteger, "0", "waits end at the profile's time limits"},
    {"NCCL_SOCKET_RETRY_CNT", kIgnored, kInteger, "34", "waits end at the profile's time limits"},
    {"NCCL_SOCKET_RETRY_SLEEP_MSEC", kIgnored, kInteger, "100", "waits end at the profile's time limits"},
    {"NCCL_SYM_GIN_KERNELS_ENABLE", kIgnored, kInteger, "1", kGpu},
    {"NCCL_TOPO_DUMP_FILE", kWarned, kText, "", "no topology is discovered yet"},
    {"NCCL_TOPO_FILE", kWarned, kText, "", "the machine is looked at; no description is read"},
    {"NCCL_TREE_THRESHOLD", kIgnored, kInteger, "", kSelection},
    {"NCCL_TUNER_PLUGIN", kWarned, kText, "", kNoPlugin},
    {"NCCL_UID_STAGGER_RATE", kIgnored, kInteger, "7000", "ranks meet in a tree, which needs no staggering"},
    {"NCCL_UID_STAGGER_THRESHOLD", kIgnored, kInteger, "256", "ranks meet in a tree, which needs no staggering"},
    {"NCCL_WIN_ENABLE", kIgnored, kInteger, "1", "windows are made where the device can export memory"},
};

}  // namespace

const Variable* Variables(size_t* out_count) {
  *out_count = std::size(kTable);
  return kTable;
}

}  // namespace sl::frontend_nccl
