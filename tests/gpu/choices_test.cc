// SPDX-License-Identifier: Apache-2.0
//
// Which algorithm serves a collective on GPUs, and on how many SMs, for every point of a grid: choices.txt holds what
// is expected. Selection is a pure function of the operation, the communicator's shape and the profile, so the modules'
// estimates and the kernel's selector are asked as on GPUs, without any. Eager calls and captured ones are chosen for
// alike, and so are registered buffers and plain ones.
//
// After a wanted change of choices: SL_CHOICES_OUT=tests/gpu/choices.txt build/tests/gpu.choices_test, and read the
// difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernel/loader/catalog.h"
#include "kernel/loader/loader.h"
#include "kernel/plan/select.h"
#include "kernel/plan/signature.h"
#include "kernel/profile/profile.h"
#include "sdk/datatype.h"
#include "sl_device.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kMostBytes = 1 << 30;

// The part of a device that an algorithm asks for when it is made.
sl_status_t LoadImage(sl_device_t*, const sl_image_desc_t*, sl_image_t** out) {
  static int image;
  *out = reinterpret_cast<sl_image_t*>(&image);
  return SL_OK;
}
sl_status_t UnloadImage(sl_device_t*, sl_image_t*) { return SL_OK; }
sl_status_t AddressesOf(sl_reach_t*, const void*, uint64_t, uint64_t, uint64_t*) { return SL_ERR_UNSUPPORTED; }
constexpr sl_reach_ops_t kReachOps = {sizeof(sl_reach_ops_t), 0, AddressesOf};

// The communicator of which choices are looked at.
struct Form {
  std::string profile = {};  // of configs/, or ""
  uint32_t ranks = 2;
  bool on_host = false;  // the heap lies in host memory, and peers reach nothing of callers
  uint32_t most_sms = 0;
  uint32_t weight = 0;
  uint32_t free = 0;

  std::string Text() const {
    std::string text = std::to_string(ranks) + " ranks";
    if (!profile.empty()) text += ", " + profile;
    if (on_host) text += ", heap in host memory";
    if (most_sms != 0) text += ", at most " + std::to_string(most_sms) + " SMs";
    if (weight != 0) text += ", an SM worth " + std::to_string(weight) + " thousandths";
    if (free != 0) text += ", no SMs wanted";
    return text;
  }
};

// The algorithms of a communicator of that form, and their selector.
class Chooser {
 public:
  explicit Chooser(const Form& form) {
    device_ops_.struct_size = sizeof(device_ops_);
    device_ops_.image_load = LoadImage;
    device_ops_.image_unload = UnloadImage;
    for (uint32_t i = 0; i < form.ranks; ++i) hosts_.push_back("here");
    shape_.struct_size = sizeof(shape_);
    shape_.size = shape_.local_size = shape_.domain_size = form.ranks;
    shape_.device_kind = SL_DEVICE_CUDA;
    shape_.processors = 132;
    shape_.link_chunk_bytes = 131072;
    shape_.lanes = 2;
    shape_.link_slots = 8;
    shape_.host_of = hosts_.data();
    shape_.heap_on_host = form.on_host ? 1 : 0;
    shape_.processors_max = form.most_sms;
    shape_.processor_weight = form.weight;
    shape_.processor_free = form.free;
    std::string text = "profile_version = 1\n";
    if (!form.profile.empty())
      text = TextOf(std::string(std::getenv("SL_TEST_SOURCE_DIR")) + "/configs/" + form.profile + ".toml");
    const std::string first = "profile_version = 1\n";
    text.insert(text.find(first) + first.size(),
                "enable = [\"device-host\", \"algo-symmetric\", \"algo-copy\", \"algo-sequence\"]\n");
    Result<Profile> profile = Profile::Parse(text, form.profile + ".toml");
    if (!profile.ok()) throw std::runtime_error(profile.status().message());
    profile_ = std::make_unique<Profile>(profile.Take());
    Result<std::unique_ptr<Loader>> loader = Loader::Open(*profile_);
    if (!loader.ok()) throw std::runtime_error(loader.status().message());
    loader_ = loader.Take();
    MakeAlgorithms(form.on_host);
  }
  ~Chooser() {
    for (const Candidate& candidate : candidates_) candidate.ops->destroy(candidate.algorithm);
  }

  std::string Of(const sl_op_t& op) {
    Result<const Choice*> choice = selector_->Select(op);
    if (!choice.ok()) return "nobody";
    return NameOf(*choice.value());
  }

 private:
  static std::string TextOf(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  void MakeAlgorithms(bool on_host) {
    for (const Provider& provider : loader_->Providers(SL_ALGORITHM_ID)) {
      const auto* ops = static_cast<const sl_algorithm_ops_t*>(provider.ops);
      sl_demand_t demand{sizeof(demand), 0, 0};
      if (ops->demand(provider.instance, &shape_, &demand) != SL_OK) demand.symmetric_bytes = 0;
      sl_algorithm_env_t env{};
      env.struct_size = sizeof(env);
      env.shape = &shape_;
      env.device_ops = &device_ops_;
      env.device = reinterpret_cast<sl_device_t*>(&device_);
      if (demand.symmetric_bytes != 0) env.symmetric = {&slice_, 4096, demand.symmetric_bytes};
      env.control = &control_;
      if (!on_host) env.reach_ops = &kReachOps;
      if (!on_host) env.reach = reinterpret_cast<sl_reach_t*>(&device_);
      sl_algorithm_t* algorithm = nullptr;
      if (ops->create(provider.instance, &env, &algorithm) != SL_OK) continue;
      candidates_.push_back({provider.name, ops, algorithm, provider.revision, provider.module->name()});
    }
    SelectSettings settings;
    settings.rules = profile_->select();
    settings.measured = &profile_->measured();
    settings.determinism = profile_->settings().determinism;
    settings.runs_plans = false;
    settings.runs_copies = !on_host;
    settings.runs_sequences = true;
    selector_ = std::make_unique<Selector>(candidates_, settings, &shape_);
  }

  std::string NameOf(const Choice& choice) {
    if (choice.run == SL_RUN_COPIES) return choice.name;
    std::string text = Short(choice.name) + " " + std::to_string(choice.estimate.processors);
    if (choice.run != SL_RUN_SEQUENCE) return text;
    text = std::string(choice.name) + " (";
    for (const PartChoice& part : choice.parts) {
      text += (&part == choice.parts.data() ? "" : ", ") + NameOf(*part.choice);
    }
    return text + ")";
  }

  static std::string Short(const std::string& name) {
    const std::string prefix = "symmetric_";
    return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  }

  sl_device_ops_t device_ops_{};
  int device_ = 0;
  uint8_t slice_ = 0;
  sl_control_t control_{};
  std::vector<const char*> hosts_;
  sl_comm_shape_t shape_{};
  std::unique_ptr<Profile> profile_;
  std::unique_ptr<Loader> loader_;
  std::vector<Candidate> candidates_;
  std::unique_ptr<Selector> selector_;
};

bool IsRooted(sl_op_kind_t kind) {
  return kind == SL_OP_BROADCAST || kind == SL_OP_REDUCE || kind == SL_OP_GATHER || kind == SL_OP_SCATTER;
}

// What is asked for at all sizes.
struct Series {
  sl_op_kind_t kind;
  sl_reduction_t reduction;
  uint64_t odd;  // elements that a rank has more than a power of two

  std::string Text() const {
    std::string text = OpKindName(kind);
    if (reduction == SL_PREMUL_SUM) text += " premultiplied";
    if (odd != 0) text += " + " + std::to_string(odd);
    return text;
  }
};

// Which buffers lie in symmetric windows.
struct Windows {
  const char* name;
  uint32_t symmetric;
};
std::vector<Windows> WindowsOf(sl_op_kind_t kind) {
  if (kind == SL_OP_SEND) return {{"plain", 0}};
  return {{"plain", 0},
          {"from windows", SL_OP_SEND_SYMMETRIC},
          {"into windows", SL_OP_RECV_SYMMETRIC},
          {"in windows", SL_OP_SEND_SYMMETRIC | SL_OP_RECV_SYMMETRIC}};
}

std::string SizeText(uint64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return std::to_string(bytes >> 20) + "M";
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return std::to_string(bytes >> 10) + "K";
  return std::to_string(bytes);
}

// "8 …; 64K …; end": from which size on who serves, up to 1 GiB.
std::string RowOf(Chooser& chooser, const Series& series, uint32_t symmetric, sl_datatype_t type, uint32_t ranks) {
  std::string row;
  std::string last;
  for (uint64_t bytes = 8; bytes <= kMostBytes; bytes *= 2) {
    sl_op_t op{};
    op.struct_size = sizeof(op);
    op.kind = series.kind;
    op.datatype = type;
    op.reduction = series.reduction;
    op.root = IsRooted(series.kind) ? 0 : -1;
    op.peer = series.kind == SL_OP_SEND ? 1 : -1;
    op.symmetric = symmetric;
    op.count = 1;
    const uint64_t of_one = OpBytes(op, ranks);
    op.count = std::max<uint64_t>(bytes / of_one, 1) + series.odd;
    const std::string name = chooser.Of(op);
    if (name != last) row += (row.empty() ? "" : "; ") + SizeText(bytes) + " " + name;
    last = name;
  }
  return row;
}

std::vector<Series> AllSeries() {
  std::vector<Series> all;
  for (sl_op_kind_t kind = SL_OP_ALL_REDUCE; kind <= SL_OP_SEND; ++kind) {
    all.push_back({kind, SL_SUM, 0});
    all.push_back({kind, SL_SUM, 1});
    if (HasReduction(kind)) all.push_back({kind, SL_PREMUL_SUM, 0});
  }
  return all;
}

// The data types and windows of a series that are served alike.
struct Alike {
  std::string row;
  std::map<std::string, std::string> types;  // by windows
};

std::string TextOf(const Alike& alike, size_t windows) {
  constexpr char kAllTypes[] = " int8 bfloat16 float32 float64";
  const bool same = std::all_of(alike.types.begin(), alike.types.end(),
                                [&](const auto& one) { return one.second == alike.types.begin()->second; });
  std::string text;
  if (same && alike.types.size() == windows) {
    const std::string& types = alike.types.begin()->second;
    return types == kAllTypes ? "" : "," + types;
  }
  for (const auto& [window, types] : alike.types) {
    text += ", " + window + (types == kAllTypes ? "" : ":" + types);
  }
  return text;
}

std::string TableOf(const Form& form) {
  Chooser chooser(form);
  std::string table = "# " + form.Text() + "\n";
  for (const Series& series : AllSeries()) {
    std::vector<Alike> all;
    for (const Windows& windows : WindowsOf(series.kind)) {
      for (const sl_datatype_t type : {SL_INT8, SL_BFLOAT16, SL_FLOAT32, SL_FLOAT64}) {
        const std::string row = RowOf(chooser, series, windows.symmetric, type, form.ranks);
        auto place = std::find_if(all.begin(), all.end(), [&](const Alike& one) { return one.row == row; });
        if (place == all.end()) place = all.insert(all.end(), {row, {}});
        place->types[windows.name] += std::string(" ") + DatatypeName(type);
      }
    }
    for (const Alike& alike : all) {
      table += series.Text() + TextOf(alike, WindowsOf(series.kind).size()) + ": " + alike.row + "\n";
    }
  }
  return table;
}

std::vector<Form> AllForms() {
  std::vector<Form> forms;
  for (const uint32_t ranks : {2u, 4u, 8u}) forms.push_back({.ranks = ranks});
  forms.push_back({.profile = "h200-2", .ranks = 2});
  forms.push_back({.profile = "h200-4", .ranks = 4});
  for (const uint32_t ranks : {2u, 8u}) {
    forms.push_back({.ranks = ranks, .on_host = true});
    forms.push_back({.ranks = ranks, .most_sms = 8});
    forms.push_back({.ranks = ranks, .weight = 8});
    forms.push_back({.ranks = ranks, .free = 1});
  }
  forms.push_back({.profile = "h200-2", .ranks = 2, .free = 1});
  return forms;
}

TEST(Choices, AreThoseOfTheTable) {
  std::string found;
  for (const Form& form : AllForms()) found += TableOf(form);
  if (const char* out = std::getenv("SL_CHOICES_OUT")) {
    std::ofstream(out) << found;
    return;
  }
  std::ifstream file(std::string(std::getenv("SL_TEST_SOURCE_DIR")) + "/tests/gpu/choices.txt");
  std::stringstream wanted_lines;
  wanted_lines << file.rdbuf();
  std::stringstream found_lines(found);
  std::string form;
  int differences = 0;
  for (std::string wanted, line; std::getline(found_lines, line);) {
    if (line.starts_with("#")) form = line;
    wanted.clear();
    std::getline(wanted_lines, wanted);
    if (line != wanted && ++differences <= 10)
      ADD_FAILURE() << form << "\n  wanted " << wanted << "\n  found  " << line;
  }
  std::string rest;
  EXPECT_FALSE(std::getline(wanted_lines, rest)) << "more is wanted: " << rest;
  EXPECT_EQ(differences, 0);
}

}  // namespace
}  // namespace sl::kernel
