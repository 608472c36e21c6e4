// SPDX-License-Identifier: Apache-2.0
#include "kernel/profile/measured_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "kernel/profile/value.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 48;  // of an operation
constexpr uint64_t kMostNs = uint64_t{1} << 42;     // above an hour: interpolating cannot overflow
constexpr uint64_t kMostRanks = 65535;
constexpr size_t kMostPoints = 1024;  // of a curve

// What a curve is found by. Curves are sorted by it, so that equal tables have equal texts.
auto KeyOf(const CostCurve& curve) {
  return std::tie(curve.op, curve.device_kind, curve.hosts, curve.ranks, curve.algorithm);
}

class MeasuredReader {
 public:
  MeasuredReader(Measured* out, Problems* problems) : out_(*out), problems_(*problems) {}

  void Read(const toml::node& node) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      return problems_.Add(node.source(),
                           fmt::format("measured must be a table, written [measured], not {}", TypeName(node)));
    }
    out_.place = problems_.At(table->source());
    uint64_t version = 0;
    for (const auto& [key, value] : *table) {
      const std::string name(key.str());
      if (name == "version") {
        ReadCount("measured.version", value, 0, std::numeric_limits<int64_t>::max(), &version, &problems_);
      } else if (name == "modules") {
        ReadModules(value);
      } else if (name == "cost") {
        ReadCosts(value);
      } else if (std::string* text = TextOf(name); text != nullptr) {
        ReadText("measured." + name, value, text, &problems_);
      } else {
        const std::vector<std::string> known = {"version",  "machine", "date", "starling",
                                                "datatype", "modules", "cost"};
        problems_.Add(key.source(), fmt::format("unknown key measured.{}{}", name, NearestHint(name, known)));
      }
    }
    if (!table->contains("version")) {
      problems_.Add(table->source(),
                    fmt::format("measured has no version; begin it with version = {}", kMeasuredVersion));
    } else if (version != kMeasuredVersion) {
      problems_.Add(
          table->get("version")->source(),
          fmt::format(
              "measured.version is {}, but this build reads version {}; measure again with starling bench --tune",
              version, kMeasuredVersion));
    }
    Sort();
  }

 private:
  std::string* TextOf(const std::string& key) {
    if (key == "machine") return &out_.machine;
    if (key == "date") return &out_.date;
    if (key == "starling") return &out_.starling;
    return key == "datatype" ? &out_.datatype : nullptr;
  }

  void ReadModules(const toml::node& node) {
    const toml::array* array = node.as_array();
    if (array == nullptr) {
      return problems_.Add(node.source(),
                           fmt::format("measured.modules must be an array of strings, not {}", TypeName(node)));
    }
    for (const toml::node& element : *array) {
      ReadText("measured.modules", element, &out_.modules.emplace_back(), &problems_);
    }
  }

  void ReadCosts(const toml::node& node) {
    const toml::array* array = node.as_array();
    if (array == nullptr) {
      return problems_.Add(
          node.source(),
          fmt::format("measured.cost must be an array of tables, written [[measured.cost]], not {}", TypeName(node)));
    }
    for (const toml::node& element : *array) {
      if (element.is_table()) {
        ReadCurve(*element.as_table());
      } else {
        problems_.Add(element.source(), fmt::format("a measured cost must be a table, not {}", TypeName(element)));
      }
    }
  }

  void ReadCurve(const toml::table& table) {
    CostCurve curve;
    curve.place = problems_.At(table.source());
    uint64_t hosts = 1;
    uint64_t ranks = 0;
    for (const auto& [key, value] : table) {
      const std::string name(key.str());
      const std::string full = "measured.cost." + name;
      if (name == "op") {
        ReadOpName(full, value, &curve.op, &problems_);
        if (curve.op == SL_OP_RECV) problems_.Add(value.source(), "a cost of send stands for recv, too; leave it out");
      } else if (name == "device") {
        ReadDeviceKind(full, value, &curve.device_kind, &problems_);
      } else if (name == "hosts") {
        ReadCount(full, value, 1, kMostRanks, &hosts, &problems_);
      } else if (name == "ranks") {
        ReadCount(full, value, 1, kMostRanks, &ranks, &problems_);
      } else if (name == "algorithm") {
        ReadText(full, value, &curve.algorithm, &problems_);
      } else if (name == "points") {
        ReadPoints(value, &curve.points);
      } else {
        const std::vector<std::string> known = {"op", "device", "hosts", "ranks", "algorithm", "points"};
        problems_.Add(key.source(), fmt::format("unknown key {}{}", full, NearestHint(name, known)));
      }
    }
    for (const char* needed : {"op", "ranks", "algorithm", "points"}) {
      if (!table.contains(needed)) problems_.Add(table.source(), fmt::format("this cost has no {}", needed));
    }
    if (ranks % hosts != 0) {
      problems_.Add(table.source(), fmt::format("this cost is of {} ranks on {} hosts, but costs are of hosts with "
                                                "equally many ranks",
                                                ranks, hosts));
    }
    curve.hosts = static_cast<uint32_t>(hosts);
    curve.ranks = static_cast<uint32_t>(ranks);
    out_.costs.push_back(std::move(curve));
    const auto same = [&](const CostCurve& other) { return KeyOf(other) == KeyOf(out_.costs.back()); };
    const auto first = std::find_if(out_.costs.begin(), out_.costs.end(), same);
    if (first + 1 != out_.costs.end()) {
      problems_.Add(table.source(), fmt::format("this cost was stated at {} already", first->place));
    }
  }

  void ReadPoints(const toml::node& node, std::vector<CostPoint>* out) {
    const toml::array* array = node.as_array();
    if (array == nullptr || array->empty() || array->size() > kMostPoints) {
      return problems_.Add(node.source(), fmt::format("measured.cost.points must be an array of 1 to {} pairs [bytes, "
                                                      "nanoseconds]",
                                                      kMostPoints));
    }
    for (const toml::node& element : *array) {
      const toml::array* pair = element.as_array();
      if (pair == nullptr || pair->size() != 2) {
        problems_.Add(element.source(), "a measured point must be a pair [bytes, nanoseconds]");
        continue;
      }
      CostPoint point;
      ReadCount("measured.cost.points bytes", *pair->get(0), 0, kMostBytes, &point.bytes, &problems_);
      ReadCount("measured.cost.points nanoseconds", *pair->get(1), 1, kMostNs, &point.time_ns, &problems_);
      if (!out->empty() && point.bytes <= out->back().bytes) {
        problems_.Add(element.source(), fmt::format("{} bytes come after {}; order points by bytes, each size once",
                                                    point.bytes, out->back().bytes));
      }
      out->push_back(point);
    }
  }

  void Sort() {
    std::sort(out_.costs.begin(), out_.costs.end(),
              [](const CostCurve& a, const CostCurve& b) { return KeyOf(a) < KeyOf(b); });
  }

  Measured& out_;
  Problems& problems_;
};

}  // namespace

void ReadMeasured(const toml::node& node, Measured* out, Problems* problems) {
  MeasuredReader(out, problems).Read(node);
}

}  // namespace sl::kernel
