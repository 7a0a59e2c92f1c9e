// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/interpreter/Interpreter.h"
#include "compiler/interpreter/Frame.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

struct Interpreter::Handlers {
  HandlerTable table;
};

Interpreter::Interpreter(InterpreterOptions options)
    : options(std::move(options)), handlers(std::make_unique<Handlers>()) {
  addModelHandlers(handlers->table);
  addAttentionHandlers(handlers->table);
  addStateHandlers(handlers->table);
  addCacheHandlers(handlers->table);
  addLatentAttentionHandlers(handlers->table);
  addKernelHandlers(handlers->table);
  addTensorHandlers(handlers->table);
  addLinalgHandlers(handlers->table);
  addControlFlowHandlers(handlers->table);
  addBufferHandlers(handlers->table);
}
Interpreter::~Interpreter() = default;

//===- values and their types ---------------------------------------------===//

// Keys or values of the one cached sequence: (1, num_kv_heads, tokens, head_dim).
static FailureOr<Tensor> materialise(Operation *op, const KvView &view) {
  const KvCache &cache = *view.cache;
  if (cache.numSequences() != 1)
    return op->emitOpError("cannot read a view of a cache of ")
           << cache.numSequences() << " sequences: only attention does";
  KvCacheType type = cache.type();
  int64_t heads = type.getNumKvHeads(), headDim = view.isValue ? type.getValueDim() : type.getKeyDim(),
          tokens = cache.tokens(0);
  Tensor tensor = Tensor::zeros(type.getValueType(), {1, heads, tokens, headDim});
  for (int64_t token = 0; token < tokens; ++token) {
    ArrayRef<double> row = cache.load(view.layer, view.isValue, 0, token);
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t d = 0; d < headDim; ++d)
        tensor.reals[(head * tokens + token) * headDim + d] = row[head * headDim + d];
  }
  return tensor;
}

static bool fitsShape(Type elementType, ArrayRef<int64_t> shape, ShapedType type) {
  return elementType == type.getElementType() && int64_t(shape.size()) == type.getRank() &&
         llvm::all_of(llvm::zip(shape, type.getShape()), [](auto pair) {
           return ShapedType::isDynamic(std::get<1>(pair)) || std::get<0>(pair) == std::get<1>(pair);
         });
}

static bool fitsType(const RuntimeValue &value, Type type) {
  if (auto cacheType = dyn_cast<KvCacheType>(type))
    return std::holds_alternative<std::shared_ptr<KvCache>>(value) &&
           std::get<std::shared_ptr<KvCache>>(value)->type() == cacheType;
  if (std::holds_alternative<KvView>(value))
    return isa<RankedTensorType>(type);
  if (std::holds_alternative<PackedWeights>(value))
    return isa<RankedTensorType, MemRefType>(type) && cast<ShapedType>(type).getElementType().isInteger(8);
  if (auto *buffer = std::get_if<Buffer>(&value))
    return isa<MemRefType>(type) && fitsShape(buffer->elementType, buffer->shape, cast<ShapedType>(type));
  if (!std::holds_alternative<TensorRef>(value) || !std::get<TensorRef>(value))
    return false;
  const Tensor &tensor = *std::get<TensorRef>(value);
  if (!isa<RankedTensorType, MemRefType>(type))
    return tensor.shape.empty() && tensor.elementType == type;
  return fitsShape(tensor.elementType, tensor.shape, cast<ShapedType>(type));
}

static std::string describe(const RuntimeValue &value) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (auto *ref = std::get_if<TensorRef>(&value); ref && *ref) {
    os << "tensor<";
    for (int64_t dim : (*ref)->shape)
      os << dim << "x";
    os << (*ref)->elementType << ">";
  } else if (auto *cache = std::get_if<std::shared_ptr<KvCache>>(&value)) {
    os << (*cache)->type();
  } else if (auto *buffer = std::get_if<Buffer>(&value)) {
    os << "memref<";
    for (int64_t dim : buffer->shape)
      os << dim << "x";
    os << buffer->elementType << ">";
  } else {
    os << (std::holds_alternative<KvView>(value)          ? "a view of a cache"
           : std::holds_alternative<PackedWeights>(value) ? "packed weights"
                                                          : "nothing");
  }
  return text;
}

//===- running ------------------------------------------------------------===//

static bool passesValuesOn(Operation *op) {
  return isa<bufferization::ToBufferOp, memref::CastOp, func::CallOp, AttentionOp, LatentAttentionOp,
             OnlineLatentAttentionOp, PackedMatmulOp, IntegerMatmulOp, ExpertMatmulOp, DequantizeOp, KernelCallOp>(op);
}

LogicalResult Frame::execute(Operation *op) {
  auto observe = [&](Operation *evaluated) {
    if (interpreter.options.observe)
      interpreter.options.observe(op, valuesOf(evaluated->getOperands()), valuesOf(evaluated->getResults()));
  };
  if (!readsBuffers(op)) {
    if (failed(evaluate(op)))
      return failure();
    return observe(op), success();
  }
  auto observeBuffers = [&](bool hasRun) {
    const auto &observer = interpreter.options.observeBuffers;
    return observer ? observer(op, interpreter.calls, valuesOf(op->getOperands()), hasRun) : success();
  };
  if (failed(observeBuffers(false)))
    return failure();
  TensorForm form(*this, op);
  if (failed(form.verifyApart(op)) || failed(evaluate(*form)) || failed(form.storeResults()))
    return failure();
  observe(*form);
  return observeBuffers(true);
}

LogicalResult Frame::evaluate(Operation *op) {
  for (Value operand : op->getOperands()) {
    RuntimeValue &value = values[operand];
    if (passesValuesOn(op))
      continue;
    if (auto *view = std::get_if<KvView>(&value)) {
      FailureOr<Tensor> tensor = materialise(op, *view);
      if (failed(tensor))
        return failure();
      value = makeValue(std::move(*tensor));
    } else if (std::holds_alternative<PackedWeights>(value)) {
      return op->emitOpError("cannot read packed weights");
    }
  }
  if (const Handler *handler = interpreter.handlers->table.find(op->getName().getStringRef())) {
    if (failed((*handler)(*this, op)))
      return failure();
  } else if (isa<linalg::LinalgOp>(op)) {
    if (failed(evaluateStructured(*this, op)))
      return failure();
  } else if (failed(evaluateElementwise(*this, op))) {
    return failure();
  }
  for (OpResult result : op->getResults())
    if (!fitsType(values[result], result.getType()))
      return op->emitOpError("gives ") << describe(values[result]) << " as result " << result.getResultNumber()
                                       << ", which is " << result.getType();
  return success();
}

LogicalResult Frame::unknown(Operation *op, StringRef where) {
  interpreter.hasMetUnknownOp = true;
  return op->emitOpError("is an op that the reference interpreter does not know") << where;
}

SmallVector<RuntimeValue> Frame::valuesOf(ValueRange range) {
  return llvm::map_to_vector(range, [&](Value value) { return values[value]; });
}

// Drops the values that no later op of the block reads: weights are large.
void Frame::releaseAfter(Operation *op) {
  Block *block = op->getBlock();
  auto isRead = [&](Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      Operation *reader = block->findAncestorOpInBlock(*user);
      return reader && op->isBeforeInBlock(reader);
    });
  };
  for (Value operand : op->getOperands())
    if (operand.getParentBlock() == block && !isRead(operand))
      values.erase(operand);
  for (Value result : op->getResults())
    if (result.use_empty())
      values.erase(result);
}

LogicalResult Frame::run(Block &block, ArrayRef<RuntimeValue> arguments, SmallVectorImpl<RuntimeValue> &out) {
  for (auto [formal, actual] : llvm::zip_equal(block.getArguments(), arguments))
    values[formal] = actual;
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (Value operand : op.getOperands())
        out.push_back(values[operand]);
      return success();
    }
    if (failed(execute(&op)))
      return failure();
    releaseAfter(&op);
  }
  return block.getParentOp()->emitOpError("has a block without a terminator that the interpreter knows");
}

FailureOr<SmallVector<RuntimeValue>> Interpreter::call(func::FuncOp function, ArrayRef<RuntimeValue> arguments) {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError("'") << function.getName() << "' must have a body of one block to be evaluated";
  if (arguments.size() != function.getNumArguments())
    return function.emitError("'") << function.getName() << "' takes " << function.getNumArguments()
                                   << " arguments, got " << arguments.size();
  for (auto [i, argument] : llvm::enumerate(arguments))
    if (!fitsType(argument, function.getArgumentTypes()[i]))
      return function.emitError("argument ") << i << " of '" << function.getName() << "' is "
                                             << function.getArgumentTypes()[i] << ", got " << describe(argument);
  if (depth == options.maxDepth)
    return function.emitError("'") << function.getName() << "' is called more than " << options.maxDepth
                                   << " calls deep";
  ++depth;
  Frame frame(*this);
  SmallVector<RuntimeValue> results;
  LogicalResult ran = frame.run(function.getBody().front(), arguments, results);
  --depth;
  if (failed(ran))
    return failure();
  return results;
}
