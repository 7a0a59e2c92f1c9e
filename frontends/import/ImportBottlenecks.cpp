// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bottleneck adapters in the graph. A family's file knows of none: the linear layer whose result an adapter takes has a name, the sum that reads
// the result has the residual, and the norm behind the sum, where the family has one there, is the layer's. What replaces them is written as
// AdapterHub computes it, with up to two uses of that norm.

#include "frontends/import/ModelImporter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace heddle;

void ModelImporter::noteBottleneck(TensorHandle x, const std::string &name) {
  std::string layer = name.substr(0, name.rfind(".weight"));
  if (bottlenecks && bottlenecks->places.count(prefix + layer))
    blocks.push_back({x, TensorHandle(), layer});
}

std::optional<ModelImporter::BottleneckPlace> ModelImporter::takeBlock(TensorHandle a, TensorHandle c) {
  auto found = llvm::find_if(blocks, [&](const BottleneckPlace &place) {
    return place.block.value == a.value || place.block.value == c.value;
  });
  if (found == blocks.end())
    return std::nullopt;
  BottleneckPlace place = *found;
  place.residual = place.block.value == a.value ? c : a;
  blocks.erase(found);
  return place;
}

std::optional<ModelImporter::BottleneckPlace> ModelImporter::takeSum(TensorHandle x) {
  auto found = llvm::find_if(sums, [&](const std::pair<void *, BottleneckPlace> &sum) { return sum.first == x.value; });
  if (found == sums.end())
    return std::nullopt;
  BottleneckPlace place = found->second;
  sums.erase(found);
  return place;
}

TensorHandle ModelImporter::sumOf(const BottleneckPlace &place) {
  TensorHandle sum = add(place.block, place.residual);
  sums.emplace_back(sum.value, place);
  return sum;
}

TensorHandle ModelImporter::bottleneckOf(const BottleneckPlace &place, TensorHandle x, TensorHandle residual) {
  const BottleneckWiring &wiring = bottlenecks->wiring;
  if (wiring.normsBefore)
    x = layerNorm(x, place.name + bottleneckNormBefore, bottleneckNormEps);
  x = linear(activation(linear(x, place.name + bottleneckDown), wiring.activation), place.name + bottleneckUp);
  bool addsFirst = !wiring.isParallel && wiring.residualBeforeNorm;
  if (addsFirst)
    x = add(x, residual);
  if (wiring.normsAfter)
    x = layerNorm(x, place.name + bottleneckNormAfter, bottleneckNormEps);
  return addsFirst ? x : add(x, residual);
}

TensorHandle ModelImporter::bottlenecked(const BottleneckPlace &place, const LayerBody &norm) {
  const BottleneckWiring &wiring = bottlenecks->wiring;
  auto normed = [&](TensorHandle x) { return norm ? norm(x) : x; };
  TensorHandle x = wiring.isParallel ? place.residual : place.block, own = place.block;
  if (wiring.originalBefore && !wiring.isParallel) {
    TensorHandle sum = add(place.block, place.residual);
    x = normed(sum);
    if (wiring.residual == BottleneckResidual::PostAdd)
      own = sum;
    if (wiring.residual == BottleneckResidual::AfterNorm)
      own = x;
  }
  ++numBottlenecks;
  TensorHandle adapted = bottleneckOf(place, x, own);
  return wiring.originalAfter ? normed(add(adapted, place.residual)) : adapted;
}
