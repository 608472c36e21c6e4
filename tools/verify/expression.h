// SPDX-License-Identifier: Apache-2.0
//
// What an element holds, as an expression over the ranks' inputs. Equal expressions are one node, so comparing two
// results is comparing two numbers.
//
// A node is a function of an index: Input(r) at i is element i of rank r's send buffer; Join(a, b, shift) at i is
// a(i) op b(i + shift), in this order. One node thus describes a whole range of elements, wherever it lies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sl_algorithm.h"
#include "tools/verify/verify.h"

namespace sl::verify {

using NodeId = uint32_t;

// A node and where it is read: at position q of its range an element holds node(q + shift).
struct Value {
  NodeId node = 0;
  int64_t shift = 0;
  bool operator==(const Value&) const = default;
};

// Consecutive elements. Positions count from the first element of all pieces.
struct Piece {
  uint64_t elements;
  Value value;
};
using Pieces = std::vector<Piece>;

uint64_t CountOf(const Pieces& pieces);
// Adds a piece, as part of the last one where it continues that one.
void Append(Pieces* pieces, uint64_t elements, Value value);
// The first `elements` of them; there are that many.
Pieces FirstOf(const Pieces& pieces, uint64_t elements);

class Expressions {
 public:
  enum class Kind : uint8_t { kInput, kScaled, kJoin, kFinished };

  Expressions(uint32_t ranks, sl_reduction_t reduction);

  NodeId Input(uint32_t rank) const { return rank; }
  // A rank's contribution, multiplied as AVG and PREMUL_SUM ask for; `input` is an Input.
  NodeId Scaled(NodeId input, const Place& place);
  NodeId Join(NodeId a, NodeId b, int64_t shift, const Place& place);
  // The complete result, divided as AVG asks for.
  NodeId Finished(NodeId sum, const Place& place);

  Kind kind(NodeId node) const { return nodes_[node].kind; }
  NodeId a(NodeId node) const { return nodes_[node].a; }
  NodeId b(NodeId node) const { return nodes_[node].b; }
  // Inputs it is made of, each as often as it occurs; saturates.
  uint32_t inputs(NodeId node) const { return nodes_[node].inputs; }

  // True when it joins every rank's input exactly once, all at the index it is read at. Whether scaled and finished is
  // not looked at. Remembered, so that asking again costs nothing.
  bool JoinsAll(NodeId node);
  // True when it joins the ranks' inputs along the tree that depends on nothing but ranks: neighbours first, aligned to
  // powers of two.
  bool JoinsAligned(NodeId node);

  // The expression in words, read at `index`: "(send0[7] + send1[7]) + send2[7]", or how often which rank occurs.
  std::string ToText(NodeId node, int64_t index) const;
  // The step that first joined what must not be joined, two inputs of one rank or two indexes; false: there is none.
  bool FindFirstWrong(NodeId node, Place* out_place) const;

 private:
  struct Node {
    NodeId a;
    NodeId b;
    int64_t shift;
    uint32_t inputs;
    Kind kind;
    uint8_t all;  // 0: not looked at; 1: joins all; 2: does not
  };
  struct Use {
    uint32_t rank;
    int64_t offset;
    bool operator==(const Use&) const = default;
    bool operator<(const Use& other) const { return rank != other.rank ? rank < other.rank : offset < other.offset; }
  };

  NodeId Find(const Node& wanted, const Place& place);
  void Grow();
  static uint64_t HashOf(const Node& node);
  // Every input of a node; false when there are more than `limit`.
  bool Uses(NodeId node, size_t limit, std::vector<Use>* out) const;
  bool IsSound(NodeId node) const;
  bool MatchesRange(NodeId node, uint32_t first, uint32_t count) const;
  std::string Nested(NodeId node, int64_t index) const;
  std::string Summary(NodeId node, int64_t index) const;

  const uint32_t ranks_;
  const char* const sign_;
  std::vector<Node> nodes_;
  std::vector<Place> places_;    // of the step that made a node; by node, inputs have none
  std::vector<uint32_t> slots_;  // open addressing; a node + 1, 0: free
};

}  // namespace sl::verify
