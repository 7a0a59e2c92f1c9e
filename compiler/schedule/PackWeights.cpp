// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gives every weight its place in the weights section: packed where a kernel asks for it, as the file has it otherwise. What a layer
// function packs of its arguments becomes an argument itself, and each call fills it with the weights of its layer. Places follow
// the order of the ops, so equal modules have equal sections; what is packed equally is stored once.

#include "compiler/schedule/Passes.h"
#include "compiler/weights/WeightPlaces.h"
#include "dialect/Codes.h"

namespace heddle {
#define GEN_PASS_DEF_PACKWEIGHTS
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

// What a `pack` asks for. It outlives the op, for calls of the function that the op is in.
struct PackRequest {
  explicit PackRequest(PackOp op)
      : loc(op.getLoc()), layout(op.getLayout()), format(op.getFormat().str()), group(op.getGroup()),
        transposed(op.getTransposed()), manyRows(op.getManyRows()), type(cast<RankedTensorType>(op.getType())),
        sources(llvm::to_vector(op.getSources())) {
    int64_t n = 0;
    for (Value source : sources)
      n += rows.emplace_back(op.rowsOf(source));
    shape.push_back(n);
    if (!op.isVector())
      shape.push_back(op.getK());
  }

  // Whether one packed tensor serves both. Whether only many rows read it changes no byte.
  bool packsTheSame(const PackRequest &other) const {
    return layout == other.layout && format == other.format && group == other.group && transposed == other.transposed &&
           type == other.type && sources == other.sources;
  }

  Location loc;
  PackingLayout layout;
  std::string format;
  int64_t group;
  bool transposed, manyRows;
  RankedTensorType type;
  SmallVector<Value> sources;
  SmallVector<int64_t> rows, shape; // rows of each source; (n, k), or (n) of vectors
};

class WeightPlacer {
public:
  explicit WeightPlacer(ModuleOp module) : module(module), b(module.getContext()) {}
  LogicalResult run();

private:
  // A packed argument of a layer function, in place of those that `request` packs.
  struct PackedArgument {
    PackRequest request;
    Value argument;
  };

  LogicalResult placePacks(func::FuncOp func);
  LogicalResult fillCalls(func::FuncOp func);
  LogicalResult fillCall(func::CallOp call, ArrayRef<PackedArgument> packed, const llvm::BitVector &dropped);
  LogicalResult placeStored(WeightOp op);
  Value argumentFor(func::FuncOp func, const PackRequest &request);
  FailureOr<Value> weightFor(const PackRequest &request);

  ModuleOp module;
  OpBuilder b;
  llvm::MapVector<Operation *, std::vector<PackedArgument>> packedArguments; // by function
  WeightPlaces places;
};

} // namespace

// What is to be packed, before it has its place. Null, with an error, if the sources do not fit it.
static PackingAttr checkedPacking(function_ref<InFlightDiagnostic()> emitError, MLIRContext *context,
                                  PackingLayout layout, StringRef format, ArrayRef<int64_t> shape,
                                  ArrayRef<SourceAttr> sources, int64_t group, bool transposed, bool manyRows) {
  int64_t offset = 0;
  return PackingAttr::getChecked(emitError, context, layout, format, shape, offset, sources, group, transposed,
                                 manyRows);
}

// The weight that `request` asks for, at the builder's place. Its name joins those of its sources.
FailureOr<Value> WeightPlacer::weightFor(const PackRequest &request) {
  auto emitError = [&] { return mlir::emitError(request.loc); };
  std::string name;
  SmallVector<SourceAttr> sources;
  SmallVector<Attribute> codes; // an entry per source; an empty one for numbers
  bool hasCodes = false;
  for (auto [source, rows] : llvm::zip_equal(request.sources, request.rows)) {
    auto weight = source.getDefiningOp<WeightOp>();
    if (!weight || !weight.getStorage())
      return emitError() << "operand is no weight of the model";
    name += (name.empty() ? "" : "+") + weight.getName().str();
    sources.push_back(SourceAttr::get(b.getContext(), weight.getName(), rows, weight.getStorage()));
    Attribute ofSource = weight->getAttr(Codes::attrName);
    hasCodes |= bool(ofSource);
    codes.push_back(ofSource ? ofSource : b.getDictionaryAttr({}));
  }
  Attribute allCodes = hasCodes ? b.getArrayAttr(codes) : ArrayAttr();
  PackingAttr packing = checkedPacking(emitError, b.getContext(), request.layout, request.format, request.shape,
                                       sources, request.group, request.transposed, request.manyRows);
  if (!packing)
    return failure();
  auto weight = WeightOp::create(b, request.sources.front().getLoc(), request.type, name,
                                 places.place(packing, request.type, allCodes));
  if (allCodes)
    weight->setAttr(Codes::attrName, allCodes);
  return weight.getResult();
}

// The argument that is what `request` packs of other arguments of `func`.
Value WeightPlacer::argumentFor(func::FuncOp func, const PackRequest &request) {
  for (PackedArgument &known : packedArguments[func])
    if (known.request.packsTheSame(request))
      return known.argument;
  Value argument = func.front().addArgument(request.type, request.sources.front().getLoc());
  packedArguments[func].push_back({request, argument});
  return argument;
}

// Inside a layer function the packed weight is an argument, filled at the calls; elsewhere it is placed at once.
LogicalResult WeightPlacer::placePacks(func::FuncOp func) {
  SmallVector<PackOp> packs;
  func.walk([&](PackOp op) { packs.push_back(op); });
  for (PackOp op : packs) {
    PackRequest request(op);
    bool isOfLayer = func.isPrivate() && llvm::all_of(request.sources, llvm::IsaPred<BlockArgument>);
    b.setInsertionPoint(op);
    FailureOr<Value> weight = isOfLayer ? argumentFor(func, request) : weightFor(request);
    if (failed(weight))
      return failure();
    op.replaceAllUsesWith(*weight);
    op.erase();
  }
  return success();
}

// Passes `call` what its function packs, in place of the arguments that are dropped.
LogicalResult WeightPlacer::fillCall(func::CallOp call, ArrayRef<PackedArgument> packed,
                                     const llvm::BitVector &dropped) {
  SmallVector<Value> operands;
  for (auto [i, operand] : llvm::enumerate(call.getOperands()))
    if (!dropped.test(i))
      operands.push_back(operand);
  b.setInsertionPoint(call);
  for (const PackedArgument &argument : packed) {
    PackRequest request = argument.request;
    for (Value &source : request.sources)
      source = call.getOperand(cast<BlockArgument>(source).getArgNumber());
    FailureOr<Value> weight = weightFor(request);
    if (failed(weight))
      return failure();
    operands.push_back(*weight);
  }
  call->setOperands(operands);
  return success();
}

// Drops what is packed from the function's arguments, and fills the packed ones at its calls.
LogicalResult WeightPlacer::fillCalls(func::FuncOp func) {
  ArrayRef<PackedArgument> packed = packedArguments[func];
  if (packed.empty())
    return success();
  llvm::BitVector dropped(func.front().getNumArguments());
  for (const PackedArgument &argument : packed)
    for (Value source : argument.request.sources)
      dropped.set(cast<BlockArgument>(source).getArgNumber());
  for (unsigned index : dropped.set_bits())
    if (!func.getArgument(index).use_empty())
      return func.emitError("weight argument ") << index << " is used by an op that has no packed form";
  WalkResult walk = module.walk([&](func::CallOp call) {
    bool isFilled = call.getCallee() != func.getSymName() || succeeded(fillCall(call, packed, dropped));
    return isFilled ? WalkResult::advance() : WalkResult::interrupt();
  });
  func.front().eraseArguments(dropped);
  func.setType(b.getFunctionType(func.front().getArgumentTypes(), func.getResultTypes()));
  return failure(walk.wasInterrupted());
}

// A weight that ops read as it is keeps its bytes and its type.
LogicalResult WeightPlacer::placeStored(WeightOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  StorageAttr storage = op.getStorage();
  auto source = SourceAttr::get(b.getContext(), op.getName(), type.getNumElements(), storage);
  PackingAttr packing =
      checkedPacking([&] { return op.emitError(); }, b.getContext(), PackingLayout::Stored,
                     Codes::of(op) ? "f32" : storage.getType().getValue(), type.getShape(), source, /*group=*/0,
                     /*transposed=*/false, /*manyRows=*/false);
  if (!packing)
    return failure();
  op.setPackingAttr(places.place(packing, type, op->getAttr(Codes::attrName)));
  op.removeStorageAttr();
  return success();
}

LogicalResult WeightPlacer::run() {
  for (auto func : module.getOps<func::FuncOp>())
    if (failed(placePacks(func)))
      return failure();
  for (auto func : module.getOps<func::FuncOp>())
    if (failed(fillCalls(func)))
      return failure();
  WalkResult walk = module.walk([&](WeightOp op) {
    if (op->use_empty())
      op.erase();
    else if (op.getStorage() && failed(placeStored(op)))
      return WalkResult::interrupt();
    return WalkResult::advance();
  });
  module->setAttr(weightsSizeAttr, b.getI64IntegerAttr(places.size()));
  return failure(walk.wasInterrupted());
}

namespace {
struct PackWeights : heddle::impl::PackWeightsBase<PackWeights> {
  void runInStage() override {
    if (failed(WeightPlacer(getOperation()).run()))
      signalPassFailure();
  }
};
} // namespace
