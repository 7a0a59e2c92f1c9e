// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/import/RuntimeAxes.h"

using namespace mlir;
using namespace heddle;

// 1 if a == c, else 0.
static Dim isEqual(GraphBuilder &g, const Dim &a, const Dim &c) {
  Dim difference = a - c;
  if (difference.isStatic())
    return Dim(difference.is(0));
  return g.indicator(arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::eq, g.index(a), g.index(c)));
}

std::optional<RuntimeAxes> RuntimeAxes::read(NodeImport &n, const GraphValue &axes, int64_t rank) {
  GraphBuilder &g = n.g;
  if (g.failed())
    return std::nullopt;
  std::optional<Dims> given = g.toDims(axes);
  if (!given) {
    n.fail("the number of axes is not known");
    return std::nullopt;
  }
  RuntimeAxes result;
  result.isMember.assign(rank, Dim(0));
  for (const Dim &one : *given) {
    Dim axis = one;
    if (one.isStatic()) {
      axis = n.axis(one.value(), rank);
    } else {
      Value index = g.index(one),
            isNegative = arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::slt, index, g.constantIndex(0));
      axis = one + g.indicator(isNegative) * Dim(rank);
      g.require(arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::ult, g.index(axis), g.constantIndex(rank)),
                "an axis is out of range for rank " + Twine(rank));
    }
    Dims pick;
    for (int64_t d = 0; d < rank; ++d) {
      pick.push_back(isEqual(g, axis, d));
      result.isMember[d] = result.isMember[d] + pick.back();
    }
    result.numbers.push_back(axis);
    result.picks.push_back(std::move(pick));
  }
  for (const Dim &count : result.isMember) {
    if (count.isStatic() && count.value() > 1)
      n.fail("an axis is given twice");
    else if (!count.isStatic() && given->size() > 1)
      g.require(arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::sle, g.index(count), g.constantIndex(1)),
                "an axis is given twice");
  }
  if (g.failed())
    return std::nullopt;
  return result;
}

std::optional<SmallVector<int64_t>> RuntimeAxes::constants() const {
  SmallVector<int64_t> known;
  for (const Dim &axis : numbers) {
    if (!axis.isStatic())
      return std::nullopt;
    known.push_back(axis.value());
  }
  return known;
}

Dims RuntimeAxes::spread(GraphBuilder &g, ArrayRef<Dim> values, ArrayRef<Dim> otherwise) const {
  Dims result;
  for (size_t d = 0; d < isMember.size(); ++d) {
    Dim value = (Dim(1) - isMember[d]) * otherwise[d];
    for (size_t j = 0; j < picks.size(); ++j)
      value = value + picks[j][d] * values[j];
    result.push_back(isMember[d].isStatic() ? value : g.opaque(value));
  }
  return result;
}

Dims RuntimeAxes::without(GraphBuilder &g, ArrayRef<Dim> values) const {
  Dims result(isMember.size() - picks.size(), Dim(0));
  Dim position(0);
  for (size_t d = 0; d < isMember.size(); ++d) {
    Dim isKept = Dim(1) - isMember[d];
    for (size_t j = 0; j < result.size() && j <= d; ++j)
      if (!isKept.is(0))
        result[j] = result[j] + isKept * isEqual(g, position, int64_t(j)) * values[d];
    position = g.opaque(position + isKept);
  }
  for (Dim &dim : result)
    dim = constants() ? dim : g.opaque(dim);
  return result;
}

Dims RuntimeAxes::inserted(GraphBuilder &g, ArrayRef<Dim> rest) const {
  Dims result;
  Dim position(0);
  for (size_t d = 0; d < isMember.size(); ++d) {
    Dim isOld = Dim(1) - isMember[d], value = isMember[d];
    for (size_t j = 0; j < rest.size() && j <= d; ++j)
      if (!isOld.is(0))
        value = value + isOld * isEqual(g, position, int64_t(j)) * rest[j];
    position = g.opaque(position + isOld);
    result.push_back(constants() ? value : g.opaque(value));
  }
  return result;
}
