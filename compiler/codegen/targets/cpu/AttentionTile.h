// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parts of an attention tile, one method per step of the algorithm.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_ATTENTIONTILE_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_ATTENTIONTILE_H

#include "compiler/codegen/kernel/SequenceAccess.h"
#include "compiler/codegen/targets/cpu/OnlineAttention.h"
#include "compiler/codegen/targets/cpu/PageLayout.h"
#include "compiler/codegen/targets/cpu/TileUnit.h"
#include "runtime/model/ModelAbi.h"

#include <functional>
#include <optional>

namespace heddle {

// log-sum-exp state of one row and its unscaled output, as pointers.
struct RowState {
  mlir::Value max; // float, base 2
  mlir::Value sum; // float
  mlir::Value acc; // (valueDim)
};

// Query tokens [firstToken, firstToken + numTokens) of a sequence and the query heads from firstHead that share kvHead.
struct TileValues {
  SequenceValues sequence;
  mlir::Value firstToken, numTokens, kvHead, firstHead;
  mlir::Value globals =
      {}; // const int32_t *, (tokens of the sequence): not 0 for a global one; null where the spec has none
  // Of a run of heads, of which the rest describes the first: how many tiles of query heads follow each other. Null: this one.
  mlir::Value headTiles = {};
};

// How the keys and values of a KV head are reached, 64 tokens at a time: in pages of the cache, or in tensors.
struct KeyBlocks {
  // The first key and the first value of block `index`.
  std::function<std::pair<mlir::Value, mlir::Value>(mlir::Value index, mlir::Value kvHead)> find;
  mlir::Value keyBytes, valueBytes; // from a token to the next
};

// Keys [first, end) of the sequence.
struct KeyRange {
  mlir::Value first, end;
  KeyBlocks blocks;
};

// The block whose first token is `begin`, and its tokens [firstKey, endKey) to look at. Pointers to the tile's KV head.
struct PageValues {
  mlir::Value begin, firstKey, endKey, keys, nextKeys, values, nextValues, keyBytes, valueBytes;
};

// Rows of a tile in a buffer: token t and head h of the tile lie t * tokenBytes + h * headBytes behind `base`.
struct RowPlaces {
  mlir::Value base, tokenBytes, headBytes;
};

// What finishing a score takes besides the score: pointers that are null where the spec has no use for them.
struct ScoreTerms {
  mlir::Value
      slopes; // (numHeads), or what each token of the sequence gives; buckets are the tile's already, by loadPositions
  RowPlaces bias;                // of the tile's first token and head, at key 0
  mlir::Value biasKeyBytes = {}; // from a key to the next: those of a float, or 0 where one number serves all keys
  mlir::Value tokenBytes = {};   // from what a token gives to the next one's
};

// float *scores, (rows of the step, numHeads, keys)
struct StoredScores {
  mlir::Value scores, keys;
};

// What rows saw of each split of the keys, as AttentionSplitCall holds it.
struct SplitStates {
  mlir::Value outputs, maxima, sums, maxSplits;
};
// Of a head in row `stepRow` of the step.
RowState splitStateOf(RawBuilder &b, const AttentionSpec &spec, const SplitStates &states, mlir::Value stepRow,
                      mlir::Value split, mlir::Value head);
// Where a head's result goes in `out`, (rows, numHeads * valueDim), rows outStride floats apart.
mlir::Value outputRow(RawBuilder &b, const AttentionSpec &spec, mlir::Value out, mlir::Value outStride, mlir::Value row,
                      mlir::Value head);

// What buckets add to scores, laid out by key - query: element i of a head is that of key - query = first + i. Outside of the starts all
// distances are alike, and a page that lies there as a whole is moved to the nearest place that is laid out.
struct BucketRange {
  BucketRange(const PositionSpec &spec, int64_t blockTokens, unsigned lanes);
  int64_t first = 0, last = 0; // of a page's first key
  int64_t stride = 0;          // from head to head: whole vectors, and one that the filling may run into
};

// Emits the steps of a tile into a kernel. Tile row r is token r / group, head r % group.
class AttentionTile {
public:
  AttentionTile(RawBuilder &builder, const AttentionSpec &spec, const CpuTarget &target);

  // Keys that are looked at together.
  int64_t blockKeys() const { return blockTokens; }
  int64_t tokens() const { return tileTokens; }
  // Tokens whose rows are whole blocks of registers.
  int64_t tokenStep() const;
  // Query heads in a tile, which all read one KV head.
  int64_t group() const { return groupSize; }
  int64_t headsPerKvHead() const { return spec.group(); }
  int64_t headTiles() const { return spec.numHeads / groupSize; }
  unsigned lanes() const { return vectorLanes; }

  // Whether tiles of few rows take several heads at a time (maxHeadTiles), page by page.
  bool takesHeadRuns() const;
  // The most heads of a run, each of `numTokens` tokens.
  mlir::Value maxHeadTiles(mlir::Value numTokens);
  // Scratch of the whole tile, or of a run of heads; in the entry block.
  void allocate(bool forHeadRuns = false);
  // Behind the last tile of a kernel.
  void finish();
  mlir::Value numRows(const TileValues &tile);
  // `body(token, headInGroup, tileRow)`
  void forEachRow(const TileValues &tile, llvm::function_ref<void(mlir::Value, mlir::Value, mlir::Value)> body);
  // Keys [first, second) that any row of tokens [firstToken, firstToken + numTokens) sees.
  std::pair<mlir::Value, mlir::Value> visibleKeys(const SequenceValues &sequence, mlir::Value firstToken,
                                                  mlir::Value numTokens);

  // `body` for each head of the run, whose rows of scratch are the tile's meanwhile.
  void forEachHead(const TileValues &run, llvm::function_ref<void(const TileValues &)> body);

  // The blocks of the tile's sequence in the cache, whose layer's K and V lie `kOffset` and `vOffset` bytes inside a page.
  KeyBlocks pages(const TileValues &tile, mlir::Value kOffset, mlir::Value vOffset);
  // Where the tile's rows lie among those of a step, (rows, numHeads * headDim), rows qStride floats apart.
  RowPlaces stepQueries(const TileValues &tile, mlir::Value q, mlir::Value qStride);
  // query = scale * q, in the units of the scores.
  void loadQueries(const TileValues &tile, const RowPlaces &rows);
  // Of buckets: what each distance adds to the scores of each head of the tile, from the table of the call.
  void loadPositions(const TileValues &tile, mlir::Value table);
  // State of each row over the keys [firstKey, endKey), all in one split. Of a run, all heads look at a page before any looks at the next: planes of
  // neighbours are neighbours in memory.
  void attendSplit(const TileValues &tile, const KeyRange &keys, const ScoreTerms &terms);
  // The same without blocks: all scores are stored, then the softmax reads them, whose weights go with the values.
  void attendStored(const TileValues &tile, const KeyRange &keys, const ScoreTerms &terms, const StoredScores &stored);

  // total: nothing seen yet but the sink of the head.
  void beginTotal(RowState total, mlir::Value head, mlir::Value sinks);
  // The sums of attendSplit are per lane until this.
  void reduceSum(mlir::Value row);
  void copyState(RowState to, RowState from);
  // total ∪= part
  void mergeInto(RowState total, RowState part);
  // out = acc / sum; zeros for a row that has seen no key.
  void storeOutput(RowState total, mlir::Value out);

  // Row r's state over the split, and over all splits so far.
  RowState splitState(mlir::Value row);
  RowState totalState(mlir::Value row);

private:
  // Where keys are seen because they are global: which of the vector at `key` of a page are, and whether any of the page is.
  mlir::Value globalKeys(const TileValues &tile, const PageValues &page, mlir::Value key);
  mlir::Value hasGlobals(const TileValues &tile, const PageValues &page);
  // Nothing seen.
  void beginRows(mlir::Value numRows);
  void forEachPage(const TileValues &run, const KeyRange &keys,
                   llvm::function_ref<void(const TileValues &, const PageValues &)> body);
  // Head `index` of the run, and from where on its rows lie in scratch: a part of its own of the vectors that a softmax takes at a time.
  TileValues headOfRun(const TileValues &run, mlir::Value index);
  mlir::Value rowsOfHead(mlir::Value numTokens);
  void atHead(const TileValues &run, mlir::Value index, llvm::function_ref<void(const TileValues &)> body);
  // Types of what a product step loads, and acc + a b.
  mlir::Type operandElement();
  mlir::Value multiplyAdd(mlir::Value a, mlir::Value b, mlir::Value acc);
  // exp2 of a difference of scores, in whichever units these are.
  mlir::Value emitWeight(mlir::Value difference);
  // Tensors of floats. Where less than a block of registers is all that reads a page, it waits for memory alone: values are read where they lie, and the
  // products ask for the next page.
  bool readsFloatRows() const { return spec.isDense && spec.kv == KvType::F32 && !pairs; }
  bool copiesValues() const { return spec.isDense || spec.kv != KvType::F32; }
  // Tokens of a block, rounded up to `step`, that something is to be computed for: all 64 where each can be read.
  mlir::Value tokensOf(const PageValues &page, int64_t step);
  // Rows [first, first + count) of the tile, whose scores are there at once: those of a block of tiles of AMX, or all.
  struct RowBlock {
    mlir::Value first, count;
  };
  // A right operand of products: rows of floats, or of pairs, rowBytes apart.
  struct Panel {
    mlir::Value base;
    int64_t rowBytes;
    mlir::Value rowStride = {}; // instead, where it is not the same for all
    bool isInRuns = false;      // values as a page has them: in runs of valueRun() columns
  };
  int64_t valueRun() const { return cpu::valueRunColumns(spec.valueDim()); }
  int64_t bytesOfRun(int64_t pairBytes) const { return HEDDLE_KV_PAGE_SIZE / 2 * valueRun() * pairBytes; }
  mlir::Value columnOf(const Panel &panel, mlir::Value base, mlir::Value column);
  // A page's keys, a row for each column of the head, and its values: where they lie, or copied to the panels. The lines of the next page are
  // asked for on the way, or by the products.
  Panel keysOf(const PageValues &page);
  Panel valuesOf(const RowBlock &block, const PageValues &page);
  void transposeKeys(const PageValues &page);
  void transposeRows(const PageValues &page, mlir::Value key, int64_t side, mlir::Value lastKey);
  void widenValues(const PageValues &page);
  void pairValues(const PageValues &page);
  // Of paired pages.
  void widenKeyPairs(const PageValues &page);
  void widenValuePairs(const PageValues &page);
  void copyKeyPairs(const PageValues &page);
  void copyValuePairs(const PageValues &page);
  void clearUnseenPairs(const PageValues &page, mlir::Value to, int64_t columns);
  void forEachPairOfRun(const PageValues &page, int64_t pairBytes,
                        llvm::function_ref<void(mlir::Value, mlir::Value, mlir::Value)> body);
  // Of codes, times their scales.
  void unpackKeys(const PageValues &page);
  void unpackKeyPairs(const PageValues &page);
  void unpackValues(const PageValues &page);
  mlir::Value scaledCodes(mlir::Value codes, mlir::Value scales);
  mlir::Value loadScales(mlir::Value pointer, unsigned count, llvm::function_ref<int64_t(int64_t)> place);
  void storePairs(mlir::Value first, mlir::Value second, mlir::Value to);
  int64_t blockRows() const;
  void fillZeros(mlir::Value base, int64_t floats);
  void forEachRowBlock(mlir::Value numRows, llvm::function_ref<void(const RowBlock &)> body);
  // `body(row of the block, token of the tile, head of the tile)`
  void forEachRowOf(const RowBlock &block, llvm::function_ref<void(mlir::Value, mlir::Value, mlir::Value)> body);
  mlir::Value scoresOf(mlir::Value blockRow);
  // scores = query @ keyᵀ
  void multiplyScores(const RowBlock &block, const PageValues &page, const Panel &keys);
  void scoreBlock(mlir::Value row, unsigned rows, mlir::Value endKey, const PageValues &page, const Panel &keys);
  // Caps, biases and masks scores, where there is something to do.
  void finishScores(const TileValues &tile, const RowBlock &block, const PageValues &page, const ScoreTerms &terms);
  void finishRow(const TileValues &tile, mlir::Value token, mlir::Value headInGroup, const PageValues &page,
                 const ScoreTerms &terms, mlir::Value rowScores);
  // Whether the mask hides a key of the page from a row of the tile.
  mlir::Value isPartlyMasked(const TileValues &tile, const PageValues &page);
  // scores → exp2(scores - max); max and sum of each row move on, and its factor is what rescales acc.
  void softmaxRows(const RowBlock &block, const PageValues &page);
  // Of `count` rows from blockRow on.
  void moveMaxima(const RowBlock &block, const PageValues &page, mlir::Value blockRow, int64_t count);
  // What a row adds to the scores of a page's keys.
  struct RowBias {
    mlir::Value keys;   // (64): each key's, or nothing that is read
    mlir::Value shared; // what all keys get
    mlir::Value perKey; // whether each key has its own
  };
  // Fills a line of bucketBiases, `lineOf(run)` being what the distances of a run get, in all lanes.
  void fillRuns(mlir::Value to, llvm::function_ref<mlir::Value(size_t)> lineOf);
  // tokenTerms[key] = what the query at `tokenIndex` and the key give for their distance.
  void sumTokenTerms(const TileValues &tile, mlir::Value tokenIndex, mlir::Value headInGroup, const PageValues &page,
                     const ScoreTerms &terms, mlir::Value place);
  // Of buckets: where a row finds what the keys of a page get, from the page's first key on.
  mlir::Value bucketsOf(mlir::Value headInGroup, mlir::Value position);
  RowBias biasOf(const ScoreTerms &terms, mlir::Value token, mlir::Value headInGroup, mlir::Value pageBegin);
  mlir::Value addBias(mlir::Value score, const RowBias &bias, mlir::Value key, mlir::Value seen);
  // Folds `body(first key, carried)` over the score vectors of a row.
  mlir::Value forEachScoreVector(const PageValues &page, mlir::Value init,
                                 llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> body);
  // The largest of a row's scores and of `init`, lane by lane.
  mlir::Value maxOfScores(const PageValues &page, mlir::Value rowScores, mlir::Value init);
  // weights = exp2(score - max) of the scores at `from`; their sum on top of `sum`.
  mlir::Value weighScores(const PageValues &page, mlir::Value max, mlir::Value sum, mlir::Value from,
                          mlir::Value weights);
  void storeWeights(llvm::ArrayRef<mlir::Value> weights, mlir::Value rowScores, mlir::Value key);
  mlir::Value splatInt(mlir::Value index);
  // acc = factor * acc + scores @ value
  void weighValues(const RowBlock &block, const PageValues &page, const Panel &values);
  void valueBlock(mlir::Value row, unsigned rows, const PageValues &page, const Panel &values);
  void valueColumns(mlir::Value row, unsigned rows, llvm::ArrayRef<ColumnRun> runs, mlir::Value column,
                    const PageValues &page, const Panel &values);
  void prefetchLines(mlir::Value from, int64_t bytes);
  void prefetchLines(mlir::Value from, int64_t bytes, CacheLevel level);
  void prefetchPart(mlir::Value rows, int64_t count, mlir::Value stride, int64_t rowBytes, mlir::Value step,
                    int64_t steps);
  void prefetchRows(mlir::Value rows, int64_t count, int64_t rowBytes, int64_t bytes);
  void prefetchSecondHalf(mlir::Value rows, int64_t rowDim, mlir::Value offset, int64_t bytes);
  // The products on AMX.
  static int64_t unitPairsOf(int64_t columns); // rounded up to those that an instruction takes
  static bool needsUnitPadding(int64_t columns) { return unitPairsOf(columns) * 2 != columns; }
  void beginTileUnit();
  void multiplyUnit(int64_t rowTiles, int64_t columnTiles, const Panel &left, const Panel &right, const Panel &sums,
                    int64_t pairCount, bool accumulates);
  void unitBlocks(const RowBlock &block, int64_t columns, llvm::function_ref<void(int64_t, mlir::Value, int64_t)> body);
  void multiplyScoresOnUnit(const RowBlock &block, const Panel &keys);
  void accumulateValuesOnUnit(const RowBlock &block, const Panel &values);
  // acc = factor * acc, which tiles add to.
  void rescaleRow(mlir::Value row);
  // `body(row, n)` for every block of n adjacent rows.
  void rowBlocks(mlir::Value numRows, llvm::function_ref<void(mlir::Value, unsigned)> body);

  RawBuilder &b;
  const AttentionSpec spec;
  const unsigned vectorLanes; // f32 lanes of a vector
  // Bf16 products: what else is an f32 in a panel, in queries and in weights is a pair of bf16 that are neighbours in the
  // direction of the sum, so strides in bytes stay the same.
  const bool pairs;
  const PairDot pairDot;                           // the target multiplies pairs in one instruction
  const bool roundsTwo;                            // and rounds two vectors at once
  const bool usesTileUnit;                         // and tiles of them
  const bool pagesArePaired;                       // PageLayout.h
  const bool holdsCodes;                           // and hold codes with scales
  const bool readsKeysInPlace, readsValuesInPlace; // products read the pages themselves
  const int64_t blockTokens;                       // keys of a block
  const int64_t wide;                              // vectors side by side in a register tile
  // The next page's lines are asked for in every loop over this one, half of them by the products: few rows wait for memory alone, which then is
  // never idle.
  const bool spreadsPrefetch;
  // Scores are in units of log 2 (what exp2 takes), or, with a bias, natural: the most negative float that a mask may hold as
  // a bias is then a score as well, as the formula has it.
  const double unit;
  const double emptyMax; // the maximum of a row that has seen nothing: finite, so that differences are never NaN
  const int64_t groupSize;
  const int64_t queryStride, valueStride; // floats, or pairs, from row to row in scratch, whole cache lines
  const BucketRange buckets;
  int64_t tileTokens, tileRows;
  int64_t rowAlignment() const; // rows that the softmax or a tile of AMX takes at a time
  int64_t scratchRows() const;  // of a tile, whole groups of those
  int64_t runRows = 0;          // of a run of heads
  std::optional<TileUnit> tileUnit;

  mlir::Value query;      // (runRows, queryStride)
  mlir::Value scores;     // (blockRows, 64), then the weights
  mlir::Value panel;      // keys as (headDim, 64); half of it for pairs
  mlir::Value valuePanel; // values as (64, valueStride), where those are copied; half of it for pairs
  mlir::Value accs;       // (runRows, valueStride)
  mlir::Value totals;     // (runRows, valueStride)
  mlir::Value sums;       // (runRows, lanes)
  mlir::Value rowMax, factors, totalMax, totalSum; // (runRows)
  mlir::Value bucketBiases; // (groupSize, buckets.stride); of tokens i32 buckets, (buckets.stride)
  mlir::Value tokenTerms;   // (64)
};

} // namespace heddle

#endif
