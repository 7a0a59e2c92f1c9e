// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sequences of tensors: their length, and which tensor is meant, are known at import, so that nothing of them is left when the graph runs.
#include "frontends/onnx/import/GraphImporter.h"

using namespace mlir;
using namespace heddle;

namespace {

constexpr int64_t maxSequence = 4096;

GraphValue sequenceOf(OnnxType type, std::vector<GraphValue> tensors) {
  GraphValue result;
  result.type = type;
  result.sequence = std::make_shared<const std::vector<GraphValue>>(std::move(tensors));
  return result;
}

// The number that input i gives, from -size on, counted from the front; nothing, and an error, where only the run knows it.
std::optional<int64_t> positionOf(NodeImport &n, size_t i, int64_t size) {
  std::optional<SmallVector<int64_t>> numbers = n.in(i).integers();
  if (n.g.failed())
    return std::nullopt;
  if (!numbers || numbers->size() != 1) {
    n.unsupported("with a position that only the run knows is not supported");
    return std::nullopt;
  }
  int64_t position = numbers->front();
  if (position < -size || position >= size) {
    n.fail("position " + Twine(position) + " is out of range of " + Twine(size) + " tensors");
    return std::nullopt;
  }
  return position < 0 ? position + size : position;
}

void sequenceConstruct(NodeImport &n) {
  ArrayRef<GraphValue> tensors = n.all();
  if (!n.g.failed())
    n.out(sequenceOf(tensors[0].type, tensors.vec()));
}

void sequenceEmpty(NodeImport &n) {
  n.out(sequenceOf(OnnxType(n.integer("dtype", int64_t(OnnxType::Float))), {}));
}

void sequenceAt(NodeImport &n) {
  ArrayRef<GraphValue> tensors = n.sequence(0);
  if (auto position = positionOf(n, 1, int64_t(tensors.size())))
    n.out(tensors[*position]);
}

// Before the position, or at the end.
void sequenceInsert(NodeImport &n) {
  std::vector<GraphValue> tensors = n.sequence(0).vec();
  GraphValue added = n.in(1);
  std::optional<int64_t> position = int64_t(tensors.size());
  // The end is a position, too.
  if (n.has(2) && n.in(2).integers() != SmallVector<int64_t>{int64_t(tensors.size())})
    position = positionOf(n, 2, int64_t(tensors.size()));
  if (!position || n.g.failed())
    return;
  tensors.insert(tensors.begin() + *position, added);
  n.out(sequenceOf(added.type, std::move(tensors)));
}

// The tensor at the position, or the last one, is left out.
void sequenceErase(NodeImport &n) {
  std::vector<GraphValue> tensors = n.sequence(0).vec();
  if (!n.g.failed() && tensors.empty())
    n.fail("the sequence is empty");
  std::optional<int64_t> position = int64_t(tensors.size()) - 1;
  if (n.has(1))
    position = positionOf(n, 1, int64_t(tensors.size()));
  if (!position || n.g.failed())
    return;
  OnnxType type = tensors[*position].type;
  tensors.erase(tensors.begin() + *position);
  n.out(sequenceOf(type, std::move(tensors)));
}

void sequenceLength(NodeImport &n) {
  n.out(n.g.integers(OnnxType::Int64, {}, {Dim(int64_t(n.sequence(0).size()))}));
}

// Along an axis, a new one with new_axis.
void concatFromSequence(NodeImport &n) {
  ArrayRef<GraphValue> tensors = n.sequence(0);
  if (!n.g.failed() && tensors.empty())
    n.fail("the sequence is empty");
  if (n.g.failed())
    return;
  bool isNew = n.integer("new_axis", 0) != 0;
  if (!n.hasAttribute("axis"))
    return (void)n.fail("attribute 'axis' is missing");
  int64_t axis = n.axis(n.integer("axis", 0), tensors[0].rank() + isNew);
  SmallVector<GraphValue> parts;
  for (const GraphValue &tensor : tensors)
    parts.push_back(isNew ? n.g.unsqueeze(tensor, {axis}) : tensor);
  n.out(n.g.concat(parts, axis));
}

// The lengths that the pieces have along their axis: of one each, of a number each and a smaller rest, or as they are listed.
std::optional<Dims> lengthsOf(NodeImport &n, const Dim &size) {
  GraphBuilder &g = n.g;
  if (n.has(1) && n.in(1).rank() == 1) {
    if (std::optional<Dims> lengths = g.toDims(n.in(1)))
      return lengths;
    n.unsupported("into a number of pieces that only the run knows is not supported");
    return std::nullopt;
  }
  Dim piece = n.has(1) ? g.toDim(n.in(1)) : Dim(1);
  if (g.failed())
    return std::nullopt;
  Dims lengths;
  if (std::optional<Dim> count = size.dividedBy(piece); count && count->isStatic() && count->value() <= maxSequence) {
    lengths.assign(size_t(std::max<int64_t>(count->value(), 0)), piece);
    return lengths;
  }
  if (!size.isStatic() || !piece.isStatic() || size.value() / std::max<int64_t>(piece.value(), 1) >= maxSequence) {
    n.unsupported("into a number of pieces that only the run knows, or of more than " + Twine(maxSequence) +
                  ", is not supported");
    return std::nullopt;
  }
  if (piece.value() < 1) {
    n.fail("split is " + Twine(piece.value()) + ", expected a positive number");
    return std::nullopt;
  }
  for (int64_t begin = 0; begin < size.value(); begin += piece.value())
    lengths.push_back(Dim(std::min(piece.value(), size.value() - begin)));
  return lengths;
}

void splitToSequence(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  int64_t axis = n.axis(n.integer("axis", 0), x.rank());
  if (g.failed())
    return;
  std::optional<Dims> lengths = lengthsOf(n, x.dims[axis]);
  if (!lengths)
    return;
  bool keeps = n.has(1) || n.integer("keepdims", 1) != 0;
  std::vector<GraphValue> pieces;
  Dim begin(0);
  for (const Dim &length : *lengths) {
    if (length.isStatic() && length.value() < 0)
      return (void)n.fail("split has a length of " + Twine(length.value()));
    GraphValue piece = g.slice(x, axis, begin, length);
    pieces.push_back(keeps || g.failed() ? piece : g.squeeze(piece, {axis}));
    begin = begin + length;
  }
  if (n.requireAtMost(begin, x.dims[axis], "the lengths of a split do not add up") &&
      n.requireAtMost(x.dims[axis], begin, "the lengths of a split do not add up"))
    n.out(sequenceOf(x.type, std::move(pieces)));
}

} // namespace

ArrayRef<OpRow> heddle::sequenceOps() {
  static const OpRow table[] = {
      {"", "ConcatFromSequence", 11, concatFromSequence}, {"", "SequenceAt", 11, sequenceAt},
      {"", "SequenceConstruct", 11, sequenceConstruct},   {"", "SequenceEmpty", 11, sequenceEmpty},
      {"", "SequenceErase", 11, sequenceErase},           {"", "SequenceInsert", 11, sequenceInsert},
      {"", "SequenceLength", 11, sequenceLength},         {"", "SplitToSequence", 11, splitToSequence},
  };
  return table;
}
