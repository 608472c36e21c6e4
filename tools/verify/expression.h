// SPDX-License-Identifier: Apache-2.0
//
// What an element holds, as an expression over the ranks' inputs. Equal expressions are one node, so comparing two
// results is comparing two numbers.
//
// A node is a function of an index: Input(r) at i is element i of rank r's send buffer; Join(a, b, shift) at i is
// a(i) op b(i + shift), in this order. One node thus describes a whole range of elements, wherever it lies.
//
// Where one rank's execution stands for all (docs/verify.md), a node is a function of a turn, too: turned by t,
// Input(r) is Input(r + t), modulo the number of ranks, and a Join turns both its operands. Elsewhere every turn is 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sl_algorithm.h"
#include "tools/verify/verify.h"

namespace sl::verify {

using NodeId = uint32_t;

// A node and where it is read: at position q of its range an element holds node(q + shift), turned by `turn`.
struct Value {
  NodeId node = 0;
  int64_t shift = 0;
  uint32_t turn = 0;  // below the number of ranks
  bool operator==(const Value&) const = default;
  // The same, where positions count from an origin that lies `distance` further.
  Value Moved(int64_t distance) const { return {node, shift + distance, turn}; }
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
  // a op b. One node for all pairs that differ in where both are read, or how both are turned, alone.
  Value Join(Value a, Value b, const Place& place);
  // The complete result, divided as AVG asks for.
  NodeId Finished(NodeId sum, const Place& place);

  Kind kind(NodeId node) const { return nodes_[node].kind; }
  // Whether it is this rank's input, as it was.
  bool IsInput(Value value, uint32_t rank) const;
  // Whether it is read at one index throughout.
  bool HasOneIndex(NodeId node) const { return nodes_[node].one_index; }
  // Inputs it is made of, each as often as it occurs; saturates.
  uint32_t inputs(NodeId node) const { return nodes_[node].inputs; }

  // True when it joins every rank's input exactly once, all at the index it is read at, however it is turned. Whether
  // scaled and finished is not looked at. Remembered, so that asking again costs nothing.
  bool JoinsAll(NodeId node);
  // True when it joins the ranks' inputs along the tree that depends on nothing but ranks: neighbours first, aligned to
  // powers of two.
  bool JoinsAligned(Value value) const;

  // The expression in words, read at `index`: "(send0[7] + send1[7]) + send2[7]", or how often which rank occurs.
  std::string ToText(Value value, int64_t index) const;
  // The step that first joined what must not be joined, two inputs of one rank or two indexes; false: there is none.
  bool FindFirstWrong(NodeId node, Place* out_place) const;

 private:
  struct Node {
    NodeId a;
    NodeId b;
    int64_t shift;
    uint32_t turn;  // of b against a
    uint32_t inputs;
    Kind kind;
    uint8_t all;  // 0: not looked at; 1: joins all; 2: does not
    bool one_index;
  };
  struct Use {
    uint32_t rank;
    int64_t offset;
    bool operator==(const Use&) const = default;
    bool operator<(const Use& other) const { return rank != other.rank ? rank < other.rank : offset < other.offset; }
  };

  uint32_t Turned(uint32_t rank, uint32_t turn) const { return (rank + turn) % ranks_; }
  NodeId Find(const Node& wanted, const Place& place);
  void Grow();
  static uint64_t HashOf(const Node& node);
  // Every input of a node that is not turned; false when there are more than `limit`.
  bool Uses(NodeId node, size_t limit, std::vector<Use>* out) const;
  bool IsSound(NodeId node) const;
  bool MatchesRange(NodeId node, uint32_t turn, uint32_t first, uint32_t count) const;
  std::string Nested(NodeId node, uint32_t turn, int64_t index) const;
  std::string Summary(NodeId node, uint32_t turn, int64_t index) const;

  const uint32_t ranks_;
  const char* const sign_;
  std::vector<Node> nodes_;
  std::vector<Place> places_;    // of the step that made a node; by node, inputs have none
  std::vector<uint32_t> slots_;  // open addressing; a node + 1, 0: free
};

}  // namespace sl::verify
