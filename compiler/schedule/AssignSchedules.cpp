// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Passes.h"
#include "compiler/schedule/ScheduleTable.h"
#include "compiler/schedule/TunedSchedules.h"
#include "dialect/Entries.h"
#include "dialect/Locations.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {
#define GEN_PASS_DEF_ASSIGNSCHEDULES
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

// With n tiles of attention per thread the last of them may wait for the others' idle threads up to 1 / n of its time; a
// barrier and the way of partial results through the cache cost less than a quarter once a sequence exceeds a split.
static constexpr int64_t attentionItemsPerThread = 4;

// Of a GPU, of which the compiler does not know how many multiprocessors it has: blocks that keep each of 132 at work, two at a time.
static constexpr int64_t attentionBlocksOfGpu = 264;

// A row of 16-bit integers lies on a kernel's stack, 156 KiB at most.
static constexpr int64_t int16MaxDepth = 1 << 16;

template <typename Matmul> static bool hasQuantizedWeights(Matmul op) {
  return isQuantizedFormat(op.getFormat());
}

namespace {
struct AssignSchedules : heddle::impl::AssignSchedulesBase<AssignSchedules> {
  using AssignSchedulesBase::AssignSchedulesBase;

  // Whether products of the entry that is being scheduled read bf16: a graph beside a device's step has a CPU of its own.
  bool rounds = false;

  // Whether a product reads bf16.
  template <typename Matmul> bool isRounded(Matmul op) {
    bool isAsked = hasQuantizedWeights(op) ? activations == "bf16" : rounds && op.getFormat() == "bf16";
    return isAsked && op.getK() % 2 == 0;
  }

  // How the input of a product comes.
  template <typename Matmul> void assignInput(Matmul op, TargetAttr target) {
    bool isQuantized = hasQuantizedWeights(op), isOfDevice = target && target.getDevice() != TargetDevice::Cpu;
    if (isQuantized && activations == "int8" && op.getK() % 32 == 0)
      return quantizeInput(op);
    if (isQuantized && activations == "by-rows" && !isOfDevice && op.getK() % 32 == 0 && op.getK() <= int16MaxDepth) {
      op.setInt16(true);
      if (rounds)
        op.getInputRoundedMutable().assign(roundedInput(op.getInput(), op));
      return;
    }
    if (isRounded(op))
      op.getInputMutable().assign(roundedInput(op.getInput(), op));
  }

  // Of the model, in this function or its caller's: not a constant.
  static bool isStoredF32(Value vector) {
    Operation *def = vector.getDefiningOp();
    return cast<RankedTensorType>(vector.getType()).getElementType().isF32() && (!def || isa<WeightOp, PackOp>(def));
  }

  // Whether an op that adds to `rows` in their place, `reader` or one before it, would hide what they were from `reader`.
  static bool isWrittenBefore(Value rows, Operation *reader) {
    return llvm::any_of(rows.getUsers(), [&](Operation *user) {
      auto kernel = dyn_cast<DestinationStyleOpInterface>(user);
      Operation *inBlock = reader->getBlock()->findAncestorOpInBlock(*user);
      return kernel && llvm::is_contained(kernel.getDpsInits(), rows) &&
             (!inBlock || inBlock == reader || inBlock->isBeforeInBlock(reader));
    });
  }

  // Leaves to a product what its rows alone need: a norm that nothing else reads, and rounding where no kernel of rows is before it.
  void prepareInKernel(PackedMatmulOp op, TargetAttr target) {
    bool isRoundedByRows =
        activations == "by-rows" && bf16Products && roundsForTensorCores(target, op.getFormat()) && op.getK() % 8 == 0;
    bool isRoundedHere = isRounded(op) || isRoundedByRows;
    Value input = op.getInput();
    Operation *def = input.getDefiningOp();
    auto norm = dyn_cast_if_present<RmsNormOp>(def);
    if (norm && (!isStoredF32(norm.getWeight()) || isWrittenBefore(norm.getInput(), op)))
      norm = {};
    bool isOfKernel = !def || isa<DestinationStyleOpInterface, scf::IfOp, func::CallOp>(def);
    bool isOnlyReader =
        llvm::all_of(input.getUsers(), [&](Operation *user) { return user == op || isa<tensor::DimOp>(user); });
    if (!isOnlyReader || !(norm || (isRoundedHere && isOfKernel)))
      return;
    OpBuilder b(op);
    Location loc = norm ? mergedLocation(b.getContext(), {norm.getLoc(), op.getLoc()}) : op.getLoc();
    Value rows = norm ? norm.getInput() : input, out = op.getInits()[0];
    RankedTensorType type = isRoundedHere ? bf16Of(rows) : cast<RankedTensorType>(rows.getType());
    Value room = tensor::EmptyOp::create(b, loc, tensor::getMixedSizes(b, loc, rows), type.getElementType());
    auto product = PackedMatmulOp::create(
        b, loc, TypeRange{out.getType(), type}, rows, Value(), Value(), Value(), op.getWeights(), op.getBias(),
        norm ? norm.getWeight() : Value(), ValueRange{out, room}, op.getNAttr(), op.getKAttr(), op.getFormatAttr(),
        op.getActivationAttr(), norm ? norm.getEpsAttr() : FloatAttr(), norm ? norm.getWeightOffsetAttr() : FloatAttr(),
        op.getGatedAttr(), op.getAccumulateAttr(), op.getInt16Attr(), op.getRoundedAboveAttr());
    op.getResult(0).replaceAllUsesWith(product.getResult(0));
    op.erase();
    if (!norm)
      return;
    norm.getResult().replaceAllUsesWith(rows); // which others ask for its size alone
    norm.erase();
  }

  // In a step: a graph has no kernels of devices.
  void prepareRows(TargetAttr target) {
    SmallVector<PackedMatmulOp> products;
    getOperation().walk([&](PackedMatmulOp op) {
      if (!isInGraphEntry(op))
        products.push_back(op);
    });
    for (PackedMatmulOp op : products)
      prepareInKernel(op, target);
  }

  // Rows up to which products multiply rows as integers before they read them rounded, if that is what all readers of `rounded` do; else 0.
  static int64_t fewRowsOf(Value rounded) {
    std::optional<int64_t> most;
    for (Operation *user : rounded.getUsers()) {
      auto product = dyn_cast<PackedMatmulOp>(user);
      auto schedule = product ? product->getAttrOfType<ScheduleAttr>(scheduleAttrName) : ScheduleAttr();
      auto isOfWords = [](TileAttr tile) { return tile.getRole() == TileRole::Words; };
      if (!schedule || product.getInputRounded() != rounded || llvm::any_of(schedule.getTiles(), isOfWords))
        return 0;
      TileAttr integers = schedule.getTile(TileRole::Int16);
      int64_t own = integers ? integers.getMaxRows() : 0;
      if (own != most.value_or(own))
        return 0;
      most = own;
    }
    return most.value_or(0);
  }

  // The only rounding of a product's result, if nothing reads what is not rounded but products that read both.
  static arith::TruncFOp onlyRoundingOf(PackedMatmulOp op, bool &isReadByFew) {
    arith::TruncFOp rounding;
    for (Operation *user : op.getResult(0).getUsers()) {
      if (auto truncate = dyn_cast<arith::TruncFOp>(user); truncate && !rounding)
        rounding = truncate;
      else if (!isa<PackedMatmulOp, tensor::DimOp>(user))
        return {};
    }
    for (Operation *user : op.getResult(0).getUsers())
      if (auto reader = dyn_cast<PackedMatmulOp>(user)) {
        if (!rounding || reader.getInputRounded() != rounding.getResult() || reader.getInput() != op.getResult(0) ||
            llvm::is_contained(reader.getInits(), op.getResult(0)))
          return {};
        isReadByFew = true;
      }
    return rounding;
  }

  // A product whose result is read rounded rounds it where it stores it, of many rows alone where few are read as they are: no kernel does it
  // behind it, and half of the bytes are written.
  static void roundInProduct(PackedMatmulOp op) {
    bool isReadByFew = false, isPlain = !op.getAccumulate() && op.getInits().size() == 1;
    arith::TruncFOp rounding = isPlain ? onlyRoundingOf(op, isReadByFew) : arith::TruncFOp();
    if (!rounding || rounding.getType() != bf16Of(op.getResult(0)))
      return;
    int64_t above = isReadByFew && op.getInt16() ? fewRowsOf(rounding.getResult()) : 0;
    if (isReadByFew && !above)
      return;
    OpBuilder b(op);
    Location loc = mergedLocation(b.getContext(), {op.getLoc(), rounding.getLoc()});
    Value out = op.getInits()[0];
    Value rounded = tensor::EmptyOp::create(b, loc, tensor::getMixedSizes(b, loc, out), b.getBF16Type());
    SmallVector<Value, 2> inits = {rounded};
    if (isReadByFew)
      inits.insert(inits.begin(), out);
    auto product = PackedMatmulOp::create(
        b, loc, TypeRange(ValueRange(inits)), op.getInput(), op.getInputScales(), op.getInputSums(),
        op.getInputRounded(), op.getWeights(), op.getBias(), op.getNorm(), inits, op.getNAttr(), op.getKAttr(),
        op.getFormatAttr(), op.getActivationAttr(), op.getEpsAttr(), op.getWeightOffsetAttr(), op.getGatedAttr(),
        op.getAccumulateAttr(), op.getInt16Attr(), isReadByFew ? b.getI64IntegerAttr(above) : IntegerAttr());
    product->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    rounding.replaceAllUsesWith(product.getResults().back());
    rounding.erase();
    op.getResult(0).replaceAllUsesWith(product.getResult(0));
    op.erase();
  }

  // In a step on a CPU, once schedules say which rows are few.
  void roundInProducts() {
    SmallVector<PackedMatmulOp> products;
    getOperation().walk([&](PackedMatmulOp op) {
      if (!isInGraphEntry(op))
        products.push_back(op);
    });
    llvm::for_each(products, roundInProduct);
  }

  Value roundedInput(Value input, Operation *user) {
    Value &rounded = roundedInputs[input];
    if (!rounded) {
      OpBuilder b(user);
      b.setInsertionPointAfterValue(input);
      rounded = isInGraphEntry(user) ? roundedByLoops(b, user->getLoc(), input)
                                     : arith::TruncFOp::create(b, user->getLoc(), bf16Of(input), input);
    }
    return rounded;
  }

  static RankedTensorType bf16Of(Value input) {
    auto type = cast<RankedTensorType>(input.getType());
    return type.clone(BFloat16Type::get(type.getContext()));
  }

  // In a graph nothing is outlined: what has no kernel is loops.
  static Value roundedByLoops(OpBuilder &b, Location loc, Value input) {
    RankedTensorType type = bf16Of(input);
    Value room = tensor::EmptyOp::create(b, loc, tensor::getMixedSizes(b, loc, input), type.getElementType());
    SmallVector<AffineMap> maps(2, b.getMultiDimIdentityMap(type.getRank()));
    SmallVector<utils::IteratorType> loops(type.getRank(), utils::IteratorType::parallel);
    auto truncate = [&](OpBuilder &at, Location loc, ValueRange in) {
      linalg::YieldOp::create(at, loc, arith::TruncFOp::create(at, loc, type.getElementType(), in[0]).getResult());
    };
    return linalg::GenericOp::create(b, loc, type, input, room, maps, loops, truncate).getResult(0);
  }

  template <typename Matmul> void quantizeInput(Matmul op) {
    Value input = op.getInput();
    QuantizeOp quantized = byInput.lookup(input);
    if (!quantized) {
      OpBuilder b(op);
      b.setInsertionPointAfterValue(input);
      int64_t width = cast<RankedTensorType>(input.getType()).getDimSize(1);
      auto type = [&](int64_t columns, Type element) {
        return RankedTensorType::get({ShapedType::kDynamic, columns}, element);
      };
      quantized = QuantizeOp::create(b, op.getLoc(), type(width, b.getI8Type()), type(width / 32, b.getF32Type()),
                                     type(width / 16, b.getI32Type()), input);
      byInput[input] = quantized;
    }
    op.getInputMutable().assign(quantized.getCodes());
    op.getInputScalesMutable().assign(quantized.getScales());
    op.getInputSumsMutable().assign(quantized.getSums());
  }

  void runInStage() override {
    if (!llvm::is_contained({"by-rows", "f32", "bf16", "int8"}, StringRef(activations))) {
      getOperation().emitError("activations must be by-rows, f32, bf16 or int8, got '") << activations << "'";
      return signalPassFailure();
    }
    auto target = getOperation()->getAttrOfType<TargetAttr>(targetAttrName);
    auto ofGraphs = getOperation()->getAttrOfType<TargetAttr>(graphTargetAttrName);
    rounds = bf16Products;
    if (target && target.getDevice() != TargetDevice::Cpu)
      prepareRows(target);
    auto entries = getOperation()->getAttrOfType<ArrayAttr>(schedulesAttrName);
    WalkResult walked = getOperation().walk([&](Operation *op) {
      TargetAttr its = ofGraphs && isInGraphEntry(op) ? ofGraphs : target;
      rounds = bf16Products && its == target;
      // A graph's types say what it computes with, unless its matrices took another.
      if (graphs || !isInGraphEntry(op))
        assignInStep(op, its);
      // Behind the input, which entries ask for.
      ScheduleOptions options;
      options.isInStep = !isInGraphEntry(op);
      options.bf16Products = rounds;
      ScheduleAttr schedule = its ? scheduleFor(op, its, options) : ScheduleAttr();
      if (!schedule)
        return WalkResult::advance();
      FailureOr<ScheduleAttr> tuned = tunedSchedule(entries, op, schedule, its);
      if (failed(tuned))
        return WalkResult::interrupt();
      op->setAttr(scheduleAttrName, *tuned);
      return WalkResult::advance();
    });
    getOperation()->removeAttr(schedulesAttrName);
    if (walked.wasInterrupted())
      return signalPassFailure();
    if (target && target.getDevice() == TargetDevice::Cpu)
      roundInProducts();
  }

  void assignInStep(Operation *op, TargetAttr target) {
    if (auto matmul = dyn_cast<PackedMatmulOp>(op); matmul && !matmul.getRoom())
      assignInput(matmul, target);
    if (auto experts = dyn_cast<ExpertMatmulOp>(op))
      assignInput(experts, target);
    if (auto prefer = dyn_cast<PreferSplitsOp>(op))
      prefer.setItemsPerThread(target && target.getDevice() != TargetDevice::Cpu ? attentionBlocksOfGpu
                                                                                 : attentionItemsPerThread);
    if (auto rope = dyn_cast<RopeOp>(op); rope && !rope.getTable()) {
      OpBuilder b(rope);
      auto type = RankedTensorType::get({ShapedType::kDynamic, rope.getRope().getRotaryDim()}, b.getF32Type());
      rope.getTableMutable().assign(
          RopeTableOp::create(b, rope.getLoc(), type, b.getI64IntegerAttr(rope.getRope().getTable())));
    }
  }

  DenseMap<Value, QuantizeOp> byInput;
  DenseMap<Value, Value> roundedInputs;
};
} // namespace
