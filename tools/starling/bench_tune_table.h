// SPDX-License-Identifier: Apache-2.0
// What tuning yields, and its form in a profile: the section [measured] (docs/profiles.md), between two marks by which
// the next tuning finds it.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tools/starling/bench_types.h"

namespace sl::tools {

// Times of one algorithm for one collective over so many ranks of one host.
struct TuneCurve {
  Collective collective;
  int ranks;
  std::string algorithm;
  std::vector<std::pair<size_t, double>> points;  // bytes, microseconds; bytes ascending
};

struct TuneTable {
  std::string machine;
  std::string date;
  std::string starling;
  std::string datatype;
  std::string device = "host";       // kind of memory, as rules name it
  std::vector<std::string> modules;  // "name version"
  std::vector<TuneCurve> curves;
};

// The section with its marks; ends in a newline.
std::string TuneSection(const TuneTable& table);

// A profile's text without the section of an earlier tuning. Throws CommandError (usage) naming `file` when costs stand
// outside the marks: they were written by hand, and are not ours to replace.
std::string WithoutTuneSection(const std::string& text, const std::string& file);

// Two sizes that were measured one after the other, between which another algorithm becomes the quickest.
struct TuneGap {
  int ranks;
  Collective collective;
  size_t low, high;
};
// Where that is; an algorithm that is ahead by less than 3 % does not count.
std::vector<TuneGap> ChangesOf(const std::vector<TuneCurve>& curves);
// A size between both, by ratio, that the collective can have and that is round; 0 where they are too close for one.
size_t MiddleOf(const TuneGap& gap, DataType type);

// For people: what each algorithm took, a line for each size, the quickest first.
std::string TimesText(const std::vector<TuneCurve>& curves);
// For people: which algorithm is quickest in which range of sizes, a line for each collective and number of ranks.
std::string WinnersText(const TuneTable& table);

}  // namespace sl::tools
