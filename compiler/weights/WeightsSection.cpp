// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the weights section from the packings of a module. Each weight is read where the model's file is mapped and packed in pieces of a few
// megabytes, of which the cores pack some at a time while those before them are hashed and written, in order: memory does not grow with the
// model, and bytes and sums do not depend on which core was first.

#include "compiler/weights/WeightsSection.h"

#include "bytes/Sha256.h"
#include "compiler/weights/CodedMatrix.h"
#include "compiler/weights/PackedLayout.h"

#include "llvm/Support/Path.h"
#include "llvm/Support/ThreadPool.h"

#include <algorithm>
#include <deque>

using namespace mlir;
using namespace heddle;

static constexpr size_t pieceBytes = 4 << 20;

namespace {

// Bytes of the section that follow each other, and what is known of them once they are packed.
struct Piece {
  std::vector<uint8_t> bytes;
  ConversionLoss loss;
};

// Packs pieces on all cores and gives them out in the order in which they came.
class PieceQueue {
public:
  using Take = std::function<LogicalResult(Piece &)>;
  // `pack` fills a piece on some core, `take` gets it on this one. Waits for pieces before it where many are under way.
  LogicalResult add(std::function<void(Piece &)> pack, Take take);
  // All that is under way.
  LogicalResult finish();

private:
  struct Entry {
    Piece piece;
    std::shared_future<void> packed;
    Take take;
  };
  LogicalResult takeFirst();

  // Pieces are hashed one after the other: more cores would only take more memory.
  static llvm::ThreadPoolStrategy cores() {
    llvm::ThreadPoolStrategy strategy = llvm::hardware_concurrency(32);
    strategy.Limit = true;
    return strategy;
  }

  std::deque<Entry> entries; // where an entry lies stays: the cores write into it
  llvm::DefaultThreadPool pool{cores()};
};

// Where a source lies, as what is packed of it.
struct MappedSource {
  const uint8_t *data;
  heddle::TensorType type;
  int64_t rows; // of what is packed
  bool transposed;
  int64_t stride;                                  // of stored rows, in values; 0: none lie between
  std::optional<heddle::TensorType> fileType = {}; // what it is converted from
  bool acrossRows = false;
};

// Streams one weight. Lives until the queue has given out its last piece.
class WeightWriter {
public:
  WeightWriter(WeightOp op, const Checkpoint &checkpoint, PieceQueue &queue, WriteBytes write)
      : op(op), packing(op.getPacking()), checkpoint(checkpoint), queue(queue), write(write) {}
  // Puts all pieces into the queue; finish() once they have been given out.
  LogicalResult run();
  FailureOr<PackedWeight> finish();

private:
  FailureOr<ArrayRef<uint8_t>> stored(StorageAttr storage, uint64_t count, uint64_t width);
  FailureOr<SmallVector<MappedSource>> sources(int64_t k);
  FailureOr<ArrayRef<uint8_t>> channelsLast(StorageAttr storage, ArrayRef<uint8_t> from, int64_t k, int64_t width);
  LogicalResult emit(ArrayRef<uint8_t> bytes);
  LogicalResult take(Piece &piece);
  LogicalResult writeAll();
  LogicalResult writeMatrix(ArrayRef<MappedSource> sources, int64_t k, PanelOrder order);
  LogicalResult writeCodes(int64_t k);
  LogicalResult writeVector(ArrayRef<MappedSource> sources);
  LogicalResult writeStored();

  WeightOp op;
  PackingAttr packing;
  const Checkpoint &checkpoint;
  PieceQueue &queue;
  WriteBytes write;
  Sha256 hash;
  uint64_t offset = 0;
  ConversionLoss loss;
  std::deque<std::vector<uint8_t>> reordered; // rows of sources whose channels come last
  std::deque<std::vector<float>> decoded;     // numbers of sources that are packed as f32 and are not f32 in the file
};

} // namespace

LogicalResult PieceQueue::add(std::function<void(Piece &)> pack, Take take) {
  Entry &entry = entries.emplace_back();
  entry.take = std::move(take);
  entry.packed = pool.async([pack = std::move(pack), &piece = entry.piece] { pack(piece); });
  return entries.size() > pool.getMaxConcurrency() + 4 ? takeFirst() : success();
}

LogicalResult PieceQueue::takeFirst() {
  Entry &first = entries.front();
  first.packed.wait();
  LogicalResult taken = first.take(first.piece);
  entries.pop_front();
  return taken;
}

LogicalResult PieceQueue::finish() {
  while (!entries.empty())
    if (failed(takeFirst()))
      return failure();
  return success();
}

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

// The rows of `k` numbers of `width` bytes that lie at `from`, each as the matrix has it: in_channels behind taps.
FailureOr<ArrayRef<uint8_t>> WeightWriter::channelsLast(StorageAttr storage, ArrayRef<uint8_t> from, int64_t k,
                                                        int64_t width) {
  if (width == 0 || k % storage.getTaps())
    return op.emitError("'") << op.getName() << "': no kernels of " << storage.getTaps() << " taps lie in rows of " << k
                             << " numbers of type " << storage.getTypeInFile();
  std::vector<uint8_t> &bytes = reordered.emplace_back(from.size());
  for (size_t row = 0; row < from.size(); row += k * width)
    for (int64_t column = 0; column < k; ++column)
      std::memcpy(bytes.data() + row + column * width, from.data() + row + storage.storedColumn(column, k) * width,
                  width);
  return ArrayRef<uint8_t>(bytes);
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
    std::optional<heddle::TensorType> type = tensorTypeNamed(storage.getType().getValue()),
                                      inFile = tensorTypeNamed(storage.getTypeInFile());
    if (!type || !inFile || (type != inFile && !isConvertedTo(*type)))
      return op.emitError("names no stored tensor: ") << storage;
    int64_t rows = source.getRows();
    auto [storedRows, width] = storage.getTransposed() ? std::pair(k, rows) : std::pair(rows, k);
    int64_t stride = storage.getStride() ? storage.getStride() : width, values = 0;
    if (rows < 1 || k < 1 || stride < 1 || __builtin_mul_overflow(storedRows - 1, stride, &values) ||
        __builtin_add_overflow(values, width, &values))
      return op.emitError("'") << op.getName() << "': no matrix has " << rows << " rows of " << k << ", one every "
                               << stride;
    if (type != inFile && (storage.getAcrossRows() ? storedRows : width) % tensorTypeInfo(*type).blockValues)
      return op.emitError("'") << op.getName() << "': blocks of " << storage.getType() << " do not divide [" << rows
                               << ", " << k << "]";
    const TensorTypeInfo &info = tensorTypeInfo(*inFile);
    auto bytes = stored(storage, llvm::divideCeil(uint64_t(values), info.blockValues), info.blockBytes);
    if (failed(bytes))
      return failure();
    if (storage.getTaps()) {
      bytes = channelsLast(storage, *bytes, k, info.blockValues == 1 ? info.blockBytes : 0);
      if (failed(bytes))
        return failure();
    }
    MappedSource &mapped =
        result.emplace_back(MappedSource{bytes->data(), *type, rows, storage.getTransposed(), storage.getStride()});
    if (type != inFile)
      mapped.fileType = inFile;
    mapped.acrossRows = storage.getAcrossRows();
  }
  return result;
}

// Hashes and writes the next bytes of the weight.
LogicalResult WeightWriter::take(Piece &piece) {
  if (piece.loss.unfit)
    return op.emitError("'") << op.getName() << "' has a number (" << *piece.loss.unfit << ") that "
                             << packing.getFormat()
                             << " does not hold: compile without --weights=" << packing.getFormat();
  loss.add(piece.loss);
  hash.update(piece.bytes.data(), piece.bytes.size());
  if (!write(offset, piece.bytes))
    return failure();
  offset += piece.bytes.size();
  return success();
}

// Bytes that are packed already.
LogicalResult WeightWriter::emit(ArrayRef<uint8_t> bytes) {
  return queue.add([bytes = bytes.vec()](Piece &piece) mutable { piece.bytes = std::move(bytes); },
                   [this](Piece &piece) { return take(piece); });
}

LogicalResult WeightWriter::writeMatrix(ArrayRef<MappedSource> sources, int64_t k, PanelOrder order) {
  // As f32, also numbers of matrices of other types: packed across their blocks, or beside matrices of another type.
  bool isF32 = packing.getFormat() == "f32";
  heddle::TensorType type = isF32 ? heddle::TensorType::F32 : sources.front().type;
  std::optional<PackedLayout> layout = layoutFor(type);
  if (!layout)
    return op.emitError("has no packed layout");
  std::vector<WeightSource> stacked;
  int64_t n = 0;
  for (const MappedSource &source : sources) {
    bool isWidened = source.type != type;
    WeightSource &packed = stacked.emplace_back(WeightSource{source.data, source.rows, source.transposed});
    n += source.rows;
    if (isWidened) {
      std::vector<float> &numbers = decoded.emplace_back(source.rows * k);
      int64_t storedRows = source.transposed ? k : source.rows, width = source.transposed ? source.rows : k;
      readNumbers(source.type, source.fileType, source.acrossRows, source.data, storedRows, width, source.stride,
                  numbers.data());
      packed.data = reinterpret_cast<const uint8_t *>(numbers.data());
    } else {
      packed.stride = source.stride;
      packed.fileType = source.fileType;
    }
  }
  int64_t panelBytes = layout->panelBytes(k);
  int64_t panels =
      order == PanelOrder::Stacked ? layout->numPanels(n) : sources.size() * layout->numPanels(sources.front().rows);
  int64_t perPiece = std::max<int64_t>(1, pieceBytes / panelBytes);
  auto shared = std::make_shared<const std::vector<WeightSource>>(std::move(stacked));
  for (int64_t panel = 0; panel < panels; panel += perPiece) {
    int64_t end = std::min(panels, panel + perPiece);
    auto pack = [=](Piece &piece) {
      piece.bytes.resize((end - panel) * panelBytes);
      packPanels(type, *shared, k, panel, end, piece.bytes.data(), order, &piece.loss);
    };
    if (failed(queue.add(pack, [this](Piece &piece) { return take(piece); })))
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
    readNumbers(source.type, source.fileType, /*acrossRows=*/false, source.data, 1, source.rows, /*stride=*/0,
                values.data());
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
  if (storage.getTransposed()) {
    size_t columns = type.getDimSize(0), rows = type.getDimSize(1), width = bytes->size() / (rows * columns);
    std::vector<uint8_t> &turned = reordered.emplace_back(bytes->size());
    for (size_t row = 0; row < rows; ++row)
      for (size_t column = 0; column < columns; ++column)
        std::memcpy(turned.data() + (column * rows + row) * width, bytes->data() + (row * columns + column) * width,
                    width);
    bytes = ArrayRef<uint8_t>(turned);
  }
  for (ArrayRef<uint8_t> rest = *bytes; !rest.empty(); rest = rest.drop_front(std::min(rest.size(), pieceBytes)))
    if (failed(emit(rest.take_front(pieceBytes))))
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

LogicalResult WeightWriter::run() {
  offset = packing.getOffset();
  return writeAll();
}

FailureOr<PackedWeight> WeightWriter::finish() {
  PackedWeight weight = planWeight(op);
  if (uint64_t size = offset - weight.offset; size != weight.size)
    return op.emitError("'") << op.getName() << "' is packed in " << size << " bytes, its type " << op.getType()
                             << " has " << weight.size;
  weight.sha256 = hash.finish();
  weight.loss = loss;
  return weight;
}

// A weight that several ops name is there once.
static std::map<int64_t, WeightOp> weightsByOffset(ArrayRef<ModuleOp> modules) {
  std::map<int64_t, WeightOp> byOffset;
  for (ModuleOp module : modules)
    module.walk([&](WeightOp op) {
      if (PackingAttr packing = op.getPacking())
        byOffset.try_emplace(packing.getOffset(), op);
    });
  return byOffset;
}

std::vector<PackedWeight> heddle::planWeights(ArrayRef<ModuleOp> modules) {
  std::vector<PackedWeight> table;
  for (auto &[offset, op] : weightsByOffset(modules))
    table.push_back(planWeight(op));
  return table;
}

std::string heddle::describePackings(ArrayRef<ModuleOp> modules, const Checkpoint &checkpoint) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "layouts " << PackedLayout::version << "\n";
  for (const auto &file : checkpoint.files)
    out << "file " << llvm::sys::path::filename(file->path()) << " " << file->size() << "\n";
  // An op holds all that its writer reads; in the generic form nothing of it is left out.
  for (auto &[offset, op] : weightsByOffset(modules)) {
    op->print(out, OpPrintingFlags().printGenericOpForm().useLocalScope());
    out << "\n";
  }
  return text;
}

FailureOr<std::vector<PackedWeight>> heddle::streamWeights(ArrayRef<ModuleOp> modules, const Checkpoint &checkpoint,
                                                           WriteBytes write, WeightsProgress progress) {
  std::map<int64_t, WeightOp> weights = weightsByOffset(modules);
  std::vector<PackedWeight> table;
  std::deque<WeightWriter> writers; // of pieces under way
  PieceQueue queue;
  // A weight is done once the queue is at the pieces of the next: a piece without bytes says so.
  auto finishFirst = [&](Piece &) -> LogicalResult {
    FailureOr<PackedWeight> weight = writers.front().finish();
    if (failed(weight))
      return failure();
    table.push_back(std::move(*weight));
    writers.pop_front();
    return success();
  };
  uint64_t all = weights.empty() ? 0 : planWeight(weights.rbegin()->second).size + weights.rbegin()->first;
  for (auto &[offset, op] : weights) {
    if (progress)
      progress(offset, all);
    if (failed(writers.emplace_back(op, checkpoint, queue, write).run()) ||
        failed(queue.add([](Piece &) {}, finishFirst)))
      return failure();
  }
  if (failed(queue.finish()))
    return failure();
  return table;
}
