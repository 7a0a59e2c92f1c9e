// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/host/GraphCode.h"

#include "compiler/codegen/host/GraphEntry.h"
#include "compiler/codegen/host/GraphKernels.h"
#include "compiler/codegen/host/GraphLoops.h"
#include "compiler/codegen/host/GraphMath.h"
#include "compiler/codegen/host/GraphMemory.h"
#include "compiler/codegen/machine/EmitObject.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Transforms/BufferDeallocationOpInterfaceImpl.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Pipelines/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/ControlFlow/Transforms/BufferDeallocationOpInterfaceImpl.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/AllocationOpInterfaceImpl.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/BufferDeallocationOpInterfaceImpl.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace heddle;

void heddle::registerGraphCodeModels(DialectRegistry &registry) {
  registry.insert<affine::AffineDialect>();
  arith::registerBufferDeallocationOpInterfaceExternalModels(registry);
  cf::registerBufferDeallocationOpInterfaceExternalModels(registry);
  memref::registerAllocationOpInterfaceExternalModels(registry);
  scf::registerBufferDeallocationOpInterfaceExternalModels(registry);
}

namespace {

// The steps of one lowering, in order; each leaves a valid module.
class GraphLowering {
public:
  GraphLowering(ModuleOp module, KernelLibrary &kernels, const CpuTarget &target)
      : module(module), kernels(kernels), target(target), b(module.getContext()) {}
  LogicalResult run();

private:
  LogicalResult runPasses(function_ref<void(OpPassManager &)> add) {
    PassManager pm(module.getContext());
    add(pm);
    return pm.run(module);
  }
  void addArguments();
  void guardAllocations();
  void expandCopies();
  void castOpenGroups();
  void expandMath();
  void guardDivisions();
  void lowerAssertions();

  ModuleOp module;
  KernelLibrary &kernels;
  const CpuTarget &target;
  OpBuilder b;
  func::FuncOp graph;
  SmallVector<func::FuncOp> loops; // of `graph`, which threads share
};

} // namespace

// @graph(call, inputs..., weights): weights become views of the section.
void GraphLowering::addArguments() {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto bytes = MemRefType::get({ShapedType::kDynamic}, b.getI8Type());
  (void)graph.insertArgument(0, pointer, {}, graph.getLoc());
  unsigned last = graph.getNumArguments();
  (void)graph.insertArgument(last, bytes, {}, graph.getLoc());
  Value section = graph.getArgument(last);
  module.walk([&](bufferization::ToBufferOp op) {
    auto weight = op.getTensor().getDefiningOp<WeightOp>();
    if (!weight)
      return;
    b.setInsertionPoint(op);
    Value offset = arith::ConstantIndexOp::create(b, op.getLoc(), weight.getPacking().getOffset());
    op.replaceAllUsesWith(
        Value(memref::ViewOp::create(b, op.getLoc(), cast<MemRefType>(op.getType()), section, offset, ValueRange())));
    op.erase();
  });
  module.walk([](WeightOp op) { op.erase(); });
}

// A size that a graph computes may be negative, and a product of sizes may wrap: both are refused before memory is asked for.
// The product in f64 is exact enough for a bound.
void GraphLowering::guardAllocations() {
  constexpr double mostBytes = 1ull << 47; // more than an address space of today's machines
  module.walk([&](memref::AllocOp op) {
    if (op.getDynamicSizes().empty())
      return;
    b.setInsertionPoint(op);
    Location loc = op.getLoc();
    auto type = cast<MemRefType>(op.getType());
    double fixed = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
    for (int64_t size : type.getShape())
      fixed *= ShapedType::isDynamic(size) ? 1 : double(size);
    Value product = arith::ConstantOp::create(b, loc, b.getF64FloatAttr(fixed));
    Value zero = arith::ConstantIndexOp::create(b, loc, 0), isValid;
    for (Value size : op.getDynamicSizes()) {
      Value wide = arith::IndexCastOp::create(b, loc, b.getI64Type(), size);
      product = arith::MulFOp::create(b, loc, product, arith::SIToFPOp::create(b, loc, b.getF64Type(), wide));
      Value isSize = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, size, zero);
      isValid = isValid ? Value(arith::AndIOp::create(b, loc, isValid, isSize)) : isSize;
    }
    Value limit = arith::ConstantOp::create(b, loc, b.getF64FloatAttr(mostBytes));
    Value fits = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLE, product, limit);
    cf::AssertOp::create(b, loc, arith::AndIOp::create(b, loc, isValid, fits),
                         "a tensor would have a negative or an impossible size");
  });
}

// Copies between layouts are loops; between whole buffers they stay copies of memory.
void GraphLowering::expandCopies() {
  module.walk([&](memref::CopyOp op) {
    auto isWhole = [](Value buffer) { return cast<MemRefType>(buffer.getType()).getLayout().isIdentity(); };
    if (isWhole(op.getSource()) && isWhole(op.getTarget()))
      return;
    b.setInsertionPoint(op);
    linalg::makeMemRefCopyOp(b, op.getLoc(), op.getSource(), op.getTarget());
    op.erase();
  });
}

// A dimension that is split into more than one of dynamic size is read through a view of its own: what upstream makes of one takes
// all but one size of a group for static, and crashes.
void GraphLowering::castOpenGroups() {
  module.walk([&](memref::ExpandShapeOp op) {
    MemRefType type = op.getResultType();
    auto isOpen = [&](const ReassociationIndices &group) {
      return llvm::count_if(group, [&](int64_t d) { return type.isDynamicDim(d); }) > 1;
    };
    if (llvm::none_of(op.getReassociationIndices(), isOpen))
      return;
    b.setInsertionPoint(op);
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

void GraphLowering::expandMath() {
  RewritePatternSet patterns(b.getContext());
  populateGraphMathPatterns(patterns);
  (void)applyPatternsGreedily(module, std::move(patterns));
}

// Integer division by zero gives 0 and the smallest number divided by -1 itself, as in numpy: no machine trap ends a graph.
void GraphLowering::guardDivisions() {
  auto isSafe = [](Value divisor) {
    APInt value;
    return matchPattern(divisor, m_ConstantInt(&value)) && !value.isZero() && !value.isAllOnes();
  };
  auto guard = [&](Operation *op) {
    bool isSigned = isa<arith::DivSIOp, arith::RemSIOp>(op), isDivision = isa<arith::DivSIOp, arith::DivUIOp>(op);
    if (!(isSigned || isa<arith::DivUIOp, arith::RemUIOp>(op)) || isSafe(op->getOperand(1)))
      return;
    b.setInsertionPoint(op);
    Location loc = op->getLoc();
    Value dividend = op->getOperand(0), divisor = op->getOperand(1);
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(b, loc, b.getIntegerAttr(divisor.getType(), value));
    };
    auto equal = [&](Value x, Value y) -> Value {
      return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x, y);
    };
    Value isZero = equal(divisor, constant(0)), isSpecial = isZero, special = constant(0);
    if (isSigned) {
      Value isMinusOne = equal(divisor, constant(-1));
      isSpecial = arith::OrIOp::create(b, loc, isZero, isMinusOne);
      if (isDivision)
        special = arith::SelectOp::create(b, loc, isZero, special, arith::SubIOp::create(b, loc, special, dividend));
    }
    op->setOperand(1, arith::SelectOp::create(b, loc, isSpecial, constant(1), divisor));
    b.setInsertionPointAfter(op);
    auto guarded = arith::SelectOp::create(b, loc, isSpecial, special, op->getResult(0));
    op->getResult(0).replaceAllUsesExcept(guarded, guarded);
  };
  graph.walk(guard);
  for (func::FuncOp loop : loops)
    loop.walk(guard);
}

// cf.assert → call->fail(call, message), which does not return, unless it holds.
void GraphLowering::lowerAssertions() {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  llvm::StringMap<std::string> messages;
  SmallVector<cf::AssertOp> assertions;
  graph.walk([&](cf::AssertOp op) { assertions.push_back(op); });
  for (cf::AssertOp op : assertions) {
    Location loc = op.getLoc();
    auto [entry, isNew] = messages.try_emplace(op.getMsg(), "heddle_message_" + std::to_string(messages.size()));
    if (isNew) {
      b.setInsertionPointToStart(module.getBody());
      std::string text = op.getMsg().str() + std::string(1, '\0');
      LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), text.size()), true,
                             LLVM::Linkage::Internal, entry->second, b.getStringAttr(text));
    }
    b.setInsertionPoint(op);
    requireInGraph(b, loc, graph, op.getArg(), LLVM::AddressOfOp::create(b, loc, pointer, entry->second).getResult());
    op.erase();
  }
}

LogicalResult GraphLowering::run() {
  graph = module.lookupSymbol<func::FuncOp>("graph");
  addArguments();
  gatherKernelOperands(graph);
  // Equal sizes are then one value, by which buffers of one size are known.
  if (failed(runPasses([](OpPassManager &pm) { pm.addPass(createCSEPass()); })))
    return failure();
  releaseAtLastUse(graph);
  if (failed(runPasses([](OpPassManager &pm) {
        bufferization::buildBufferDeallocationPipeline(pm);
        // Deallocation clones what is returned twice, or returned as it came.
        pm.addPass(createConvertBufferizationToMemRefPass());
      })))
    return failure();
  guardAllocations();
  expandCopies();
  castOpenGroups();
  if (failed(lowerKernels(graph, kernels)))
    return failure();
  loops = shareLoops(graph, target);
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
  guardDivisions();
  lowerAssertions();
  return runPasses([](OpPassManager &pm) {
    pm.addPass(createSCFToControlFlowPass());
    pm.addPass(createConvertVectorToLLVMPass());
    ConvertMathToFuncsOptions powers;
    powers.minWidthOfFPowIExponent = 1;
    pm.addPass(createConvertMathToFuncs(powers));
    pm.addPass(createConvertMathToLLVMPass());
    pm.addPass(createConvertMathToLibmPass());
    FinalizeMemRefToLLVMConversionPassOptions memory;
    memory.useAlignedAlloc = true;
    pm.addPass(createFinalizeMemRefToLLVMConversionPass(memory));
    pm.addPass(createArithToLLVMConversionPass());
    pm.addPass(createConvertControlFlowToLLVMPass());
    pm.addPass(createUBToLLVMConversionPass());
    pm.addPass(createConvertFuncToLLVMPass());
    pm.addPass(createReconcileUnrealizedCastsPass());
  });
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

FailureOr<OwningOpRef<ModuleOp>> heddle::buildGraphCode(func::FuncOp source, StringRef symbol, KernelLibrary &kernels,
                                                        const CpuTarget &target) {
  auto module = source->getParentOfType<ModuleOp>();
  // With the constants of all entries: those of others are not emitted, since nothing reads them.
  OwningOpRef<ModuleOp> code = module.clone();
  for (auto func : llvm::make_early_inc_range(code->getOps<func::FuncOp>()))
    if (func.getSymName() != source.getSymName())
      func.erase();
  auto graph = *code->getOps<func::FuncOp>().begin();
  graph.setName("graph");
  SmallVector<MemRefType> inputs, outputs;
  for (Type type : graph.getArgumentTypes())
    inputs.push_back(cast<MemRefType>(type));
  for (Type type : graph.getResultTypes())
    outputs.push_back(cast<MemRefType>(type));
  if (failed(GraphLowering(*code, kernels, target).run()) || failed(addGraphEntry(*code, symbol, inputs, outputs)))
    return failure();
  useBitsOfBf16(*code);
  return code;
}
