// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What verifiers, effects and costs of kernel ops have in common.
#ifndef HEDDLE_DIALECT_KERNELOPVERIFIERS_H
#define HEDDLE_DIALECT_KERNELOPVERIFIERS_H

#include "dialect/HeddleDialect.h"

namespace heddle {

inline mlir::ShapedType shaped(mlir::Value value) {
  return mlir::cast<mlir::ShapedType>(value.getType());
}
inline bool isMatrix(mlir::Value value, int64_t columns) {
  return shaped(value).getRank() == 2 && shaped(value).getDimSize(1) == columns;
}
inline int64_t rowBytes(mlir::Value value) {
  mlir::ShapedType type = shaped(value);
  int64_t bytes = type.getElementType().getIntOrFloatBitWidth() / 8;
  for (int64_t size : type.getShape())
    bytes *= mlir::ShapedType::isDynamic(size) ? 1 : size;
  return mlir::ShapedType::isDynamicShape(type.getShape()) ? bytes : 0;
}
// Of a matrix, whether or not its rows are those of the step.
inline int64_t matrixRowBytes(mlir::Value value) {
  return shaped(value).getDimSize(1) * shaped(value).getElementType().getIntOrFloatBitWidth() / 8;
}
inline int64_t staticBytes(mlir::Value value) {
  mlir::ShapedType type = shaped(value);
  return type.hasStaticShape() ? type.getNumElements() * type.getElementType().getIntOrFloatBitWidth() / 8 : 0;
}

// Reads its buffers, writes its destinations: memory effects of a kernel once it works on memrefs.
inline void kernelEffects(mlir::DestinationStyleOpInterface op,
                          llvm::SmallVectorImpl<mlir::MemoryEffects::EffectInstance> &effects) {
  for (mlir::OpOperand &operand : op->getOpOperands()) {
    if (!mlir::isa<mlir::MemRefType>(operand.get().getType()))
      continue;
    if (op.isDpsInit(&operand))
      effects.emplace_back(mlir::MemoryEffects::Write::get(), &operand, mlir::SideEffects::DefaultResource::get());
    else
      effects.emplace_back(mlir::MemoryEffects::Read::get(), &operand, mlir::SideEffects::DefaultResource::get());
  }
}

inline mlir::LogicalResult verifyResults(mlir::DestinationStyleOpInterface op) {
  bool buffers = op.hasPureBufferSemantics();
  if (buffers ? op->getNumResults() != 0 : op->getNumResults() != op.getDpsInits().size())
    return op->emitOpError("must have a result per destination on tensors and none on buffers");
  return mlir::success();
}

// Of a product whose kernel prepares its rows: `room` and `norm` are null where there are none.
template <typename Op>
mlir::LogicalResult verifyPreparation(Op op, mlir::Value room, mlir::Value norm, int64_t k, llvm::StringRef place) {
  auto isFloat = [](mlir::Value value) { return shaped(value).getElementType().isF32(); };
  if (room &&
      (!isMatrix(room, k) || !(isFloat(room) || shaped(room).getElementType().isBF16()) || !isFloat(op.getInput())))
    return op.emitOpError("the ") << place << " destination must be f32 or bf16 (rows, " << k << "), of a f32 input";
  if (bool(norm) != bool(op.getEps()) || bool(norm) != bool(op.getWeightOffset()))
    return op.emitOpError("'eps' and 'weight_offset' belong to a norm");
  if (norm && (!room || !isFloat(norm) || shaped(norm).getShape() != llvm::ArrayRef<int64_t>(k)))
    return op.emitOpError("a norm must be f32 (") << k << ") and needs a " << place << " destination";
  if (room && !norm && isFloat(room))
    return op.emitOpError("a ") << place << " destination without a norm must be bf16";
  return mlir::success();
}

} // namespace heddle

#endif
