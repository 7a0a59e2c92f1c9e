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

// `text`, whose first operands are `count` results, which begin as `sums` where there are any, and the next ones `inputs`, behind the copies of sums: LLVM counts
// both.
SmallVector<Value> inlineAssembly(ConversionPatternRewriter &b, Location loc, StringRef text, size_t count,
                                  ValueRange sums, ValueRange inputs) {
  std::string constraints;
  auto constrain = [&](const Twine &constraint) { constraints += (constraint + ",").str(); };
  for (size_t i = 0; i < count; ++i)
    constrain(sums.empty() ? "=&f" : "=f");
  for (size_t i = 0; i < sums.size(); ++i)
    constrain(Twine(i));
  for (Value input : inputs)
    constrain(input.getType().isInteger(64) ? "l" : "r");
  constraints += "~{memory}";
  SmallVector<Value> operands(sums);
  operands.append(inputs.begin(), inputs.end());
  Type result =
      count ? LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(count, b.getF32Type())) : Type();
  auto assembly = LLVM::InlineAsmOp::create(
      b, loc, result ? TypeRange(result) : TypeRange(), operands, text, constraints, /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr());
  SmallVector<Value> results;
  for (size_t i = 0; i < count; ++i)
    results.push_back(LLVM::ExtractValueOp::create(b, loc, assembly.getRes(), i));
  return results;
}

// One text from the fence to the commit: nothing that writes its registers comes between.
struct LowerMultiply : ConvertOpToLLVMPattern<WarpgroupMultiplyOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult matchAndRewrite(WarpgroupMultiplyOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &b) const override {
    size_t sums = op.getResults().size(), firstA = sums + op.getSums().size(), firstB = firstA + op.getA().size();
    std::string name = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(2 * sums) + "k16.f32.bf16.bf16", text;
    bool startsAtZero = op.getSums().empty();
    text = "wgmma.fence.sync.aligned;\n";
    // Behind the operands: whether the sums count, A and B keep their signs, whether B's rows are of N.
    for (size_t i = 0; i < op.getB().size(); ++i)
      text += name + " {" + registersFrom(0, sums) + "}, {" + registersFrom(firstA + 4 * i, 4) + "}, $" +
              std::to_string(firstB + i) + (startsAtZero && i == 0 ? ", 0" : ", 1") + ", 1, 1, " +
              (op.getTransposed() ? "1" : "0") + ";\n";
    text += "wgmma.commit_group.sync.aligned;";
    SmallVector<Value> inputs(adaptor.getA());
    inputs.append(adaptor.getB().begin(), adaptor.getB().end());
    b.replaceOp(op, inlineAssembly(b, op.getLoc(), text, sums, adaptor.getSums(), inputs));
    return success();
  }
};

struct LowerWait : ConvertOpToLLVMPattern<WarpgroupWaitOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult matchAndRewrite(WarpgroupWaitOp op, OpAdaptor adaptor, ConversionPatternRewriter &b) const override {
    std::string text = "wgmma.wait_group.sync.aligned " + std::to_string(op.getPending()) + ";";
    ValueRange sums = adaptor.getSums();
    b.replaceOp(op, inlineAssembly(b, op.getLoc(), text, sums.size(), sums, {}));
    return success();
  }
};

} // namespace

void heddle::populateGpuOpPatterns(const LLVMTypeConverter &types, RewritePatternSet &patterns) {
  patterns.add<LowerMultiply, LowerWait>(types);
}
