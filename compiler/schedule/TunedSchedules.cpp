// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which entry is about a kernel, and what of a schedule the emitters of compiler/codegen/targets/cpu/ take.

#include "compiler/schedule/TunedSchedules.h"

#include "compiler/schedule/ScheduleTable.h"
#include "compiler/weights/PackedLayout.h"

using namespace mlir;
using namespace heddle;

//===- keys ---------------------------------------------------------------===//

ArrayRef<StringRef> heddle::scheduledKernels() {
  static constexpr StringRef kernels[] = {"packed_matmul", "expert_matmul", "online_attention"};
  return kernels;
}

ArrayRef<ScheduleKey> heddle::scheduleKeysOf(StringRef kernel) {
  // As kernels are named: int16 for few rows, and the same with bf16 for many.
  static constexpr StringRef inputs[] = {"f32", "bf16", "int8", "int16", "int16_bf16"};
  static constexpr StringRef stored[] = {"f32", "bf16", "f16", "q8_0"}, multiplied[] = {"f32", "bf16"};
  static constexpr ScheduleKey matmul[] = {{"format", {}}, {"n", {}}, {"k", {}}, {"input", inputs}};
  static constexpr ScheduleKey attention[] = {
      {"head_dim", {}}, {"group", {}}, {"cache", stored}, {"products", multiplied}};
  if (!llvm::is_contained(scheduledKernels(), kernel))
    return {};
  return kernel == "online_attention" ? ArrayRef(attention) : ArrayRef(matmul);
}

template <typename Matmul> static StringRef inputOf(Matmul op) {
  if (op.getInputScales())
    return "int8";
  if (getElementTypeOrSelf(op.getInput()).isBF16())
    return "bf16";
  return !op.getInt16() ? "f32" : op.getInputRounded() ? "int16_bf16" : "int16";
}

static int64_t weightRowsOf(PackedMatmulOp op) {
  return (op.getGated() ? 2 : 1) * int64_t(op.getN());
}
static int64_t weightRowsOf(ExpertMatmulOp op) {
  return op.getN();
}

DictionaryAttr heddle::scheduleKeys(Operation *op, ScheduleAttr base) {
  Builder b(op->getContext());
  SmallVector<NamedAttribute> keys;
  auto add = [&](StringRef name, Attribute value) { keys.push_back(b.getNamedAttr(name, value)); };
  auto addMatmul = [&](auto matmul) {
    add("format", matmul.getFormatAttr());
    // Of the matrix: a gate and an up projection are as many rows as in a product that does not join them.
    add("n", b.getI64IntegerAttr(weightRowsOf(matmul)));
    add("k", b.getI64IntegerAttr(matmul.getK()));
    add("input", b.getStringAttr(inputOf(matmul)));
  };
  auto attention = dyn_cast<OnlineAttentionOp>(op);
  if (auto matmul = dyn_cast<PackedMatmulOp>(op)) {
    addMatmul(matmul);
  } else if (auto experts = dyn_cast<ExpertMatmulOp>(op)) {
    addMatmul(experts);
  } else if (attention && attention.getShareKv() && !attention.storesScores()) {
    KvCacheType cache = attention.getCache().getType();
    add("head_dim", b.getI64IntegerAttr(cache.getHeadDim()));
    add("group", b.getI64IntegerAttr(int64_t(attention.getNumHeads()) / cache.getNumKvHeads()));
    add("cache", b.getStringAttr(cache.getStorageName()));
    add("products", b.getStringAttr(base.getTile(TileRole::Registers).getK() == 2 ? "bf16" : "f32"));
  } else {
    return {};
  }
  add("kernel", b.getStringAttr(op->getName().stripDialect()));
  return b.getDictionaryAttr(keys);
}

//===- what kernels take --------------------------------------------------===//

// Registers are a few dozen, and code is unrolled by them.
static constexpr int64_t maxSums = 64, maxRows = 32;
// Of a kernel's stack. A row of integers that is longer than termBytes takes what it needs.
static constexpr int64_t maxStackBytes = 420 << 10;
static constexpr int64_t panel = PackedLayout::panelRows, lineBytes = 4 * panel;

static std::string text(const Twine &message) {
  return message.str();
}

static std::string nameOf(TileRole role) {
  return ("tile " + stringifyTileRole(role)).str();
}

static std::string outside(const Twine &what, int64_t value, int64_t least, int64_t most, int64_t step = 1) {
  if (value >= least && value <= most && value % step == 0)
    return "";
  return text(what + " (" + Twine(value) + ") must be " + (step > 1 ? "a multiple of " + Twine(step) + ", " : "") +
              Twine(least) + " to " + Twine(most));
}

// The tiles of vectors of a product.
static std::string checkVectorTile(TileAttr tile) {
  std::string name = nameOf(tile.getRole());
  int64_t tallest = tile.getRows().front(), panels = tile.getColumns() / panel;
  bool isInteger = tile.getRole() == TileRole::Int8 || tile.getRole() == TileRole::Int16;
  bool isWords = tile.getRole() == TileRole::Words;
  int64_t mostPanels = isInteger || isWords ? 2 : 8;
  if (tile.getRows().back() != 1)
    return name + ": rows must fall to 1, which takes the rows that are left";
  if (std::string error = outside(name + ": rows", tallest, 1, maxRows); !error.empty())
    return error;
  if (std::string error = outside(name + ": columns", tile.getColumns(), panel, mostPanels * panel, panel);
      !error.empty())
    return error;
  if (isWords) {
    if (std::string error =
            outside(name + ": k", tile.getK(), PackedLayout::superBlock, 8192, PackedLayout::superBlock);
        !error.empty())
      return error;
    if (std::string error = outside(name + ": maxRows", tile.getMaxRows(), 1, 4096); !error.empty())
      return error;
  }
  return outside(name + ": rows x panels of 16 columns", tallest * panels, 1, maxSums);
}

// Tiles of AMX hold what they hold; how much goes by at a time is to choose.
static std::string checkTileUnit(TileAttr tile, TileAttr base) {
  if (tile.getRows() != base.getRows() || tile.getColumns() != base.getColumns())
    return "tile tile_unit: rows and columns are those of the hardware: " +
           text("rows = [32, 16], columns = " + Twine(base.getColumns()));
  if (tile.getK() != base.getK())
    return "tile tile_unit: k says which columns are added up first, which no schedule decides: k = " +
           std::to_string(base.getK());
  if (std::string error = outside("tile tile_unit: maxRows", tile.getMaxRows(), 32, 4096, 32); !error.empty())
    return error;
  return "";
}

// Sums of pairs of panels on a tile unit; of words, integers and sums.
static std::string checkScratch(ScheduleFields schedule) {
  if (!schedule.scratchBytes)
    return "";
  bool hasWords = schedule.find(TileRole::Words);
  int64_t pair = schedule.find(TileRole::TileUnit)->getMaxRows() * 2 * lineBytes;
  return outside("scratchBytes", schedule.scratchBytes, hasWords ? 64 << 10 : pair, 16 << 20,
                 hasWords ? lineBytes : pair);
}

static std::string checkMatmul(ScheduleFields schedule, ScheduleAttr base) {
  for (TileAttr tile : schedule.tiles)
    if (std::string error = tile.getRole() == TileRole::TileUnit ? checkTileUnit(tile, base.getTile(TileRole::TileUnit))
                                                                 : checkVectorTile(tile);
        !error.empty())
      return error;
  const std::string errors[] = {checkScratch(schedule), outside("kBlock", schedule.kBlock, 32, 1024, 32),
                                outside("rowBlock", schedule.rowBlock, 8, 2048),
                                outside("termBytes", schedule.termBytes, 1 << 10, maxStackBytes),
                                outside("prefetchBytes", schedule.prefetchBytes, 0, 1 << 20)};
  for (const std::string &error : errors)
    if (!error.empty())
      return error;
  // Unpacked panels and unfinished sums of many rows, beside the integers of few; gated products hold a pair of panels. On a tile unit
  // without scratch sums are on the stack as well, and activations may be.
  int64_t panels = std::max<int64_t>(schedule.find(TileRole::ManyRows)->getColumns() / panel, 2);
  int64_t unitColumns = schedule.find(TileRole::TileUnit)->getK();
  int64_t onVectors = panels * (schedule.kBlock + schedule.rowBlock) * lineBytes;
  int64_t unitSums = schedule.scratchBytes ? 0 : 2 * schedule.rowBlock * lineBytes;
  int64_t onUnit = unitColumns * lineBytes + 32 * (2 * unitColumns + lineBytes) + unitSums;
  int64_t stack = std::max(onVectors, onUnit) + schedule.termBytes;
  if (stack > maxStackBytes)
    return text("kBlock (" + Twine(schedule.kBlock) + "), rowBlock (" + Twine(schedule.rowBlock) + "), termBytes (" +
                Twine(schedule.termBytes) + "), k of the tile_unit (" + Twine(unitColumns) + ") and " + Twine(panels) +
                " panels of many rows take " + Twine(stack) + " bytes of stack, a kernel may take " +
                Twine(maxStackBytes));
  return "";
}

static std::string checkAttention(ScheduleFields schedule, ScheduleAttr base, TargetAttr target) {
  TileAttr rows = *schedule.find(TileRole::Rows), registers = *schedule.find(TileRole::Registers);
  int64_t headDim = base.getTile(TileRole::Rows).getColumns(), lanes = target.getLanes();
  if (rows.getColumns() != headDim)
    return text("tile rows: columns (" + Twine(rows.getColumns()) + ") must be head_dim (" + Twine(headDim) + ")");
  for (TileAttr tile : {rows, registers})
    if (tile.getRows().size() != 1)
      return nameOf(tile.getRole()) + ": one number of rows is expected";
  // A tile's queries, sums and scores are on the stack.
  if (std::string error = outside("tile rows: rows", rows.getRows().front(), 1, headDim <= 128 ? 384 : 192);
      !error.empty())
    return error;
  if (std::string error = outside("tile registers: rows", registers.getRows().front(), 1, 16); !error.empty())
    return error;
  constexpr int64_t page = 64;
  if (registers.getColumns() % lanes || page % registers.getColumns())
    return text("tile registers: columns (" + Twine(registers.getColumns()) +
                ") must be a divisor of 64 and a multiple of the " + Twine(lanes) + " lanes of a vector");
  return outside("tile registers: rows x vectors", registers.getRows().front() * registers.getColumns() / lanes, 1,
                 maxSums);
}

//===- merging ------------------------------------------------------------===//

// `tuned` in the place of `base`, of the same role.
static std::string mergeTile(TileAttr &base, TileAttr tuned) {
  TileFields tile = TileFields::of(base), other = TileFields::of(tuned);
  bool isBlocked = tile.role == TileRole::TileUnit || tile.role == TileRole::Words,
       isAttention = base.getRole() == TileRole::Registers;
  std::string name = nameOf(tile.role);
  if (!other.warps.empty() || other.stages != 1)
    return name + ": warps and stages are of GPUs";
  if (other.maxRows && !isBlocked && tile.role != TileRole::Int16)
    return name + " has no maxRows";
  if (isAttention && other.k && other.k != tile.k)
    return name + ": k says what is multiplied, which no schedule decides";
  if (other.k && !isBlocked && !isAttention)
    return name + " has no k";
  tile.rows = other.rows;
  tile.columns = other.columns;
  tile.maxRows = other.maxRows;
  if (isBlocked)
    tile.k = other.k;
  base = tile.get(base.getContext());
  return "";
}

FailureOr<ScheduleAttr> heddle::mergeSchedule(ScheduleAttr base, ScheduleAttr tuned, TargetAttr target,
                                              std::string &error) {
  auto fail = [&](std::string reason) {
    error = std::move(reason);
    return failure();
  };
  ScheduleFields fields = ScheduleFields::of(base), other = ScheduleFields::of(tuned);
  bool isAttention = fields.find(TileRole::Registers);
  SmallVector<TileRole> roles;
  for (TileAttr tile : other.tiles) {
    TileAttr *known = fields.find(tile.getRole());
    if (!known &&
        tile.getRole() == TileRole::Words) // measured on a processor of the same instructions and other timing
      continue;
    if (!known)
      return fail("the kernel has no " + nameOf(tile.getRole()));
    if (llvm::is_contained(roles, tile.getRole()))
      return fail(nameOf(tile.getRole()) + " is there twice");
    roles.push_back(tile.getRole());
    if (std::string reason = mergeTile(*known, tile); !reason.empty())
      return fail(reason);
  }
  if (other.blockKv || other.splitKv)
    return fail("blockKv and splitKv are the model's, for all of its attention alike");
  struct {
    const char *name;
    int64_t ScheduleFields::*value;
  } numbers[] = {{"kBlock", &ScheduleFields::kBlock},
                 {"rowBlock", &ScheduleFields::rowBlock},
                 {"termBytes", &ScheduleFields::termBytes},
                 {"prefetchBytes", &ScheduleFields::prefetchBytes}};
  for (auto &[name, value] : numbers) {
    if (other.*value && isAttention)
      return fail(std::string("the kernel has no ") + name);
    if (other.*value)
      fields.*value = other.*value;
  }
  if (other.prefetchBytes) {
    fields.prefetchCache = other.prefetchCache;
    fields.prefetchLines = other.prefetchLines;
  }
  // Threads of a step have it, where the CPU has AMX or the kernel words; in a graph the entry goes without.
  ScheduleAttr inStep = matmulSchedule(target, /*isInStep=*/true);
  bool hasUnitScratch = inStep.getScratchBytes() && !ScheduleFields::of(inStep).find(TileRole::Words);
  bool hasScratch = !isAttention && (hasUnitScratch || fields.find(TileRole::Words));
  if (other.scratchBytes && !hasScratch)
    return fail("the kernel has no scratchBytes on this target");
  if (other.scratchBytes && fields.scratchBytes)
    fields.scratchBytes = other.scratchBytes;
  if (other.evidence)
    fields.evidence = other.evidence;
  if (std::string reason = isAttention ? checkAttention(fields, base, target) : checkMatmul(fields, base);
      !reason.empty())
    return fail(reason);
  return fields.get(base.getContext());
}

static bool matches(DictionaryAttr match, DictionaryAttr keys) {
  return llvm::all_of(match, [&](NamedAttribute key) { return keys.get(key.getName()) == key.getValue(); });
}

FailureOr<ScheduleAttr> heddle::tunedSchedule(ArrayAttr entries, Operation *op, ScheduleAttr base, TargetAttr target) {
  bool isCpu = base && target.getDevice() == TargetDevice::Cpu;
  DictionaryAttr keys = entries && isCpu ? scheduleKeys(op, base) : DictionaryAttr();
  if (!keys)
    return base;
  for (Attribute attr : entries) {
    auto entry = dyn_cast<DictionaryAttr>(attr);
    auto match = entry ? entry.getAs<DictionaryAttr>(matchKey) : DictionaryAttr();
    auto schedule = entry ? entry.getAs<ScheduleAttr>(scheduleKey) : ScheduleAttr();
    if (!match || !schedule)
      return op->getParentOfType<ModuleOp>().emitError(schedulesAttrName)
             << ": an entry is {match = {…}, schedule = #heddle.schedule<…>}";
    if (!matches(match, keys))
      continue;
    std::string error;
    FailureOr<ScheduleAttr> merged = mergeSchedule(base, schedule, target, error);
    if (failed(merged))
      return op->emitError(schedulesAttrName) << ": " << error;
    return *merged;
  }
  return base;
}
