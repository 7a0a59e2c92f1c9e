// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/package/WeightsSection.h"

#include "bytes/Sha256.h"
#include "compiler/codegen/cpu/PackedLayout.h"

#include <algorithm>

using namespace mlir;
using namespace heddle;

static constexpr size_t chunkBytes = 4 << 20;

namespace {

struct Source {
  const uint8_t *data;
  heddle::TensorType type;
  int64_t rows;
  bool transposed;
  int64_t stride;
};

// Streams one weight.
class WeightWriter {
public:
  WeightWriter(WeightOp op, const Checkpoint &checkpoint, WriteBytes write)
      : op(op), checkpoint(checkpoint), write(write) {}
  FailureOr<PackedWeight> run();

private:
  FailureOr<ArrayRef<uint8_t>> stored(StorageAttr storage, uint64_t count, uint64_t width);
  FailureOr<SmallVector<Source>> sources(int64_t k);
  LogicalResult emit(ArrayRef<uint8_t> bytes);
  LogicalResult writeMatrix(ArrayRef<Source> sources, int64_t k, PanelOrder order);
  LogicalResult writeVector(ArrayRef<Source> sources);
  LogicalResult writeStored();

  WeightOp op;
  const Checkpoint &checkpoint;
  WriteBytes write;
  Sha256 hash;
  uint64_t offset = 0;
};

} // namespace

// The bytes of `count` blocks of `width` bytes that `storage` names, if they lie in a file of the model.
FailureOr<ArrayRef<uint8_t>> WeightWriter::stored(StorageAttr storage, uint64_t count, uint64_t width) {
  if (storage.getFile() < 0 || storage.getFile() >= int64_t(checkpoint.files.size()))
    return op.emitError("names no file of the model: ") << storage;
  const MappedFile &file = *checkpoint.files[storage.getFile()];
  uint64_t begin = storage.getOffset();
  if (storage.getOffset() < 0 || begin > file.size() || count > (file.size() - begin) / width)
    return op.emitError("'") << op.getName() << "': " << count << " elements at byte " << storage.getOffset()
                             << " do not lie in " << file.path() << " of " << file.size() << " bytes";
  return ArrayRef(file.data() + begin, count * width);
}

// `k`: in_features of each matrix, 1 for vectors.
FailureOr<SmallVector<Source>> WeightWriter::sources(int64_t k) {
  SmallVector<Source> result;
  auto rows = op->getAttrOfType<ArrayAttr>("heddle.source_rows");
  for (auto [attr, count] : llvm::zip(op->getAttrOfType<ArrayAttr>("heddle.sources"), rows)) {
    auto storage = cast<StorageAttr>(attr);
    std::optional<heddle::TensorType> type = tensorTypeNamed(storage.getType().getValue());
    if (!type)
      return op.emitError("names no stored tensor: ") << storage;
    int64_t rows = cast<IntegerAttr>(count).getInt();
    auto [storedRows, width] = storage.getTransposed() ? std::pair(k, rows) : std::pair(rows, k);
    int64_t stride = storage.getStride() ? storage.getStride() : width, values = 0;
    if (rows < 1 || k < 1 || stride < 1 || __builtin_mul_overflow(storedRows - 1, stride, &values) ||
        __builtin_add_overflow(values, width, &values))
      return op.emitError("'") << op.getName() << "': no matrix has " << rows << " rows of " << k << ", one every "
                               << stride;
    const TensorTypeInfo &info = tensorTypeInfo(*type);
    auto bytes = stored(storage, llvm::divideCeil(uint64_t(values), info.blockValues), info.blockBytes);
    if (failed(bytes))
      return failure();
    result.push_back({bytes->data(), *type, rows, storage.getTransposed(), storage.getStride()});
  }
  return result;
}

LogicalResult WeightWriter::emit(ArrayRef<uint8_t> bytes) {
  hash.update(bytes.data(), bytes.size());
  if (!write(offset, bytes))
    return failure();
  offset += bytes.size();
  return success();
}

LogicalResult WeightWriter::writeMatrix(ArrayRef<Source> sources, int64_t k, PanelOrder order) {
  // As f32, also numbers of matrices of other types: packed across their blocks, or beside matrices of another type.
  bool isF32 = op->getAttrOfType<StringAttr>("heddle.format") == "f32";
  heddle::TensorType type = isF32 ? heddle::TensorType::F32 : sources.front().type;
  std::optional<PackedLayout> layout = layoutFor(type);
  if (!layout)
    return op.emitError("has no packed layout");
  std::vector<WeightSource> stacked;
  std::vector<std::vector<float>> widened;
  int64_t n = 0;
  for (const Source &source : sources) {
    const uint8_t *data = source.data;
    bool isWidened = source.type != type;
    if (isWidened) {
      widened.emplace_back(source.rows * k);
      int64_t storedRows = source.transposed ? k : source.rows, width = source.transposed ? source.rows : k;
      dequantizeRows(source.type, source.data, storedRows, width, source.stride, widened.back().data());
      data = reinterpret_cast<const uint8_t *>(widened.back().data());
    }
    stacked.push_back({data, source.rows, source.transposed, isWidened ? 0 : source.stride});
    n += source.rows;
  }
  int64_t panelBytes = layout->panelBytes(k);
  int64_t panels =
      order == PanelOrder::Stacked ? layout->numPanels(n) : sources.size() * layout->numPanels(sources.front().rows);
  int64_t perChunk = std::max<int64_t>(1, chunkBytes / panelBytes);
  std::vector<uint8_t> buffer(std::min(panels, perChunk) * panelBytes);
  for (int64_t panel = 0; panel < panels; panel += perChunk) {
    int64_t end = std::min(panels, panel + perChunk);
    packPanels(type, stacked, k, panel, end, buffer.data(), order);
    if (failed(emit(ArrayRef(buffer).take_front((end - panel) * panelBytes))))
      return failure();
  }
  return success();
}

LogicalResult WeightWriter::writeVector(ArrayRef<Source> sources) {
  for (const Source &source : sources) {
    std::vector<float> values(source.rows);
    dequantize(source.type, source.data, source.rows, values.data());
    if (failed(emit(ArrayRef(reinterpret_cast<const uint8_t *>(values.data()), values.size() * sizeof(float)))))
      return failure();
  }
  return success();
}

// The bytes as the file has them.
LogicalResult WeightWriter::writeStored() {
  auto storage = cast<StorageAttr>(op->getAttrOfType<ArrayAttr>("heddle.sources")[0]);
  auto type = cast<RankedTensorType>(op.getType());
  auto bytes = stored(storage, type.getNumElements(), llvm::divideCeil(type.getElementTypeBitWidth(), 8));
  if (failed(bytes))
    return failure();
  for (ArrayRef<uint8_t> rest = *bytes; !rest.empty(); rest = rest.drop_front(std::min(rest.size(), chunkBytes)))
    if (failed(emit(rest.take_front(chunkBytes))))
      return failure();
  return success();
}

FailureOr<PackedWeight> WeightWriter::run() {
  PackedWeight weight;
  weight.name = op.getName().str();
  weight.format = op->getAttrOfType<StringAttr>("heddle.format").str();
  ArrayRef<int64_t> shape = op->getAttrOfType<DenseI64ArrayAttr>("heddle.shape").asArrayRef();
  bool isVector = weight.format == "vector";
  weight.shape.assign(shape.begin(), isVector ? shape.begin() + 1 : shape.end());
  weight.offset = offset = op.getStorage().getOffset();
  if (weight.format == "stored") {
    if (failed(writeStored()))
      return failure();
    weight.size = offset - weight.offset;
    weight.sha256 = hash.finish();
    return weight;
  }
  FailureOr<SmallVector<Source>> from = sources(isVector ? 1 : shape[1]);
  if (failed(from))
    return failure();
  auto interleave = op->getAttrOfType<IntegerAttr>("heddle.interleave");
  if (isVector) {
    if (failed(writeVector(*from)))
      return failure();
  } else if (!interleave) {
    if (failed(writeMatrix(*from, shape[1], PanelOrder::Stacked)))
      return failure();
  } else {
    for (ArrayRef<Source> rest = *from; !rest.empty(); rest = rest.drop_front(interleave.getInt()))
      if (failed(writeMatrix(rest.take_front(interleave.getInt()), shape[1], PanelOrder::Interleaved)))
        return failure();
  }
  weight.size = offset - weight.offset;
  weight.sha256 = hash.finish();
  return weight;
}

FailureOr<std::vector<PackedWeight>> heddle::streamWeights(ModuleOp module, const Checkpoint &checkpoint,
                                                           WriteBytes write) {
  std::map<int64_t, WeightOp> byOffset; // a weight that several ops name is written once
  module.walk([&](WeightOp op) {
    if (op->hasAttr("heddle.sources"))
      byOffset.try_emplace(op.getStorage().getOffset(), op);
  });
  std::vector<PackedWeight> table;
  for (auto &[offset, op] : byOffset) {
    FailureOr<PackedWeight> weight = WeightWriter(op, checkpoint, write).run();
    if (failed(weight))
      return failure();
    table.push_back(std::move(*weight));
  }
  return table;
}
