// SPDX-License-Identifier: Apache-2.0
#include "kernel/profile/keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "sdk/options.h"

namespace sl::kernel {
namespace {

constexpr double kDayMs = 86400000;
constexpr double kMiB = 1 << 20;

uint32_t Determinism(const std::string& word) {
  if (word == "run") return SL_DETERMINISM_RUN;
  if (word == "rank") return SL_DETERMINISM_RANK;
  return word == "world_size" ? SL_DETERMINISM_WORLD_SIZE : SL_DETERMINISM_NONE;
}

NetFamily Family(const std::string& word) {
  if (word == "AF_INET") return NetFamily::kIpv4;
  return word == "AF_INET6" ? NetFamily::kIpv6 : NetFamily::kAny;
}

uint64_t Unsigned(const OptionValue& value) { return static_cast<uint64_t>(value.integer); }
uint32_t Short(const OptionValue& value) { return static_cast<uint32_t>(value.integer); }

constexpr Key kKeys[] = {
    {"",
     ChoiceOption("determinism",
                  "least class an algorithm must declare: none; the same bits run to run; on every rank, too; whatever "
                  "the number of ranks, too",
                  "rank", "none,run,rank,world_size"),
     [](Settings& s, const OptionValue& v) { s.determinism = Determinism(v.text); }, false, nullptr},

    {"roles",
     StringOption("device", "provider of sl.device/1 for communicators that name none; auto: what the machine has",
                  "auto"),
     [](Settings& s, const OptionValue& v) { s.roles.device = v.text; }, false, nullptr},
    {"roles",
     StringOption(
         "fault",
         "provider of sl.fault/1, which only one module serves; auto or none. Without effect yet: no policy is asked",
         "auto"),
     [](Settings& s, const OptionValue& v) { s.roles.fault = v.text; }, false, nullptr},

    {"comm",
     IntOption("bootstrap_timeout_ms", "ms", "time for all ranks to arrive when a communicator is made", "120000", 1,
               kDayMs),
     [](Settings& s, const OptionValue& v) { s.comm.bootstrap_timeout_ms = Unsigned(v); }, true, nullptr},
    {"comm",
     IntOption("operation_timeout_ms", "ms", "time for an operation to wait for another rank without any movement",
               "1800000", 1, 30 * kDayMs),
     [](Settings& s, const OptionValue& v) { s.comm.operation_timeout_ms = Unsigned(v); }, true, nullptr},
    {"comm",
     IntOption("report_wait_ms", "ms", "after this long such a wait is logged with whom it is for", "30000", 1, kDayMs),
     [](Settings& s, const OptionValue& v) { s.comm.report_wait_ms = Unsigned(v); }, true, nullptr},
    {"comm",
     StringOption("interface",
                  "network interface over which ranks of several hosts meet, comma-separated prefixes; =name exact, "
                  "^name all but; one host needs none",
                  ""),
     [](Settings& s, const OptionValue& v) { s.comm.interface = v.text; }, true, "NCCL_SOCKET_IFNAME"},
    {"comm",
     ChoiceOption("socket_family", "kind of address over which ranks of several hosts meet", "any",
                  "any,AF_INET,AF_INET6"),
     [](Settings& s, const OptionValue& v) { s.comm.socket_family = Family(v.text); }, true, "NCCL_SOCKET_FAMILY"},
    {"comm",
     IntOption("silence_ms", "ms",
               "a host that is not heard of for so long is lost, with its ranks; a cable may be out for less", "1500",
               100, kDayMs),
     [](Settings& s, const OptionValue& v) { s.comm.silence_ms = Unsigned(v); }, false, nullptr},
    {"comm",
     BoolOption("tls", "encrypt what ranks of several hosts say to each other; operations' data stays as it is",
                "false"),
     [](Settings& s, const OptionValue& v) { s.comm.tls = v.integer != 0; }, false, nullptr},
    {"comm",
     IntOption("reach_mib", "MiB",
               "memory of callers that peers of a GPU's host may have mapped at a time, to load from and store to it "
               "where it lies; freed memory stays taken until they unmap it, within some 20 ms; 0: none",
               "16384", 0, 1 << 24),
     [](Settings& s, const OptionValue& v) { s.comm.reach_mib = Unsigned(v); }, false, nullptr},
    {"comm",
     StringOption("rendezvous",
                  "host and port at which rank 0 gives the others the id, so that every rank may make it by itself; "
                  "who reaches it may join",
                  ""),
     [](Settings& s, const OptionValue& v) { s.comm.rendezvous = v.text; }, true, "NCCL_COMM_ID"},

    {"comm",
     IntOption(
         "direct_ranks", "ranks",
         "so many ranks at a time, 0 to n - 1, n to 2n - 1, …, reach each other's memory by loads and stores, others "
         "through the host; makes a host whose GPUs have no peer access of any, and with host_heap = false several "
         "hosts; 0: all that can",
         "0", 0, 65535),
     [](Settings& s, const OptionValue& v) { s.comm.direct_ranks = Unsigned(v); }, false, nullptr},
    {"comm",
     BoolOption("host_heap",
                "kernels of GPUs of one host that do not all reach each other's memory meet in pinned host memory; "
                "false: plans carry their operations, as between hosts",
                "true"),
     [](Settings& s, const OptionValue& v) { s.comm.host_heap = v.integer != 0; }, false, nullptr},
    {"comm",
     IntOption("relay_bytes", "bytes",
               "pinned host memory that a rank takes for a communicator whose operations plans carry through the host",
               "16777216", 65536, 1024 * kMiB),
     [](Settings& s, const OptionValue& v) { s.comm.relay_bytes = Unsigned(v); }, false, nullptr},
    {"comm",
     IntOption(
         "sm_budget", "SMs",
         "of a GPU, what one operation holds at most; a program may ask for less, not for more, and the least of "
         "all ranks counts. 0: none wherever there is a way without, as between symmetric windows by copy engines; "
         "where there is none, no bound. -1: no bound but the modules' own",
         "-1", -1, 1024),
     [](Settings& s, const OptionValue& v) {
       s.comm.sm_budget = static_cast<uint32_t>(std::max<int64_t>(v.integer, 0));
       s.comm.is_sm_free = v.integer == 0;
     },
     true, nullptr},
    {"comm",
     IntOption("sm_weight", "thousandths",
               "what an SM is worth while an operation holds it, in thousandths of the operation's time; the greatest "
               "of all ranks counts. With 8, an SM more must make it 0.8 % shorter: one of 132 is worth as much to a "
               "program that computes all the while. 0: only time counts",
               "0", 0, 1000),
     [](Settings& s, const OptionValue& v) { s.comm.sm_weight = Short(v); }, true, nullptr},

    {"link", IntOption("chunk_bytes", "bytes", "largest payload of one chunk", "131072", 1024, 16 * kMiB),
     [](Settings& s, const OptionValue& v) { s.link.chunk_bytes = Unsigned(v); }, false, nullptr},
    {"link",
     IntOption("slots", "",
               "chunks in flight on one link in one direction; to another host for each of up to four connections", "8",
               2, 1024),
     [](Settings& s, const OptionValue& v) { s.link.slots = Short(v); }, false, nullptr},
    {"link", IntOption("lanes", "", "links between two ranks", "2", 1, 64),
     [](Settings& s, const OptionValue& v) { s.link.lanes = Short(v); }, false, nullptr},
    {"link",
     IntOption("resend_ms", "ms", "an unacknowledged chunk is looked after when it is this old", "1000", 1, kDayMs),
     [](Settings& s, const OptionValue& v) { s.link.resend_ms = Unsigned(v); }, true, nullptr},
    {"link",
     IntOption("connections", "", "of one link over a network; at least one for each pair of ports is used", "1", 1,
               16),
     [](Settings& s, const OptionValue& v) { s.link.connections = Short(v); }, true, nullptr},

    {"engine", IntOption("spin_us", "us", "how long a progress thread polls before it sleeps", "50", 0, 1000000),
     [](Settings& s, const OptionValue& v) { s.engine.spin_us = Unsigned(v); }, true, nullptr},
    {"engine",
     ChoiceOption("progress", "who drives plans on streams: the stream, or a progress thread", "inline",
                  "inline,thread"),
     [](Settings& s, const OptionValue& v) {
       s.engine.progress = v.text == "thread" ? ProgressMode::kThread : ProgressMode::kInline;
     },
     true, nullptr},

    {"events", BoolOption("observers", "whether records go to observer modules", "true"),
     [](Settings& s, const OptionValue& v) { s.events.observers = v.integer != 0; }, true, nullptr},
    {"events",
     IntOption("ring_records", "records", "capacity of one thread's ring, rounded up to a power of two; full, it drops",
               "4096", 16, 4194304),
     [](Settings& s, const OptionValue& v) { s.events.ring_records = Short(v); }, true, nullptr},
    {"events", IntOption("drain_ms", "ms", "how often rings are emptied while an observer listens", "10", 1, 60000),
     [](Settings& s, const OptionValue& v) { s.events.drain_ms = Unsigned(v); }, true, nullptr},
};

constexpr const char* kReferenceHead =
    R"(<!-- Generated by `starling profile reference`; do not edit. -->
# Profile reference

A profile is a TOML file that begins with `profile_version = 1`. Every key is optional. A value is taken from the first
of: the API call, the environment, the profile, the default. The variable of a key is `STARLING_<SECTION>_<KEY>` in
upper case; of a module's option `STARLING_<MODULE>_<OPTION>`, with `_` for `-`.

`starling profile check NAME|FILE` says what is wrong with a profile (exit code 2), `starling profile show` prints the
effective set with the origin of each value, `starling modules --describe` the options of every module.

## The kernel's keys
)";

constexpr const char* kReferenceTail = R"(
Keys marked "per rank" may differ between the ranks of a communicator; all others must not, and ranks compare them.

## Modules

| key | type | meaning |
|---|---|---|
| `enable` | array of strings | modules to use; without it: every module found that does not wait to be asked for |
| `layers` | array of strings | modules that wrap others; a call passes through the first one first. `STARLING_LAYERS`, comma-separated, replaces it; `*` in it stands for the profile's own |
| `modules.<name>.enabled` | bool | `false` leaves the module out |
| `modules.<name>.module` | string | the module that is meant, where `<name>` is a name of your own: one more instance of it, beside the one of its own name |
| `modules.<name>.version` | string | versions that will do: `">=1.2"`, `"^1.2"` (1.2 or later, below 2), `"=1.2.3"`, `">=1.2, <1.5"` |
| `modules.<name>.path` | string | the file to load, instead of a search |
| `modules.<name>.sha256` | string | the file's SHA-256; another file is refused |
| `modules.<name>.options.<option>` | as declared | an option of the module |

Modules are searched in `STARLING_MODULE_PATH` (colon-separated), else in `starling/` beside `libstarling.so`. A module
file and its folder must belong to root or to the user and must not be writable for others.

Two versions of a module are used side by side when one has a name of its own. Each instance has options of its own, and
what it provides is called `<name>.<provider>`, in rules, in `roles` and in costs:

```
[modules.algo-ring]
version = "<2"

[modules.next]
module = "algo-ring"
version = ">=2"

[[select]]
op = "all_reduce"
min_bytes = 1048576
algorithm = "next.ring"
```

## Selection rules

`[[select]]` rules pin, prefer or forbid algorithms. A rule applies when everything it states holds; the first rule that
pins decides, else the first that prefers, and whatever an applying rule forbids is forbidden.

| key | type | meaning |
|---|---|---|
| `op` | string or array | `all_reduce`, `all_gather`, `reduce_scatter`, `broadcast`, `reduce`, `all_to_all`, `gather`, `scatter`, `send`, `recv` (these two mean both, since both ends must choose alike); without it: all |
| `min_bytes`, `max_bytes` | integer | size of the operation, inclusive |
| `min_ranks`, `max_ranks` | integer | ranks of the communicator, inclusive |
| `min_hosts`, `max_hosts` | integer | hosts it spans, inclusive |
| `min_ranks_per_host`, `max_ranks_per_host` | integer | no host has fewer, no host has more |
| `device` | string | kind of memory and streams: `host` or `cuda`; without it: any |
| `algorithm` | string | the provider that serves it; where it cannot, the cheapest of the others does, and `starling explain` says why |
| `prefer` | string | the provider that serves it wherever another one of the same module would; the cheapest of them still competes with other modules' algorithms |
| `forbid` | array of strings | providers that must not |

## Measured costs

`starling bench --tune FILE` measures a machine and writes `[measured]` into the profile FILE. Where it has a time of any
algorithm that can serve, the least measured time decides, and algorithms that were not measured are passed over; elsewhere
the least estimate decides. Rules come first. `starling explain` shows both and says which decided.

| key | type | meaning |
|---|---|---|
| `version` | integer | form of the section, 1 |
| `machine`, `date`, `starling`, `datatype` | string | what it was measured on, when, with which release and data type; for people |
| `modules` | array of strings | `"name version"` of every module that could have served; with others in use there is a warning |

Each `[[measured.cost]]` is one algorithm's cost of one operation on communicators of one form:

| key | type | meaning |
|---|---|---|
| `op` | string | as in a rule; `send` stands for `recv`, too |
| `algorithm` | string | the provider |
| `ranks` | integer | ranks of the communicator |
| `hosts` | integer | hosts it spans, with equally many ranks each; 1 when left out |
| `device` | string | `host` (when left out) or `cuda` |
| `points` | array of pairs | `[bytes, nanoseconds]` by rising bytes; between two of them time is interpolated linearly, outside nothing is known |
)";

}  // namespace

std::string Key::FullName() const { return *section == '\0' ? option.name : std::string(section) + "." + option.name; }

std::span<const Key> KernelKeys() { return kKeys; }

std::vector<std::string> KeySections() {
  std::vector<std::string> sections;
  for (const Key& key : kKeys) {
    if (*key.section != '\0' && std::find(sections.begin(), sections.end(), key.section) == sections.end()) {
      sections.emplace_back(key.section);
    }
  }
  return sections;
}

std::vector<std::string> KeyNames(std::string_view section) {
  std::vector<std::string> names;
  for (const Key& key : kKeys) {
    if (section == key.section) names.emplace_back(key.option.name);
  }
  return names;
}

std::string KeysReference() {
  std::string page = kReferenceHead;
  page += "\n| key | default | type | variable | meaning |\n|---|---|---|---|---|\n";
  for (const Key& key : kKeys) {
    std::string variable = "`" + VariableName(key.section, key.option.name) + "`";
    if (key.nccl_variable != nullptr) variable += fmt::format(", `{}`", key.nccl_variable);
    page += fmt::format("| `{}` | `{}` | {} | {} | {}{} |\n", key.FullName(),
                        *key.option.default_text == '\0' ? "\"\"" : key.option.default_text, DescribeType(key.option),
                        variable, key.option.doc, key.per_rank ? " (per rank)" : "");
  }
  return page + kReferenceTail;
}

}  // namespace sl::kernel
