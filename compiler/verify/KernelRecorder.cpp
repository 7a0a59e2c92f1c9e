// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interpreter's buffers lie in its arena where those of the session lie in the session's, so that what it holds before and
// behind an op is what the binary's memory must hold: each operand becomes a region with its bytes, each result a region that is
// read. Kernels are named by what tells them apart for a reader: the layer whose call leads to the op and the weights it is
// called with.

#include "compiler/verify/KernelRecorder.h"

#include "compiler/codegen/targets/cpu/PageLayout.h"
#include "compiler/interpreter/TensorBytes.h"
#include "compiler/verify/Compare.h"
#include "dialect/EncodeOutputs.h"
#include "dialect/Entries.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace heddle;

//===- names ----------------------------------------------------------------===//

// The weight that an operand holds, through the calls that lead to its op; null for what is none.
static WeightOp weightOf(Value value, ArrayRef<func::CallOp> calls) {
  while (value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (calls.empty() || !isa<func::FuncOp>(argument.getOwner()->getParentOp()))
        return {};
      value = func::CallOp(calls.back()).getOperand(argument.getArgNumber());
      calls = calls.drop_back();
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (auto weight = dyn_cast<WeightOp>(op))
      return weight;
    value = isa<bufferization::ToBufferOp, memref::CastOp>(op) ? op->getOperand(0) : Value();
  }
  return {};
}

// A layer is told its number to find its part of the cache; one that is not, counts among the calls.
static int64_t layerOf(func::CallOp call) {
  for (Value operand : call.getOperands())
    if (auto constant = operand.getDefiningOp<arith::ConstantIndexOp>())
      return constant.value();
  auto all = call->getBlock()->getOps<func::CallOp>();
  return std::distance(all.begin(), llvm::find(all, call));
}

static std::string nameOf(Operation *op, ArrayRef<func::CallOp> calls) {
  std::string name = op->getName().getStringRef().str();
  if (auto call = dyn_cast<KernelCallOp>(op))
    name += " @" + call.getCallee().str();
  if (!calls.empty())
    name += " of layer " + std::to_string(layerOf(calls.front()));
  std::string weights;
  for (Value operand : op->getOperands())
    if (WeightOp weight = weightOf(operand, calls))
      weights += (weights.empty() ? " on " : ", ") + weight.getName().str();
  return name + weights;
}

//===- regions --------------------------------------------------------------===//

static void append(std::string &text, const void *bytes, size_t size) {
  text.append(static_cast<const char *>(bytes), size);
}
template <typename T> static void append(std::string &text, const T &value) {
  append(text, &value, sizeof value);
}
static void pad(std::string &text) {
  text.resize(llvm::alignTo<8>(text.size()), '\0');
}

// Rows of a buffer in the memory that `base` names. Inside a row no element is left out: views are windows of columns.
static FailureOr<ReplayRegion> regionOf(Operation *op, const Buffer &buffer, ReplayBase base, int64_t index) {
  ArrayRef<int64_t> shape = buffer.shape;
  int64_t width = storedBytes(buffer.elementType), inner = 1;
  for (int64_t dim = int64_t(shape.size()) - 1; dim >= 1; inner *= shape[dim--])
    if (buffer.strides[dim] != inner && shape[dim] > 1)
      return op->emitOpError("has a buffer whose rows have gaps");
  if (shape.size() < 2)
    return ReplayRegion{base, 0, index, buffer.offset, 1, (shape.empty() ? 1 : shape[0]) * width, 0};
  return ReplayRegion{base, 0, index, buffer.offset, shape[0], inner * width, buffer.strides[0] * width};
}

static void appendRegion(std::string &text, const ReplayRegion &region, const Buffer &buffer) {
  append(text, region);
  for (int64_t row = 0; row < region.rows; ++row)
    append(text, buffer.memory->data() + region.offset + row * region.stride, region.rowBytes);
  pad(text);
}

// A row of a layer's keys or values, head by head, where CPU kernels have it in a page.
static SmallVector<ReplayRegion> cacheRegions(KvCacheType type, int64_t layer, bool isValue, int64_t feed,
                                              int64_t position) {
  int64_t element = storedBytes(type.getElementType()), slot = position % HEDDLE_KV_PAGE_SIZE;
  int64_t dim = isValue ? type.getValueDim() : type.getKeyDim(), plane = type.getPlaneBytes() / type.getNumKvHeads();
  ReplayRegion region{
      ReplayBase::Page, int32_t(feed), position / HEDDLE_KV_PAGE_SIZE, type.getLayerBegin(layer), 1, dim * element, 0};
  if (type.isLatent()) { // (64, latent + rotary key)
    region.offset += slot * type.getHeadDim() * element + (isValue ? type.getLatent() * element : 0);
    return {region};
  }
  cpu::PlaneOrder order = cpu::planeOrder(cpu::hasPairedPages(type), isValue);
  region.offset += (isValue ? type.getPlaneBytes() : 0) + cpu::elementOf(order, dim, slot, 0) * element;
  if (order == cpu::PlaneOrder::ColumnPairs) {
    region.rows = dim / 2;
    region.rowBytes = 2 * element;
  } else if (order == cpu::PlaneOrder::TokenPairs) {
    region.rows = cpu::valueRunColumns(dim);
    region.rowBytes = element;
  }
  int64_t columns = region.rows * region.rowBytes / element; // of a region, which has others at a distance of their own
  auto bytesTo = [&](int64_t column) {
    return (cpu::elementOf(order, dim, slot, column) - cpu::elementOf(order, dim, slot, 0)) * element;
  };
  if (region.rows > 1)
    region.stride = bytesTo(columns / region.rows);
  SmallVector<ReplayRegion> heads;
  for (int64_t head = 0; head < type.getNumKvHeads(); ++head)
    for (int64_t column = 0; column < dim; column += columns) {
      heads.push_back(region);
      heads.back().offset += head * plane + bytesTo(column);
    }
  return heads;
}

// The scales of such a row.
static SmallVector<ReplayRegion> scaleRegions(KvCacheType type, int64_t layer, bool isValue, int64_t feed,
                                              int64_t position) {
  int64_t dim = type.getHeadDim(), plane = type.getPlaneBytes() / type.getNumKvHeads(),
          slot = position % HEDDLE_KV_PAGE_SIZE;
  int64_t base = type.getLayerBegin(layer) + (isValue ? type.getPlaneBytes() : 0);
  cpu::PlaneOrder order = cpu::planeOrder(cpu::hasPairedPages(type), isValue);
  auto scaleOf = [&](int64_t block) { return cpu::scaleOf(order, dim, slot, block); };
  SmallVector<ReplayRegion> heads;
  for (int64_t head = 0; head < type.getNumKvHeads(); ++head)
    heads.push_back({ReplayBase::Page, int32_t(feed), position / HEDDLE_KV_PAGE_SIZE, base + head * plane + scaleOf(0),
                     dim / type.getBlockColumns(), kvScaleBytes, scaleOf(1) - scaleOf(0)});
  return heads;
}

//===- recording ------------------------------------------------------------===//

KernelRecorder::KernelRecorder(ModuleOp module, const GeneratedCode &code, int64_t maxRows, InterpreterOptions options,
                               MLIRContext &context, double leastLimit)
    : module(module), code(code), maxRows(maxRows), options(std::move(options)), context(context),
      leastLimit(leastLimit) {
  for (const KernelLaunch &launch : code.launches)
    launches[launch.op].push_back(launch.kernel);
  this->options.arenaRows = maxRows;
  this->options.observeBuffers = [this](Operation *op, ArrayRef<func::CallOp> calls, ArrayRef<RuntimeValue> operands,
                                        bool hasRun) { return observe(op, calls, operands, hasRun); };
}

FailureOr<Recording> KernelRecorder::record(const StepSource &steps, int64_t threads) {
  func::FuncOp entry = raggedEntry(module);
  options.threads = threads;
  Interpreter running(options);
  interpreter = &running;
  recording = {};
  std::string body;
  int64_t numSteps = 0, numSequences = 0;
  for (StepInputs inputs;; ++numSteps) {
    FailureOr<bool> isThere = steps(entry, numSteps, inputs);
    if (failed(isThere))
      return failure();
    if (!*isThere)
      break;
    feeds.clear();
    given.clear();
    numGiven = 0;
    step = {};
    std::string feedText = isEncoder(module) ? encodeFeeds(inputs.arguments) : stepFeeds(inputs.arguments);
    for (int64_t sequence : feeds)
      numSequences = std::max(numSequences, sequence + 1);
    if (failed(running.call(entry, inputs.arguments)))
      return failure();
    append(body, ReplayStep{step.rows, int64_t(feeds.size()), step.numKernels});
    body += feedText + step.kernels;
  }
  ReplayHeader header{{}, maxRows, numSequences, numSteps};
  memcpy(header.magic, replayMagic, sizeof replayMagic);
  append(recording.file, header);
  recording.file += body;
  interpreter = nullptr;
  return std::move(recording);
}

static void appendNumbers(std::string &text, ArrayRef<int32_t> numbers) {
  append(text, numbers.data(), numbers.size() * sizeof(int32_t));
  pad(text);
}

// The integers of a tensor, or of the buffer that it became.
static std::vector<int32_t> integersOf(const RuntimeValue &value) {
  if (auto *buffer = std::get_if<Buffer>(&value)) {
    Tensor tensor = buffer->load();
    return std::vector<int32_t>(tensor.integers.begin(), tensor.integers.end());
  }
  ArrayRef<int64_t> integers = std::get<TensorRef>(value)->integers;
  return std::vector<int32_t>(integers.begin(), integers.end());
}

// @step(ids, positions, output_rows, caches…, logits, last_hidden_state), before the logits the adapters of rows where it has them, and what embeddings are given
std::string KernelRecorder::stepFeeds(ArrayRef<RuntimeValue> arguments) {
  const KvCache &cache = *std::get<std::shared_ptr<KvCache>>(arguments[3]);
  ArrayRef<Type> types = raggedEntry(module).getArgumentTypes();
  size_t first = 3;
  while (isa<KvCacheType>(types[first]))
    ++first;
  first += cast<ShapedType>(types[first]).getElementType().isInteger();
  if (arguments.size() > first + 2)
    ++first;
  logits = std::get<Buffer>(arguments[first]);
  hidden = arguments.size() > first + 1 ? std::get<Buffer>(arguments[first + 1]) : Buffer();
  llvm::MapVector<int64_t, std::vector<int32_t>> idsOf; // by sequence
  for (auto [row, id] : llvm::zip_equal(cache.rows(), integersOf(arguments[0])))
    idsOf[row.sequence].push_back(id);
  step.rows = cache.rows().size();
  std::string text;
  for (auto &[sequence, tokens] : idsOf) {
    feeds.push_back(sequence);
    append(text, ReplayFeed{int32_t(sequence), int32_t(tokens.size())});
    appendNumbers(text, tokens);
  }
  return text;
}

// @encode(ids, positions, output_rows, sequence_rows, token_types, outputs…), with patches before the outputs where it takes images, or global tokens where it has them
std::string KernelRecorder::encodeFeeds(ArrayRef<RuntimeValue> arguments) {
  std::vector<int32_t> ids = integersOf(arguments[0]), places = integersOf(arguments[3]),
                       types = integersOf(arguments[4]);
  size_t numOutputs = outputsOf(raggedEntry(module)).size();
  Tensor patches, globals;
  if (arguments.size() > 5 + numOutputs) {
    Tensor last = std::get<Buffer>(arguments[5]).load();
    (last.elementType.isInteger() ? globals : patches) = std::move(last);
  }
  outputs.clear();
  for (const RuntimeValue &output : arguments.take_back(numOutputs))
    outputs.push_back(std::get<Buffer>(output));
  step.rows = ids.size();
  std::string text;
  for (size_t i = 0; i < places.size(); i += 2) {
    feeds.push_back(i / 2);
    append(text, ReplayFeed{int32_t(i / 2), places[i + 1]});
    appendNumbers(text, ArrayRef(ids).slice(places[i], places[i + 1]));
    appendNumbers(text, ArrayRef(types).slice(places[i], places[i + 1]));
    if (!globals.integers.empty()) {
      std::vector<int32_t> numbers(globals.integers.begin(), globals.integers.end());
      appendNumbers(text, ArrayRef(numbers).slice(places[i], places[i + 1]));
    }
    if (patches.reals.empty())
      continue;
    size_t width = patches.reals.size() / ids.size();
    for (double value : ArrayRef(patches.reals).slice(places[i] * width, places[i + 1] * width))
      append(text, float(value));
    pad(text);
  }
  return text;
}

std::optional<KernelRecorder::Place> KernelRecorder::baseOf(const Buffer &buffer) const {
  if (buffer.memory == logits.memory)
    return Place{ReplayBase::Logits};
  if (buffer.memory == hidden.memory)
    return Place{ReplayBase::HiddenState};
  for (auto [i, output] : llvm::enumerate(outputs))
    if (buffer.memory == output.memory)
      return Place{ReplayBase::Output, int64_t(i)};
  return buffer.memory == interpreter->arena(module).memory ? std::optional(Place{ReplayBase::Arena}) : std::nullopt;
}

LogicalResult KernelRecorder::observe(Operation *op, ArrayRef<func::CallOp> calls, ArrayRef<RuntimeValue> operands,
                                      bool hasRun) {
  if (!launches.contains(op))
    return success();
  if (hasRun)
    return finish(op, calls, operands);
  for (const RuntimeValue &operand : operands) {
    auto *buffer = std::get_if<Buffer>(&operand);
    std::optional<Place> place = buffer ? baseOf(*buffer) : std::nullopt;
    if (!place)
      continue;
    FailureOr<ReplayRegion> region = regionOf(op, *buffer, place->base, place->index);
    if (failed(region))
      return failure();
    appendRegion(given, *region, *buffer);
    ++numGiven;
  }
  return success();
}

LogicalResult KernelRecorder::finish(Operation *op, ArrayRef<func::CallOp> calls, ArrayRef<RuntimeValue> operands) {
  ArrayRef<unsigned> kernels = launches[op];
  std::string name = nameOf(op, calls), regions;
  int64_t numResults = 0;
  std::string all = llvm::join(llvm::map_range(kernels, [&](unsigned i) { return code.kernels[i].name; }), ", ");
  for (unsigned index : kernels)
    recording.kernels.push_back({name, code.kernels[index].name, all, {}});
  ReplayedKernel &last = recording.kernels.back();
  std::string keep = std::exchange(given, {});
  int64_t numKept = std::exchange(numGiven, 0);
  auto kvAppend = dyn_cast<KvAppendOp>(op);
  if (kvAppend)
    addCacheRows(op, {operands[0], operands.back(), bool(kvAppend.getValue())}, last, regions, numResults);
  if (auto rotated = dyn_cast<RotateAppendOp>(op))
    addCacheRows(op,
                 {operands[rotated.getCacheMutable().getOperandNumber()],
                  operands[rotated.getLayerMutable().getOperandNumber()], /*hasValues=*/true},
                 last, regions, numResults);
  if (auto conv = dyn_cast<RaggedConvOp>(op))
    addStates(conv, operands, last, regions, numResults);
  if (auto attention = dyn_cast<RaggedLinearAttentionOp>(op))
    addStates(attention, operands, last, regions, numResults);
  if (!kvAppend && failed(addBuffers(op, operands, last, regions, numResults)))
    return failure();
  for (size_t i = 0; i < kernels.size(); ++i) {
    bool isFirst = i == 0, isLast = i + 1 == kernels.size();
    append(step.kernels, ReplayKernel{isFirst ? numKept : 0, isLast ? numResults : 0});
    step.kernels += (isFirst ? keep : "") + (isLast ? regions : "");
  }
  step.numKernels += kernels.size();
  return success();
}

// What is left in the destination by an op of so many rows says nothing.
static bool isScratch(Operation *op, size_t destination, int64_t rows) {
  auto attention = dyn_cast<OnlineAttentionOp>(op);
  if (auto product = dyn_cast<PackedMatmulOp>(op); product && product.getRounded())
    return destination == (rows > int64_t(*product.getRoundedAbove()) ? 0 : 1);
  if (isa<RotateAppendOp>(op))
    return destination > 0;
  return destination == 1 &&
         (isa<OnlineLatentAttentionOp, PackedMatmulOp>(op) || (attention && attention.storesScores()));
}

LogicalResult KernelRecorder::addBuffers(Operation *op, ArrayRef<RuntimeValue> operands, ReplayedKernel &kernel,
                                         std::string &regions, int64_t &numRegions) {
  auto inits = cast<DestinationStyleOpInterface>(op).getDpsInitsMutable();
  for (auto [i, init] : llvm::enumerate(inits)) {
    const Buffer &buffer = std::get<Buffer>(operands[init.getOperandNumber()]);
    if (isScratch(op, i, buffer.shape.empty() ? 1 : buffer.shape[0]))
      continue;
    std::optional<Place> place = baseOf(buffer);
    if (!place)
      return op->emitOpError("writes to memory that the step does not name");
    FailureOr<ReplayRegion> region = regionOf(op, buffer, place->base, place->index);
    if (failed(region))
      return failure();
    append(regions, *region);
    ++numRegions;
    Tensor expected = buffer.load();
    double limit = limitOf(op, expected.elementType);
    expected.elementType = typeIn(context, expected.elementType);
    kernel.results.push_back({"result " + std::to_string(i), std::move(expected), {}, limit});
  }
  // A split of which a row sees nothing may be left as it is.
  auto attention = dyn_cast<OnlineAttentionOp>(op);
  if (!attention || !attention.getSplitKv())
    return success();
  ArrayRef<double> maxima = kernel.results[1].expected.reals;
  for (ReplayedResult &result : kernel.results) {
    int64_t perState = result.expected.size() / maxima.size();
    result.open.resize(result.expected.size());
    for (int64_t i = 0; i < result.expected.size(); ++i)
      if (maxima[i / perState] < -1e37)
        result.open.set(i);
  }
  return success();
}

// The cache is right again for the kernels behind this one.
void KernelRecorder::addCacheRows(Operation *op, Appended appended, ReplayedKernel &kernel, std::string &regions,
                                  int64_t &numRegions) {
  const KvCache &cache = *std::get<std::shared_ptr<KvCache>>(appended.cache);
  int64_t layer = std::get<TensorRef>(appended.layer)->integers[0];
  KvCacheType type = cache.type();
  // What `store` writes to a row of `width` elements for the numbers of a token.
  auto add = [&](StringRef name, bool isValue, Type element, int64_t width, auto store, auto regionsOf) {
    Tensor rows = Tensor::zeros(element, {0, width});
    for (KvCache::Row place : cache.rows()) {
      int64_t feed = llvm::find(feeds, place.sequence) - feeds.begin();
      Tensor row = Tensor::zeros(element, {1, width});
      store(cache.load(layer, isValue, place.sequence, place.position), row);
      llvm::append_range(rows.reals, row.reals);
      llvm::append_range(rows.integers, row.integers);
      std::string bytes = bytesOf(row);
      StringRef rest = bytes;
      for (const ReplayRegion &region : regionsOf(type, layer, isValue, feed, place.position)) {
        append(regions, region);
        ++numRegions;
        append(given, region);
        given += rest.take_front(region.bytes());
        rest = rest.drop_front(region.bytes());
        pad(given);
        ++numGiven;
      }
    }
    rows.shape[0] = cache.rows().size();
    double limit = type.getBlockColumns() ? quantizedNmseLimit : limitOf(op, element);
    rows.elementType = typeIn(context, rows.elementType);
    kernel.results.push_back({name.str(), std::move(rows), {}, limit});
  };
  int64_t columns = type.getBlockColumns();
  for (bool isValue : {false, true}) {
    if (isValue && !appended.hasValues)
      continue;
    int64_t width = cache.width(isValue);
    StringRef name = isValue ? "values" : "keys";
    if (!columns) {
      auto store = [](ArrayRef<double> numbers, Tensor &row) { llvm::copy(numbers, row.reals.begin()); };
      add(name, isValue, type.getElementType(), width, store, cacheRegions);
      continue;
    }
    auto storeCodes = [&](ArrayRef<double> numbers, Tensor &row) {
      for (int64_t at = 0; at < width; at += columns)
        llvm::copy(KvBlock(numbers.slice(at, columns)).codes, row.integers.begin() + at);
    };
    auto storeScales = [&](ArrayRef<double> numbers, Tensor &row) {
      for (int64_t at = 0; at < width; at += columns)
        row.reals[at / columns] = KvBlock(numbers.slice(at, columns)).scale;
    };
    add(name, isValue, type.getElementType(), width, storeCodes, cacheRegions);
    add((name + ", scales").str(), isValue, Float16Type::get(type.getContext()), width / columns, storeScales,
        scaleRegions);
  }
}

template <typename Op>
void KernelRecorder::addStates(Op op, ArrayRef<RuntimeValue> operands, ReplayedKernel &kernel, std::string &regions,
                               int64_t &numRegions) {
  const KvCache &cache = *std::get<std::shared_ptr<KvCache>>(operands[op.getCacheMutable().getOperandNumber()]);
  int64_t layer = std::get<TensorRef>(operands[op.getLayerMutable().getOperandNumber()])->integers[0];
  int64_t size = op.getStateSize(), offset = op.getOffset();
  KvCacheType type = cache.type();
  Tensor states = Tensor::zeros(type.getElementType(), {0, size});
  for (auto [feed, sequence] : llvm::enumerate(feeds)) {
    Tensor state = Tensor::zeros(type.getElementType(), {1, size});
    llvm::copy(cache.state(layer, sequence).slice(offset, size), state.reals.begin());
    int64_t page = (cache.tokens(sequence) - 1) / HEDDLE_KV_PAGE_SIZE, element = sizeof(float);
    ReplayRegion region{
        ReplayBase::Page, int32_t(feed), page, type.getLayerBegin(layer) + offset * element, 1, size * element, 0};
    append(regions, region);
    append(given, region);
    given += bytesOf(state);
    pad(given);
    ++numRegions;
    ++numGiven;
    llvm::append_range(states.reals, state.reals);
    ++states.shape[0];
  }
  double limit = limitOf(op, states.elementType);
  states.elementType = typeIn(context, states.elementType);
  kernel.results.push_back({"state", std::move(states), {}, limit});
}

// By the coarsest type that the kernel reads or writes. Codes of a quantisation may round to the other neighbour.
double KernelRecorder::limitOf(Operation *op, Type result) const {
  double limit = isa<FloatType>(result) ? leastLimit : 0;
  bool writesCodes = false;
  if (auto style = dyn_cast<DestinationStyleOpInterface>(op))
    for (Value init : style.getDpsInits())
      writesCodes |= getElementTypeOrSelf(init).isInteger(8);
  if (writesCodes)
    return std::max(limit, quantizedNmseLimit);
  if (!isa<FloatType>(result))
    return limit;
  for (Type type : op->getOperandTypes()) {
    auto cache = dyn_cast<KvCacheType>(type);
    Type element = cache ? cache.getElementType() : getElementTypeOrSelf(type);
    if (isa<FloatType>(element))
      limit = std::max(limit, nmseLimit(element));
  }
  return std::max(limit, nmseLimit(result));
}
