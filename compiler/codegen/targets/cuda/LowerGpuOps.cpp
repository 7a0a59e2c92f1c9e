// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/LowerGpuOps.h"

#include "dialect/HeddleDialect.h"

#include "mlir/Conversion/LLVMCommon/Pattern.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace heddle;

namespace {

// $first, $first + 1, …
std::string registersFrom(size_t first, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return text;
}

// `text`, whose first operands are `sums`, which it changes, and the next ones `inputs`, behind the copies of sums: LLVM counts both. Returns the sums.
SmallVector<Value> inlineAssembly(ConversionPatternRewriter &b, Location loc, StringRef text, ValueRange sums,
                                  ValueRange inputs) {
  std::string constraints;
  auto constrain = [&](const Twine &constraint) { constraints += (constraint + ",").str(); };
  for (size_t i = 0; i < sums.size(); ++i)
    constrain("=f");
  for (size_t i = 0; i < sums.size(); ++i)
    constrain(Twine(i));
  for (Value input : inputs)
    constrain(input.getType().isInteger(64) ? "l" : "r");
  constraints += "~{memory}";
  SmallVector<Value> operands(sums);
  operands.append(inputs.begin(), inputs.end());
  Type result = sums.empty() ? Type()
                             : LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(sums.getTypes()));
  auto assembly = LLVM::InlineAsmOp::create(
      b, loc, result ? TypeRange(result) : TypeRange(), operands, text, constraints, /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr());
  SmallVector<Value> results;
  for (size_t i = 0; i < sums.size(); ++i)
    results.push_back(LLVM::ExtractValueOp::create(b, loc, assembly.getRes(), i));
  return results;
}

// One text from the fence to the commit: nothing that writes its registers comes between.
struct LowerMultiply : ConvertOpToLLVMPattern<WarpgroupMultiplyOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult matchAndRewrite(WarpgroupMultiplyOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &b) const override {
    size_t sums = op.getSums().size(), firstA = 2 * sums, firstB = firstA + op.getA().size();
    std::string name =
        "wgmma.mma_async.sync.aligned.m64n" + std::to_string(2 * sums) + "k16.f32.bf16.bf16", text;
    text = "wgmma.fence.sync.aligned;\n";
    // Behind the operands: the sums count, A and B keep their signs, B's rows are of K.
    for (size_t i = 0; i < op.getB().size(); ++i)
      text += name + " {" + registersFrom(0, sums) + "}, {" + registersFrom(firstA + 4 * i, 4) + "}, $" +
              std::to_string(firstB + i) + ", 1, 1, 1, 0;\n";
    text += "wgmma.commit_group.sync.aligned;";
    SmallVector<Value> inputs(adaptor.getA());
    inputs.append(adaptor.getB().begin(), adaptor.getB().end());
    b.replaceOp(op, inlineAssembly(b, op.getLoc(), text, adaptor.getSums(), inputs));
    return success();
  }
};

struct LowerWait : ConvertOpToLLVMPattern<WarpgroupWaitOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult matchAndRewrite(WarpgroupWaitOp op, OpAdaptor adaptor, ConversionPatternRewriter &b) const override {
    std::string text = "wgmma.wait_group.sync.aligned " + std::to_string(op.getPending()) + ";";
    b.replaceOp(op, inlineAssembly(b, op.getLoc(), text, adaptor.getSums(), {}));
    return success();
  }
};

} // namespace

void heddle::populateGpuOpPatterns(const LLVMTypeConverter &types, RewritePatternSet &patterns) {
  patterns.add<LowerMultiply, LowerWait>(types);
}
