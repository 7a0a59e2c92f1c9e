// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/onnx/import/InnerGraph.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

RankedTensorType heddle::typeOf(GraphBuilder &g, const Carried &c) {
  SmallVector<int64_t> shape;
  for (const std::optional<Dim> &dim : c.dims)
    shape.push_back(dim && dim->isStatic() ? dim->value() : ShapedType::kDynamic);
  return RankedTensorType::get(shape, g.elementType(c.type));
}

Carried heddle::carriedOf(const GraphValue &x) {
  return {x.type, {x.dims.begin(), x.dims.end()}};
}

GraphValue heddle::received(GraphBuilder &g, Value value, const Carried &c) {
  Dims dims;
  for (auto [i, dim] : llvm::enumerate(c.dims))
    dims.push_back(dim ? *dim : g.dimOf(tensor::DimOp::create(g.b, g.loc, value, int64_t(i))));
  return {c.type, dims, value, nullptr};
}

Value heddle::sent(GraphBuilder &g, const GraphValue &x, const Carried &c) {
  Value value = g.tensor(x);
  RankedTensorType type = typeOf(g, c);
  return !value || value.getType() == type ? value : tensor::CastOp::create(g.b, g.loc, type, value).getResult();
}

InnerBlock::InnerBlock(GraphBuilder &g) : g(g), guard(g.b), block(std::make_unique<Block>()), scope(g.enter()) {
  g.b.setInsertionPointToStart(block.get());
}

InnerBlock::~InnerBlock() {
  g.leave(scope);
  if (block)
    g.forget(scope);
}
