// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/ModelValues.h"

#include "compiler/interpreter/TensorBytes.h"
#include "compiler/optimize/Passes.h"
#include "compiler/verify/NumericCheck.h"
#include "compiler/weights/PackedLayout.h"
#include "dialect/Codes.h"
#include "dialect/EncodeOutputs.h"

#include "llvm/Support/MathExtras.h"
#include "llvm/Support/xxhash.h"

#include <array>

using namespace mlir;
using namespace heddle;

//===- stored matrices ----------------------------------------------------===//

namespace {
// A tensor in the model's files.
struct Stored {
  heddle::TensorType type;
  const uint8_t *data;
  bool transposed;
  int64_t stride;                             // of stored rows, in values; 0: none lie between
  std::optional<heddle::TensorType> fileType; // what it is converted from
  bool acrossRows;
  std::shared_ptr<std::vector<uint8_t>> reordered = {}; // what `data` is, where it is not the file's

  // The numbers, row by row of what is stored.
  std::vector<float> numbers(int64_t rows, int64_t columns) const {
    int64_t storedRows = transposed ? columns : rows, width = transposed ? rows : columns;
    std::vector<float> values(rows * columns);
    readNumbers(type, fileType, acrossRows, data, storedRows, width, stride, values.data());
    return values;
  }
};
} // namespace

// Elements of `width` each of (…, columns) as the file has them -> as `storage`, which may be null, says that they are: of kernels with taps,
// channels last.
template <typename Part>
static std::vector<Part> channelsLast(StorageAttr storage, ArrayRef<Part> stored, int64_t columns, int64_t width = 1) {
  if (!storage || !storage.getTaps())
    return stored.vec();
  std::vector<Part> result;
  for (size_t row = 0; row < stored.size(); row += columns * width)
    for (int64_t column = 0; column < columns; ++column)
      llvm::append_range(result, stored.slice(row + storage.storedColumn(column, columns) * width, width));
  return result;
}

static FailureOr<Stored> locate(WeightOp op, const Checkpoint &checkpoint, StorageAttr storage, int64_t rows,
                                int64_t columns) {
  std::optional<heddle::TensorType> type = tensorTypeNamed(storage.getType().getValue()),
                                    inFile = tensorTypeNamed(storage.getTypeInFile());
  if (!type || !inFile || (type != inFile && !isConvertedTo(*type)))
    return op.emitOpError("is stored as '") << storage.getType().getValue() << "', which is no tensor type";
  if (storage.getFile() < 0 || storage.getFile() >= static_cast<int64_t>(checkpoint.files.size()))
    return op.emitOpError("lies in file ") << storage.getFile() << " of " << checkpoint.files.size();
  const TensorTypeInfo &info = tensorTypeInfo(*inFile);
  uint64_t size = checkpoint.files[storage.getFile()]->size(), offset = storage.getOffset();
  int64_t storedRows = storage.getTransposed() ? columns : rows, width = storage.getTransposed() ? rows : columns;
  uint64_t between = storage.getStride() && storedRows ? uint64_t(storedRows - 1) * (storage.getStride() - width) : 0;
  uint64_t bytes = llvm::divideCeil(uint64_t(rows * columns) + between, info.blockValues) * info.blockBytes;
  if (offset > size || bytes > size - offset)
    return op.emitOpError("lies at ") << offset << " with " << bytes << " bytes, in a file of " << size;
  if (type != inFile && (storage.getAcrossRows() ? storedRows : width) % tensorTypeInfo(*type).blockValues)
    return op.emitOpError("has blocks of ") << storage.getType() << " that do not divide its rows";
  Stored stored{*type,
                checkpoint.files[storage.getFile()]->data() + offset,
                storage.getTransposed(),
                storage.getStride(),
                type != inFile ? inFile : std::nullopt,
                storage.getAcrossRows()};
  if (!storage.getTaps())
    return stored;
  if (info.blockValues != 1 || columns % storage.getTaps())
    return op.emitOpError("has no kernels of ") << storage.getTaps() << " taps in rows of " << columns;
  stored.reordered = std::make_shared<std::vector<uint8_t>>(
      channelsLast(storage, ArrayRef(stored.data, bytes), columns, info.blockBytes));
  stored.data = stored.reordered->data();
  return stored;
}

// The values of a stored (rows, columns) matrix, or of a vector of `columns`.
static std::vector<double> readStored(const Stored &stored, int64_t rows, int64_t columns) {
  std::vector<float> values = stored.numbers(rows, columns);
  if (!stored.transposed)
    return std::vector<double>(values.begin(), values.end());
  std::vector<double> turned(values.size());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      turned[row * columns + column] = values[column * rows + row];
  return turned;
}

// Whether the value is another than that of the tensor in the file. A stored one only has its place in the section.
static bool isPacked(WeightOp op) {
  return op.getPacking() && op.getPacking().getLayout() != PackingLayout::Stored;
}

static RuntimeValue vectorValue(WeightOp op, std::vector<double> values) {
  Tensor tensor = Tensor::zeros(getElementTypeOrSelf(op.getType()), {static_cast<int64_t>(values.size())});
  tensor.reals = std::move(values);
  tensor.round();
  return makeValue(std::move(tensor));
}

//===- from a file --------------------------------------------------------===//

// Each run of `group` sources, all of one shape, packed for itself; rows count through the sources in their order.
static PackedWeights interleaved(const PackedLayout &layout, heddle::TensorType type, ArrayRef<WeightSource> sources,
                                 int64_t k, int64_t group) {
  constexpr int64_t lanes = PackedLayout::panelRows;
  int64_t n = sources.front().rows, panels = group * layout.numPanels(n), runBytes = panels * layout.panelBytes(k);
  auto bytes = std::make_shared<std::vector<uint8_t>>(sources.size() / group * runBytes);
  uint8_t *out = bytes->data();
  for (; !sources.empty(); sources = sources.drop_front(group), out += runBytes)
    packPanels(type, sources.take_front(group).vec(), k, 0, panels, out, PanelOrder::Interleaved);
  return {[=](int64_t row, int64_t column) -> double {
    int64_t source = row / n, rowOfSource = row % n;
    int64_t panel = rowOfSource / lanes * group + source % group;
    return layout.unpack(bytes->data() + source / group * runBytes, k, panel * lanes + rowOfSource % lanes, column);
  }};
}

// What codes stand for, number by number, by the formula of dialect/Codes.h.
static FailureOr<std::vector<double>> readCodes(WeightOp op, const Checkpoint &checkpoint, StorageAttr storage,
                                                const Codes &codes, int64_t rows, int64_t columns) {
  bool turned = storage.getTransposed(), isSigned = storage.getType().getValue() == "i8";
  std::array<int64_t, 2> extents = {turned ? columns : rows, turned ? rows : columns}, groups = extents;
  for (int64_t axis : {0, 1})
    groups[axis] = !codes.size ? 1 : axis == codes.axis ? (extents[axis] + codes.size - 1) / codes.size : extents[axis];
  // Row by row, each from a whole byte on.
  auto integers = [&](StorageAttr at, const std::array<int64_t, 2> &shape) -> FailureOr<std::vector<int64_t>> {
    int64_t rowBytes = (shape[1] * codes.bits + 7) / 8;
    auto bytes =
        StorageAttr::get(op.getContext(), StringAttr::get(op.getContext(), "u8"), at.getFile(), at.getOffset());
    FailureOr<Stored> found = locate(op, checkpoint, bytes, shape[0], rowBytes);
    if (failed(found))
      return failure();
    std::vector<int64_t> values;
    for (int64_t i = 0; i < shape[0] * shape[1]; ++i) {
      int64_t column = i % shape[1];
      uint8_t byte = found->data[i / shape[1] * rowBytes + column * codes.bits / 8];
      values.push_back(codes.bits == 4 ? (column % 2 ? byte / 16 : byte % 16) : isSigned ? int8_t(byte) : byte);
    }
    return values;
  };
  FailureOr<std::vector<int64_t>> stored = integers(storage, extents);
  FailureOr<std::vector<int64_t>> zeros = std::vector<int64_t>(groups[0] * groups[1], codes.zero);
  if (codes.zeros)
    zeros = integers(codes.zeros, groups);
  std::vector<double> scales(groups[0] * groups[1], codes.scale);
  if (failed(stored) || failed(zeros))
    return failure();
  if (codes.scales) {
    FailureOr<Stored> found = locate(op, checkpoint, codes.scales, groups[0], groups[1]);
    if (failed(found))
      return failure();
    scales = readStored(*found, groups[0], groups[1]);
  }
  std::vector<double> values;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      int64_t at = storage.storedColumn(column, columns);
      std::array<int64_t, 2> place = {turned ? at : row, turned ? row : at}, group = {0, 0};
      for (int64_t axis : {0, 1})
        if (codes.size)
          group[axis] = axis == codes.axis ? place[axis] / codes.size : place[axis];
      int64_t scale = group[0] * groups[1] + group[1];
      values.push_back(double((*stored)[place[0] * extents[1] + place[1]] - (*zeros)[scale]) * scales[scale]);
    }
  return values;
}

// All sources of a packing, of which some are codes, as (n, k).
static FailureOr<RuntimeValue> readPackedCodes(WeightOp op, const Checkpoint &checkpoint, PackingAttr packing) {
  int64_t k = packing.getShape()[1];
  auto stacked = std::make_shared<std::vector<double>>();
  for (auto [i, source] : llvm::enumerate(packing.getSources())) {
    StorageAttr storage = packing.storageOf(source);
    FailureOr<std::vector<double>> values = std::vector<double>();
    if (std::optional<Codes> codes = Codes::of(op, i)) {
      values = readCodes(op, checkpoint, storage, *codes, source.getRows(), k);
    } else {
      FailureOr<Stored> stored = locate(op, checkpoint, storage, source.getRows(), k);
      if (failed(stored))
        return failure();
      values = readStored(*stored, source.getRows(), k);
    }
    if (failed(values))
      return failure();
    llvm::append_range(*stacked, *values);
  }
  return RuntimeValue(
      PackedWeights{[stacked, k](int64_t row, int64_t column) { return (*stacked)[row * k + column]; }});
}

static FailureOr<RuntimeValue> readPacked(WeightOp op, const Checkpoint &checkpoint, PackingAttr packing) {
  bool isVector = packing.getLayout() == PackingLayout::Vector;
  if (packing.isMatrix() && op->hasAttr(Codes::attrName))
    return readPackedCodes(op, checkpoint, packing);
  int64_t k = isVector ? 1 : packing.getShape()[1];
  std::vector<WeightSource> sources;
  std::vector<double> vector;
  std::vector<std::vector<float>> widened;                      // numbers of matrices that are packed as f32
  std::vector<std::shared_ptr<std::vector<uint8_t>>> reordered; // what sources point into
  std::optional<heddle::TensorType> type;
  for (SourceAttr source : packing.getSources()) {
    int64_t rows = source.getRows();
    FailureOr<Stored> stored = locate(op, checkpoint, packing.storageOf(source), rows, k);
    if (failed(stored))
      return failure();
    type = stored->type;
    reordered.push_back(stored->reordered);
    const uint8_t *data = stored->data;
    if (packing.getFormat() == "f32" && type != heddle::TensorType::F32) {
      widened.push_back(stored->numbers(rows, k));
      stored->stride = 0;
      stored->fileType = std::nullopt;
      data = reinterpret_cast<const uint8_t *>(widened.back().data());
      type = heddle::TensorType::F32;
    }
    sources.push_back({data, rows, stored->transposed, stored->stride, stored->fileType});
    if (isVector)
      llvm::append_range(vector, readStored(*stored, 1, rows));
  }
  if (isVector)
    return vectorValue(op, std::move(vector));
  std::optional<PackedLayout> layout = layoutFor(*type);
  if (!layout)
    return op.emitOpError("is packed as '") << packing.getFormat() << "', for which there is no layout";
  if (packing.getLayout() == PackingLayout::Interleaved)
    return RuntimeValue(interleaved(*layout, *type, sources, k, packing.getGroup()));
  int64_t n = packing.getShape()[0];
  auto bytes = std::make_shared<std::vector<uint8_t>>(layout->bytes(n, k));
  packPanels(*type, sources, k, 0, layout->numPanels(n), bytes->data());
  return RuntimeValue(PackedWeights{[layout = *layout, bytes, k](int64_t row, int64_t column) -> double {
    return layout.unpack(bytes->data(), k, row, column);
  }});
}

WeightReader heddle::weightsOf(const std::shared_ptr<const Checkpoint> &checkpoint) {
  return [checkpoint](WeightOp op) -> FailureOr<RuntimeValue> {
    PackingAttr packing = op.getPacking();
    if (isPacked(op))
      return readPacked(op, *checkpoint, packing);
    auto type = cast<RankedTensorType>(op.getType());
    StorageAttr storage = packing ? packing.getSources().front().getStorage() : op.getStorage();
    int64_t columns = type.getRank() ? type.getShape().back() : 1, rows = columns ? type.getNumElements() / columns : 0;
    if (std::optional<Codes> codes = Codes::of(op)) {
      FailureOr<std::vector<double>> values = readCodes(op, *checkpoint, storage, *codes, rows, columns);
      if (failed(values))
        return failure();
      Tensor tensor = Tensor::zeros(type.getElementType(), type.getShape());
      tensor.reals = std::move(*values);
      tensor.round();
      return makeValue(std::move(tensor));
    }
    FailureOr<Stored> stored = locate(op, *checkpoint, storage, rows, columns);
    if (failed(stored))
      return failure();
    if (!isa<FloatType>(type.getElementType()) || type.getElementType().isF64())
      return makeValue(tensorFromBytes(type.getElementType(), type.getShape(), stored->data));
    Tensor tensor = Tensor::zeros(type.getElementType(), type.getShape());
    tensor.reals = readStored(*stored, rows, columns);
    tensor.round();
    return makeValue(std::move(tensor));
  };
}

// A packed weight as its numbers, each of which is else found in the bytes whenever it is asked for.
static RuntimeValue unpacked(const PackedWeights &packed, int64_t n, int64_t k) {
  std::vector<double> values(n * k);
  for (int64_t i = 0; i < n * k; ++i)
    values[i] = packed.at(i / k, i % k);
  // Behind the last row are numbers of the layout's own.
  return PackedWeights{[values = std::make_shared<std::vector<double>>(std::move(values)), n, k,
                        behind = packed.at](int64_t row, int64_t column) {
    return row < n && column < k ? (*values)[row * k + column] : behind(row, column);
  }};
}

WeightReader heddle::keepingValues(WeightReader read) {
  constexpr int64_t maxNumbers = 32 << 20; // 256 MB
  struct Kept {
    DenseMap<std::pair<Attribute, Type>, RuntimeValue> values; // by all that a weight says
    int64_t numbers = 0;
  };
  return [read = std::move(read), kept = std::make_shared<Kept>()](WeightOp op) -> FailureOr<RuntimeValue> {
    std::pair<Attribute, Type> key(op->getAttrDictionary(), op.getType());
    if (auto found = kept->values.find(key); found != kept->values.end())
      return found->second;
    FailureOr<RuntimeValue> value = read(op);
    if (failed(value))
      return failure();
    auto *packed = std::get_if<PackedWeights>(&*value);
    ArrayRef<int64_t> shape = packed ? op.getPacking().getShape() : ArrayRef(std::get<TensorRef>(*value)->shape);
    int64_t numbers = llvm::product_of(shape);
    if (numbers > maxNumbers - kept->numbers)
      return value;
    kept->numbers += numbers;
    return kept->values[key] = packed ? unpacked(*packed, shape[0], shape[1]) : *value;
  };
}

//===- random -------------------------------------------------------------===//

// What stands for a stored tensor: row by row, so that rows of a matrix, "name[begin:end]", are those of the whole.
// With a stride rows are longer than what is read of them, from the column that the range begins at.
static Tensor randomSource(WeightOp op, StringRef name, ArrayRef<int64_t> shape, uint64_t seed, int64_t stride = 0) {
  Type type = getElementTypeOrSelf(op.getType());
  if (!isa<FloatType>(type))
    type = Float32Type::get(op.getContext());
  if (shape.size() < 2)
    return randomTensor(type, shape, seed ^ llvm::xxh3_64bits(name), 2);
  auto [whole, range] = name.split('[');
  int64_t begin = 0;
  if (range.consumeInteger(10, begin) || !range.starts_with(":"))
    whole = name, begin = 0;
  Tensor matrix = Tensor::zeros(type, shape);
  matrix.reals.clear();
  // Of a tensor of more dimensions a row is all that the first index has: a convolution's filter.
  int64_t columns = 1;
  for (int64_t size : shape.drop_front())
    columns *= size;
  int64_t firstRow = stride ? 0 : begin, firstColumn = stride ? begin : 0, width = stride ? stride : columns;
  for (int64_t row = firstRow; row < firstRow + shape[0]; ++row) {
    std::string source = (whole + "#" + Twine(row)).str();
    Tensor values = randomTensor(type, {width}, seed ^ llvm::xxh3_64bits(source), 2);
    llvm::append_range(matrix.reals, ArrayRef(values.reals).slice(firstColumn, columns));
  }
  return matrix;
}

static SmallVector<int64_t> reversed(RankedTensorType type) {
  return {type.getShape().rbegin(), type.getShape().rend()};
}

static Tensor transposed(const Tensor &matrix) {
  int64_t rows = matrix.shape[0], columns = matrix.shape[1];
  Tensor result = Tensor::zeros(matrix.elementType, {columns, rows});
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      result.reals[column * rows + row] = matrix.reals[row * columns + column];
  return result;
}

// What stands for one source of `packing`, as what is packed of it, row by row.
static std::vector<double> randomPacked(WeightOp op, PackingAttr packing, SourceAttr source, uint64_t seed) {
  if (!packing.isMatrix())
    return randomSource(op, source.getName(), {source.getRows()}, seed).reals;
  int64_t rows = source.getRows(), k = packing.getShape()[1];
  if (packing.getTransposed())
    return transposed(randomSource(op, source.getName(), {k, rows}, seed)).reals;
  return channelsLast<double>(source.getStorage(), randomSource(op, source.getName(), {rows, k}, seed).reals, k);
}

WeightReader heddle::randomWeights(uint64_t seed) {
  return [seed](WeightOp op) -> FailureOr<RuntimeValue> {
    PackingAttr packing = op.getPacking();
    bool isStored = packing && packing.getLayout() == PackingLayout::Stored;
    StorageAttr storage = isStored ? packing.getSources().front().getStorage() : op.getStorage();
    if (storage && storage.getTransposed()) // the same numbers as those of the stored tensor
      return makeValue(transposed(
          randomSource(op, op.getName(), reversed(cast<RankedTensorType>(op.getType())), seed, storage.getStride())));
    if (!isPacked(op)) {
      Tensor tensor = randomSource(op, op.getName(), cast<RankedTensorType>(op.getType()).getShape(), seed);
      if (!tensor.shape.empty())
        tensor.reals = channelsLast<double>(storage, tensor.reals, tensor.shape.back());
      return makeValue(std::move(tensor));
    }
    auto stacked = std::make_shared<std::vector<double>>(); // (n, k)
    for (SourceAttr source : packing.getSources())
      llvm::append_range(*stacked, randomPacked(op, packing, source, seed));
    if (!packing.isMatrix())
      return vectorValue(op, std::move(*stacked));
    return RuntimeValue(PackedWeights{
        [stacked, k = packing.getShape()[1]](int64_t row, int64_t column) { return (*stacked)[row * k + column]; }});
  };
}
