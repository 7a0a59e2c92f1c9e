// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What parameters are in MLIR's types, and which of them a specification asks for.

#include "compiler/codegen/kernel/KernelCalls.h"

#include "compiler/codegen/kernel/KernelSpecs.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace heddle;

Type heddle::parameterType(MLIRContext *context, ParameterKind kind) {
  if (kind == ParameterKind::Pointer)
    return LLVM::LLVMPointerType::get(context);
  bool isThread = kind == ParameterKind::Thread || kind == ParameterKind::NumThreads;
  return IntegerType::get(context, isThread ? 32 : 64);
}

Value heddle::noBuffer(OpBuilder &b, Location loc) {
  return LLVM::ZeroOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()));
}

unsigned heddle::formOf(const MatmulSpec &spec) {
  return (spec.rows == MatmulRows::Dense ? MatmulCall::Dense : MatmulCall::Listed) |
         (spec.int16FewRows ? MatmulCall::ByRows : 0) | (spec.prepares ? MatmulCall::Prepared : 0) |
         (spec.roundedAbove ? MatmulCall::Rounded : 0);
}

unsigned heddle::formOf(const AttentionSpec &spec) {
  return (spec.positions.kind ? AttentionCall::Positions : 0) | (spec.storesScores ? AttentionCall::StoredScores : 0);
}

unsigned heddle::formOf(const RotateAppendSpec &spec) {
  unsigned form = spec.heads.hasNorm ? RotateAppendCall::Normed : RotateAppendCall::Plain;
  if (spec.product)
    form |= RotateAppendCall::Product | (spec.product->prepares ? RotateAppendCall::Prepared : 0);
  return form;
}

SmallVector<Value> CallOperands::complete(OpBuilder &b, Location loc) const {
  return llvm::map_to_vector(values, [&](Value value) { return value ? value : noBuffer(b, loc); });
}
