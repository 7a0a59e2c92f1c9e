// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles are rows x columns of sums that stay in registers while K goes by. A panel of packed weights is 16 columns.

#include "compiler/schedule/ScheduleTable.h"

#include "compiler/weights/PackedLayout.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

//===- products on CPUs ---------------------------------------------------===//

namespace {
// Heights and panels of each kind of tile.
struct CpuMatmuls {
  const char *feature; // that the target has, or null
  int64_t lanes;       // of its vectors
  SmallVector<int64_t> few;
  int64_t fewPanels;
  SmallVector<int64_t> many;
  int64_t manyPanels;
  SmallVector<int64_t> int8, int16, words;
  int64_t wordPanels;
  const char *evidence;
};
} // namespace

// The first row that fits. Figures: compiler/codegen/targets/cpu/README.md.
static ArrayRef<CpuMatmuls> cpuMatmuls() {
  static const CpuMatmuls table[] = {
      // few: 8 sums, unpacking hides the latency of one row's two chains; many: 24 sums + 3 columns + 1 broadcast of 32 registers;
      // int8: 8 integer and 8 f32 sums, broadcasts come from memory; words: 28 sums, 2 lines, a broadcast
      {"avx512vnni",
       16,
       {4, 1},
       2,
       {8, 4, 2, 1},
       3,
       {8, 4, 2, 1},
       {8, 4, 2, 1},
       {14, 4, 1},
       2,
       "90 % of f32 peak, 93 % of bandwidth (KernelBench)"},
      {nullptr,
       16,
       {4, 1},
       2,
       {8, 4, 2, 1},
       3,
       {4, 2, 1},
       {4, 2, 1},
       {},
       0,
       "as with VNNI; with 8 int8 rows the widened bytes spill"},
      // few: 4 sums, 2 scales, 2 mins; many: 12 sums + 2 columns + 1 broadcast; int8: 4 integer and 4 f32 sums, 4 temporaries;
      // int16: 2 rows spill the codes that they share; words: 12 sums, 2 lines, 1 broadcast, or 8 and products
      {"avxvnni",
       8,
       {2, 1},
       1,
       {6, 2, 1},
       1,
       {2, 1},
       {2, 1},
       {6, 2, 1},
       1,
       "as without; products of bytes need no temporaries"},
      {nullptr, 8, {2, 1}, 1, {6, 2, 1}, 1, {2, 1}, {1}, {4, 2, 1}, 1, "16 registers; a panel's column takes two"},
      // many: pairs of rows; 16 sums, 8 lines and as many columns of two lines, 2 rows; int8 and int16 as without
      {"bf16",
       4,
       {2, 1},
       1,
       {4, 2, 1},
       1,
       {2, 1},
       {1},
       {},
       0,
       "with 6 rows 4 sums of 24 spill; structural: no machine at hand"},
      // few: 8 sums, 4 scales, 4 mins; many: 20 sums + 4 columns + 1 broadcast; int8: 8 integer and 8 f32 sums
      {nullptr,
       4,
       {2, 1},
       1,
       {5, 2, 1},
       1,
       {2, 1},
       {1},
       {},
       0,
       "32 registers; with 6 rows sums spill, with 3 int8 rows broadcasts"},
  };
  return table;
}

// What CpuTarget::hasBf16Tiles says of a CPU, whose AVX-512 its lanes show.
static bool hasBf16Tiles(TargetAttr target) {
  return target.getLanes() == 16 && target.has("amx-tile") && target.has("amx-bf16");
}

// Rows up to which 16-bit integers, unpacked as bytes, should take less time than what many rows run on, whose weights are unpacked to
// numbers first: by counts of instructions, not timed on both sides of any of them but where words and tiles take over. On tiles 12 and 16 rows of Q4_0
// make 187 and 256 GFLOP/s and as integers 236 and 247, of Q4_K 176, 232 and 225, 226, of Q6_K 147, 192 and 158, 170, of Q8_0, whose codes need no
// unpacking as integers, 139, 184 and 205, 215 (one core of an Emerald Rapids, heddle-kernel-bench).
static int64_t int16MaxRows(TargetAttr target, bool hasWords, std::optional<PackedLayout> layout) {
  if (hasWords) // to stage words takes more than to unpack bytes once, where products of bytes are as many
    return target.has("avx512vnni") || target.has("avxvnni") ? 16 : 4;
  if (hasBf16Tiles(target))
    return layout && layout->codeBits() == 8 ? 16 : 12;
  // Twice 32 byte products an instruction, 8 of f32 with AVX-VNNI; twice 16 and 4 in NEON.
  if (target.has("avxvnni") || (target.has("dotprod") && !target.has("bf16")))
    return 0;
  if (target.getLanes() == 4 && !target.has("dotprod"))
    return 1; // 12 instructions for 16 products, which 4 multiply-adds are, but for unpacking
  return 16;
}

// Panels that a row reads side by side. Golden Cove reads Q8_0 from memory at 15.8 GB/s so and at 15.1 one after the other (in a model 11.2 and 9.6 tokens a second with 1
// thread, 20.4 and 18.0 with 2), Q4_0 at 13.8 and 14.7.
static int64_t int16Panels(TargetAttr target, std::optional<PackedLayout> layout) {
  return target.getTune() == "sapphirerapids" && layout && layout->codeBits() == 8 && !layout->isNested() ? 2 : 1;
}

// Products on AMX: a block of 512 columns of so many rows is 512 KiB and stays in the second cache while 2 panels of weights after the other,
// unpacked once for all of these rows, go by in the first. Their sums in so many columns, 4 MiB, come from the third cache, evenly; with fewer columns
// activations do, as often as there are slabs. One core of an Emerald Rapids, 512 rows of Q4_0, 2048 and 8192 columns (medians of six turns): 1585,
// 1647 GFLOP/s, with sums of 1024 columns 1580, 1584, of 512 1345, 1377; 256 rows of 2048 columns 1367, 1419.
static constexpr int64_t tileUnitRows = 512, tileUnitColumns = 2048;

// Products of words: as integers so many columns of so many rows are at most 640 KiB of the second cache, from which each pair of panels reads them.
// Beside them the sums of 64 panels, 1 MiB, go by; of 32, rounding all rows for each slab of them took 12 % of the time of 2048 x 2048.
static constexpr int64_t wordRows = 256, wordColumns = 1024, wordScratchBytes = 1728 << 10;

// Whether words take less time than bytes, and than f32. Zen 1 and 2 make one product of words for two of f32.
static bool paysWords(TargetAttr target) {
  if (target.getLanes() == 16)
    return !target.has("avx512bf16");
  return target.has("avxvnni") || (target.getTune() != "znver1" && target.getTune() != "znver2");
}

// Zen 4 has few misses of its first cache under way, and asking ahead takes them from loads; its own prefetchers see a stream, but not one whose
// scales or high bits are read out of turn. With 1 thread, of 32 GB/s: Q4_0 is read at 31 if nothing is asked for, at 25 if every line is; Q6_K at 26
// and 22 the other way round. Q4_K, whose scales alone lie between: at 32 if a line of each block sets hardware going, at 29 without, while the row
// stays in the first cache; else at 22 and 25, and at 27 if every line is asked for.
static void schedulePrefetchOfZen4(ScheduleFields &schedule, std::optional<PackedLayout> layout, int64_t k) {
  schedule.prefetchCache = 2;
  schedule.prefetchBytes = 7 << 10;
  if (!layout || (!layout->isNested() && !layout->highBits)) {
    schedule.prefetchBytes = 0;
  } else if (!layout->highBits && layout->block == 32 && k && k <= 2048) {
    schedule.prefetchBytes = 32 << 10;
    schedule.prefetchLines = 1;
  }
}

// Golden Cove reads plain numbers fastest if its prefetchers are led by a few lines, and codes, whose arithmetic takes longer than a line, from its
// second cache. One core of an Emerald Rapids, GB/s from memory beside 12 KiB into the first: bf16 18.3, 14.6; F32 18.2, 15.2; Q4_0 15.3, 14.4; Q8_0 15.6,
// 15.1; Q4_K 16.7, 15.9; Q6_K 14.3, 13.5. 1B models generate 1.43 (bf16), 1.05 (Q4_0) and 1.03 (Q8_0) times as fast.
static void schedulePrefetchOfGoldenCove(ScheduleFields &schedule, std::optional<PackedLayout> layout) {
  bool isPlain = layout && !layout->isQuantized();
  schedule.prefetchCache = isPlain ? 1 : 2;
  schedule.prefetchBytes = isPlain ? 512 : 8 << 10;
}

// How far ahead a row of products over K columns asks for its weights.
static void schedulePrefetch(ScheduleFields &schedule, TargetAttr target, StringRef format, int64_t k) {
  // What memory sends in 300 ns to one core, and as much of the first cache as rounded rows leave; on Zen 5 a row of Q4_0 is read at 52 GB/s
  // so, and at 39 with 2048.
  schedule.prefetchBytes = 12 << 10;
  std::optional<PackedLayout> layout = layoutNamed(format);
  if (target.getTune() == "znver4")
    schedulePrefetchOfZen4(schedule, layout, k);
  else if (target.getTune() == "sapphirerapids")
    schedulePrefetchOfGoldenCove(schedule, layout);
}

static const CpuMatmuls &cpuMatmulsOf(TargetAttr target) {
  return *llvm::find_if(cpuMatmuls(), [&](const CpuMatmuls &row) {
    return row.lanes == target.getLanes() && (!row.feature || target.has(row.feature));
  });
}

static ScheduleAttr cpuMatmulSchedule(TargetAttr target, bool isInStep = false, StringRef format = {}, int64_t k = 0) {
  MLIRContext *context = target.getContext();
  const CpuMatmuls *row = &cpuMatmulsOf(target);
  constexpr int64_t panel = 16;
  // kBlock: 3 panels of 128 lines, 24 KiB, stay in the first cache with 8 rows.
  ScheduleFields schedule;
  schedule.kBlock = 128;
  schedule.rowBlock = 256;
  // Rounded rows of 16 sequences at K = 8192, in L2: one pass over the weights.
  schedule.termBytes = 320 << 10;
  schedulePrefetch(schedule, target, format, k);
  if (isInStep && hasBf16Tiles(target))
    schedule.scratchBytes = tileUnitRows * tileUnitColumns * 4;
  // 4 tiles of sums, 2 of rows, 2 of weights: all 8
  TileFields tileUnit{TileRole::TileUnit, {32, 16}, 2 * panel, /*maxRows=*/tileUnitRows, /*k=*/512};
  std::optional<PackedLayout> layout = layoutNamed(format);
  bool hasWords = !row->words.empty() && paysWords(target) && (!layout || layout->isQuantized());
  TileFields int16{TileRole::Int16, row->int16, int16Panels(target, layout) * panel,
                   int16MaxRows(target, hasWords, layout)};
  for (const TileFields &tile : {TileFields{TileRole::FewRows, row->few, row->fewPanels * panel},
                                 TileFields{TileRole::ManyRows, row->many, row->manyPanels * panel}, tileUnit,
                                 TileFields{TileRole::Int8, row->int8, panel}, int16})
    schedule.tiles.push_back(tile.get(context));
  if (hasWords) {
    TileFields words{TileRole::Words, row->words, row->wordPanels * panel, /*maxRows=*/wordRows, /*k=*/wordColumns};
    schedule.tiles.push_back(words.get(context));
    if (isInStep)
      schedule.scratchBytes = wordScratchBytes;
  }
  return schedule.get(context, row->evidence);
}

// Products of bytes whose sums stay integers: as many as fit the registers beside a line of each panel and a row's bytes. Words need as many.
ScheduleAttr heddle::integerMatmulSchedule(TargetAttr target) {
  const CpuMatmuls &row = cpuMatmulsOf(target);
  bool hasWords = !row.words.empty();
  ScheduleFields schedule;
  schedule.tiles = {
      TileFields{TileRole::Int8, hasWords ? row.words : row.int8, (hasWords ? row.wordPanels : 1) * 16}.get(
          target.getContext())};
  return schedule.get(target.getContext(),
                      "28 sums, 2 lines, a broadcast of 32 registers; 12, 2, 1 of 16 (KernelBench)");
}

// Products of two activations: what tiles read is packed on the way, a chunk of columns for so many rows.
static ScheduleAttr contractionSchedule(TargetAttr target) {
  constexpr char evidence[] = "a packed chunk of b, 48 KiB, and its rows of a, 128 KiB, stay in L2; not searched";
  ScheduleFields schedule;
  schedule.tiles = {cpuMatmulSchedule(target).getTile(TileRole::ManyRows)};
  schedule.kBlock = 256;
  schedule.rowBlock = 128;
  return schedule.get(target.getContext(), evidence);
}

//===- products on tensor cores -------------------------------------------===//

static constexpr char deviceEvidence[] = "local memory and registers by count; right on PoCL, no GPU timed";

// The kernels of any device, by falling maxRows. Tiles are square, so that one pass of the threads stages both operands; a thread has 4 x 4
// sums (8 loads from local memory for 16 products; 32 sums where a gate has as many), which leaves registers for 1024 threads a multiprocessor.
// A slice of 32 columns of K is a block of most formats, whose scale is read once; two of 64 rows are 16 KiB of the 32 that OpenCL promises, 24
// with a gate. Prompts up to 64 rows have tiles of 32, four times as many blocks. Of few rows K is shared out by 16 threads of each of a panel's 16
// columns: 256 threads read a few KiB at once, also where N is small; more rows at once would spill what a thread holds of a block.
static void addThreadTiles(MLIRContext *context, ScheduleFields &schedule) {
  auto tile = [&](int64_t maxRows, int64_t rows, int64_t columns, int64_t k, int64_t rowThreads) {
    schedule.tiles.push_back(
        TileFields{TileRole::Threads, {rows}, columns, maxRows, k, {rowThreads, rowThreads}}.get(context));
  };
  tile(0, 64, 64, 32, 16);
  tile(64, 32, 32, 32, 8);
  tile(4, 4, 16, 0, 16);
  tile(1, 1, 16, 0, 16);
}

// By falling maxRows: few rows are a matter of bandwidth, many of arithmetic.
static SmallVector<TileAttr> tensorCoreTiles(TargetAttr target) {
  auto tile = [&](TileRole role, int64_t maxRows, int64_t rows, int64_t columns, int64_t k, ArrayRef<int64_t> warps,
                  int64_t stages) {
    return TileFields{role, {rows}, columns, maxRows, k, SmallVector<int64_t>(warps), stages}.get(target.getContext());
  };
  // Of wgmma alone, that all rows are added up alike; k is what its swizzle spans. Columns are W's rows, of which a warp has 16.
  if (target.getName() == "cuda:sm_90a")
    return {
        tile(TileRole::Warpgroups, 0, 256, 128, 64, {1, 8}, 4),   // 128 sums of a thread; 192 KiB, one block per SM
        tile(TileRole::Warpgroups, 512, 128, 128, 64, {1, 8}, 3), // 64 sums; 96 KiB, two blocks per SM
        tile(TileRole::Warpgroups, 64, 64, 128, 64, {1, 8}, 4),   // 32 sums; 96 KiB
        tile(TileRole::Warpgroups, 32, 32, 128, 64, {1, 8}, 4),   // 16 sums; 80 KiB
        tile(TileRole::Warpgroups, 16, 16, 64, 64, {1, 4}, 4),    // 8 sums; 40 KiB: blocks enough for W to arrive
    };
  return {
      tile(TileRole::Rows, 0, 128, 128, 32, {2, 4}, 3), // 64 x 32 per warp: 64 sums; 48 KiB, two blocks per SM
      tile(TileRole::Rows, 128, 64, 64, 64, {2, 2}, 3), // 32 x 32 per warp; enough blocks for short prompts
      tile(TileRole::Rows, 16, 16, 64, 64, {1, 2}, 4),  // one height of mma; four slices in flight hide latency
  };
}

static ScheduleAttr cudaMatmulSchedule(TargetAttr target) {
  MLIRContext *context = target.getContext();
  ScheduleFields schedule;
  schedule.tiles = tensorCoreTiles(target);
  // Without tensor cores, of any type: eight warps share out K, so that few columns fill a GPU. More rows share what a lane unpacks, and two
  // panels what it reads of four; `stages` chunks of a panel are on their way, as many as registers allow: 8 rows of two panels spill, and
  // of one panel they read more than 4 of two.
  for (auto [rows, columns, chunks] : {std::tuple(4, 32, 1), {2, 16, 4}, {1, 16, 4}})
    schedule.tiles.push_back(
        TileFields{TileRole::FewRows, {rows}, columns, rows, /*k=*/0, {1, 8}, chunks}.get(context));
  // Of codes, whose products with up to 4 rows cost the same; 16 rows have four times as many, and two panels for what they read of rows.
  for (auto [rows, columns, registers] : {std::tuple(16, 32, 12), {4, 16, 24}, {1, 16, 24}})
    schedule.tiles.push_back(
        TileFields{TileRole::Codes, {rows}, columns, rows, /*k=*/0, {1, 8}, registers}.get(context));
  addThreadTiles(context, schedule); // of what neither takes
  return schedule.get(context,
                      "registers and shared memory by ptxas (test/codegen/gpu-*-ptxas.test); times of an H200");
}

ScheduleAttr heddle::matmulSchedule(TargetAttr target, bool isInStep, StringRef format, int64_t k) {
  switch (target.getDevice()) {
  case TargetDevice::Cpu:
    return cpuMatmulSchedule(target, isInStep, format, k);
  case TargetDevice::Cuda:
    return cudaMatmulSchedule(target);
  case TargetDevice::OpenCl: {
    ScheduleFields schedule;
    addThreadTiles(target.getContext(), schedule);
    return schedule.get(target.getContext(), deviceEvidence);
  }
  }
  llvm_unreachable("a kind of device");
}

//===- attention ----------------------------------------------------------===//

// Attention on any device: 8 rows that share what is staged, 32 threads each; a row alone, as in decoding, has 64. Of keys and values, `numbers` of
// each token, 16 KiB are staged at once; scores and weights of 4 heads are up to 8 more. Both tiles have as many keys, on which the bits of a
// row depend.
static void addAttentionThreadTiles(MLIRContext *context, ScheduleFields &schedule, int64_t columns, int64_t numbers) {
  int64_t keys = 1;
  while (keys < 32 && 2 * keys * numbers * int64_t(sizeof(float)) <= 16 << 10)
    keys *= 2;
  for (auto [rows, lanes] : {std::pair(8, 32), std::pair(1, 64)})
    schedule.tiles.push_back(
        TileFields{TileRole::Threads, {rows}, columns, rows == 1 ? 1 : 0, keys, {rows, lanes}}.get(context));
}

// About 96 rows: the transposition of a page costs as much as 4 rows of products, or as 24 of AMX, which has twice the rows; half of them where
// rows are long, for L2. `rebuilt`: tokens whose keys and values are made from a latent at once; 164 KB for 128 of DeepSeek's.
static TileAttr cpuAttentionTile(MLIRContext *context, int64_t headDim, int64_t rebuilt = 0, bool onTileUnit = false) {
  int64_t base = headDim <= 128 ? 96 : 48, rows = onTileUnit ? 2 * base : base;
  return TileFields{TileRole::Rows, {rows}, headDim, /*maxRows=*/0, /*k=*/rebuilt}.get(context);
}

// 6 * 4 vectors of sums + 4 + 1 of 32 registers, 6 * 2 + 2 + 1 of 16. Numbers of one column go by at a time, or bf16 of two.
static TileAttr attentionRegisters(TargetAttr target, bool inPairs = false) {
  int64_t columns = (target.getRegisters() >= 32 ? 4 : 2) * target.getLanes();
  return TileFields{TileRole::Registers, {6}, columns, /*maxRows=*/0, /*k=*/inPairs ? 2 : 1}.get(target.getContext());
}

constexpr char cpuAttentionEvidence[] =
    "transposing a block costs 4 rows of products; long rows leave L2 (ATTENTION.md)";

ScheduleAttr heddle::attentionSchedule(TargetAttr target, int64_t headDim, int64_t blockKv, int64_t splitKv,
                                       bool inPairs) {
  MLIRContext *context = target.getContext();
  ScheduleFields schedule;
  schedule.blockKv = blockKv;
  schedule.splitKv = splitKv;
  if (target.getDevice() == TargetDevice::OpenCl) {
    addAttentionThreadTiles(context, schedule, headDim, 2 * headDim);
    return schedule.get(context, deviceEvidence);
  }
  if (target.getDevice() == TargetDevice::Cuda) {
    TileFields tile{TileRole::Rows, {64}, headDim};
    tile.warps = {4, 1};
    schedule.tiles = {tile.get(context)};
    addAttentionThreadTiles(context, schedule, headDim, 2 * headDim); // of what tensor cores do not take
    // Shorter rows leave wgmma idle; of longer ones outputs take all registers of a warpgroup, of which two blocks fit a multiprocessor.
    if (target.getName() == "cuda:sm_90a" && headDim >= 64 && headDim <= 128)
      schedule.tiles.push_back(TileFields{TileRole::Warpgroups, {headDim > 64 ? 64 : 128}, headDim}.get(context));
    return schedule.get(context, "4 warps of 16 rows; times of an H200");
  }
  bool onTileUnit = inPairs && hasBf16Tiles(target);
  // A token behind 8191, 8 and 16 layers, GB/s of the cache on one core of a Zen 4, into the first and the second: D 128 16.7, 21.1; D 64 16.0, 21.2.
  if (target.getTune() == "znver4")
    schedule.prefetchCache = 2;
  schedule.tiles = {cpuAttentionTile(context, headDim, 0, onTileUnit), attentionRegisters(target, inPairs)};
  return schedule.get(context, cpuAttentionEvidence);
}

// Devices have them of causal attention. What tensor cores would take but for positions (verifyGpuAttention of compiler/codegen/targets/cuda/OnlineAttention.h), the
// merge could not tell from what they take.
bool heddle::hasSplits(TargetAttr target, Operation *attention) {
  if (!target || target.getDevice() == TargetDevice::Cpu)
    return true;
  auto op = dyn_cast<OnlineAttentionOp>(attention);
  if (!op)
    return false;
  KvCacheType cache = op.getCache().getType();
  MaskAttr mask = op.getMask();
  bool isOfTensorCores = target.getDevice() == TargetDevice::Cuda && cache.getElementType().isBF16() &&
                         cache.getHeadDim() % 8 == 0 && cache.getHeadDim() <= 128 && !mask.getChunk();
  return mask.getCausal() && !(isOfTensorCores && op.getPositions());
}

// As verifyGpuRotateAppend of compiler/codegen/targets/cuda/RotateAppend.h has it, and that of any device.
bool heddle::hasRotateAppend(TargetAttr target, KvCacheType cache) {
  return target && target.getDevice() != TargetDevice::Cpu && !cache.getBlockColumns() && cache.getHeadDim() % 2 == 0;
}

bool heddle::roundsForTensorCores(TargetAttr target, StringRef format) {
  std::optional<PackedLayout> layout = layoutNamed(format);
  return target && target.getDevice() == TargetDevice::Cuda && layout && layout->isQuantized() &&
         layout->book == CodeBook::None;
}

// As verifyGpuGemv of compiler/codegen/targets/cuda/Gemv.h has it: few rows of chunks of any type, whose rows are no parts of wider ones.
bool heddle::endsWithHeads(TargetAttr target, PackedMatmulOp product, int64_t heads) {
  constexpr int64_t mostHeads = 4096; // HEDDLE_DEVICE_COUNTERS of runtime/model/ModelAbi.h
  std::optional<PackedLayout> layout = layoutNamed(product.getFormat());
  if (heads > mostHeads)
    return false;
  if (!target || target.getDevice() != TargetDevice::Cuda || !layout || layout->book != CodeBook::None ||
      product.getActivation() || product.getAccumulate() || product.getInt16() || product.getInputScales())
    return false;
  Value rows = product.getRoom() ? product.getRoom() : product.getInput();
  bool isBf16 = getElementTypeOrSelf(rows).isBF16();
  int64_t columns = layout->isQuantized() ? 4 : layout->unitValues();
  return int64_t(product.getK()) % columns == 0 &&
         (!isBf16 || layout->isQuantized() || layout->numbers == PackedNumbers::BF16) &&
         !product.getInput().getDefiningOp<tensor::ExtractSliceOp>();
}

// A tile for each of its bodies, and what its products with packed weights take.
static ScheduleAttr latentSchedule(TargetAttr target, LatentDims dims, int64_t splitKv) {
  MLIRContext *context = target.getContext();
  if (target.getDevice() != TargetDevice::Cpu) {
    ScheduleFields threads;
    addAttentionThreadTiles(context, threads, dims.rank, dims.cachedDim());
    return threads.get(context, deviceEvidence);
  }
  ScheduleFields schedule = ScheduleFields::of(cpuMatmulSchedule(target));
  const TileAttr tiles[] = {cpuAttentionTile(context, dims.cachedDim()),
                            cpuAttentionTile(context, std::max(dims.queryDim(), dims.value), /*rebuilt=*/128),
                            attentionRegisters(target)};
  schedule.tiles.insert(schedule.tiles.begin(), std::begin(tiles), std::end(tiles));
  schedule.blockKv = 64;
  schedule.splitKv = splitKv;
  return schedule.get(context, cpuAttentionEvidence);
}

//===- kernels of rows ----------------------------------------------------===//

// On devices: a block of threads for each row. On CPUs vectors are all there is to choose.
ScheduleAttr heddle::rowsSchedule(TargetAttr target) {
  if (target.getDevice() == TargetDevice::Cpu)
    return {};
  ScheduleFields schedule;
  schedule.tiles = {TileFields{TileRole::Threads, {1}, 64}.get(target.getContext())};
  return schedule.get(target.getContext(), "two warps; chosen on PoCL, no GPU timed");
}

// Split and whole attention of a model merge the same splits, so that they leave the same bits.
template <typename Op> static int64_t splitOf(Op op) {
  std::optional<int64_t> split = op.getSplitKv();
  op->template getParentOfType<ModuleOp>().walk([&](Op other) {
    if (!split)
      split = other.getSplitKv();
    return split ? WalkResult::interrupt() : WalkResult::advance();
  });
  return split.value_or(defaultSplitKv);
}

// Pairs of columns lie in the cache as products of bf16 read them, or are codes that become such.
static bool hasPairs(KvCacheType cache) {
  return cache.getBlockColumns() || (cache.getElementType().isBF16() && cache.getHeadDim() % 2 == 0);
}

ScheduleAttr heddle::scheduleFor(Operation *op, TargetAttr target, ScheduleOptions options) {
  if (auto matmul = dyn_cast<PackedMatmulOp>(op))
    return matmulSchedule(target, options.isInStep, matmul.getFormat(), matmul.getK());
  if (isa<IntegerMatmulOp>(op))
    return target.getDevice() == TargetDevice::Cpu ? integerMatmulSchedule(target) : ScheduleAttr();
  if (auto experts = dyn_cast<ExpertMatmulOp>(op))
    return matmulSchedule(target, options.isInStep, experts.getFormat(), experts.getK());
  if (auto attention = dyn_cast<OnlineAttentionOp>(op)) {
    KvCacheType cache = attention.getCache().getType();
    return attentionSchedule(target, cache.getHeadDim(), attention.getBlockKv(), splitOf(attention),
                             options.bf16Products && hasPairs(cache));
  }
  if (auto merge = dyn_cast<CombineSplitsOp>(op))
    return attentionSchedule(target, merge.getCache().getType().getHeadDim(), 64, merge.getSplitKv());
  if (auto latent = dyn_cast<OnlineLatentAttentionOp>(op))
    return latentSchedule(target, latent.getDims(), splitOf(latent));
  if (auto flash = dyn_cast<FlashAttentionOp>(op))
    return attentionSchedule(target, std::max(flash.getQueryShape()[3], flash.getValueShape()[3]));
  if (auto ragged = dyn_cast<RaggedAttentionOp>(op))
    return attentionSchedule(target, std::max(ragged.getHeadDim(), ragged.getValueDim()));
  if (isa<KernelCallOp>(op))
    return rowsSchedule(target);
  // Of loops on buffers, contractions alone have a kernel.
  if (auto loops = dyn_cast<linalg::GenericOp>(op); loops && loops.hasPureBufferSemantics())
    return target.getDevice() == TargetDevice::Cpu ? contractionSchedule(target) : ScheduleAttr();
  return {};
}
