// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code generators that are wrong on purpose: the module that the schedule stage leaves is right, the code made of it is not. A pass
// behind the schedule stage watches the passes that lower the code of the step, and changes that code before the first of them.
// `heddle verify` must name the kernel that suffers; which one it is goes to stderr as "planted in: WEIGHT".

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Action.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Unit.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace heddle;

// The code of a step, of an encode, or of a graph.
static func::FuncOp entryIn(ModuleOp code) {
  for (const char *name : {"heddle_step", "heddle_encode", "heddle_graph_0"})
    if (auto entry = code.lookupSymbol<func::FuncOp>(name))
      return entry;
  return {};
}

// Where an entry's code takes the address of the weight at `offset` of the section. Calls `change` with the op; false if there is none.
static bool changeAddress(ModuleOp code, int64_t offset, llvm::function_ref<int64_t(int64_t)> change) {
  bool isFound = false;
  entryIn(code).walk([&](LLVM::GEPOp address) {
    // A byte offset behind a pointer that the step holds.
    if (address.getDynamicIndices().size() != 1 || !address.getBase().getDefiningOp<LLVM::LoadOp>())
      return;
    auto constant = address.getDynamicIndices()[0].getDefiningOp<LLVM::ConstantOp>();
    auto value = constant ? dyn_cast<IntegerAttr>(constant.getValue()) : IntegerAttr();
    if (!value || value.getInt() != offset)
      return;
    OpBuilder b(address);
    Value changed = LLVM::ConstantOp::create(b, address.getLoc(), b.getI64IntegerAttr(change(offset)));
    address.getDynamicIndicesMutable()[0].set(changed);
    isFound = true;
  });
  return isFound;
}

// The bias of the first of the layers behind pooling.
static WeightOp denseBiasIn(ModuleOp module) {
  WeightOp victim;
  module.lookupSymbol<func::FuncOp>("dense").walk([&](WeightOp op) {
    if (!victim && op.getName().ends_with("dense.0.bias"))
      victim = op;
  });
  return victim;
}

// The largest weight of layer 1 that a product reads.
static WeightOp victimIn(ModuleOp module) {
  WeightOp victim;
  llvm::Regex isOfLayer1("(layers?|h|blk)\\.1\\.");
  auto step = module.lookupSymbol<func::FuncOp>("step");
  (step ? step : module.lookupSymbol<func::FuncOp>("encode")).walk([&](WeightOp op) {
    auto type = cast<ShapedType>(op.getType());
    bool isPacked = isOfLayer1.match(op.getName()) && type.getElementType().isInteger(8);
    if (isPacked && (!victim || type.getNumElements() > cast<ShapedType>(victim.getType()).getNumElements()))
      victim = op;
  });
  return victim;
}

namespace {

struct KernelBug {
  const char *name, *what;
  // Changes the scheduled module, of which it stays right; false: found no place.
  bool (*prepare)(ModuleOp module, WeightOp victim);
  // Changes the code of an entry that reads the victim at `offset`; false: it is another entry's.
  bool (*plant)(ModuleOp code, int64_t offset);
  WeightOp (*choose)(ModuleOp module) = victimIn;
};

} // namespace

static bool nothing(ModuleOp, WeightOp) {
  return true;
}

// Weights from the victim on lie behind a hole of 2^32 bytes, which takes no room in a file.
static bool moveBeyondHole(ModuleOp module, WeightOp victim) {
  int64_t first = victim.getPacking().getOffset(), hole = int64_t(1) << 32;
  module.walk([&](WeightOp op) {
    PackingAttr at = op.getPacking();
    if (at.getOffset() >= first)
      op.setPackingAttr(PackingAttr::get(op.getContext(), at.getLayout(), at.getFormat(), at.getShape(),
                                         at.getOffset() + hole, at.getSources(), at.getGroup(), at.getTransposed(),
                                         at.getManyRows()));
  });
  auto size = module->getAttrOfType<IntegerAttr>("heddle.weights_size");
  if (size)
    module->setAttr("heddle.weights_size", Builder(module.getContext()).getI64IntegerAttr(size.getInt() + hole));
  return bool(size);
}

// As an op does that keeps an index in 30 bits and a sign.
static bool narrowOffsets(ModuleOp code, int64_t offset) {
  return changeAddress(code, offset, [](int64_t offset) { return llvm::SignExtend64<31>(offset); });
}

static const KernelBug bugs[] = {
    {"bug-narrow-offset", "a weight's place beyond 2^32 bytes is kept in 31 bits", moveBeyondHole, narrowOffsets},
    {"bug-other-weight", "a kernel reads the weights behind its own", nothing,
     [](ModuleOp code, int64_t offset) {
       return changeAddress(code, offset, [](int64_t offset) { return offset + 64; });
     }},
    {"bug-dense-bias", "a layer behind pooling adds what lies behind its bias", nothing,
     [](ModuleOp code, int64_t offset) {
       return changeAddress(code, offset, [](int64_t offset) { return offset + 64; });
     },
     denseBiasIn},
    {"bug-far-offset", "a kernel reads far outside of the weights", nothing,
     [](ModuleOp code, int64_t offset) {
       return changeAddress(code, offset, [](int64_t offset) { return offset + (int64_t(1) << 42); });
     }},
    {"bug-cache-layer", "layer 1 is told that it is layer 0", nothing,
     [](ModuleOp code, int64_t) {
       bool isFound = false;
       entryIn(code).walk([&](func::CallOp call) {
         for (OpOperand &operand : call->getOpOperands()) {
           APInt value;
           if (operand.getOperandNumber() < 3 || !operand.get().getType().isIndex() ||
               !matchPattern(operand.get(), m_ConstantInt(&value)) || value != 1)
             continue;
           OpBuilder b(call);
           operand.set(arith::ConstantIndexOp::create(b, call.getLoc(), 0));
           isFound = true;
         }
       });
       return isFound;
     }},
};

namespace {

struct SeededKernel : PassWrapper<SeededKernel, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SeededKernel)

  explicit SeededKernel(const KernelBug &bug) : bug(&bug) {}
  StringRef getArgument() const override { return bug->name; }
  StringRef getName() const override { return bug->name; }
  StringRef getDescription() const override { return bug->what; }
  void getDependentDialects(DialectRegistry &registry) const override { registry.insert<LLVM::LLVMDialect>(); }

  void runOnOperation() override {
    WeightOp victim = bug->choose(getOperation());
    if (!victim || !bug->prepare(getOperation(), victim)) {
      getOperation().emitError("has no place for ") << bug->name << ": " << bug->what;
      return signalPassFailure();
    }
    int64_t offset = victim.getPacking().getOffset();
    std::string name = victim.getName().str();
    auto plant = [bug = bug, offset, name, isDone = false](llvm::function_ref<void()> run,
                                                           const tracing::Action &action) mutable {
      for (IRUnit unit : action.getContextIRUnits()) {
        auto code = dyn_cast_if_present<ModuleOp>(dyn_cast<Operation *>(unit));
        if (isDone || !code || !entryIn(code))
          continue;
        if (!bug->plant(code, offset))
          continue;
        isDone = true;
        llvm::errs() << "planted in: " << name << "\n";
      }
      run();
    };
    getContext().registerActionHandler(plant);
  }

  const KernelBug *bug;
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "seeded-kernels", "1", [] {
            for (const KernelBug &bug : bugs)
              registerPass([&bug]() -> std::unique_ptr<Pass> { return std::make_unique<SeededKernel>(bug); });
          }};
}
