// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/onnx/import/GraphImporter.h"

using namespace mlir;
using namespace heddle;

const GraphValue &NodeImport::in(size_t i) {
  static const GraphValue none;
  if (has(i) && !inputs[i].sequence)
    return inputs[i];
  fail("input " + Twine(i) + (has(i) ? " is a sequence, expected a tensor" : " is missing"));
  return none;
}

ArrayRef<GraphValue> NodeImport::sequence(size_t i) {
  if (has(i) && inputs[i].sequence)
    return *inputs[i].sequence;
  fail("input " + Twine(i) + (has(i) ? " is a tensor, expected a sequence" : " is missing"));
  return {};
}

ArrayRef<GraphValue> NodeImport::all() {
  for (size_t i = 0; i < inputs.size(); ++i)
    in(i);
  if (inputs.empty())
    fail("has no inputs");
  return inputs;
}

// AttributeProto.AttributeType, for messages.
static StringRef attributeTypeName(int32_t type) {
  static const char *const names[] = {"undefined", "FLOAT", "INT",     "STRING",  "TENSOR", "GRAPH",
                                      "FLOATS",    "INTS",  "STRINGS", "TENSORS", "GRAPHS", "SPARSE_TENSOR"};
  return type >= 0 && type < 12 ? names[type] : "of an unknown type";
}

const OnnxAttribute *NodeImport::attribute(StringRef name, int32_t type) {
  const OnnxAttribute *found = node.find({name.data(), name.size()});
  // Inside a function an attribute may stand for one of the call, or for its default.
  for (const CallFrame *frame = importer.currentFrame(); found && !found->reference.empty() && frame;
       frame = frame->caller) {
    std::string wanted = found->reference;
    found = frame->call->find(wanted);
    for (const OnnxAttribute &given : frame->function->defaults)
      if (!found && given.name == wanted)
        found = &given;
  }
  if (found && found->type != type && type != 0) {
    fail("attribute '" + name + "' is " + attributeTypeName(found->type) + ", expected " + attributeTypeName(type));
    return nullptr;
  }
  return found;
}

bool NodeImport::hasAttribute(StringRef name) {
  return attribute(name, 0) != nullptr;
}

int64_t NodeImport::integer(StringRef name, int64_t otherwise) {
  const OnnxAttribute *found = attribute(name, 2);
  return found ? found->i : otherwise;
}

double NodeImport::real(StringRef name, double otherwise) {
  const OnnxAttribute *found = attribute(name, 1);
  return found ? double(found->f) : otherwise;
}

std::string NodeImport::text(StringRef name, StringRef otherwise) {
  const OnnxAttribute *found = attribute(name, 3);
  return found ? found->s : otherwise.str();
}

std::optional<SmallVector<int64_t>> NodeImport::integers(StringRef name) {
  const OnnxAttribute *found = attribute(name, 7);
  if (!found)
    return std::nullopt;
  return SmallVector<int64_t>(found->ints.begin(), found->ints.end());
}

const OnnxGraph *NodeImport::graph(StringRef name) {
  const OnnxAttribute *found = attribute(name, 5);
  if (found && !found->graphs.empty())
    return &found->graphs.front();
  fail("attribute '" + name + "' is missing");
  return nullptr;
}

const OnnxTensor *NodeImport::tensor(StringRef name) {
  const OnnxAttribute *found = attribute(name, 4);
  return found && !found->tensors.empty() ? &found->tensors.front() : nullptr;
}

int64_t NodeImport::axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    fail("axis " + Twine(axis) + " is out of range for rank " + Twine(rank));
    return 0;
  }
  return axis < 0 ? axis + rank : axis;
}

SmallVector<int64_t> NodeImport::axes(ArrayRef<int64_t> given, int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t one : given) {
    int64_t positive = axis(one, rank);
    if (llvm::is_contained(result, positive))
      fail("axis " + Twine(one) + " is given twice");
    result.push_back(positive);
  }
  return result;
}

bool NodeImport::requireAtMost(const Dim &a, const Dim &c, const Twine &what) {
  Dim room = c - a;
  if (room.isStatic() && room.value() < 0) {
    std::string both = a.isStatic() && c.isStatic() ? (": " + Twine(a.value()) + " and " + Twine(c.value())).str() : "";
    fail(what + both);
    return false;
  }
  if (!g.failed() && !room.isStatic() && !g.isNonNegative(room))
    g.requireNonNegative(room, arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::sle, g.index(a), g.index(c)),
                         what);
  return !g.failed();
}

bool NodeImport::checkRank(size_t i, int64_t rank, StringRef what) {
  if (g.failed() || (has(i) && in(i).rank() == rank))
    return !g.failed();
  fail("input " + Twine(i) + " (" + what + ") has rank " + Twine(in(i).rank()) + ", expected " + Twine(rank));
  return false;
}
