// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Delta debugging of a module. MLIR's reduction-tree erases what nothing uses, so of a function whose every op is used by the next one it
// leaves all. Here an op gives way to a value of its type, and what is unused then is erased, with functions, arguments and results.
// Edits are tried on many sites at once, then on half as many, until none makes a smaller module that is valid and still interesting.

#include "compiler/tools/ReduceModule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Reducer/Tester.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

//===- ops ----------------------------------------------------------------===//

// Ops that an edit may take away, in the order of the text, so that lower numbers stay what they are when higher ones go.
static SmallVector<Operation *> removableOps(ModuleOp module) {
  SmallVector<Operation *> ops;
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (!isa<ModuleOp, FunctionOpInterface>(op) && !op->hasTrait<OpTrait::IsTerminator>())
      ops.push_back(op);
  });
  return ops;
}

// Something of the type of `result` that is there already, or costs less than what computes it: an operand, an argument of the function,
// zero, an empty tensor. Null where there is none.
static Value standIn(OpBuilder &b, OpResult result) {
  Operation *op = result.getOwner();
  Type type = result.getType();
  for (Value operand : op->getOperands())
    if (operand.getType() == type)
      return operand;
  if (auto func = op->getParentOfType<func::FuncOp>())
    for (Value argument : func.getArguments())
      if (argument.getType() == type)
        return argument;
  b.setInsertionPoint(op);
  if (type.isIntOrIndexOrFloat())
    return arith::ConstantOp::create(b, op->getLoc(), b.getZeroAttr(type));
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return {};
  SmallVector<Value> sizes;
  if (tensor.getNumDynamicDims())
    sizes.assign(tensor.getNumDynamicDims(), arith::ConstantIndexOp::create(b, op->getLoc(), 1));
  return tensor::EmptyOp::create(b, op->getLoc(), tensor, sizes);
}

static bool removeOp(Operation *op) {
  OpBuilder b(op);
  for (OpResult result : op->getResults()) {
    if (result.use_empty())
      continue;
    Value value = standIn(b, result);
    if (!value)
      return false;
    result.replaceAllUsesWith(value);
  }
  op->erase();
  return true;
}

static bool removeOps(ModuleOp module, size_t begin, size_t end) {
  bool changed = false;
  SmallVector<Operation *> ops = removableOps(module);
  for (Operation *op : llvm::reverse(ArrayRef(ops).slice(begin, end - begin)))
    changed |= removeOp(op);
  return changed;
}

//===- functions and their signatures -------------------------------------===//

static bool removeFunctions(ModuleOp module, size_t begin, size_t end) {
  bool changed = false;
  auto funcs = llvm::to_vector(module.getOps<func::FuncOp>());
  for (func::FuncOp func : llvm::reverse(ArrayRef(funcs).slice(begin, end - begin)))
    if (SymbolTable::symbolKnownUseEmpty(func, module)) {
      func.erase();
      changed = true;
    }
  return changed;
}

namespace {
// An argument or a result of a function.
struct Place {
  func::FuncOp func;
  bool isResult;
  unsigned index;
};

// What goes from a function's signature.
struct Dropped {
  llvm::BitVector arguments, results;
};
} // namespace

static SmallVector<Place> signaturePlaces(ModuleOp module) {
  SmallVector<Place> places;
  for (auto func : module.getOps<func::FuncOp>()) {
    if (func.isExternal())
      continue;
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      places.push_back({func, false, i});
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      places.push_back({func, true, i});
  }
  return places;
}

// The calls of a function; nothing if something else names it, whose operands nobody here knows.
static std::optional<SmallVector<func::CallOp>> callsOf(func::FuncOp func, ModuleOp module) {
  SmallVector<func::CallOp> calls;
  std::optional<SymbolTable::UseRange> uses = SymbolTable::getSymbolUses(func, module);
  if (!uses)
    return std::nullopt;
  for (SymbolTable::SymbolUse use : *uses) {
    auto call = dyn_cast<func::CallOp>(use.getUser());
    if (!call)
      return std::nullopt;
    calls.push_back(call);
  }
  return calls;
}

static void dropFromCall(func::CallOp call, func::FuncOp func, const Dropped &dropped) {
  OpBuilder b(call);
  SmallVector<Value> operands;
  for (auto [i, operand] : llvm::enumerate(call.getOperands()))
    if (!dropped.arguments[i])
      operands.push_back(operand);
  auto shorter = func::CallOp::create(b, call.getLoc(), func, operands);
  unsigned next = 0;
  for (OpResult result : call.getResults())
    if (!dropped.results[result.getResultNumber()])
      result.replaceAllUsesWith(shorter.getResult(next++));
  call.erase();
}

static bool dropFromSignature(func::FuncOp func, const Dropped &dropped, ArrayRef<func::CallOp> calls) {
  func.walk([&](func::ReturnOp op) { op->eraseOperands(dropped.results); });
  if (failed(func.eraseArguments(dropped.arguments)) || failed(func.eraseResults(dropped.results)))
    return false;
  for (func::CallOp call : calls)
    dropFromCall(call, func, dropped);
  return true;
}

static bool dropPlaces(ModuleOp module, size_t begin, size_t end) {
  llvm::MapVector<func::FuncOp, SmallVector<Place>> byFunc;
  SmallVector<Place> all = signaturePlaces(module);
  for (const Place &place : ArrayRef(all).slice(begin, end - begin))
    byFunc[place.func].push_back(place);
  bool changed = false;
  for (auto &[func, places] : byFunc) {
    std::optional<SmallVector<func::CallOp>> calls = callsOf(func, module);
    if (!calls)
      continue;
    Dropped dropped{llvm::BitVector(func.getNumArguments()), llvm::BitVector(func.getNumResults())};
    for (const Place &place : places) {
      unsigned i = place.index;
      auto isUnused = [&](func::CallOp call) { return call.getResult(i).use_empty(); };
      if (place.isResult ? llvm::all_of(*calls, isUnused) : func.getArgument(i).use_empty())
        (place.isResult ? dropped.results : dropped.arguments).set(i);
    }
    if (dropped.arguments.any() || dropped.results.any())
      changed |= dropFromSignature(func, dropped, *calls);
  }
  return changed;
}

//===- the pass -----------------------------------------------------------===//

namespace {
// A kind of edit: how many sites a module has for it, and what is done at some of them. False where that changes nothing.
struct Edit {
  size_t (*count)(ModuleOp);
  bool (*apply)(ModuleOp, size_t begin, size_t end);
};

struct ReduceModule : PassWrapper<ReduceModule, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ReduceModule)

  ReduceModule() = default;
  ReduceModule(const ReduceModule &other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "heddle-reduce-module"; }
  StringRef getDescription() const override {
    return "Shrink the module while a script that is given it as a file ends with exit code 1";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, func::FuncDialect, tensor::TensorDialect>();
  }
  void runOnOperation() override;

private:
  bool tryEdit(const Edit &edit, size_t begin, size_t end);
  bool tryEverywhere(const Edit &edit);

  Option<std::string> script{*this, "test", llvm::cl::desc("Program that says whether a module is interesting")};
  ListOption<std::string> scriptArguments{*this, "test-arg", llvm::cl::desc("Its arguments before the file's name")};
  Tester tester;
  size_t size = 0; // of the module's text
};
} // namespace

// Keeps the edited module if it is valid, interesting and shorter: that it grows shorter ends the search.
bool ReduceModule::tryEdit(const Edit &edit, size_t begin, size_t end) {
  OwningOpRef<ModuleOp> edited = getOperation().clone();
  ScopedDiagnosticHandler quiet(&getContext(), [](Diagnostic &) { return success(); });
  if (!edit.apply(*edited, begin, end) || failed(verify(*edited)))
    return false;
  auto [interest, editedSize] = tester.isInteresting(*edited);
  if (interest != Tester::Interestingness::True || editedSize >= size)
    return false;
  size = editedSize;
  getOperation().getBodyRegion().takeBody(edited->getBodyRegion());
  return true;
}

bool ReduceModule::tryEverywhere(const Edit &edit) {
  bool changed = false;
  size_t count = edit.count(getOperation());
  for (size_t width = count; width > 0; width /= 2)
    // From the end: sites before an edit keep their numbers.
    for (size_t end = edit.count(getOperation()); end > 0;) {
      size_t begin = end > width ? end - width : 0;
      changed |= tryEdit(edit, begin, end);
      end = begin;
    }
  return changed;
}

void ReduceModule::runOnOperation() {
  tester = Tester(StringRef(script), ArrayRef<std::string>(scriptArguments));
  auto [interest, initialSize] = tester.isInteresting(getOperation());
  if (interest != Tester::Interestingness::True) {
    getOperation().emitError("heddle-reduce-module: '")
        << script << "' does not find the module interesting: exit code 1 is expected";
    return signalPassFailure();
  }
  size = initialSize;
  static constexpr Edit edits[] = {
      {[](ModuleOp module) { return size_t(llvm::range_size(module.getOps<func::FuncOp>())); }, removeFunctions},
      {[](ModuleOp module) { return removableOps(module).size(); }, removeOps},
      {[](ModuleOp module) { return signaturePlaces(module).size(); }, dropPlaces}};
  for (bool changed = true; changed;) {
    changed = false;
    for (const Edit &edit : edits)
      changed |= tryEverywhere(edit);
  }
}

void heddle::registerReduceModule() {
  PassRegistration<ReduceModule>();
}
