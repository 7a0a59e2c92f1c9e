// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the weights section from the packings of a module. Each weight is read where the model's file is mapped and packed panel by
// panel into a buffer of a few megabytes, so that memory does not grow with the model.

#include "compiler/weights/WeightsSection.h"

#include "bytes/Sha256.h"
#include "compiler/weights/CodedMatrix.h"
#include "compiler/weights/PackedLayout.h"

#include "llvm/Support/Path.h"

#include <algorithm>

using namespace mlir;
using namespace heddle;

static constexpr size_t chunkBytes = 4 << 20;

namespace {

// Where a source lies, as what is packed of it.
struct MappedSource {
  const uint8_t *data;
  heddle::TensorType type;
  int64_t rows; // of what is packed
  bool transposed;
  int64_t stride; // of stored rows, in values; 0: none lie between
};

// Streams one weight.
class WeightWriter {
public:
  WeightWriter(WeightOp op, const Checkpoint &checkpoint, WriteBytes write)
      : op(op), packing(op.getPacking()), checkpoint(checkpoint), write(write) {}
  FailureOr<PackedWeight> run();

private:
  FailureOr<ArrayRef<uint8_t>> stored(StorageAttr storage, uint64_t count, uint64_t width);
  FailureOr<SmallVector<MappedSource>> sources(int64_t k);
  LogicalResult emit(ArrayRef<uint8_t> bytes);
  LogicalResult writeAll();
  LogicalResult writeMatrix(ArrayRef<MappedSource> sources, int64_t k, PanelOrder order);
  LogicalResult writeCodes(int64_t k);
  LogicalResult writeVector(ArrayRef<MappedSource> sources);
  LogicalResult writeStored();

  WeightOp op;
  PackingAttr packing;
  const Checkpoint &checkpoint;
  WriteBytes write;
  Sha256 hash;
  uint64_t offset = 0;
  std::vector<std::vector<float>> decoded; // what codes stand for, where they are packed as numbers
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
FailureOr<SmallVector<MappedSource>> WeightWriter::sources(int64_t k) {
  SmallVector<MappedSource> result;
  for (auto [i, source] : llvm::enumerate(packing.getSources())) {
    StorageAttr storage = packing.storageOf(source);
    if (std::optional<Codes> codes = Codes::of(op, i)) {
      FailureOr<CodedMatrix> matrix = CodedMatrix::locate(op, checkpoint, storage, *codes, source.getRows(), k);
      if (failed(matrix))
        return failure();
      std::vector<float> &numbers = decoded.emplace_back();
      for (int64_t row = 0; row < source.getRows(); ++row)
        for (int64_t column = 0; column < k; ++column)
          numbers.push_back(matrix->number(row, column));
      result.push_back({reinterpret_cast<const uint8_t *>(numbers.data()), heddle::TensorType::F32, source.getRows(),
                        /*transposed=*/false, /*stride=*/0});
      continue;
    }
    std::optional<heddle::TensorType> type = tensorTypeNamed(storage.getType().getValue());
    if (!type)
      return op.emitError("names no stored tensor: ") << storage;
    int64_t rows = source.getRows();
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

LogicalResult WeightWriter::writeMatrix(ArrayRef<MappedSource> sources, int64_t k, PanelOrder order) {
  // As f32, also numbers of matrices of other types: packed across their blocks, or beside matrices of another type.
  bool isF32 = packing.getFormat() == "f32";
  heddle::TensorType type = isF32 ? heddle::TensorType::F32 : sources.front().type;
  std::optional<PackedLayout> layout = layoutFor(type);
  if (!layout)
    return op.emitError("has no packed layout");
  std::vector<WeightSource> stacked;
  std::vector<std::vector<float>> widened;
  int64_t n = 0;
  for (const MappedSource &source : sources) {
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

// Matrices of codes, one below the other, as codes in panels.
LogicalResult WeightWriter::writeCodes(int64_t k) {
  constexpr int64_t lanes = PackedLayout::panelRows;
  std::vector<CodedMatrix> matrices;
  for (auto [i, source] : llvm::enumerate(packing.getSources())) {
    FailureOr<CodedMatrix> matrix =
        CodedMatrix::locate(op, checkpoint, packing.storageOf(source), *Codes::of(op, i), source.getRows(), k);
    if (failed(matrix))
      return failure();
    matrices.push_back(*matrix);
  }
  PackedLayout layout = *layoutNamed(packing.getFormat());
  std::vector<uint8_t> panel(layout.panelBytes(k));
  int64_t lane = 0;
  auto flush = [&] {
    lane = 0;
    LogicalResult written = emit(panel);
    llvm::fill(panel, 0);
    return written;
  };
  for (const CodedMatrix &matrix : matrices)
    for (int64_t row = 0; row < matrix.numRows(); ++row) {
      matrix.packRow(layout, row, lane++, panel.data());
      if (lane == lanes && failed(flush()))
        return failure();
    }
  return lane ? flush() : success();
}

LogicalResult WeightWriter::writeVector(ArrayRef<MappedSource> sources) {
  for (const MappedSource &source : sources) {
    std::vector<float> values(source.rows);
    dequantize(source.type, source.data, source.rows, values.data());
    if (failed(emit(ArrayRef(reinterpret_cast<const uint8_t *>(values.data()), values.size() * sizeof(float)))))
      return failure();
  }
  return success();
}

// The bytes as the file has them.
LogicalResult WeightWriter::writeStored() {
  auto type = cast<RankedTensorType>(op.getType());
  StorageAttr storage = packing.getSources().front().getStorage();
  if (std::optional<Codes> codes = Codes::of(op)) {
    int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
    FailureOr<CodedMatrix> matrix = CodedMatrix::locate(op, checkpoint, storage, *codes, rows, columns);
    if (failed(matrix))
      return failure();
    std::vector<float> numbers(columns);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column)
        numbers[column] = matrix->number(row, column);
      if (failed(emit(ArrayRef(reinterpret_cast<const uint8_t *>(numbers.data()), numbers.size() * sizeof(float)))))
        return failure();
    }
    return success();
  }
  auto bytes = stored(storage, type.getNumElements(), llvm::divideCeil(type.getElementTypeBitWidth(), 8));
  if (failed(bytes))
    return failure();
  for (ArrayRef<uint8_t> rest = *bytes; !rest.empty(); rest = rest.drop_front(std::min(rest.size(), chunkBytes)))
    if (failed(emit(rest.take_front(chunkBytes))))
      return failure();
  return success();
}

LogicalResult WeightWriter::writeAll() {
  if (packing.getLayout() == PackingLayout::Stored)
    return writeStored();
  int64_t k = packing.isMatrix() ? packing.getShape()[1] : 1;
  bool areCodes = llvm::all_of(llvm::seq<unsigned>(0, packing.getSources().size()),
                               [&](unsigned i) { return Codes::of(op, i).has_value(); });
  if (areCodes && packing.getLayout() == PackingLayout::Stacked && packing.getFormat() != "f32")
    return writeCodes(k);
  FailureOr<SmallVector<MappedSource>> from = sources(k);
  if (failed(from))
    return failure();
  if (packing.getLayout() == PackingLayout::Vector)
    return writeVector(*from);
  if (packing.getLayout() == PackingLayout::Stacked)
    return writeMatrix(*from, k, PanelOrder::Stacked);
  int64_t group = packing.getGroup();
  for (ArrayRef<MappedSource> rest = *from; !rest.empty(); rest = rest.drop_front(group))
    if (failed(writeMatrix(rest.take_front(group), k, PanelOrder::Interleaved)))
      return failure();
  return success();
}

// A weight as its op states it. What code reads is as large as the type says; what lies behind belongs to another weight.
static PackedWeight planWeight(WeightOp op) {
  PackingAttr packing = op.getPacking();
  PackedWeight weight;
  weight.name = op.getName().str();
  weight.format = packing.getTableFormat().str();
  weight.shape.assign(packing.getShape().begin(), packing.getShape().end());
  weight.offset = packing.getOffset();
  auto type = cast<RankedTensorType>(op.getType());
  weight.size = type.getNumElements() * llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  return weight;
}

FailureOr<PackedWeight> WeightWriter::run() {
  PackedWeight weight = planWeight(op);
  offset = weight.offset;
  if (failed(writeAll()))
    return failure();
  if (uint64_t size = offset - weight.offset; size != weight.size)
    return op.emitError("'") << op.getName() << "' is packed in " << size << " bytes, its type " << op.getType()
                             << " has " << weight.size;
  weight.sha256 = hash.finish();
  return weight;
}

// A weight that several ops name is there once.
static std::map<int64_t, WeightOp> weightsByOffset(ModuleOp module) {
  std::map<int64_t, WeightOp> byOffset;
  module.walk([&](WeightOp op) {
    if (PackingAttr packing = op.getPacking())
      byOffset.try_emplace(packing.getOffset(), op);
  });
  return byOffset;
}

std::vector<PackedWeight> heddle::planWeights(ModuleOp module) {
  std::vector<PackedWeight> table;
  for (auto &[offset, op] : weightsByOffset(module))
    table.push_back(planWeight(op));
  return table;
}

std::string heddle::describePackings(ModuleOp module, const Checkpoint &checkpoint) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "layouts " << PackedLayout::version << "\n";
  for (const auto &file : checkpoint.files)
    out << "file " << llvm::sys::path::filename(file->path()) << " " << file->size() << "\n";
  // An op holds all that its writer reads; in the generic form nothing of it is left out.
  for (auto &[offset, op] : weightsByOffset(module)) {
    op->print(out, OpPrintingFlags().printGenericOpForm().useLocalScope());
    out << "\n";
  }
  return text;
}

FailureOr<std::vector<PackedWeight>> heddle::streamWeights(ModuleOp module, const Checkpoint &checkpoint,
                                                           WriteBytes write) {
  std::vector<PackedWeight> table;
  for (auto &[offset, op] : weightsByOffset(module)) {
    FailureOr<PackedWeight> weight = WeightWriter(op, checkpoint, write).run();
    if (failed(weight))
      return failure();
    table.push_back(std::move(*weight));
  }
  return table;
}
