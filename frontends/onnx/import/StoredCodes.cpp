// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A quantised weight that is dequantised in the graph would be so on every run. Where codes, scales and zeros lie in the file, the weight is
// what they stand for, and packing brings them together.

#include "frontends/onnx/import/StoredCodes.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;

WeightOp heddle::storedWeight(const GraphValue &x) {
  auto weight = x.value ? x.value.getDefiningOp<WeightOp>() : WeightOp();
  StorageAttr storage = weight ? weight.getStorage() : StorageAttr();
  return storage && !storage.getTransposed() && !weight->hasAttr(Codes::attrName) ? weight : WeightOp();
}

// The one number that all elements of `x` are, if they are constants.
static std::optional<double> oneNumber(GraphBuilder &g, const GraphValue &x) {
  if (std::optional<SmallVector<int64_t>> integers = x.integers())
    return !integers->empty() && llvm::all_equal(*integers) ? std::optional<double>(integers->front()) : std::nullopt;
  DenseElementsAttr elements; // of a tensor that the file has no bytes of its own for
  if (x.value && matchPattern(x.value, m_Constant(&elements)) && elements.isSplat() && !isFloat(x.type)) {
    APInt number = elements.getSplatValue<APInt>();
    return isUnsigned(x.type) ? double(number.getZExtValue()) : double(number.getSExtValue());
  }
  bool isOne = llvm::all_of(x.dims, [](const Dim &dim) { return dim.is(1); });
  return isOne ? g.constantNumber(x) : std::nullopt;
}

bool heddle::addNumbers(GraphBuilder &g, Codes &codes, const GraphValue &scales, const GraphValue &zeros) {
  if (scales) {
    if (std::optional<double> number = oneNumber(g, scales))
      codes.scale = *number;
    else if (WeightOp stored = storedWeight(scales))
      codes.scales = stored.getStorage();
    else
      return false;
  }
  if (zeros) {
    if (std::optional<double> number = oneNumber(g, zeros)) {
      codes.zero = int64_t(*number);
      if (codes.bits == 4) { // two in a byte
        if (codes.zero % 16 != codes.zero / 16)
          return false;
        codes.zero %= 16;
      }
    } else if (zeros.storage) {
      codes.zeros = zeros.storage;
    } else if (WeightOp stored = storedWeight(zeros)) {
      codes.zeros = stored.getStorage();
    } else {
      return false;
    }
  }
  return true;
}

Value heddle::numbersAt(GraphBuilder &g, WeightOp weight, StringRef name, StorageAttr storage, const Codes &codes,
                        int64_t rows, int64_t columns) {
  auto numbers =
      WeightOp::create(g.b, weight.getLoc(), RankedTensorType::get({rows, columns}, g.b.getF32Type()), name, storage);
  numbers->setAttr(Codes::attrName, codes.toAttr(g.b.getContext()));
  return numbers;
}

GraphValue heddle::linear(GraphBuilder &g, const GraphValue &x, Value weights) {
  if (g.failed())
    return {};
  Dims dims = x.dims;
  dims.back() = Dim(cast<RankedTensorType>(weights.getType()).getDimSize(0));
  Value product =
      LinearOp::create(g.b, g.loc, g.tensorType(OnnxType::Float, dims), g.tensor(x), ValueRange{weights}, ValueRange());
  return g.wrap(product, OnnxType::Float, dims);
}
