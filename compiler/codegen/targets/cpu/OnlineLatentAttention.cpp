// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/OnlineLatentAttention.h"

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/SequenceAccess.h"
#include "compiler/codegen/targets/cpu/AttentionTile.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/PackedMatmul.h"
#include "compiler/schedule/ScheduleTable.h"
#include "compiler/weights/PackedLayout.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t floatBytes = sizeof(float);
static constexpr int64_t pageTokens = HEDDLE_KV_PAGE_SIZE;

int64_t LatentAttentionSpec::tileHeads(int64_t most) const {
  while (dims.numHeads % most)
    --most;
  return most;
}

AttentionSpec LatentAttentionSpec::absorbed(int64_t tileHeads) const {
  AttentionSpec spec;
  spec.numHeads = dims.numHeads;
  spec.numKvHeads = 1;
  spec.headDim = dims.cachedDim();
  spec.valueHeadDim = dims.rank;
  spec.scale = scale;
  spec.window = window;
  spec.chunk = chunk;
  spec.causal = causal;
  spec.kv = kv;
  spec.valuesInKeys = true;
  spec.tileHeads = tileHeads;
  applySchedule(spec, schedule, 0);
  return spec;
}

AttentionSpec LatentAttentionSpec::rebuilt() const {
  AttentionSpec spec;
  spec.numHeads = dims.numHeads;
  spec.numKvHeads = dims.numKvHeads;
  spec.headDim = dims.queryDim();
  spec.valueHeadDim = dims.value;
  spec.scale = scale;
  spec.window = window;
  spec.chunk = chunk;
  spec.causal = causal;
  spec.kv = KvType::F32;
  applySchedule(spec, schedule, 1);
  return spec;
}

namespace {

// A kernel that is being built, and what all of them are given.
class LatentKernel {
public:
  LatentKernel(ModuleOp module, StringRef name, const LatentAttentionSpec &spec);

  const LatentDims &dims() const { return spec.dims; }
  int64_t group() const { return spec.dims.numHeads / spec.dims.numKvHeads; }
  // Floats of a row of scratch before what folded queries attend to.
  int64_t attendedBegin() const { return spec.dims.numHeads * spec.dims.cachedDim(); }
  Value scratchRow(Value row, int64_t column = 0) {
    return b.at(call.scratch, b.add(b.mul(row, spec.dims.scratchDim()), column), floatBytes);
  }
  // `body` for each sequence whose body this is.
  void forEachSequence(bool isAbsorbed, function_ref<void(Value index, const SequenceValues &)> body);
  // `body` for each absorbed sequence, with `folded` for it alone and the number of this thread in its division: each sequence begins with
  // another thread, so that short ones spread.
  template <typename Call> void forEachAbsorbed(Call folded, function_ref<void(const Call &)> body);
  // A call that has what rows saw of the splits.
  template <typename Call> Call withStates();
  // `body` for each of this thread's heads.
  void forEachHead(function_ref<void(Value)> body) { b.loop(thread, b.constant(spec.dims.numHeads), numThreads, body); }
  // out (rows, n) = act (rows, k) W^T for a head's packed W; strides in floats.
  void multiply(func::FuncOp matmul, Value act, Value actStride, Value weights, Value out, Value outStride, Value rows,
                int64_t n);
  void copyFloats(Value from, Value to, int64_t count, unsigned lanes);
  func::FuncOp finish() {
    func::ReturnOp::create(b);
    return function;
  }

  RawBuilder b;
  const LatentAttentionSpec &spec;
  func::FuncOp function;
  LatentAttentionCall call;
  Value thread, numThreads; // i64

private:
  Value isMaterialised(const SequenceValues &sequence);
};

} // namespace

LatentKernel::LatentKernel(ModuleOp module, StringRef name, const LatentAttentionSpec &spec)
    : b(module.getLoc(), module.getContext()), spec(spec) {
  unsigned form = spec.splitKv ? LatentAttentionCall::Splits : LatentAttentionCall::Whole;
  function = beginFunction(b, module, name, parameterTypes<LatentAttentionCall>(b.getContext(), form));
  call = argumentsOf<LatentAttentionCall>(function, form);
  thread = b.extend(call.thread);
  numThreads = b.extend(call.numThreads);
}

// queries * (rebuild + keys * latent) > keys * rebuild: AttentionKernelOps.td.
Value LatentKernel::isMaterialised(const SequenceValues &sequence) {
  if (spec.form != LatentForm::Automatic)
    return arith::ConstantOp::create(b, b.getBoolAttr(spec.form == LatentForm::Materialised));
  int64_t rebuild = spec.dims.rebuildCost(), latent = spec.dims.latentCost();
  Value absorbed = b.mul(sequence.numRows, b.add(b.mul(sequence.length, latent), rebuild));
  Value cheaper = b.lessThan(b.mul(sequence.length, rebuild), absorbed);
  return arith::AndIOp::create(b, cheaper, b.equal(call.isFixed, b.constant(0)));
}

void LatentKernel::forEachSequence(bool isAbsorbed, function_ref<void(Value, const SequenceValues &)> body) {
  b.loop(b.constant(0), call.numSequences, 1, [&](Value index) {
    SequenceValues sequence = loadSequence(b, call.sequences, index);
    Value chosen = isMaterialised(sequence);
    if (isAbsorbed)
      chosen = arith::XOrIOp::create(b, chosen, arith::ConstantOp::create(b, b.getBoolAttr(true)));
    b.ifThen(chosen, [&] { body(index, sequence); });
  });
}

void LatentKernel::multiply(func::FuncOp matmul, Value act, Value actStride, Value weights, Value to, Value toStride,
                            Value rows, int64_t n) {
  MatmulCall product;
  product.act = act;
  product.weights = weights;
  product.out = to;
  product.rows = rows;
  product.actStride = actStride;
  product.outStride = toStride;
  product.panelBegin = b.constant(0);
  product.panelEnd = b.constant(llvm::divideCeil(n, PackedLayout::panelRows));
  func::CallOp::create(b, matmul, operandsOf(b, b.getLoc(), product));
}

void LatentKernel::copyFloats(Value from, Value to, int64_t count, unsigned lanes) {
  for (ColumnRun run : columnRuns(count, lanes))
    b.store(b.loadFloats(b.at(from, run.begin * floatBytes), run.lanes), b.at(to, run.begin * floatBytes));
}

func::FuncOp heddle::buildLatentFold(ModuleOp module, StringRef name, const LatentAttentionSpec &spec,
                                     func::FuncOp matmulFold) {
  LatentKernel k(module, name, spec);
  RawBuilder &b = k.b;
  const LatentDims &dims = spec.dims;
  // Heads outside: a head's matrix stays in the cache for all sequences.
  k.forEachHead([&](Value head) {
    Value weights = b.at(k.call.keyFolds, b.divide(head, k.group()), spec.foldBytes);
    k.forEachSequence(true, [&](Value, const SequenceValues &sequence) {
      Value from = b.at(b.at(k.call.q, b.mul(sequence.firstRow, k.call.qStride), floatBytes), head,
                        dims.queryDim() * floatBytes);
      Value to = b.at(k.scratchRow(sequence.firstRow), head, dims.cachedDim() * floatBytes);
      k.multiply(matmulFold, from, k.call.qStride, weights, to, b.constant(dims.scratchDim()), sequence.numRows,
                 dims.rank);
      if (!dims.rope)
        return;
      b.loop(b.constant(0), sequence.numRows, 1, [&](Value row) {
        Value rope = b.at(b.at(from, b.mul(row, k.call.qStride), floatBytes), dims.nope * floatBytes);
        k.copyFloats(rope, b.at(b.at(to, row, dims.scratchDim() * floatBytes), dims.rank * floatBytes), dims.rope, 8);
      });
    });
  });
  return k.finish();
}

template <typename Call> void LatentKernel::forEachAbsorbed(Call folded, function_ref<void(const Call &)> body) {
  folded.numSequences = b.constant(1);
  folded.numThreads = call.numThreads;
  forEachSequence(true, [&](Value index, const SequenceValues &) {
    folded.sequences = b.at(call.sequences, index, sizeof(heddle_sequence));
    folded.thread = arith::TruncIOp::create(b, b.getI32Type(), b.remainder(b.add(thread, index), numThreads));
    body(folded);
  });
}

template <typename Call> Call LatentKernel::withStates() {
  Call folded;
  folded.outputs = call.outputs;
  folded.maxima = call.maxima;
  folded.sums = call.sums;
  folded.maxSplits = call.maxSplits;
  return folded;
}

template <typename Call> static void callKernel(RawBuilder &b, func::FuncOp kernel, const Call &call) {
  func::CallOp::create(b, kernel, operandsOf(b, b.getLoc(), call));
}

func::FuncOp heddle::buildLatentAttend(ModuleOp module, StringRef name, const LatentAttentionSpec &spec,
                                       func::FuncOp shared, func::FuncOp divided) {
  LatentKernel k(module, name, spec);
  RawBuilder &b = k.b;
  AttentionCall folded;
  folded.q = k.call.scratch;
  folded.out = b.at(k.call.scratch, k.attendedBegin() * floatBytes);
  folded.kOffset = folded.vOffset = k.call.kOffset;
  folded.qStride = folded.outStride = b.constant(spec.dims.scratchDim());
  int64_t tiles = spec.dims.numHeads / spec.tileHeads(LatentDims::headsOfItem);
  Value isBusy = b.lessThan(k.numThreads, b.add(b.mul(k.call.numSequences, tiles), 1));
  Value isIdle = arith::XOrIOp::create(b, isBusy, arith::ConstantOp::create(b, b.getBoolAttr(true)));
  k.forEachAbsorbed<AttentionCall>(folded, [&](const AttentionCall &call) {
    b.ifThen(isBusy, [&] { callKernel(b, shared, call); });
    b.ifThen(isIdle, [&] { callKernel(b, divided, call); });
  });
  return k.finish();
}

func::FuncOp heddle::buildLatentAttendSplits(ModuleOp module, StringRef name, const LatentAttentionSpec &spec,
                                             func::FuncOp attention) {
  LatentKernel k(module, name, spec);
  auto folded = k.withStates<AttentionSplitCall>();
  folded.q = k.call.scratch;
  folded.kOffset = folded.vOffset = k.call.kOffset;
  folded.qStride = k.b.constant(spec.dims.scratchDim());
  k.forEachAbsorbed<AttentionSplitCall>(folded, [&](const auto &call) { callKernel(k.b, attention, call); });
  return k.finish();
}

func::FuncOp heddle::buildLatentCombine(ModuleOp module, StringRef name, const LatentAttentionSpec &spec,
                                        func::FuncOp combine) {
  LatentKernel k(module, name, spec);
  auto merge = k.withStates<CombineSplitsCall>();
  merge.out = k.b.at(k.call.scratch, k.attendedBegin() * floatBytes);
  merge.outStride = k.b.constant(spec.dims.scratchDim());
  k.forEachAbsorbed<CombineSplitsCall>(merge, [&](const auto &call) { callKernel(k.b, combine, call); });
  return k.finish();
}

func::FuncOp heddle::buildLatentProject(ModuleOp module, StringRef name, const LatentAttentionSpec &spec,
                                        func::FuncOp matmulValue) {
  LatentKernel k(module, name, spec);
  RawBuilder &b = k.b;
  const LatentDims &dims = spec.dims;
  k.forEachHead([&](Value head) {
    Value weights = b.at(k.call.valueUps, b.divide(head, k.group()), spec.valueBytes);
    k.forEachSequence(true, [&](Value, const SequenceValues &sequence) {
      Value from = b.at(k.scratchRow(sequence.firstRow, k.attendedBegin()), head, dims.rank * floatBytes);
      Value to =
          b.at(b.at(k.call.out, b.mul(sequence.firstRow, k.call.outStride), floatBytes), head, dims.value * floatBytes);
      k.multiply(matmulValue, from, b.constant(dims.scratchDim()), weights, to, k.call.outStride, sequence.numRows,
                 dims.value);
    });
  });
  return k.finish();
}

namespace {

// The materialised body. An item is a sequence and a KV head: its keys and values are rebuilt a block at a time, and every
// tile of its queries meets the block before the next one takes its place. A row's state waits in scratch.
class RebuildKernel {
public:
  RebuildKernel(ModuleOp module, StringRef name, const LatentAttentionSpec &spec, const CpuTarget &target,
                func::FuncOp matmulKey, func::FuncOp matmulValue)
      : k(module, name, spec), b(k.b), attention(spec.rebuilt()), tile(b, attention, target),
        lanes(target.vectorLanes()), matmulKey(matmulKey), matmulValue(matmulValue),
        blockTokens(spec.schedule.getTiles()[1].getK()), blockPages(blockTokens / pageTokens) {}
  func::FuncOp build();

private:
  void attendItem(const SequenceValues &sequence, Value kvHead);
  void rebuildPage(const SequenceValues &sequence, Value pageIndex, Value kvHead, Value keys, Value values);
  void attendTile(const SequenceValues &sequence, Value firstToken, Value kvHead, Value blockBegin);
  TileValues tileAt(const SequenceValues &sequence, Value firstToken, Value kvHead);
  // `body(tile row, state in scratch)` for every row of the tile.
  void forEachRow(const TileValues &values,
                  function_ref<void(Value row, RowState total, Value stepRow, Value head)> body);

  LatentKernel k;
  RawBuilder &b;
  AttentionSpec attention;
  AttentionTile tile;
  unsigned lanes;
  func::FuncOp matmulKey, matmulValue;
  int64_t blockTokens, blockPages; // whose keys and values are rebuilt at once
  Value block;                     // (blockPages, [64 keys (nope + rope), 64 values])
  Value blockTable;                // (blockPages + 1): its pages, and the last once more, which is only asked for early
  Value widened;                   // (64, rank + rope): a page's rows as f32
};

} // namespace

TileValues RebuildKernel::tileAt(const SequenceValues &sequence, Value firstToken, Value kvHead) {
  Value count = b.min(b.constant(tile.tokens()), b.sub(sequence.numRows, firstToken));
  // The block holds one KV head.
  return {sequence, firstToken, count, b.constant(0), b.mul(kvHead, k.group())};
}

void RebuildKernel::forEachRow(const TileValues &values, function_ref<void(Value, RowState, Value, Value)> body) {
  b.loop(b.constant(0), values.numTokens, 1, [&](Value token) {
    Value stepRow = b.add(b.add(values.sequence.firstRow, values.firstToken), token);
    b.loop(0, tile.group(), 1, [&](Value headInGroup) {
      Value head = b.add(values.firstHead, headInGroup);
      Value state = b.at(k.scratchRow(stepRow), head, k.dims().stateFloats() * floatBytes);
      RowState total{state, b.at(state, floatBytes), b.at(state, 16 * floatBytes)};
      body(b.add(b.mul(token, tile.group()), headInGroup), total, stepRow, head);
    });
  });
}

// keys (64, nope + rope) = [latent @ key_up^T | rope], values (64, value) = latent @ value_up^T for the cached rows of a page.
void RebuildKernel::rebuildPage(const SequenceValues &sequence, Value pageIndex, Value kvHead, Value keys,
                                Value values) {
  const LatentDims &dims = k.dims();
  Value rows = b.min(b.constant(pageTokens), b.sub(sequence.length, b.mul(pageIndex, pageTokens)));
  Value cached = b.at(loadPage(b, sequence.pages, pageIndex), k.call.kOffset);
  if (k.spec.kv != KvType::F32) {
    int64_t element = kvBytes(k.spec.kv);
    b.loop(b.constant(0), rows, 1, [&](Value row) {
      Value from = b.at(cached, row, dims.cachedDim() * element),
            to = b.at(widened, row, dims.cachedDim() * floatBytes);
      for (ColumnRun run : columnRuns(dims.cachedDim(), lanes))
        b.store(b.loadKv(k.spec.kv, b.at(from, run.begin * element), run.lanes), b.at(to, run.begin * floatBytes));
    });
    cached = widened;
  }
  Value stride = b.constant(dims.cachedDim());
  k.multiply(matmulKey, cached, stride, b.at(k.call.keyUps, kvHead, k.spec.keyBytes), keys, b.constant(dims.queryDim()),
             rows, dims.nope);
  k.multiply(matmulValue, cached, stride, b.at(k.call.valueUps, kvHead, k.spec.valueBytes), values,
             b.constant(dims.value), rows, dims.value);
  if (!dims.rope)
    return;
  b.loop(b.constant(0), rows, 1, [&](Value row) {
    Value rope = b.at(b.at(cached, row, dims.cachedDim() * floatBytes), dims.rank * floatBytes);
    k.copyFloats(rope, b.at(b.at(keys, row, dims.queryDim() * floatBytes), dims.nope * floatBytes), dims.rope, lanes);
  });
}

void RebuildKernel::attendTile(const SequenceValues &sequence, Value firstToken, Value kvHead, Value blockBegin) {
  TileValues values = tileAt(sequence, firstToken, kvHead);
  auto [begin, end] = tile.visibleKeys(sequence, firstToken, values.numTokens);
  Value firstKey = b.max(begin, blockBegin), endKey = b.min(end, b.add(blockBegin, blockTokens));
  b.ifThen(b.lessThan(firstKey, endKey), [&] {
    tile.loadQueries(values, tile.stepQueries(values, k.call.q, k.call.qStride));
    // Page p of the sequence is page p - blockBegin / 64 of the block.
    values.sequence.pages = b.at(blockTable, b.mul(b.divide(blockBegin, pageTokens), -int64_t(sizeof(void *))));
    Value valueOffset = b.constant(pageTokens * k.dims().queryDim() * floatBytes);
    tile.attendSplit(values, {firstKey, endKey, tile.pages(values, b.constant(0), valueOffset)}, ScoreTerms());
    forEachRow(values, [&](Value row, RowState total, Value, Value) {
      tile.reduceSum(row);
      tile.mergeInto(total, tile.splitState(row));
    });
  });
}

void RebuildKernel::attendItem(const SequenceValues &sequence, Value kvHead) {
  auto forEachTile = [&](function_ref<void(Value)> body) {
    b.loop(b.constant(0), sequence.numRows, tile.tokens(), body);
  };
  forEachTile([&](Value token) {
    forEachRow(tileAt(sequence, token, kvHead),
               [&](Value, RowState total, Value, Value head) { tile.beginTotal(total, head, Value()); });
  });
  int64_t pageFloats = pageTokens * (k.dims().queryDim() + k.dims().value);
  auto [begin, end] = tile.visibleKeys(sequence, b.constant(0), sequence.numRows);
  b.loop(b.mul(b.divide(begin, blockTokens), blockTokens), end, blockTokens, [&](Value blockBegin) {
    for (int64_t page = 0; page < blockPages; ++page) {
      Value pageIndex = b.add(b.divide(blockBegin, pageTokens), page);
      Value keys = b.at(block, page * pageFloats * floatBytes);
      b.ifThen(b.lessThan(b.mul(pageIndex, pageTokens), sequence.length), [&] {
        rebuildPage(sequence, pageIndex, kvHead, keys, b.at(keys, pageTokens * k.dims().queryDim() * floatBytes));
      });
    }
    forEachTile([&](Value token) { attendTile(sequence, token, kvHead, blockBegin); });
  });
  forEachTile([&](Value token) {
    forEachRow(tileAt(sequence, token, kvHead), [&](Value, RowState total, Value stepRow, Value head) {
      Value row = b.at(k.call.out, b.mul(stepRow, k.call.outStride), floatBytes);
      tile.storeOutput(total, b.at(row, head, k.dims().value * floatBytes));
    });
  });
}

func::FuncOp RebuildKernel::build() {
  const LatentDims &dims = k.dims();
  // setup
  int64_t pageBytes = pageTokens * (dims.queryDim() + dims.value) * floatBytes;
  tile.allocate();
  block = b.stackScratch(blockPages * pageBytes);
  blockTable = b.stackScratch((blockPages + 1) * sizeof(void *));
  widened = b.stackScratch(k.spec.kv == KvType::F32 ? floatBytes : pageTokens * dims.cachedDim() * floatBytes);
  for (int64_t page = 0; page <= blockPages; ++page)
    b.store(b.at(block, std::min(page, blockPages - 1) * pageBytes), b.at(blockTable, page * sizeof(void *)));
  // compute: item i of the step belongs to thread i mod numThreads
  k.forEachSequence(false, [&](Value index, const SequenceValues &sequence) {
    Value ahead = b.remainder(b.mul(index, dims.numKvHeads), k.numThreads);
    Value first = b.remainder(b.sub(b.add(k.thread, k.numThreads), ahead), k.numThreads);
    b.loop(first, b.constant(dims.numKvHeads), k.numThreads, [&](Value kvHead) { attendItem(sequence, kvHead); });
  });
  return k.finish();
}

func::FuncOp heddle::buildLatentRebuild(ModuleOp module, StringRef name, const LatentAttentionSpec &spec,
                                        const CpuTarget &target, func::FuncOp matmulKey, func::FuncOp matmulValue) {
  return RebuildKernel(module, name, spec, target, matmulKey, matmulValue).build();
}

namespace {

class OnlineLatentAttention : public KernelEmitterOf<OnlineLatentAttentionOp> {
public:
  explicit OnlineLatentAttention(const CpuTarget &target) : target(target) {}

protected:
  FailureOr<std::string> nameOf(OnlineLatentAttentionOp op) const override;
  FailureOr<Kernels> build(OnlineLatentAttentionOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override;

private:
  // A product of f32 rows with (n, k) packed as `format`; `bytes` becomes what the matrix takes.
  FailureOr<func::FuncOp> plainMatmul(OnlineLatentAttentionOp op, ScheduleAttr schedule, StringRef format, int64_t n,
                                      int64_t k, int64_t &bytes, KernelModule &module) const;

  const CpuTarget &target;
};

} // namespace

static LatentAttentionSpec specOf(OnlineLatentAttentionOp op) {
  LatentAttentionSpec spec;
  spec.dims = op.getDims();
  spec.form = op.getForm();
  spec.scale = op.getScale().convertToDouble();
  spec.window = op.getMask().getWindow();
  spec.chunk = op.getMask().getChunk();
  spec.causal = op.getMask().getCausal();
  spec.kv = kvTypeOf(op.getCache().getType());
  spec.splitKv = op.getSplitKv().value_or(0);
  return spec;
}

FailureOr<std::string> OnlineLatentAttention::nameOf(OnlineLatentAttentionOp op) const {
  LatentAttentionSpec spec = specOf(op);
  const LatentDims &dims = spec.dims;
  std::string name =
      llvm::formatv("_{0}_h{1}_kv{2}_r{3}_n{4}_p{5}_v{6}_w{7}_s{8}{9}", stringifyLatentForm(spec.form), dims.numHeads,
                    dims.numKvHeads, dims.rank, dims.nope, dims.rope, dims.value, spec.window,
                    llvm::utohexstr(llvm::bit_cast<uint64_t>(spec.scale)), spec.causal ? "" : "_full");
  for (std::optional<StringRef> format : {op.getKeyFormat(), op.getFoldFormat(), op.getValueFormat()})
    name += "_" + format.value_or("none").str();
  if (spec.chunk)
    name += "_chunk" + std::to_string(spec.chunk);
  return spec.splitKv ? name + "_split" + std::to_string(spec.splitKv) : name;
}

FailureOr<func::FuncOp> OnlineLatentAttention::plainMatmul(OnlineLatentAttentionOp op, ScheduleAttr schedule,
                                                           StringRef format, int64_t n, int64_t k, int64_t &bytes,
                                                           KernelModule &module) const {
  FailureOr<PackedLayout> layout = layoutOf(op, format);
  if (failed(layout))
    return failure();
  MatmulSpec spec;
  spec.layout = *layout;
  spec.n = n;
  spec.k = k;
  bytes = layout->bytes(n, k);
  std::string name = matmulName(format, n, k);
  return module.once(name, [&] { return buildMatmul(module.code, name, spec, schedule, target); });
}

// The bodies that the op's form asks for. `suffix` tells them from those of other ops.
FailureOr<Kernels> OnlineLatentAttention::build(OnlineLatentAttentionOp op, ScheduleAttr schedule, StringRef suffix,
                                                KernelModule &module) const {
  LatentAttentionSpec spec = specOf(op);
  spec.schedule = schedule;
  const LatentDims &dims = spec.dims;
  std::string error;
  // Half of the heads at most, so that a decoding step has work for two threads.
  AttentionSpec shared = spec.absorbed(spec.tileHeads(LatentDims::headsOfItem)),
                divided =
                    spec.absorbed(spec.tileHeads(std::clamp<int64_t>(dims.numHeads / 2, 1, LatentDims::headsOfItem)));
  if (failed(verifyAttention(shared, error)) || failed(verifyAttention(divided, error)) ||
      failed(verifyAttention(spec.rebuilt(), error)))
    return op.emitError(error);
  auto once = [&](const char *body, function_ref<func::FuncOp(StringRef)> make) {
    std::string name = (body + suffix).str();
    return *module.once(name, [&] { return make(name); });
  };
  Kernels kernels;
  ModuleOp code = module.code;
  FailureOr<func::FuncOp> matmulValue =
      plainMatmul(op, schedule, *op.getValueFormat(), dims.value, dims.rank, spec.valueBytes, module);
  if (failed(matmulValue))
    return failure();
  if (spec.form != LatentForm::Materialised) {
    FailureOr<func::FuncOp> matmulFold =
        plainMatmul(op, schedule, *op.getFoldFormat(), dims.rank, dims.nope, spec.foldBytes, module);
    if (failed(matmulFold))
      return failure();
    kernels.push_back(
        once("latent_fold", [&](StringRef name) { return buildLatentFold(code, name, spec, *matmulFold); }));
    if (spec.splitKv) {
      func::FuncOp attention =
          once("latent_attention", [&](StringRef name) { return buildAttentionSplit(code, name, shared, target); });
      func::FuncOp combine =
          once("latent_merge", [&](StringRef name) { return buildCombineSplits(code, name, shared, target); });
      kernels.push_back(
          once("latent_attend", [&](StringRef name) { return buildLatentAttendSplits(code, name, spec, attention); }));
      kernels.push_back(
          once("latent_combine", [&](StringRef name) { return buildLatentCombine(code, name, spec, combine); }));
    } else {
      auto attention = [&](const char *body, const AttentionSpec &folded) {
        return once(body, [&](StringRef name) { return buildAttention(code, name, folded, target); });
      };
      func::FuncOp ofShared = attention("latent_attention", shared);
      func::FuncOp ofDivided =
          divided.tileHeads == shared.tileHeads ? ofShared : attention("latent_attention_divided", divided);
      kernels.push_back(once("latent_attend",
                             [&](StringRef name) { return buildLatentAttend(code, name, spec, ofShared, ofDivided); }));
    }
    kernels.push_back(
        once("latent_project", [&](StringRef name) { return buildLatentProject(code, name, spec, *matmulValue); }));
  }
  if (spec.form != LatentForm::Absorbed) {
    FailureOr<func::FuncOp> matmulKey =
        plainMatmul(op, schedule, *op.getKeyFormat(), dims.nope, dims.rank, spec.keyBytes, module);
    if (failed(matmulKey))
      return failure();
    kernels.push_back(once("latent_rebuild", [&](StringRef name) {
      return buildLatentRebuild(code, name, spec, target, *matmulKey, *matmulValue);
    }));
  }
  return kernels;
}

std::unique_ptr<KernelEmitter> heddle::cpu::onlineLatentAttention(const CpuTarget &target) {
  return std::make_unique<OnlineLatentAttention>(target);
}
