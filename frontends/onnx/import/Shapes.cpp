// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that move elements without looking at them: reshapes, permutations, parts, and the arithmetic of shapes.
#include "frontends/onnx/import/GraphImporter.h"
#include "frontends/onnx/import/RuntimeAxes.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

namespace {

// An attribute of 'value', 'value_int', …
void constant(NodeImport &n) {
  GraphBuilder &g = n.g;
  if (const OnnxTensor *tensor = n.tensor("value"))
    return n.out(n.importer.constantOf(*tensor));
  if (n.hasAttribute("value_float"))
    return n.out(g.scalar(OnnxType::Float, n.real("value_float", 0)));
  if (n.hasAttribute("value_int"))
    return n.out(g.integers(OnnxType::Int64, {}, {Dim(n.integer("value_int", 0))}));
  if (auto ints = n.integers("value_ints"))
    return n.out(g.vectorOf(Dims(ints->begin(), ints->end())));
  if (const OnnxAttribute *floats = n.attribute("value_floats", 6)) {
    auto type = g.tensorType(OnnxType::Float, {Dim(int64_t(floats->floats.size()))});
    Value value = arith::ConstantOp::create(g.b, g.loc, DenseElementsAttr::get(type, ArrayRef<float>(floats->floats)));
    return n.out(g.wrap(value, OnnxType::Float));
  }
  if (n.attribute("sparse_value", 11))
    return n.out(n.importer.constantOf(n.attribute("sparse_value", 11)->tensors.front()));
  n.fail("has no value that is a tensor of numbers");
}

void constantOfShape(NodeImport &n) {
  GraphBuilder &g = n.g;
  std::optional<Dims> dims = g.toDims(n.in(0));
  if (!dims)
    return (void)n.fail("the length of the shape (input 0) is not known");
  const OnnxTensor *value = n.tensor("value");
  if (!value)
    return n.out(g.full(OnnxType::Float, *dims, 0));
  if (value->elements != 1)
    return (void)n.fail("attribute 'value' has " + Twine(value->elements) + " elements, expected 1");
  n.out(g.broadcast(g.reshape(n.importer.constantOf(*value), {}), *dims));
}

void shape(NodeImport &n) {
  const GraphValue &x = n.in(0);
  auto clamp = [&](int64_t i) { return std::min(std::max<int64_t>(i < 0 ? i + x.rank() : i, 0), x.rank()); };
  int64_t begin = clamp(n.integer("start", 0)), end = clamp(n.integer("end", x.rank()));
  n.out(n.g.vectorOf(ArrayRef<Dim>(x.dims).slice(begin, std::max<int64_t>(end - begin, 0))));
}

void size(NodeImport &n) {
  n.out(n.g.integers(OnnxType::Int64, {}, {n.g.product(n.in(0).dims)}));
}

// The shape that a Reshape asks for: 0 copies a dimension (unless allowzero), one -1 is what is left. Numbers that only
// the run knows may be either: indicators choose.
std::optional<Dims> wantedDims(NodeImport &n, const GraphValue &x, ArrayRef<Dim> asked) {
  GraphBuilder &g = n.g;
  bool copies = !n.integer("allowzero", 0);
  auto indicator = [&](const Dim &dim, int64_t number) {
    return g.indicator(
        arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::eq, g.index(dim), g.constantIndex(number)));
  };
  Dims dims, isInferred;
  Dim known(1);
  std::optional<size_t> inferred;
  for (auto [i, number] : llvm::enumerate(asked)) {
    Dim dim = number, isRest(0);
    if (dim.is(0) && copies && i >= x.dims.size()) {
      n.fail("shape has 0 at " + Twine(i) + ", where the input of rank " + Twine(x.rank()) + " has no dimension");
      return std::nullopt;
    }
    if (dim.is(-1) && inferred) {
      n.fail("shape has -1 twice, at " + Twine(*inferred) + " and " + Twine(i) + ": one can be inferred");
      return std::nullopt;
    }
    if (dim.isStatic() && dim.value() < -1) {
      n.fail("shape has " + Twine(dim.value()) + " at " + Twine(i));
      return std::nullopt;
    }
    if (dim.is(0) && copies) {
      dim = x.dims[i];
    } else if (dim.is(-1)) {
      inferred = i;
      isRest = Dim(1);
    } else if (!dim.isStatic() && !g.isNonNegative(dim)) {
      isRest = indicator(dim, -1);
      if (copies && i < x.dims.size())
        dim = g.opaque(dim + indicator(dim, 0) * x.dims[i]);
    }
    dims.push_back(dim);
    isInferred.push_back(isRest);
    // -1 where the rest goes counts as 1.
    known = known * (isRest.is(1) ? Dim(1) : isRest.is(0) ? dim : g.opaque(dim + isRest * Dim(2)));
  }
  Dim total = g.product(x.dims);
  for (auto [i, isRest] : llvm::enumerate(isInferred)) {
    if (isRest.is(0))
      continue;
    std::optional<Dim> rest = known.is(0) ? std::optional<Dim>(0) : total.dividedBy(known);
    if (!rest && total.isStatic() && known.isStatic()) {
      n.fail("a tensor of " + Twine(total.value()) + " elements has no shape with -1 where the rest is " +
             Twine(known.value()));
      return std::nullopt;
    }
    Dim size = rest ? *rest : g.floorDiv(total, g.maxOf(known, 1));
    dims[i] = isRest.is(1) ? size : g.opaque(dims[i] + isRest * (size + 1));
  }
  return dims;
}

void reshape(NodeImport &n) {
  const GraphValue &x = n.in(0);
  auto attribute = n.integers("shape"); // up to opset 4
  GraphValue target = attribute ? n.g.vectorOf(Dims(attribute->begin(), attribute->end())) : n.in(1);
  std::optional<Dims> asked = n.g.toDims(target);
  if (!asked || target.rank() != 1)
    return (void)n.fail("the rank of the result is not known: input 1 (shape) has an unknown length");
  if (std::optional<Dims> dims = wantedDims(n, x, *asked))
    n.out(n.g.reshape(x, *dims));
}

void flatten(NodeImport &n) {
  const GraphValue &x = n.in(0);
  int64_t axis = n.integer("axis", 1);
  if (axis < -x.rank() || axis > x.rank())
    return (void)n.fail("axis " + Twine(axis) + " is out of range for rank " + Twine(x.rank()));
  n.out(n.g.flatten(x, axis < 0 ? axis + x.rank() : axis));
}

// The axes of the attribute of old opsets, or of input 1; a null value if neither is there.
GraphValue axesOf(NodeImport &n, size_t input) {
  if (auto attribute = n.integers("axes"))
    return n.g.vectorOf(Dims(attribute->begin(), attribute->end()));
  return n.has(input) ? n.in(input) : GraphValue();
}

void squeeze(NodeImport &n) {
  const GraphValue &x = n.in(0);
  GraphValue given = axesOf(n, 1);
  if (!given) {
    SmallVector<int64_t> units;
    for (int64_t i = 0; i < x.rank(); ++i)
      if (x.dims[i].is(1))
        units.push_back(i);
    // The rank of a result is known here, or never.
    if (llvm::any_of(x.dims, [](const Dim &dim) { return !dim.isStatic(); }))
      emitWarning(n.g.loc) << "Squeeze names no axes: a dimension of a size that is not known stays, also where it is "
                              "1; --dim=NAME=1 drops it";
    return n.out(n.g.squeeze(x, units));
  }
  std::optional<RuntimeAxes> axes = RuntimeAxes::read(n, given, x.rank());
  if (!axes)
    return;
  for (auto [member, dim] : llvm::zip_equal(axes->members(), x.dims))
    if (member.is(1) && dim.isStatic() && !dim.is(1))
      return (void)n.fail("a dimension of " + Twine(dim.value()) + " cannot be squeezed, expected 1");
  n.out(n.g.reshape(x, axes->without(n.g, x.dims)));
}

void unsqueeze(NodeImport &n) {
  const GraphValue &x = n.in(0);
  GraphValue given = axesOf(n, 1);
  if (!given || n.g.failed())
    return (void)n.fail("has no axes");
  int64_t count = given.rank() == 0 ? 1 : given.dims[0].isStatic() ? given.dims[0].value() : 0;
  if (std::optional<RuntimeAxes> axes = RuntimeAxes::read(n, given, x.rank() + count))
    n.out(n.g.reshape(x, axes->inserted(n.g, x.dims)));
}

void transpose(NodeImport &n) {
  const GraphValue &x = n.in(0);
  SmallVector<int64_t> permutation;
  if (auto given = n.integers("perm"))
    permutation = n.axes(*given, x.rank());
  else
    permutation = llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, x.rank())));
  if (int64_t(permutation.size()) != x.rank())
    n.fail("attribute 'perm' has " + Twine(permutation.size()) + " axes for rank " + Twine(x.rank()));
  if (!n.g.failed())
    n.out(n.g.transpose(x, permutation));
}

void concat(NodeImport &n) {
  ArrayRef<GraphValue> parts = n.all();
  if (!n.hasAttribute("axis"))
    n.fail("has no attribute 'axis'");
  if (n.g.failed())
    return;
  for (const GraphValue &part : parts)
    if (part.rank() != parts[0].rank())
      return (void)n.fail("inputs of rank " + Twine(parts[0].rank()) + " and rank " + Twine(part.rank()) +
                          ", expected the same");
  int64_t axis = n.axis(n.integer("axis", 0), parts[0].rank());
  if (!n.g.failed())
    n.out(n.g.concat(parts, axis));
}

void expand(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  std::optional<Dims> wanted = g.toDims(n.in(1));
  if (!wanted)
    return (void)n.fail("the rank of the result is not known: input 1 (shape) has an unknown length");
  std::optional<Dims> dims = g.broadcastDims({x, GraphValue{x.type, *wanted, Value(), nullptr}});
  if (dims)
    n.out(g.broadcast(x, *dims));
}

void tile(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  std::optional<Dims> repeats = g.toDims(n.in(1));
  if (!repeats || int64_t(repeats->size()) != x.rank())
    return (void)n.fail("repeats (input 1) has not one element per dimension of rank " + Twine(x.rank()));
  // (d0, d1) -> (1, d0, 1, d1) -> (r0, d0, r1, d1) -> (r0 d0, r1 d1)
  Dims apart, spread, dims;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const Dim &repeat = (*repeats)[i];
    if (repeat.isStatic() && repeat.value() < 0)
      return (void)n.fail("repeats has " + Twine(repeat.value()));
    if (!repeat.is(1)) {
      apart.push_back(1);
      spread.push_back(repeat);
    }
    apart.push_back(x.dims[i]);
    spread.push_back(x.dims[i]);
    dims.push_back(repeat * x.dims[i]);
  }
  n.out(g.reshape(g.broadcast(g.reshape(x, apart), spread), dims));
}

void depthToSpace(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  int64_t block = n.integer("blocksize", 0);
  if (!n.checkRank(0, 4, "input"))
    return;
  std::optional<Dim> depth = block > 0 ? x.dims[1].dividedBy(Dim(block) * Dim(block)) : std::nullopt;
  if (!depth)
    return (void)n.fail("blocksize " + Twine(block) + " does not divide the channels");
  bool isDcr = n.text("mode", "DCR") == "DCR";
  Dims apart = isDcr ? Dims{x.dims[0], block, block, *depth, x.dims[2], x.dims[3]}
                     : Dims{x.dims[0], *depth, block, block, x.dims[2], x.dims[3]};
  GraphValue moved = g.transpose(g.reshape(x, apart),
                                 isDcr ? ArrayRef<int64_t>{0, 3, 4, 1, 5, 2} : ArrayRef<int64_t>{0, 1, 4, 2, 5, 3});
  n.out(g.reshape(moved, {x.dims[0], *depth, x.dims[2] * Dim(block), x.dims[3] * Dim(block)}));
}

void spaceToDepth(NodeImport &n) {
  GraphBuilder &g = n.g;
  const GraphValue &x = n.in(0);
  int64_t block = n.integer("blocksize", 0);
  if (!n.checkRank(0, 4, "input"))
    return;
  std::optional<Dim> rows = block > 0 ? x.dims[2].dividedBy(block) : std::nullopt;
  std::optional<Dim> columns = block > 0 ? x.dims[3].dividedBy(block) : std::nullopt;
  if (!rows || !columns)
    return (void)n.fail("blocksize " + Twine(block) + " does not divide the image");
  GraphValue apart = g.reshape(x, {x.dims[0], x.dims[1], *rows, block, *columns, block});
  bool isDcr = n.text("mode", "DCR") == "DCR";
  GraphValue moved =
      g.transpose(apart, isDcr ? ArrayRef<int64_t>{0, 3, 5, 1, 2, 4} : ArrayRef<int64_t>{0, 1, 3, 5, 2, 4});
  n.out(g.reshape(moved, {x.dims[0], x.dims[1] * Dim(block) * Dim(block), *rows, *columns}));
}

} // namespace

ArrayRef<OpRow> heddle::shapeOps() {
  static const OpRow table[] = {
      {"", "Concat", 4, concat},
      {"", "Constant", 1, constant},
      {"", "ConstantOfShape", 9, constantOfShape},
      {"", "DepthToSpace", 1, depthToSpace},
      {"", "Expand", 8, expand},
      {"", "Flatten", 1, flatten},
      {"", "Reshape", 1, reshape},
      {"", "Shape", 1, shape},
      {"", "Size", 1, size},
      {"", "SpaceToDepth", 1, spaceToDepth},
      {"", "Squeeze", 1, squeeze},
      {"", "Tile", 6, tile},
      {"", "Transpose", 1, transpose},
      {"", "Unsqueeze", 1, unsqueeze},
  };
  return table;
}
