// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/host/HostCode.h"

#include "compiler/codegen/host/Buffers.h"
#include "compiler/codegen/host/GraphMath.h"
#include "compiler/codegen/machine/EmitObject.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Transforms/BufferDeallocationOpInterfaceImpl.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/ControlFlow/Transforms/BufferDeallocationOpInterfaceImpl.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/AllocationOpInterfaceImpl.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/Transforms/BufferDeallocationOpInterfaceImpl.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace heddle;

void heddle::registerHostCodeModels(DialectRegistry &registry) {
  registry.insert<affine::AffineDialect>();
  arith::registerBufferDeallocationOpInterfaceExternalModels(registry);
  cf::registerBufferDeallocationOpInterfaceExternalModels(registry);
  memref::registerAllocationOpInterfaceExternalModels(registry);
  scf::registerBufferDeallocationOpInterfaceExternalModels(registry);
}

HostLowering::HostLowering(ModuleOp source, KernelLibrary &kernels, const Target &target)
    : kernels(kernels), target(target) {
  IRMapping map;
  code = cast<ModuleOp>(source->clone(map));
  for (auto [op, copy] : map.getOperationMap())
    sources[copy] = op;
}

LogicalResult HostLowering::runPasses(function_ref<void(OpPassManager &)> add) {
  PassManager pm(code->getContext());
  add(pm);
  return pm.run(*code);
}

//===- buffers ------------------------------------------------------------===//

void HostLowering::bindWeights(func::FuncOp func, Value base) {
  func.walk([&](bufferization::ToBufferOp op) {
    auto weight = op.getTensor().getDefiningOp<WeightOp>();
    if (!weight)
      return;
    RawBuilder b(op.getLoc(), op);
    Value address = b.at(base, weight.getPacking().getOffset());
    op.replaceAllUsesWith(bufferAt(b, address, cast<MemRefType>(op.getType()), ValueRange()));
    op.erase();
  });
  func.walk([](WeightOp op) { op.erase(); });
}

static bool hasAdjacentColumns(Value buffer) {
  return cast<MemRefType>(buffer.getType()).getStridesAndOffset().first.back() == 1;
}

// Kernels read rows whose columns lie side by side: operands that are views of others get a copy.
void HostLowering::gatherOperands() {
  code->walk([&](PackedMatmulOp op) {
    if (hasAdjacentColumns(op.getInput()))
      return;
    OpBuilder b(op);
    auto type = cast<MemRefType>(op.getInput().getType());
    SmallVector<Value> sizes;
    for (auto [axis, size] : llvm::enumerate(type.getShape()))
      if (ShapedType::isDynamic(size))
        sizes.push_back(memref::DimOp::create(b, op.getLoc(), op.getInput(), axis));
    auto dense = MemRefType::get(type.getShape(), type.getElementType());
    Value copy = memref::AllocOp::create(b, op.getLoc(), dense, sizes);
    memref::CopyOp::create(b, op.getLoc(), op.getInput(), copy);
    op.getInputMutable().assign(copy);
  });
}

// Copies between layouts are loops; between whole buffers they stay copies of memory.
void HostLowering::expandCopies() {
  code->walk([&](memref::CopyOp op) {
    auto isWhole = [](Value buffer) { return cast<MemRefType>(buffer.getType()).getLayout().isIdentity(); };
    if (isWhole(op.getSource()) && isWhole(op.getTarget()))
      return;
    OpBuilder b(op);
    linalg::makeMemRefCopyOp(b, op.getLoc(), op.getSource(), op.getTarget());
    op.erase();
  });
}

// A dimension that is split into more than one of dynamic size is read through a view of its own: what upstream makes of one takes
// all but one size of a group for static, and crashes.
void HostLowering::castOpenGroups() {
  code->walk([&](memref::ExpandShapeOp op) {
    MemRefType type = op.getResultType();
    auto isOpen = [&](const ReassociationIndices &group) {
      return llvm::count_if(group, [&](int64_t d) { return type.isDynamicDim(d); }) > 1;
    };
    if (llvm::none_of(op.getReassociationIndices(), isOpen))
      return;
    OpBuilder b(op);
    Location loc = op.getLoc();
    auto [staticStrides, staticOffset] = type.getStridesAndOffset();
    auto source = memref::ExtractStridedMetadataOp::create(b, loc, op.getSrc());
    SmallVector<OpFoldResult> sizes = op.getMixedOutputShape(), strides(type.getRank());
    for (auto [g, group] : llvm::enumerate(op.getReassociationIndices())) {
      Value stride = source.getStrides()[g]; // of the dimensions after `d` in its group
      for (int64_t d : llvm::reverse(group)) {
        strides[d] = ShapedType::isDynamic(staticStrides[d]) ? OpFoldResult(stride) : b.getIndexAttr(staticStrides[d]);
        stride = arith::MulIOp::create(b, loc, stride, getValueOrCreateConstantIndexOp(b, loc, sizes[d]));
      }
    }
    OpFoldResult offset =
        ShapedType::isDynamic(staticOffset) ? OpFoldResult(source.getOffset()) : b.getIndexAttr(staticOffset);
    op.replaceAllUsesWith(
        memref::ReinterpretCastOp::create(b, loc, type, source.getBaseBuffer(), offset, sizes, strides).getResult());
    op.erase();
  });
}

//===- kernels ------------------------------------------------------------===//

LogicalResult HostLowering::launchKernels() {
  for (auto func : code->getOps<func::FuncOp>()) {
    if (func.isExternal() || func->hasAttr("heddle.kernel"))
      continue;
    std::unique_ptr<KernelLauncher> launcher = launcherOf(func);
    SmallVector<Operation *> ops;
    func.walk([&](Operation *op) {
      if (launcher->canLaunch(op))
        ops.push_back(op);
    });
    for (Operation *op : ops)
      if (failed(launcher->replace(op)))
        return failure();
    WalkResult left = func.walk([](Operation *op) {
      if (!isa<HeddleDialect>(op->getDialect()))
        return WalkResult::advance();
      op->emitError("host code has no form for this op");
      return WalkResult::interrupt();
    });
    if (left.wasInterrupted())
      return failure();
  }
  declareKernels();
  return success();
}

// In the place of outlined kernels stand the emitted ones, by name, and tasks.
void HostLowering::declareKernels() {
  for (auto func : llvm::make_early_inc_range(code->getOps<func::FuncOp>()))
    if (func->hasAttr("heddle.kernel"))
      func.erase();
  OpBuilder b = OpBuilder::atBlockBegin(code->getBody());
  auto declare = [&](StringRef name) {
    auto defined = kernels.code().lookupSymbol<func::FuncOp>(name);
    if (defined && !code->lookupSymbol(name))
      func::FuncOp::create(b, defined.getLoc(), name, defined.getFunctionType()).setPrivate();
  };
  code->walk([&](func::CallOp op) { declare(op.getCallee()); });
  code->walk([&](func::ConstantOp op) { declare(op.getValue()); });
}

//===- to llvm ------------------------------------------------------------===//

void HostLowering::expandMath() {
  RewritePatternSet patterns(code->getContext());
  populateGraphMathPatterns(patterns);
  (void)applyPatternsGreedily(*code, std::move(patterns));
}

// Vectors of bf16 are bits: what is selected, read and written of them is integers of their width. Where a CPU has no such type, LLVM would
// turn each into a call that rounds a float, of a library that no output is linked with.
static void useBitsOfBf16(ModuleOp code) {
  OpBuilder b(code.getContext());
  auto bitsOf = [&](Type type) -> Type {
    auto vector = dyn_cast<VectorType>(type);
    return vector && vector.getElementType().isBF16() ? vector.clone(b.getI16Type()) : Type();
  };
  code.walk([&](Operation *op) {
    if (!isa<LLVM::SelectOp, LLVM::LoadOp, LLVM::StoreOp, LLVM::MaskedLoadOp, LLVM::MaskedStoreOp>(op))
      return;
    b.setInsertionPoint(op);
    for (OpOperand &operand : op->getOpOperands())
      if (Type bits = bitsOf(operand.get().getType()))
        operand.set(LLVM::BitcastOp::create(b, op->getLoc(), bits, operand.get()));
    b.setInsertionPointAfter(op);
    for (OpResult result : op->getResults())
      if (Type type = result.getType(), bits = bitsOf(type); bits) {
        result.setType(bits);
        auto numbers = LLVM::BitcastOp::create(b, op->getLoc(), type, result);
        result.replaceAllUsesExcept(numbers, numbers);
      }
  });
}

FailureOr<OwningOpRef<ModuleOp>> HostLowering::run() {
  if (failed(bind()))
    return failure();
  gatherOperands();
  // Equal sizes are then one value, by which buffers of one size are known.
  if (failed(runPasses([](OpPassManager &pm) { pm.addPass(createCSEPass()); })) || failed(releaseBuffers()))
    return failure();
  expandCopies();
  castOpenGroups();
  if (failed(launchKernels()) || failed(shareLoops()))
    return failure();
  if (failed(runPasses([](OpPassManager &pm) {
        pm.addPass(createConvertLinalgToLoopsPass());
        pm.addPass(memref::createExpandStridedMetadataPass());
        pm.addPass(createLowerAffinePass());
        math::MathExtendToSupportedTypesOptions wideMath;
        pm.addPass(math::createMathExtendToSupportedTypes(wideMath));
      })))
    return failure();
  expandMath();
  if (failed(runPasses([](OpPassManager &pm) {
        // 16-bit floats are stored, not computed with: every op rounds once.
        arith::ArithEmulateUnsupportedFloatsOptions narrow;
        narrow.sourceTypeStrs = {"bf16", "f16"};
        narrow.targetTypeStr = "f32";
        pm.addPass(arith::createArithEmulateUnsupportedFloats(narrow));
        arith::ArithExpandOpsPassOptions expand;
        expand.includeBf16 = true;
        pm.addPass(arith::createArithExpandOpsPass(expand));
        pm.addPass(createCanonicalizerPass());
        pm.addPass(createCSEPass());
      })))
    return failure();
  callRuntime();
  if (failed(lowerToLLVM(*code, target.cpu)))
    return failure();
  useBitsOfBf16(*code);
  return std::move(code);
}
