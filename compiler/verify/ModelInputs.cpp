// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/ModelInputs.h"

#include "compiler/optimize/Passes.h"
#include "dialect/EncodeOutputs.h"

#include <array>

using namespace mlir;
using namespace heddle;

using CacheRef = std::shared_ptr<KvCache>;

std::vector<int64_t> heddle::tokenTypesOf(int64_t length, int64_t types) {
  std::vector<int64_t> result(length);
  for (int64_t token = 0; token < length && types > 1; ++token)
    result[token] = 2 * token >= length;
  return result;
}

std::vector<int64_t> heddle::globalsOf(int64_t length) {
  constexpr int64_t every = 7;
  std::vector<int64_t> result(length);
  for (int64_t token = 0; token < length; token += every)
    result[token] = 1;
  return result;
}

// A number in [-1, 1) that the place of a pixel decides.
static double pixelAt(int64_t place) {
  uint64_t bits = (uint64_t(place) + 1) * 0x9e3779b97f4a7c15ull;
  bits = (bits ^ bits >> 29) * 0xbf58476d1ce4e5b9ull;
  return double(bits >> 40) / double(1 << 23) - 1;
}

Tensor heddle::imagePixels(const ImageConfig &image, MLIRContext *context) {
  Tensor pixels = Tensor::zeros(Float32Type::get(context), {1, image.channels, image.size, image.size});
  for (int64_t place = 0; place < pixels.size(); ++place)
    pixels.reals[place] = pixelAt(place);
  return pixels;
}

// Rows of the first `count` tokens of that image: patches (channels, patch, patch), and behind them 1 where the token is each special
// one, or a patch.
static void appendPatches(const ImageConfig &image, int64_t count, std::vector<double> &rows) {
  int64_t across = image.size / image.patch, width = image.patchWidth();
  for (int64_t token = 0; token < count; ++token) {
    int64_t patch = token - image.specialTokens;
    for (int64_t number = 0; number < width; ++number) {
      int64_t channel = number / (image.patch * image.patch), y = number / image.patch % image.patch;
      int64_t row = patch / across * image.patch + y, column = patch % across * image.patch + number % image.patch;
      rows.push_back(patch < 0 ? 0 : pixelAt((channel * image.size + row) * image.size + column));
    }
    for (int64_t kind = 0; kind <= image.specialTokens; ++kind)
      rows.push_back(kind == std::min(token, image.specialTokens));
  }
}

static bool isEncode(func::FuncOp entry) {
  return entry.isPublic() && entry.getSymName() == "encode";
}

// What a result is written to, before which nobody reads it.
static RuntimeValue destination(ShapedType type, int64_t rows) {
  Tensor zeros = Tensor::zeros(type.getElementType(), {rows, type.getDimSize(1)});
  return isa<MemRefType>(type) ? RuntimeValue(Buffer::of(zeros)) : makeValue(std::move(zeros));
}

// Arguments of @encode for whole sequences.
static SmallVector<RuntimeValue> encodeArguments(func::FuncOp entry, ArrayRef<std::vector<int64_t>> sequences,
                                                 const EncodeInputs &given) {
  std::vector<int64_t> ids, positions, firstRows, places, types, globals;
  for (const std::vector<int64_t> &sequence : sequences) {
    int64_t length = sequence.size(), first = ids.size();
    firstRows.push_back(first);
    places.insert(places.end(), {first, length});
    llvm::append_range(ids, sequence);
    llvm::append_range(positions, llvm::seq(length));
    llvm::append_range(types, tokenTypesOf(length, given.tokenTypes));
    llvm::append_range(globals, globalsOf(length));
  }
  SmallVector<RuntimeValue> arguments;
  SmallVector<const std::vector<int64_t> *> inputs = {&ids, &positions, &firstRows, &places, &types};
  if (given.hasGlobals)
    inputs.push_back(&globals);
  for (const std::vector<int64_t> *numbers : inputs) {
    int64_t count = numbers->size();
    Tensor tensor =
        Tensor::zeros(IntegerType::get(entry.getContext(), 32),
                      numbers == &places ? SmallVector<int64_t>{count / 2, 2} : SmallVector<int64_t>{count});
    tensor.integers = *numbers;
    bool isBuffer = isa<MemRefType>(entry.getArgumentTypes()[arguments.size()]);
    arguments.push_back(isBuffer ? RuntimeValue(Buffer::of(tensor)) : makeValue(std::move(tensor)));
  }
  if (given.image.size) {
    Tensor patches = Tensor::zeros(Float32Type::get(entry.getContext()), {int64_t(ids.size()), given.image.rowWidth()});
    patches.reals.clear();
    for (const std::vector<int64_t> &sequence : sequences)
      appendPatches(given.image, int64_t(sequence.size()), patches.reals);
    bool isBuffer = isa<MemRefType>(entry.getArgumentTypes()[arguments.size()]);
    arguments.push_back(isBuffer ? RuntimeValue(Buffer::of(patches)) : makeValue(std::move(patches)));
  }
  ArrayRef<Type> destinations = entry.getArgumentTypes().drop_front(arguments.size());
  for (auto [type, output] : llvm::zip(destinations, outputsOf(entry)))
    arguments.push_back(
        destination(cast<ShapedType>(type), output.ofSequences ? int64_t(sequences.size()) : int64_t(ids.size())));
  return arguments;
}

// Arguments of an entry for tokens `ids` at `positions` of their sequences, which the cache's step knows.
static FailureOr<SmallVector<RuntimeValue>> argumentsOf(func::FuncOp entry, ArrayRef<int64_t> ids,
                                                        ArrayRef<int64_t> positions, ArrayRef<CacheRef> caches,
                                                        const EncodeInputs &given = {}) {
  SmallVector<RuntimeValue> arguments;
  int64_t length = ids.size();
  for (auto [i, type] : llvm::enumerate(entry.getArgumentTypes())) {
    if (isa<KvCacheType>(type)) {
      arguments.push_back(caches.front());
      caches = caches.drop_front();
      continue;
    }
    auto tensorType = dyn_cast<ShapedType>(type); // a tensor or a buffer
    // A result's destination: (rows, features), written before it is read.
    if (tensorType && isa<FloatType>(tensorType.getElementType()) && tensorType.getRank() == 2 &&
        tensorType.getNumDynamicDims() == 1) {
      arguments.push_back(destination(tensorType, length));
      continue;
    }
    if (tensorType && isa<FloatType>(tensorType.getElementType()) && tensorType.getRank() == 3 && given.image.size) {
      Tensor patches = Tensor::zeros(tensorType.getElementType(), {1, length, given.image.rowWidth()});
      patches.reals.clear();
      appendPatches(given.image, length, patches.reals);
      arguments.push_back(makeValue(std::move(patches)));
      continue;
    }
    if (!tensorType || !tensorType.getElementType().isInteger() || tensorType.getRank() < 1 || tensorType.getRank() > 2)
      return entry.emitError("argument ")
             << i << " of '" << entry.getName() << "' is " << type << ", not ids, positions or a destination";
    Tensor tensor =
        Tensor::zeros(tensorType.getElementType(),
                      tensorType.getRank() == 2 ? SmallVector<int64_t>{1, length} : SmallVector<int64_t>{length});
    auto name = entry.getArgAttrOfType<StringAttr>(i, "heddle.name"); // of a graph's input
    bool isMask = name && name.getValue() == "attention_mask", isIds = name ? name.getValue() == "input_ids" : i == 0;
    bool isPosition = name ? name.getValue() == "position_ids" : i == 1;
    // The third argument of an encoder's @forward, and perhaps a fourth; a step's output rows are all.
    bool isTokenType = !name && tensorType.getRank() == 2;
    // Behind the cache stand the adapters of a step's rows: none.
    bool isAdapter = llvm::any_of(entry.getArgumentTypes().take_front(i), llvm::IsaPred<KvCacheType>);
    std::vector<int64_t> types = isAdapter ? std::vector<int64_t>(length)
                                 : i > 2   ? globalsOf(length)
                                           : tokenTypesOf(length, given.tokenTypes);
    for (int64_t row = 0; row < length; ++row)
      tensor.set(row, {0, isMask        ? 1
                          : isIds       ? ids[row]
                          : isPosition  ? positions[row]
                          : isTokenType ? types[row]
                          : isAdapter   ? 0
                                        : row});
    arguments.push_back(makeValue(std::move(tensor)));
  }
  return arguments;
}

// In the order of the arguments, which is that of the windows.
static SmallVector<CacheRef> emptyCaches(func::FuncOp entry) {
  auto attr = entry->getParentOfType<ModuleOp>()->getAttrOfType<DenseI64ArrayAttr>(kvWindowsAttr);
  ArrayRef<int64_t> windows = attr ? attr.asArrayRef() : ArrayRef<int64_t>();
  SmallVector<CacheRef> caches;
  for (Type type : entry.getArgumentTypes())
    if (auto cacheType = dyn_cast<KvCacheType>(type)) {
      ArrayRef<int64_t> own = windows.take_front(cacheType.getCross() ? 0 : cacheType.getNumLayers());
      windows = windows.drop_front(own.size());
      caches.push_back(std::make_shared<KvCache>(cacheType, own));
    }
  return caches;
}

static void beginStep(ArrayRef<CacheRef> caches, ArrayRef<int64_t> sequences) {
  for (const CacheRef &cache : caches)
    cache->beginStep(sequences);
}

std::function<FailureOr<SmallVector<RuntimeValue>>(func::FuncOp)> heddle::modelInputs(const std::vector<int64_t> &ids,
                                                                                      const EncodeInputs &given) {
  return [ids, given](func::FuncOp entry) -> FailureOr<SmallVector<RuntimeValue>> {
    if (isEncode(entry))
      return encodeArguments(entry, ids, given);
    SmallVector<CacheRef> caches = emptyCaches(entry);
    beginStep(caches, SmallVector<int64_t>(ids.size(), 0));
    return argumentsOf(entry, ids, llvm::to_vector(llvm::seq<int64_t>(ids.size())), caches, given);
  };
}

std::function<FailureOr<bool>(func::FuncOp, size_t, StepInputs &)> heddle::modelSteps(const std::vector<int64_t> &ids,
                                                                                      const EncodeInputs &given) {
  // Tokens of the first and of the second sequence, a prefix of the first, after each step.
  int64_t length = ids.size(), half = (length + 1) / 2;
  const std::array<std::pair<int64_t, int64_t>, 4> ends = {
      {{0, 0}, {length / 2, 1}, {length - 1, half}, {length, half}}};
  return [ids, given, ends, caches = SmallVector<CacheRef>()](func::FuncOp entry, size_t step,
                                                              StepInputs &inputs) mutable -> FailureOr<bool> {
    if (isEncode(entry)) {
      // Another order of ids is another sequence, and no row of the whole is where it was.
      std::vector<int64_t> other(ids.rbegin(), ids.rend() - ids.size() / 2);
      inputs.rows.assign(other.size(), -1);
      llvm::append_range(inputs.rows, llvm::seq<int64_t>(ids.size()));
      inputs.arguments = encodeArguments(entry, {other, ids}, given);
      return step == 0;
    }
    if (step == 0)
      caches = emptyCaches(entry);
    if (caches.empty() || step + 1 == ends.size() || ids.size() < 2)
      return false;
    SmallVector<int64_t> sequences, tokens;
    inputs.rows.clear();
    // The second sequence first: no row of the first is where it is in the whole.
    for (int64_t sequence : {1, 0}) {
      int64_t begin = sequence ? ends[step].second : ends[step].first,
              end = sequence ? ends[step + 1].second : ends[step + 1].first;
      for (int64_t position = begin; position < end; ++position) {
        sequences.push_back(sequence);
        inputs.rows.push_back(position);
        tokens.push_back(ids[position]);
      }
    }
    beginStep(caches, sequences);
    FailureOr<SmallVector<RuntimeValue>> arguments = argumentsOf(entry, tokens, inputs.rows, caches);
    if (failed(arguments))
      return failure();
    inputs.arguments = std::move(*arguments);
    return true;
  };
}

std::function<FailureOr<bool>(func::FuncOp, size_t, StepInputs &)>
heddle::modelChunks(const std::vector<int64_t> &ids, int64_t rows, const EncodeInputs &given) {
  return [ids, rows, given, begin = int64_t(0), caches = SmallVector<CacheRef>()](
             func::FuncOp entry, size_t step, StepInputs &inputs) mutable -> FailureOr<bool> {
    int64_t length = ids.size();
    if (isEncode(entry)) { // whole, whatever its length
      inputs.rows = llvm::to_vector(llvm::seq(length));
      inputs.arguments = encodeArguments(entry, ids, given);
      return step == 0;
    }
    if (step == 0) {
      caches = emptyCaches(entry);
      begin = 0;
    }
    if (begin == length)
      return false;
    int64_t end = std::min(begin + rows, begin + 1 == length ? length : length - 1);
    inputs.rows = llvm::to_vector(llvm::seq(begin, end));
    beginStep(caches, SmallVector<int64_t>(end - begin, 0));
    FailureOr<SmallVector<RuntimeValue>> arguments =
        argumentsOf(entry, ArrayRef(ids).slice(begin, end - begin), inputs.rows, caches);
    if (failed(arguments))
      return failure();
    inputs.arguments = std::move(*arguments);
    begin = end;
    return true;
  };
}
