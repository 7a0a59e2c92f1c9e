// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The contract at the end of each stage (DESIGN: the way of the data, the dialect): which ops may remain, and what holds for
// their types and operands. What a pass works on follows from the contracts before and behind it.

#include "compiler/contract/Stage.h"
#include "dialect/Entries.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/AttrTypeSubElements.h"

using namespace mlir;
using namespace heddle;

static constexpr std::pair<Stage, const char *> stageNames[] = {
    {Stage::Import, "import"},     {Stage::Raise, "raise"},     {Stage::Optimize, "optimize"},
    {Stage::Schedule, "schedule"}, {Stage::Codegen, "codegen"}, {Stage::Package, "package"}};

StringRef heddle::stageName(Stage stage) {
  return stageNames[int(stage)].second;
}

std::optional<Stage> heddle::parseStage(StringRef name) {
  for (auto [stage, known] : stageNames)
    if (name == known)
      return stage;
  return std::nullopt;
}

FailureOr<Stage> heddle::takeStageAttr(ModuleOp module) {
  Attribute attribute = module->removeAttr(stageAttrName);
  if (!attribute)
    return Stage::Import;
  auto name = dyn_cast<StringAttr>(attribute);
  std::optional<Stage> stage = name ? parseStage(name) : std::nullopt;
  if (!stage || *stage > Stage::Schedule)
    return module.emitError() << stageAttrName << " is " << attribute
                              << ", expected \"import\", \"raise\", \"optimize\" or \"schedule\"";
  return *stage;
}

namespace {
// What an op belongs to, where that decides what may stand there: a graph entry, after schedule a kernel's body or the host code around
// it, or anything.
enum class Place { Anywhere, Graph, Kernel, Host };

struct Contract {
  Stage stage;
  Place place;
  StringRef dialects; // all of their ops may remain
  StringRef ops;      // and these groups of ours (groupOf)
};
} // namespace

// compiler/README.md shows this table; test/tools/stage_contracts.py compares them.
static constexpr Contract contracts[] = {
    {Stage::Import, Place::Anywhere, "builtin func arith math scf cf linalg tensor", "weight model"},
    {Stage::Raise, Place::Anywhere, "builtin func arith math scf cf linalg tensor", "weight model"},
    {Stage::Optimize, Place::Anywhere, "builtin func arith math scf cf linalg tensor", "weight model cache"},
    {Stage::Schedule, Place::Graph, "builtin func arith math scf cf linalg affine memref bufferization",
     "weight kernel"},
    {Stage::Schedule, Place::Kernel, "builtin func arith math scf cf linalg tensor", "model kernel"},
    {Stage::Schedule, Place::Host, "builtin func arith math scf memref bufferization", "weight append kernel"},
    {Stage::Codegen, Place::Anywhere, "builtin llvm", ""},
    {Stage::Package, Place::Anywhere, "builtin llvm", ""},
};

static bool isListed(StringRef words, StringRef wanted) {
  return llvm::is_contained(llvm::split(words, ' '), wanted);
}

// Groups of our ops; "append" is of "cache" as well.
static bool isInGroups(Operation *op, StringRef groups) {
  if (isa<WeightOp>(op))
    return isListed(groups, "weight");
  if (isa<PackOp>(op)) // lives between two passes of schedule
    return false;
  if (isa<KvAppendOp>(op) && isListed(groups, "append"))
    return true;
  if (isa<KvAppendOp, KvViewOp>(op))
    return isListed(groups, "cache");
  if (isa<KernelOpInterface, QuantizeOp, RopeTableOp, PreferSplitsOp>(op))
    return isListed(groups, "kernel");
  return isa_and_present<HeddleDialect>(op->getDialect()) && isListed(groups, "model");
}

static bool isKernel(Operation *op) {
  auto func = dyn_cast<func::FuncOp>(op);
  func = func ? func : op->getParentOfType<func::FuncOp>();
  return func && func->hasAttr("heddle.kernel");
}

static bool isAt(Place place, Operation *op) {
  switch (place) {
  case Place::Anywhere:
    return true;
  case Place::Graph:
    return isInGraphEntry(op);
  case Place::Kernel:
    return isKernel(op);
  case Place::Host:
    return !isInGraphEntry(op) && !isKernel(op);
  }
  llvm_unreachable("all places are listed");
}

// Whether the row lets the op remain where the row's place is.
static bool allows(const Contract &row, Operation *op) {
  return isListed(row.dialects, op->getName().getDialectNamespace()) || isInGroups(op, row.ops);
}

static bool isAllowed(Operation *op, Stage stage) {
  return llvm::any_of(
      contracts, [&](const Contract &row) { return row.stage == stage && isAt(row.place, op) && allows(row, op); });
}

static LogicalResult mayRemain(Operation *op, Stage stage) {
  if (isAllowed(op, stage))
    return success();
  return op->emitError("'") << op->getName() << "' must not remain after stage " << stageName(stage);
}

//===- raise --------------------------------------------------------------===//

// heddle-fuse-attention says why it left a softmax.
static LogicalResult isExplained(Operation *op) {
  if (isa<linalg::SoftmaxOp>(op) && !op->hasAttr(notFusedAttr))
    return op->emitError("is in no attention after stage raise, and nothing says why");
  return success();
}

//===- optimize -----------------------------------------------------------===//

// Weights stay in the file: no cast, no transpose, no constant. A shared layer gets its own as arguments. (`embedding` also gathers rows of
// what was computed.)
static LogicalResult readsStoredWeights(Operation *op) {
  if (!isa<LinearOp, MoeOp>(op))
    return success();
  auto moe = dyn_cast<MoeOp>(op);
  for (Value weight : op->getOperands().drop_front())
    if (Operation *source = weight.getDefiningOp();
        source && !isa<WeightOp>(source) && !(moe && weight == moe.getRouterInput()))
      return op->emitError("reads '") << source->getName()
                                      << "' as a weight after stage optimize: weights stay in the model's file";
  return success();
}

static LogicalResult readsCache(Operation *op) {
  Value keys;
  if (auto attention = dyn_cast<AttentionOp>(op))
    keys = attention.getKey();
  else if (auto latent = dyn_cast<LatentAttentionOp>(op))
    keys = latent.getLatent();
  if (keys && !keys.getDefiningOp<KvViewOp>())
    return op->emitError("attends to keys that are no view of the cache after stage optimize");
  return success();
}

// Rows of a ragged batch do not say where a sequence ends.
static LogicalResult knowsSequences(Operation *op) {
  auto attention = dyn_cast<AttentionOp>(op);
  if (isa<LatentAttentionOp, KvAppendOp, KvViewOp>(op) || (attention && !attention.getSequences()))
    return op->emitError(
        "must not remain in an encode after stage optimize: its attention is within the sequences of the batch");
  return success();
}

// Of an encoder-decoder, whose entries are one of each.
static LogicalResult readsCacheOrSequences(Operation *op) {
  auto attention = dyn_cast<AttentionOp>(op);
  return attention && attention.getSequences() ? success() : readsCache(op);
}

static LogicalResult isNotForward(Operation *op) {
  if (auto func = dyn_cast<func::FuncOp>(op); func && func.getSymName().starts_with("forward"))
    return func.emitError() << "@" << func.getSymName()
                            << " must not remain after stage optimize: it becomes @step or @encode";
  return success();
}

//===- schedule -----------------------------------------------------------===//

// A type or attribute that holds an encoded tensor, functions' types among them.
static Type encodedTensor(Operation *op) {
  Type found;
  AttrTypeWalker walker;
  walker.addWalk([&](RankedTensorType type) {
    if (type.getEncoding())
      found = type;
  });
  walker.walk(op->getAttrDictionary());
  for (Type type : op->getResultTypes())
    walker.walk(type);
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (Type type : block.getArgumentTypes())
        walker.walk(type);
  return found;
}

// Bufferization would drop an encoding, and the size in bytes with it: packed weights are bytes, their format an attribute.
static LogicalResult hasNoEncoding(Operation *op) {
  if (Type type = encodedTensor(op))
    return op->emitError("has the encoded type ") << type << " after stage schedule: packed weights are bytes";
  return success();
}

// Code finds a weight by its place in the section; the file is not there when the model runs.
static LogicalResult hasItsPlace(Operation *op) {
  if (auto weight = dyn_cast<WeightOp>(op); weight && !weight.getPacking())
    return op->emitError("'") << weight.getName() << "' has no place in the weights section after stage schedule";
  return success();
}

// Host code works on buffers; weights and tables are tensors until they become one.
static LogicalResult isOnBuffers(Operation *op) {
  if (isKernel(op) || isa<WeightOp, RopeTableOp>(op))
    return success();
  for (Type type : op->getResultTypes())
    if (isa<TensorType>(type))
      return op->emitError("'") << op->getName() << "' gives a tensor outside kernels after stage schedule";
  return success();
}

static LogicalResult readsRopeTable(Operation *op) {
  if (auto rope = dyn_cast<RopeOp>(op); rope && !rope.getTable())
    return op->emitError("computes cosines and sines itself after stage schedule: it reads the session's table");
  return success();
}

//===- all ----------------------------------------------------------------===//

LogicalResult heddle::verifyStage(ModuleOp module, Stage stage) {
  using Rule = LogicalResult (*)(Operation *);
  SmallVector<Rule> ofAll, ofRows; // of a step or an encode; a graph keeps what its file says
  switch (stage) {
  case Stage::Raise:
    ofRows = {isExplained};
    break;
  case Stage::Optimize:
    ofRows = {readsStoredWeights,
              isEncoderDecoder(module) ? readsCacheOrSequences
              : isEncoder(module)      ? knowsSequences
                                       : readsCache,
              isNotForward};
    break;
  case Stage::Schedule:
    ofAll = {hasNoEncoding, hasItsPlace};
    ofRows = {isOnBuffers, readsRopeTable};
    break;
  default:
    break;
  }
  WalkResult walk = module.walk([&](Operation *op) {
    auto holds = [&](Rule rule) { return succeeded(rule(op)); };
    bool isRight = succeeded(mayRemain(op, stage)) && llvm::all_of(ofAll, holds) &&
                   (isInGraphEntry(op) || llvm::all_of(ofRows, holds));
    return isRight ? WalkResult::advance() : WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

//===- passes -------------------------------------------------------------===//

// What stands in a module that passes of the stage behind `after` work on: what either contract lets remain, wherever, and what lives between
// two passes. Buffers come last: only what reads the contract of schedule itself is on them.
static bool mayPrecede(Operation *op, Stage after) {
  auto isBuffer = [](Type type) { return isa<BaseMemRefType>(type); };
  if (llvm::any_of(op->getOperandTypes(), isBuffer) || llvm::any_of(op->getResultTypes(), isBuffer))
    return false;
  if (isa<PackOp>(op))
    return after == Stage::Optimize;
  return llvm::any_of(contracts, [&](const Contract &row) {
    return (row.stage == after || int(row.stage) == int(after) + 1) && allows(row, op);
  });
}

// @forward becomes @step or @encode in stage optimize.
static bool isForward(Operation *op) {
  auto func = dyn_cast<func::FuncOp>(op);
  return func && func.getSymName() == "forward";
}

// The inputs of linear and embedding are rows, which heddle-flatten-rows makes of any dimensions.
static bool isOfRows(Operation *op) {
  auto hasRank = [&](int64_t rank) { return cast<ShapedType>(op->getOperand(0).getType()).getRank() == rank; };
  return isa<LinearOp, IntegerLinearOp>(op) ? hasRank(2) : !isa<EmbeddingOp>(op) || hasRank(1);
}

static bool isKernelOrOther(Operation *op) {
  return !isa<LinearOp, IntegerLinearOp, MoeOp>(op);
}

static bool isTiledOrOther(Operation *op) {
  return !isa<AttentionOp, LatentAttentionOp, KvViewOp>(op);
}

static bool isPackedOrOther(Operation *op) {
  auto weight = dyn_cast<WeightOp>(op);
  return !isa<PackOp>(op) && (!weight || weight.getPacking());
}

namespace {
// A pass reads what another one of its stage leaves: ops of which `isLeft` holds.
struct Order {
  StringRef pass, first;
  bool (*isLeft)(Operation *);
};
} // namespace

static constexpr Order orders[] = {
    {"heddle-lower-to-kernels", "heddle-flatten-rows", isOfRows},
    {"heddle-pack-weights", "heddle-lower-to-kernels", isKernelOrOther},
    {"heddle-outline-kernels", "heddle-flash-tile", isTiledOrOther},
    {"heddle-outline-kernels", "heddle-lower-to-kernels", isKernelOrOther},
    {"heddle-bufferize", "heddle-flash-tile", isTiledOrOther},
    {"heddle-bufferize", "heddle-lower-to-kernels", isKernelOrOther},
    {"heddle-bufferize", "heddle-pack-weights", isPackedOrOther},
};

static LogicalResult verifyOrder(Operation *root, const Order &order) {
  WalkResult walk = root->walk([&](Operation *op) {
    if (order.isLeft(op))
      return WalkResult::advance();
    op->emitError("'") << order.pass << "' needs a module after '" << order.first << "', which leaves no such '"
                       << op->getName() << "'";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

LogicalResult heddle::verifyPassInput(Operation *root, Stage after, StringRef pass) {
  WalkResult walk = root->walk([&](Operation *op) {
    bool isRight = after == Stage::Schedule ? isAllowed(op, after) : mayPrecede(op, after);
    if (isRight && !(after >= Stage::Optimize && isForward(op)))
      return WalkResult::advance();
    InFlightDiagnostic error = op->emitError("'") << pass << "' needs a module after stage " << stageName(after)
                                                  << ", which holds no such ";
    if (isForward(op))
      error << "@forward";
    else
      error << "'" << op->getName() << "'";
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return failure();
  for (const Order &order : orders)
    if (order.pass == pass && failed(verifyOrder(root, order)))
      return failure();
  return success();
}
