// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/JoinRotations.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/ScheduleTable.h"
#include "dialect/Entries.h"
#include "dialect/Locations.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

namespace heddle {
#define GEN_PASS_DEF_OUTLINEKERNELS
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static bool isTensor(Value value) {
  return isa<RankedTensorType>(value.getType());
}

// Ops that a kernel computes, row by row.
static bool isRowWise(Operation *op) {
  if (isa<RmsNormOp, LayerNormOp, RopeOp, GluOp, SoftcapOp, QuantizeOp, EmbeddingOp, linalg::GenericOp>(op))
    return true;
  return isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) && op->getNumResults() == 1 &&
         isTensor(op->getResult(0)) && !op->hasTrait<OpTrait::ConstantLike>();
}

// Ops that a kernel takes along: they say how values are looked at and cost nothing.
static bool isShape(Operation *op) {
  return isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp, tensor::EmptyOp, tensor::DimOp,
             tensor::SplatOp, linalg::FillOp, linalg::TransposeOp>(op) ||
         op->hasTrait<OpTrait::ConstantLike>();
}

static bool isRows(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && (type.getRank() == 1 || type.getRank() == 2) && type.isDynamicDim(0) &&
         (type.getRank() == 1 || !type.isDynamicDim(1));
}

namespace {

using Cluster = llvm::SetVector<Operation *>;

// Finds the kernels of one block.
class Clustering {
public:
  explicit Clustering(Block &block) : block(block) {}
  SmallVector<Cluster> run();

private:
  // Row-wise ops whose results `value` shows.
  void producers(Value value, SmallVectorImpl<Operation *> &found);
  // Whether the ops of `cluster` may run as late as `last`: nothing outside needs them before.
  bool mayMoveTo(const Cluster &cluster, Operation *last);
  bool isUsedBefore(Value value, const Cluster &cluster, Operation *last);
  bool shareInput(const Cluster &a, const Cluster &b);
  void inputs(const Cluster &cluster, llvm::SetVector<Value> &found);
  void inputsOf(Value value, const Cluster &cluster, llvm::SetVector<Value> &found);
  void mergeSiblings();

  Block &block;
  SmallVector<Cluster> clusters;
};

} // namespace

static Operation *lastOf(const Cluster &cluster) {
  return *llvm::max_element(cluster, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
}

void Clustering::producers(Value value, SmallVectorImpl<Operation *> &found) {
  Operation *def = value.getDefiningOp();
  if (!def)
    return;
  if (isRowWise(def))
    found.push_back(def);
  else if (isShape(def) && !isa<tensor::DimOp>(def))
    for (Value operand : def->getOperands())
      producers(operand, found);
}

bool Clustering::isUsedBefore(Value value, const Cluster &cluster, Operation *last) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (cluster.contains(user) || user == last || isa<tensor::DimOp>(user))
      return false;
    if (isShape(user))
      return isUsedBefore(user->getResult(0), cluster, last);
    // A user inside a branch runs where the branch does.
    return block.findAncestorOpInBlock(*user)->isBeforeInBlock(last);
  });
}

bool Clustering::mayMoveTo(const Cluster &cluster, Operation *last) {
  return llvm::none_of(cluster, [&](Operation *op) {
    return llvm::any_of(op->getResults(), [&](Value result) { return isUsedBefore(result, cluster, last); });
  });
}

void Clustering::inputsOf(Value value, const Cluster &cluster, llvm::SetVector<Value> &found) {
  Operation *def = value.getDefiningOp();
  if (def && (cluster.contains(def) || isa<tensor::DimOp>(def)))
    return;
  if (!def || !isShape(def)) {
    if (isTensor(value))
      found.insert(value);
    return;
  }
  for (Value operand : def->getOperands())
    inputsOf(operand, cluster, found);
}

void Clustering::inputs(const Cluster &cluster, llvm::SetVector<Value> &found) {
  for (Operation *op : cluster)
    for (Value operand : op->getOperands())
      inputsOf(operand, cluster, found);
}

bool Clustering::shareInput(const Cluster &a, const Cluster &b) {
  llvm::SetVector<Value> ofA, ofB;
  inputs(a, ofA);
  inputs(b, ofB);
  return llvm::any_of(ofA, [&](Value value) { return isRows(value) && ofB.contains(value); });
}

// Query and key are rotated in one kernel: fewer launches, one read of the positions.
void Clustering::mergeSiblings() {
  for (size_t i = 0; i < clusters.size(); ++i)
    for (size_t j = i + 1; j < clusters.size();) {
      if (shareInput(clusters[i], clusters[j]) && mayMoveTo(clusters[i], lastOf(clusters[j]))) {
        clusters[i].insert(clusters[j].begin(), clusters[j].end());
        clusters.erase(clusters.begin() + j);
      } else {
        ++j;
      }
    }
}

SmallVector<Cluster> Clustering::run() {
  for (Operation &op : block) {
    if (!isRowWise(&op))
      continue;
    Cluster joined;
    SmallVector<Operation *> feeding;
    // A gather reads rows of its table in any order: another kernel must have written them.
    auto gather = dyn_cast<EmbeddingOp>(op);
    for (Value operand : op.getOperands())
      if (!gather || operand != gather.getTable())
        producers(operand, feeding);
    for (size_t i = 0; i < clusters.size();) {
      bool feeds = llvm::any_of(feeding, [&](Operation *producer) { return clusters[i].contains(producer); });
      if (feeds && mayMoveTo(clusters[i], &op)) {
        joined.insert(clusters[i].begin(), clusters[i].end());
        clusters.erase(clusters.begin() + i);
      } else {
        ++i;
      }
    }
    joined.insert(&op);
    clusters.push_back(std::move(joined));
  }
  mergeSiblings();
  return std::move(clusters);
}

namespace {

// Makes a function of one cluster and calls it.
class Outliner {
public:
  // Kernels are numbered from `number` on, which then is the next one's.
  Outliner(ModuleOp module, Cluster cluster, bool singleResult, unsigned &number)
      : b(module.getContext()), cluster(std::move(cluster)), module(module), singleResult(singleResult),
        number(number) {}
  LogicalResult run();

private:
  // The kernel that computes `results`, and its call.
  LogicalResult outline(ArrayRef<Value> results, ArrayRef<Operation *> ordered);
  func::FuncOp makeKernel(ArrayRef<Value> results, ArrayRef<Operation *> ordered, Value &rows);
  void addWithShapes(Value value);
  void collectOutputs(Value value);
  bool isWhole(Value input);

  OpBuilder b;
  Cluster cluster;
  ModuleOp module;
  bool singleResult;
  unsigned &number;
  llvm::SetVector<Operation *> body; // in no order yet
  llvm::SetVector<Value> inputs, outputs;
  SmallVector<std::pair<Value, Value>> replacements; // outputs and what the calls return
  llvm::SetVector<Value> sizes; // sizes that the body asks for: all are the kernel's rows, the one dynamic size
};

} // namespace

void Outliner::addWithShapes(Value value) {
  Operation *def = value.getDefiningOp();
  if (def && (cluster.contains(def) || body.contains(def)))
    return;
  if (isa_and_nonnull<tensor::DimOp>(def)) {
    sizes.insert(value);
    return;
  }
  if (!def || !isShape(def)) {
    inputs.insert(value);
    return;
  }
  body.insert(def);
  for (Value operand : def->getOperands())
    addWithShapes(operand);
}

// What leaves the kernel lies in rows: heads are merged inside.
void Outliner::collectOutputs(Value value) {
  for (Operation *user : value.getUsers()) {
    if (cluster.contains(user) || body.contains(user) || isa<tensor::DimOp>(user))
      continue;
    if (isRows(value)) {
      outputs.insert(value);
      continue;
    }
    if (!isShape(user))
      continue;
    body.insert(user);
    for (Value operand : user->getOperands())
      addWithShapes(operand);
    collectOutputs(user->getResult(0));
  }
}

// Tables are read as a whole, whatever the rows of the kernel.
bool Outliner::isWhole(Value input) {
  return llvm::any_of(input.getUsers(), [&](Operation *user) {
    if (!cluster.contains(user))
      return false;
    if (auto gather = dyn_cast<EmbeddingOp>(user))
      return gather.getTable() == input;
    auto rope = dyn_cast<RopeOp>(user);
    return rope && rope.getTable() == input;
  });
}

// Of the ops that compute: views and sizes come from them.
static Location locationOf(ArrayRef<Operation *> ops) {
  SmallVector<Location> parts;
  for (Operation *op : ops)
    if (!isa<tensor::TensorDialect>(op->getDialect()))
      parts.push_back(op->getLoc());
  return parts.empty() ? ops.back()->getLoc() : mergedLocation(ops[0]->getContext(), parts);
}

// `rows`: an input with rows.
func::FuncOp Outliner::makeKernel(ArrayRef<Value> results, ArrayRef<Operation *> ordered, Value &rows) {
  Location loc = locationOf(ordered);
  SmallVector<Type> inputTypes, outputTypes;
  for (Value input : inputs)
    inputTypes.push_back(input.getType());
  for (Value result : results)
    outputTypes.push_back(result.getType());
  std::string name = "kernel_" + std::to_string(number++);
  b.setInsertionPointToEnd(module.getBody());
  auto kernel = func::FuncOp::create(b, loc, name, b.getFunctionType(inputTypes, outputTypes));
  kernel.setPrivate();
  kernel->setAttr("heddle.kernel", b.getUnitAttr());
  Block *entry = kernel.addEntryBlock();
  IRMapping map;
  for (auto [index, input] : llvm::enumerate(inputs)) {
    map.map(input, entry->getArgument(index));
    if (isWhole(input))
      kernel.setArgAttr(index, "heddle.whole", b.getUnitAttr());
    else if (isRows(input) && !rows)
      rows = input;
  }
  if (!rows)
    return kernel;
  b.setInsertionPointToEnd(entry);
  if (!sizes.empty()) {
    Value size = tensor::DimOp::create(b, loc, map.lookup(rows), 0);
    for (Value outside : sizes)
      map.map(outside, size);
  }
  for (Operation *op : ordered)
    b.clone(*op, map);
  SmallVector<Value> returned;
  for (Value result : results)
    returned.push_back(map.lookup(result));
  func::ReturnOp::create(b, loc, returned);
  // What only other results need.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*entry)))
    if (isOpTriviallyDead(&op))
      op.erase();
  return kernel;
}

LogicalResult Outliner::outline(ArrayRef<Value> results, ArrayRef<Operation *> ordered) {
  Operation *last = lastOf(cluster);
  Value rows;
  func::FuncOp kernel = makeKernel(results, ordered, rows);
  if (!rows)
    return last->emitError("kernel has no input with rows");
  b.setInsertionPointAfter(last);
  Value count = tensor::DimOp::create(b, last->getLoc(), rows, 0);
  SmallVector<Value> inits;
  for (Type type : kernel.getResultTypes()) {
    auto tensorType = cast<RankedTensorType>(type);
    SmallVector<OpFoldResult> sizes = {count};
    for (int64_t size : tensorType.getShape().drop_front())
      sizes.push_back(b.getIndexAttr(size));
    inits.push_back(tensor::EmptyOp::create(b, last->getLoc(), sizes, tensorType.getElementType()));
  }
  auto call = KernelCallOp::create(b, kernel.getLoc(), kernel.getResultTypes(), kernel.getSymName(),
                                   inputs.getArrayRef(), inits);
  for (auto [output, result] : llvm::zip(results, call.getResults()))
    replacements.push_back({output, result});
  return success();
}

// What shows parts of a result may stand before the call that gives it now: nothing has read them there.
static void moveUsersBehind(Operation *op) {
  for (Operation *user : op->getUsers())
    if (isShape(user) && user->getBlock() == op->getBlock() && user->isBeforeInBlock(op)) {
      user->moveAfter(op);
      moveUsersBehind(user);
    }
}

LogicalResult Outliner::run() {
  for (Operation *op : cluster) {
    body.insert(op);
    for (Value operand : op->getOperands())
      addWithShapes(operand);
  }
  for (Operation *op : cluster)
    for (Value result : op->getResults())
      collectOutputs(result);
  SmallVector<Operation *> ordered(body.begin(), body.end());
  llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  ArrayRef<Value> all = outputs.getArrayRef();
  for (size_t i = 0; i < all.size(); i += singleResult ? 1 : all.size())
    if (failed(outline(singleResult ? all.slice(i, 1) : all, ordered)))
      return failure();
  for (auto [output, result] : replacements)
    output.replaceAllUsesWith(result);
  for (Operation *op : llvm::reverse(ordered))
    if (op->use_empty())
      op->erase();
  for (auto [output, result] : replacements)
    moveUsersBehind(result.getDefiningOp());
  return success();
}

// Where a function's op writes `result`, if nothing else is there: the destination of a kernel, or of the first of those that add to it one after
// the other, or what a call hands on to be the destination of the callee's kernel (passDestination has been there).
static OpOperand *freshDestination(Value result) {
  OpOperand *init = nullptr;
  if (auto producer = result.getDefiningOp<DestinationStyleOpInterface>())
    init = producer.getTiedOpOperand(cast<OpResult>(result));
  else if (auto call = result.getDefiningOp<func::CallOp>(); call && call.getNumResults() == 1)
    init = &call->getOpOperands().back();
  if (!init || init->get().getDefiningOp<tensor::EmptyOp>())
    return init;
  return init->get().hasOneUse() ? freshDestination(init->get()) : nullptr;
}

// A result that nobody else holds is written where the caller says: the destination becomes the last argument.
static LogicalResult passDestination(ModuleOp module, func::FuncOp func) {
  auto ret = cast<func::ReturnOp>(func.front().getTerminator());
  OpBuilder b(ret);
  for (Value result : ret.getOperands()) {
    OpOperand *init = freshDestination(result);
    // Who runs an entry knows its destinations by their order.
    if (!init && func.isPublic())
      return ret.emitError(
          "gives a value that is written into something else, or twice: a result of an entry is its own");
    if (!init)
      continue;
    init->set(func.front().addArgument(result.getType(), result.getLoc()));
    func.setType(b.getFunctionType(func.front().getArgumentTypes(), func.getResultTypes()));
    module.walk([&](func::CallOp call) {
      if (call.getCallee() != func.getSymName())
        return;
      OpBuilder before(call);
      auto type = cast<RankedTensorType>(result.getType());
      Value rows = tensor::DimOp::create(before, call.getLoc(), call.getOperand(0), 0);
      Value destination = tensor::EmptyOp::create(
          before, call.getLoc(), {rows, before.getIndexAttr(type.getDimSize(1))}, type.getElementType());
      call->insertOperands(call->getNumOperands(), destination);
    });
  }
  return success();
}

// Asks what a row-wise op reads first for the size of a result that has its shape: the result itself stays within its kernel.
static void askOperandsForSizes(Block &block) {
  for (auto dim : block.getOps<tensor::DimOp>())
    while (Operation *def = dim.getSource().getDefiningOp()) {
      if (!isRowWise(def) || def->getOperand(0).getType() != dim.getSource().getType())
        break;
      dim.getSourceMutable().assign(def->getOperand(0));
    }
}

// Constants that a loop's body reads stand in it: they go where the loop goes.
static void sinkConstants(func::FuncOp func) {
  func.walk([](linalg::GenericOp loops) {
    Block *body = loops.getBody();
    llvm::SetVector<Value> outside;
    getUsedValuesDefinedAbove(loops.getRegion(), outside);
    OpBuilder b = OpBuilder::atBlockBegin(body);
    for (Value value : outside)
      if (Operation *def = value.getDefiningOp(); def && def->hasTrait<OpTrait::ConstantLike>())
        replaceAllUsesInRegionWith(value, b.clone(*def)->getResult(0), loops.getRegion());
  });
}

namespace {
struct OutlineKernels : heddle::impl::OutlineKernelsBase<OutlineKernels> {
  using OutlineKernelsBase::OutlineKernelsBase;

  void runInStage() override {
    ModuleOp module = getOperation();
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    unsigned number = 0;
    for (func::FuncOp func : functions) {
      if (isGraphEntry(func)) // what has no kernel there is loops
        continue;
      if (singleResult) {
        joinRotations(func.front());
        appendRotations(func.front(), module->getAttrOfType<TargetAttr>(targetAttrName));
      }
      askOperandsForSizes(func.front());
      sinkConstants(func);
      for (Cluster &cluster : Clustering(func.front()).run())
        if (failed(Outliner(module, std::move(cluster), singleResult, number).run()))
          return signalPassFailure();
      if (failed(passDestination(module, func)))
        return signalPassFailure();
    }
  }
};
} // namespace
