// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocks of keys go by, staged in local memory once for all rows and heads of a block of threads. What a thread has summed up is relative to the greatest
// score so far, and shrinks when a greater one comes.

#include "compiler/codegen/targets/opencl/SoftmaxAttention.h"

#include "compiler/codegen/halide/ScalarExpressions.h"
#include "compiler/codegen/halide/StoredIf.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/xxhash.h"

using namespace heddle;
using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

Expr heddle::isInMask(const AttentionSpec &spec, Expr query, Expr key) {
  Expr isIn = spec.causal ? key <= query : Halide::Internal::const_true();
  if (spec.window)
    isIn = isIn && query - key < int(spec.window);
  if (spec.ahead)
    isIn = isIn && key - query < int(spec.ahead);
  if (spec.chunk)
    isIn = isIn && key / int(spec.chunk) == query / int(spec.chunk);
  return isIn;
}

Expr heddle::firstInMask(const AttentionSpec &spec, Expr query) {
  Expr first = spec.window ? Halide::max(query - int(spec.window) + 1, 0) : Expr(0);
  return spec.chunk ? Halide::max(first, query / int(spec.chunk) * int(spec.chunk)) : first;
}

SeenKeys::SeenKeys(PipelineBuilder &b, const AttentionSpec &spec) : spec(spec) {
  if (!spec.given)
    return;
  rows = b.input("sequence_rows", Halide::Int(32), {2, 0});
  ahead = b.input("sees_ahead", Halide::Int(32), {0});
}

// Tokens of the sequence before this step.
Expr SeenKeys::past(Expr sequence, const Halide::ImageParam &places) const {
  return places(Halide::clamp(rows(0, sequence), 0, places.dim(0).extent() - 1));
}

Expr SeenKeys::first(Expr sequence, Expr position, const Halide::ImageParam &places) const {
  Expr first = firstInMask(spec, position);
  if (!spec.given || !spec.window)
    return first;
  Expr its = Halide::clamp(sequence, 0, ahead.dim(0).extent() - 1);
  return Halide::select(ahead(its) != 0, Halide::min(first, past(its, places)), first);
}

Expr SeenKeys::last(Expr sequence, Expr position, const Halide::ImageParam &places) const {
  if (!spec.given)
    return position;
  Expr its = Halide::clamp(sequence, 0, ahead.dim(0).extent() - 1);
  return Halide::select(ahead(its) != 0, past(its, places) + rows(1, its) - 1, position);
}

void SeenKeys::add(Enqueuer &host, const AttentionSpec &spec) {
  if (!spec.given)
    return;
  host.addSequenceRows();
  host.addVector(i32Element, host.pointer(offsetof(heddle_step, sees_ahead)),
                 host.number(offsetof(heddle_step, num_sequences)));
}

// Rows of a table of buckets.
static int64_t numBuckets(const PositionSpec &positions) {
  return positions.kind == PositionSpec::Tokens ? positions.numBuckets : *llvm::max_element(positions.rows) + 1;
}

llvm::SmallVector<float> heddle::numbersInCode(mlir::Value table) {
  auto named = table ? table.getDefiningOp<mlir::memref::GetGlobalOp>() : mlir::memref::GetGlobalOp();
  if (!named)
    return {};
  auto global = mlir::SymbolTable::lookupNearestSymbolFrom<mlir::memref::GlobalOp>(named, named.getNameAttr());
  auto values = global ? mlir::dyn_cast_or_null<mlir::DenseFPElementsAttr>(global.getInitialValueAttr()) : nullptr;
  return values ? llvm::to_vector(values.getValues<float>()) : llvm::SmallVector<float>();
}

std::string heddle::nameOfNumbersInCode(mlir::Value table) {
  llvm::SmallVector<float> numbers = numbersInCode(table);
  llvm::StringRef bytes(reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(float));
  return numbers.empty() ? "" : "_" + llvm::utohexstr(llvm::xxh3_64bits(bytes));
}

DeviceScoreTerms::DeviceScoreTerms(PipelineBuilder &b, const AttentionSpec &spec, llvm::ArrayRef<float> slopes)
    : spec(spec), slopes(slopes) {
  if (spec.hasSinks)
    sinks = b.input("sinks", Halide::Float(32), {spec.numHeads});
  if (spec.positions.kind == PositionSpec::Slopes && slopes.empty())
    positions = b.input("position_terms", Halide::Float(32), {spec.numHeads});
  else if (spec.positions.kind == PositionSpec::Buckets)
    positions = b.input("position_terms", kvType(spec.positions.table), {spec.numHeads, numBuckets(spec.positions)});
  else if (spec.positions.kind == PositionSpec::Tokens)
    positions = b.input("position_terms", Halide::Float(32), {spec.positions.numBuckets, spec.numHeads, 2, 0});
}

Expr DeviceScoreTerms::at(Expr head, Expr row, Expr distance, Expr keyRow) const {
  const PositionSpec &of = spec.positions;
  if (of.kind == PositionSpec::Slopes) {
    Expr slope = slopes.empty() ? Expr(positions(head)) : Expr(slopes.front());
    for (auto [other, value] : llvm::enumerate(slopes.drop_front(slopes.empty() ? 0 : 1)))
      slope = Halide::select(head == int(other) + 1, value, slope);
    return slope * Halide::cast<float>(-distance);
  }
  Expr bucket = int(of.rows.front());
  for (auto [start, ofRun] : llvm::zip_equal(of.starts, llvm::ArrayRef(of.rows).drop_front()))
    bucket = Halide::select(distance >= int(start), int(ofRun), bucket);
  if (of.kind == PositionSpec::Buckets)
    return cachedExpr(of.table, positions(head, bucket));
  return positions(bucket, head, 0, row) + positions(bucket, head, 1, keyRow);
}

void heddle::addScoreTerms(Enqueuer &host, const AttentionSpec &spec, mlir::Value sinks, mlir::Value positions,
                           mlir::Value positionsRow, mlir::Value rows) {
  mlir::Value heads = host.constant(spec.numHeads), one = host.constant(1);
  const PositionSpec &of = spec.positions;
  if (spec.hasSinks)
    host.addVector(f32Element, sinks, heads);
  if (of.kind == PositionSpec::Slopes && positions)
    host.addVector(f32Element, positions, heads);
  else if (of.kind == PositionSpec::Buckets)
    host.addRows(kvElement(of.table), positions, spec.numHeads, heads, host.constant(numBuckets(of)));
  else if (of.kind == PositionSpec::Tokens)
    host.add(f32Element, positions,
             {{host.constant(of.numBuckets), one},
              {heads, host.constant(of.numBuckets)},
              {host.constant(2), host.constant(of.numBuckets * spec.numHeads)},
              {rows, positionsRow}});
}

// Below each score, and above minus infinity: differences of such stay numbers.
static constexpr float hidden = -1e30f;

namespace {

// What is known of some keys: elements of the result that nothing has divided, and the sum of the weights, both relative to the maximum.
struct SoftmaxSums {
  std::vector<Expr> elements;
  Expr sum, maximum;

  // Of no key, or of the sink alone.
  static SoftmaxSums none(size_t count, Expr sink = Expr()) {
    return {std::vector<Expr>(count, 0.0f), sink.defined() ? 1.0f : 0.0f, sink.defined() ? sink : Expr(hidden)};
  }
  // `count` elements, then sum and maximum, which lie from `first` on.
  static SoftmaxSums of(const Halide::FuncRef &ref, size_t count, size_t first = 0) {
    SoftmaxSums sums;
    for (size_t i = 0; i < count; ++i)
      sums.elements.push_back(ref[int(first + i)]);
    sums.sum = ref[int(first + count)], sums.maximum = ref[int(first + count + 1)];
    return sums;
  }

  void appendTo(std::vector<Expr> &values) const {
    values.insert(values.end(), elements.begin(), elements.end());
    values.insert(values.end(), {sum, maximum});
  }
  // With what is known of other keys. Sums of none leave each bit of the others.
  SoftmaxSums with(const SoftmaxSums &other) const {
    Expr top = Halide::max(maximum, other.maximum), keep = expExpr(maximum - top), take = expExpr(other.maximum - top);
    auto both = [&](const Expr &its, const Expr &others) { return its * keep + take * others; };
    SoftmaxSums merged{{}, both(sum, other.sum), top};
    for (auto [its, others] : llvm::zip_equal(elements, other.elements))
      merged.elements.push_back(both(its, others));
    return merged;
  }
  SoftmaxSums ifElse(const Expr &condition, const SoftmaxSums &other) const {
    SoftmaxSums chosen{
        {}, Halide::select(condition, sum, other.sum), Halide::select(condition, maximum, other.maximum)};
    for (auto [its, others] : llvm::zip_equal(elements, other.elements))
      chosen.elements.push_back(Halide::select(condition, its, others));
    return chosen;
  }
};

} // namespace

static Expr divided(Expr element, Expr sum) {
  return element / Halide::select(sum == 0.0f, 1.0f, sum);
}

namespace {

// The Funcs of a block: its rows `row` of those of the tile `tile`, its heads `head` of those of `group`. Keys come in blocks: `block` of the
// sequence `other` behind that of the tile's first row.
class FlashAttention {
public:
  FlashAttention(PipelineBuilder &b, const AttentionSpec &spec, const AttendedKeys &keys, const DeviceScoreTerms &terms,
                 AttentionThreads threads)
      : b(b), spec(spec), keys(keys), terms(terms), threads(threads) {}

  Func whole(const AttentionFinish &finish);
  Func splits();

private:
  Expr rowOf(Expr row) const { return Halide::min(tile * threads.rows + row, keys.numRows - 1); }
  Expr headOf(Expr head) const { return group * threads.heads + head; }
  Expr kvHead() const { return group * threads.heads / int(spec.group()); }
  Expr firstSequence() const { return keys.sequence(rowOf(0)); }
  Expr keyAt(Expr at, Expr number) const {
    Halide::FuncRef both = staged(at, number, block, other, group, tile);
    return keys.value ? Expr(both[0]) : Expr(both);
  }
  Expr valueAt(Expr at, Expr number) const {
    return keys.value ? Expr(staged(at, number, block, other, group, tile)[1]) : keyAt(at, number);
  }
  int elements() const { return int(llvm::divideCeil(spec.valueDim(), threads.lanes)); }
  // Whether what a thread knows of a split lies before what it knows of those before.
  bool mergesSplits() const { return threads.split && !isSplit; }
  // Of the thread that has element d of a head of a row.
  SoftmaxSums sumsAt(Expr ofSplit) const;
  Expr elementAt(const SoftmaxSums &sums) const;

  void defineRange();
  void defineKeys();
  void defineWeights();
  void defineState();
  void define();
  void schedule(const Func &out);
  void scheduleResult(Func &out);

  PipelineBuilder &b;
  const AttentionSpec &spec;
  const AttendedKeys &keys;
  const DeviceScoreTerms &terms;
  AttentionThreads threads;

  Var lane{"lane"}, row{"row"}, head{"head"}, group{"group"}, tile{"tile"}, block{"block"}, other{"other"}, key{"key"},
      element{"element"}, split{"split"};
  Var d{"d"}, ofHead{"of_head"}, ofRow{"of_row"}; // of the result
  bool isSplit = false;                           // the splits are the result, by blocks of their own
  RDom summed, t;                                 // keys of a block; blocks, and sequences of the tile
  Func range, staged, dot, score, top, weight, part, state;
};

} // namespace

// The first and the last key of the sequence that some row of the tile may see; none where the tile has no row of it.
void FlashAttention::defineRange() {
  range = b.func("range");
  RDom r(0, threads.rows, "r");
  range(other, tile) = Halide::Tuple(keys.mostKeys, Expr(-1));
  Expr its = rowOf(r), isOther = keys.sequence(its) != firstSequence() + other;
  Expr first = range(other, tile)[0], last = range(other, tile)[1];
  range(other, tile) = Halide::Tuple(Halide::min(first, Halide::select(isOther, first, keys.firstKey(its))),
                                     Halide::max(last, Halide::select(isOther, last, keys.lastKey(its))));
}

// staged[key][element] = (key, value) of a block of one sequence. What no row sees is 0: memory there may hold anything, and no weight makes
// a NaN vanish.
void FlashAttention::defineKeys() {
  staged = b.func("staged");
  Expr sequence = Halide::min(firstSequence() + other, keys.numSequences - 1);
  Expr number = block * threads.keys + key, within = Halide::min(number, keys.mostKeys - 1);
  Expr isSeen = number >= range(other, tile)[0] && number <= range(other, tile)[1];
  std::vector<Expr> values{keys.key(Halide::min(element, int(spec.headDim) - 1), kvHead(), sequence, within)};
  if (keys.value)
    values.push_back(keys.value(Halide::min(element, int(spec.valueDim()) - 1), kvHead(), sequence, within));
  for (Expr &value : values)
    value = Halide::select(isSeen, value, 0.0f);
  staged(element, key, block, other, group, tile) = Halide::Tuple(values);
}

// score[key] = softcap(scale query . key) + terms; top = max score; weight[key] = exp(score[key] - top), 0 for keys that are hidden
void FlashAttention::defineWeights() {
  dot = b.func("dot"), score = b.func("score"), top = b.func("top"), weight = b.func("weight");
  RDom i(0, int(spec.headDim), "i"), j(0, threads.keys, "j");
  dot(key, head, row, block, other, group, tile) = 0.0f;
  dot(key, head, row, block, other, group, tile) += keys.query(i, headOf(head), rowOf(row)) * keyAt(i, key);
  Expr value = dot(key, head, row, block, other, group, tile) * float(spec.scale);
  if (spec.softcap != 0)
    value = float(spec.softcap) * tanhExpr(value / float(spec.softcap));
  Expr its = rowOf(row), number = block * threads.keys + key, sequence = keys.sequence(its);
  if (spec.positions.kind)
    value +=
        terms.at(headOf(head), its, keys.position(its) - number, keys.keyRow ? keys.keyRow(sequence, number) : Expr(0));
  Expr isSeen = sequence == firstSequence() + other && number < keys.mostKeys &&
                keys.isSeen(its, Halide::min(number, keys.mostKeys - 1));
  score(key, head, row, block, other, group, tile) = Halide::select(isSeen, value, hidden);
  top(head, row, block, other, group, tile) = hidden;
  top(head, row, block, other, group, tile) =
      Halide::max(top(head, row, block, other, group, tile), score(j, head, row, block, other, group, tile));
  Expr itsScore = score(key, head, row, block, other, group, tile);
  weight(key, head, row, block, other, group, tile) =
      Halide::select(itsScore <= hidden, 0.0f, expExpr(itsScore - top(head, row, block, other, group, tile)));
}

// part = of a block of keys the sums, relative to its own maximum; state = those of the blocks so far, of which the first of a split begins with none
// where splits are merged: then those of the splits before lie behind them. A block in which nothing is seen leaves each bit.
void FlashAttention::defineState() {
  part = b.func("part"), state = b.func("state");
  summed = RDom(0, threads.keys, "summed");
  size_t count = elements();
  std::vector<Expr> zeros(count + 1, 0.0f), parts, begin, next;
  part(head, lane, row, block, other, group, tile) = Halide::Tuple(zeros);
  Expr its = weight(summed, head, row, block, other, group, tile);
  for (size_t x = 0; x <= count; ++x) {
    Expr at = Halide::min(int(x) * threads.lanes + lane, int(spec.valueDim()) - 1);
    Expr sum = part(head, lane, row, block, other, group, tile)[int(x)];
    parts.push_back(sum + (x == count ? its : its * valueAt(at, summed)));
  }
  part(head, lane, row, block, other, group, tile) = Halide::Tuple(parts);

  SoftmaxSums none = SoftmaxSums::none(count);
  SoftmaxSums first = spec.hasSinks && !isSplit ? SoftmaxSums::none(count, terms.sinks(headOf(head))) : none;
  if (mergesSplits())
    none.appendTo(begin);
  first.appendTo(begin);
  state(head, lane, row, group, split, tile) = Halide::Tuple(begin);
  Expr blocks = (keys.mostKeys + threads.keys - 1) / threads.keys;
  t = RDom(0, isSplit ? Expr(threads.splitBlocks()) : blocks, 0, Halide::min(keys.numSequences, threads.rows), "t");
  Expr number = isSplit ? split * threads.splitBlocks() + t.x : t.x;
  t.where(number * threads.keys <= range(t.y, tile)[1] && (number + 1) * threads.keys > range(t.y, tile)[0]);
  Halide::FuncRef ofBlock = part(head, lane, row, number, t.y, group, tile),
                  held = state(head, lane, row, group, split, tile);
  SoftmaxSums sums = SoftmaxSums::of(held, count),
              seen{{}, ofBlock[int(count)], top(head, row, number, t.y, group, tile)};
  for (size_t x = 0; x < count; ++x)
    seen.elements.push_back(ofBlock[int(x)]);
  if (!mergesSplits()) {
    sums.with(seen).appendTo(next);
  } else {
    Expr begins = t.x % threads.splitBlocks() == 0;
    SoftmaxSums before = SoftmaxSums::of(held, count, count + 2);
    none.ifElse(begins, sums).with(seen).appendTo(next);
    before.with(sums).ifElse(begins, before).appendTo(next);
  }
  state(head, lane, row, group, split, tile) = Halide::Tuple(next);
}

void FlashAttention::schedule(const Func &out) {
  auto shared = [&](Func func) -> Func & {
    return func.store_in(Halide::MemoryType::GPUShared).compute_at(state, t.x);
  };
  for (Func func : {staged, dot, score, top, weight, part})
    for (const Var &one : {block, other, group, tile})
      func.bound_extent(one, 1);
  for (Func func : {score, weight})
    func.bound(key, 0, threads.keys);
  for (Func func : {score, top, weight, state})
    func.bound(head, 0, threads.heads).bound(row, 0, threads.rows);
  part.bound(head, 0, threads.heads).bound_extent(lane, 1).bound_extent(row, 1);
  state.bound(lane, 0, threads.lanes);
  range.compute_at(out, group).store_in(Halide::MemoryType::GPUShared);
  range.bound(other, 0, threads.rows).bound_extent(tile, 1).gpu_threads(other);
  range.update().gpu_threads(other);
  // A thread's results.
  state.compute_at(out, group).store_in(Halide::MemoryType::Register);
  state.bound_extent(group, 1).bound_extent(split, 1).bound_extent(tile, 1);
  state.gpu_threads(lane, row).unroll(head);
  state.update().reorder(head, lane, row, t.x, t.y).gpu_threads(lane, row).unroll(head);
  b.keepInRegisters(state, threads.heads);
  int width = int(std::max(spec.headDim, spec.valueDim()));
  Var place("place"), round("round"), inRound("in_round");
  // Neighbouring threads read neighbouring elements, and of scores neighbouring keys: rows are one number longer than they need to be, so
  // that these lie in different banks.
  shared(staged)
      .bound(element, 0, width)
      .bound_storage(element, width + 1)
      .fuse(element, key, place)
      .split(place, round, inRound, threads.lanes * threads.rows, Halide::TailStrategy::GuardWithIf)
      .split(inRound, row, lane, threads.lanes)
      .reorder(round, lane, row)
      .gpu_threads(lane, row);
  for (const Func &func : {score, weight})
    shared(func)
        .split(key, round, lane, std::min(threads.lanes, threads.keys))
        .reorder(round, head, lane, row)
        .gpu_threads(lane, row);
  dot.compute_at(score, round).bound_extent(key, 1).bound_extent(head, 1).bound_extent(row, 1);
  shared(top).gpu_threads(head, row);
  top.update().gpu_threads(head, row);
  part.compute_at(state, lane).unroll(head);
  part.update().reorder(head, summed).unroll(head);
}

SoftmaxSums FlashAttention::sumsAt(Expr ofSplit) const {
  Halide::FuncRef held = state(ofHead % threads.heads, d % threads.lanes, ofRow % threads.rows, ofHead / threads.heads,
                               ofSplit, ofRow / threads.rows);
  size_t count = elements();
  SoftmaxSums sums = SoftmaxSums::of(held, count);
  return mergesSplits() ? SoftmaxSums::of(held, count, count + 2).with(sums) : sums;
}

Expr FlashAttention::elementAt(const SoftmaxSums &sums) const {
  Expr value = sums.elements[0];
  for (size_t x = 1; x < sums.elements.size(); ++x)
    value = Halide::select(d / threads.lanes == int(x), sums.elements[x], value);
  return value;
}

// out (d, ofHead, [split,] ofRow)
void FlashAttention::scheduleResult(Func &out) {
  int heads = int(spec.numHeads), valueDim = int(spec.valueDim());
  Halide::OutputImageParam buffer = out.output_buffers()[0];
  buffer.dim(0).set_bounds(0, valueDim);
  buffer.dim(1).set_bounds(0, heads).set_stride(valueDim);
  for (int dim = 2; dim < out.dimensions(); ++dim)
    buffer.dim(dim).set_min(0);
  Var number("number");
  out.bound(d, 0, valueDim)
      .bound(ofHead, 0, heads)
      .never_partition_all()
      .split(d, number, lane, threads.lanes, Halide::TailStrategy::GuardWithIf)
      .split(ofHead, group, head, threads.heads)
      .split(ofRow, tile, row, threads.rows, Halide::TailStrategy::GuardWithIf);
  if (isSplit)
    out.reorder(number, head, lane, row, group, split, tile).gpu_blocks(group, split, tile);
  else
    out.reorder(number, head, lane, row, group, tile).gpu_blocks(group, tile);
  out.gpu_threads(lane, row).unroll(number).unroll(head);
  schedule(out);
}

void FlashAttention::define() {
  defineRange();
  defineKeys();
  defineWeights();
  defineState();
}

Func FlashAttention::whole(const AttentionFinish &finish) {
  define();
  Func out = b.func("out");
  SoftmaxSums sums = sumsAt(0);
  Expr result = divided(elementAt(sums), sums.sum);
  out(d, ofHead, ofRow) = finish ? finish(d, ofHead, ofRow, result) : result;
  scheduleResult(out);
  return out;
}

// A block has one split of the keys of its rows.
Func FlashAttention::splits() {
  isSplit = true;
  define();
  Func out = b.func("out");
  SoftmaxSums sums = sumsAt(split);
  // Maxima and sums, which have no first dimension, are one thread's to store.
  out(d, ofHead, split, ofRow) =
      Halide::Tuple(elementAt(sums), storedIf(d == 0, sums.maximum), storedIf(d == 0, sums.sum));
  for (int ofState : {1, 2}) {
    out.output_buffers()[ofState].dim(0).set_stride(0);
    out.output_buffers()[ofState].dim(1).set_stride(1);
  }
  scheduleResult(out);
  return out;
}

Func heddle::softmaxAttention(PipelineBuilder &b, const AttentionSpec &spec, const AttendedKeys &keys,
                              const DeviceScoreTerms &terms, AttentionThreads threads, const AttentionFinish &finish) {
  return FlashAttention(b, spec, keys, terms, threads).whole(finish);
}

Func heddle::softmaxSplits(PipelineBuilder &b, const AttentionSpec &spec, const AttendedKeys &keys,
                           const DeviceScoreTerms &terms, AttentionThreads threads) {
  return FlashAttention(b, spec, keys, terms, threads).splits();
}

void heddle::addStatesOfSplits(Enqueuer &host, const AttentionSpec &spec, StatesOfSplits states, mlir::Value maxSplits,
                               mlir::Value splits, bool hasElements) {
  RawBuilder &b = host.builder();
  mlir::Value rows = host.number(offsetof(heddle_step, rows));
  auto dims = [&](int64_t ofHead) {
    int64_t width = spec.numHeads * ofHead;
    return llvm::SmallVector<BufferDim>{
        {b.constant(spec.numHeads), b.constant(ofHead)}, {splits, b.constant(width)}, {rows, b.mul(maxSplits, width)}};
  };
  auto add = [&](mlir::Value at, llvm::SmallVector<BufferDim> ofHeads, std::optional<int64_t> elementStride) {
    if (elementStride)
      ofHeads.insert(ofHeads.begin(), {b.constant(spec.valueDim()), b.constant(*elementStride)});
    host.add(f32Element, at, ofHeads);
  };
  add(states.elements, dims(spec.valueDim()), 1);
  for (mlir::Value ofHeads : {states.maxima, states.sums})
    add(ofHeads, dims(1), hasElements ? std::optional<int64_t>(0) : std::nullopt);
}

// A thread has an element of a head, and merges the maxima and sums for itself.
Func heddle::mergeSplits(PipelineBuilder &b, const AttentionSpec &spec, const Halide::ImageParam &elements,
                         const Halide::ImageParam &maxima, const Halide::ImageParam &sums,
                         const Halide::ImageParam &sinks,
                         const std::function<std::pair<Expr, Expr>(Expr row)> &splitsOf) {
  Func merged = b.func("merged"), out = b.func("out");
  Var d("d"), head("head"), row("row");
  std::vector<Expr> begin, next;
  SoftmaxSums::none(1, spec.hasSinks ? Expr(sinks(head)) : Expr()).appendTo(begin);
  merged(d, head, row) = Halide::Tuple(begin);
  auto [first, last] = splitsOf(row);
  RDom s(0, elements.dim(2).extent(), "s");
  s.where(s >= first && s <= last);
  SoftmaxSums ofSplit{{elements(d, head, s, row)}, sums(head, s, row), maxima(head, s, row)};
  SoftmaxSums::of(merged(d, head, row), 1).with(ofSplit).appendTo(next);
  merged(d, head, row) = Halide::Tuple(next);
  out(d, head, row) = divided(merged(d, head, row)[0], merged(d, head, row)[1]);

  int heads = int(spec.numHeads), valueDim = int(spec.valueDim());
  out.output_buffer().dim(0).set_bounds(0, valueDim);
  out.output_buffer().dim(1).set_bounds(0, heads).set_stride(valueDim);
  out.output_buffer().dim(2).set_min(0);
  out.bound(d, 0, valueDim).bound(head, 0, heads).never_partition_all();
  constexpr int mostThreads = 256;
  if (valueDim <= mostThreads) {
    out.gpu_blocks(head, row).gpu_threads(d);
    merged.compute_at(out, d);
  } else {
    Var chunk("chunk"), thread("thread");
    out.split(d, chunk, thread, mostThreads, Halide::TailStrategy::GuardWithIf)
        .gpu_blocks(chunk, head, row)
        .gpu_threads(thread);
    merged.compute_at(out, thread);
  }
  for (const Var &one : {d, head, row})
    merged.bound_extent(one, 1);
  return out;
}

// As many heads as registers hold the results of.
AttentionThreads AttentionThreads::of(TileAttr tile, const AttentionSpec &spec) {
  int64_t heads = std::min<int64_t>(4, spec.group());
  while (spec.group() % heads)
    --heads;
  return {int(tile.getRows().front()), int(heads), int(tile.getWarps()[1]), int(tile.getK())};
}

mlir::FailureOr<std::vector<Enqueuer::RowsKernel>>
heddle::emitAttentionKernels(KernelModule &module, llvm::StringRef name, llvm::StringRef suffix, ScheduleAttr schedule,
                             const AttentionSpec &spec, EmitAttention emit) {
  std::vector<Enqueuer::RowsKernel> kernels;
  for (TileAttr tile : llvm::reverse(schedule.getTiles())) {
    if (tile.getRole() != TileRole::Threads)
      continue;
    if (tile.getWarps().size() != 2)
      return mlir::emitError(module.code.getLoc(), name) << ": a tile of threads does not say how many";
    AttentionThreads threads = AttentionThreads::of(tile, spec);
    std::string symbol = (name + "_rows" + llvm::Twine(threads.rows) + suffix + "_device").str();
    if (mlir::failed(module.addObject(name, emit(symbol, threads))))
      return mlir::failure();
    kernels.push_back({symbol, tile.getMaxRows()});
  }
  if (kernels.empty() || kernels.back().maxRows)
    return mlir::emitError(module.code.getLoc(), name)
           << ": its schedule has no tile of threads for any number of rows";
  return kernels;
}

void heddle::enqueueAttention(Enqueuer &host, llvm::ArrayRef<Enqueuer::RowsKernel> kernels) {
  mlir::Value rows = host.number(offsetof(heddle_step, rows)),
              sequences = host.number(offsetof(heddle_step, num_sequences));
  RawBuilder &b = host.builder();
  host.enqueueByRows(b.divide(b.add(rows, b.sub(sequences, b.constant(1))), b.max(sequences, b.constant(1))), kernels);
}
