// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Candidates are few, and those that registers can hold: what surely spills is not worth its time. What code generation does not take is
// left out by who measures (mergeSchedule).

#include "compiler/tune/KernelProbe.h"

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/cpu/OnlineAttention.h"
#include "compiler/codegen/targets/cpu/PackedMatmul.h"
#include "compiler/tune/AttentionRun.h"
#include "compiler/tune/MatmulRun.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace heddle;

static constexpr int64_t panelColumns = PackedLayout::panelRows;

// `rows`, then powers of two below them, to 1.
static SmallVector<int64_t> heightsFrom(int64_t rows) {
  SmallVector<int64_t> heights = {rows};
  for (int64_t next = llvm::bit_floor(uint64_t(rows - 1)); next; next /= 2)
    heights.push_back(next);
  return heights;
}

// Puts a tile of that many rows and columns in the place of the role's.
static std::function<void(ScheduleFields &)> withTile(TileRole role, int64_t rows, int64_t columns, bool isOneHeight) {
  return [=](ScheduleFields &schedule) {
    TileAttr &tile = *schedule.find(role);
    TileFields fields = TileFields::of(tile);
    fields.rows = isOneHeight ? SmallVector<int64_t>{rows} : heightsFrom(rows);
    fields.columns = columns;
    tile = fields.get(tile.getContext());
  };
}

//===- products -----------------------------------------------------------===//

namespace {

class MatmulProbe : public KernelProbe {
public:
  MatmulProbe(const MatmulSpec &spec, const CpuTarget &target, const TuneSettings &settings)
      : spec(spec), target(target), settings(settings), rows{1, 4, 16, settings.tokens} {}

  std::vector<std::string> shapes() const override {
    auto named = [](int64_t count) { return std::to_string(count) + (count == 1 ? " row" : " rows"); };
    auto names = llvm::map_range(rows, named);
    return {names.begin(), names.end()};
  }
  std::vector<Choice> choices(ScheduleAttr base) const override;
  LogicalResult build(ModuleOp module, StringRef name, ScheduleAttr schedule) const override {
    return buildMatmul(module, name, spec, schedule, target);
  }
  void allocate() override {
    run = std::make_unique<MatmulRun>(spec, rows.back(), settings.threads, settings.weightBytes);
  }
  Turn turn(void *kernel, ScheduleAttr schedule, unsigned shape) const override {
    // A part of a large matrix is as fast as the whole where many rows share it.
    double ofPanel = 2.0 * double(rows[shape]) * double(spec.k) * panelColumns;
    int64_t panels = std::max<int64_t>(int64_t(settings.operations / ofPanel), 12 * int64_t(settings.threads));
    return run->turn(kernel, rows[shape], std::min(panels, run->numPanels()), schedule.getScratchBytes());
  }
  ArrayRef<float> result(unsigned shape) const override { return run->result(rows[shape]); }

private:
  enum Shape : unsigned { One, Four, Sixteen, Many };
  int64_t registersOf(int64_t rows, int64_t panels) const {
    return rows * panels * panelColumns / target.vectorLanes();
  }
  Choice fewRows() const;
  Choice manyRows(std::vector<unsigned> shapes) const;
  Choice integers(TileRole role, std::vector<unsigned> shapes) const;
  static Choice blocks(std::vector<unsigned> shapes);
  static Choice prefetch();
  static Choice tileUnit(std::vector<unsigned> shapes);
  Choice words() const;
  static Choice wordBlocks();
  static Choice int16MaxRows();

  const MatmulSpec spec;
  const CpuTarget &target;
  const TuneSettings settings;
  const std::vector<int64_t> rows;
  std::unique_ptr<MatmulRun> run;
};

} // namespace

// Sums, and a column of the panels, unpacked.
Choice MatmulProbe::fewRows() const {
  Choice choice{{One, Four}, {}};
  for (auto [rows, panels] : {std::pair(4, 2), {4, 1}, {2, 4}, {2, 3}, {2, 2}, {2, 1}, {3, 1}, {1, 2}, {1, 1}, {8, 1}})
    if (int64_t sums = registersOf(rows, panels);
        2 * sums <= target.vectorRegisters() && 8 * sums >= target.vectorRegisters())
      choice.candidates.push_back(withTile(TileRole::FewRows, rows, panels * panelColumns, false));
  return choice;
}

// Sums, a line of each panel, and an activation in all lanes.
Choice MatmulProbe::manyRows(std::vector<unsigned> shapes) const {
  Choice choice{std::move(shapes), {}};
  for (auto [rows, panels] :
       {std::pair(8, 3), {12, 2}, {6, 4}, {14, 2}, {4, 6}, {9, 3}, {8, 2}, {5, 1}, {6, 1}, {4, 1}, {5, 4}})
    if (int64_t sums = registersOf(rows, panels);
        sums + registersOf(1, panels) + 1 <= target.vectorRegisters() && 2 * sums >= target.vectorRegisters())
      choice.candidates.push_back(withTile(TileRole::ManyRows, rows, panels * panelColumns, false));
  return choice;
}

// Integer sums and those in f32.
Choice MatmulProbe::integers(TileRole role, std::vector<unsigned> shapes) const {
  Choice choice{std::move(shapes), {}};
  for (auto [rows, panels] : {std::pair(8, 1), {4, 1}, {4, 2}, {6, 1}, {2, 1}, {2, 2}, {12, 1}, {14, 1}, {1, 1}})
    if (2 * registersOf(rows, panels) <= target.vectorRegisters())
      choice.candidates.push_back(withTile(role, rows, panels * panelColumns, false));
  return choice;
}

Choice MatmulProbe::blocks(std::vector<unsigned> shapes) {
  Choice choice{std::move(shapes), {}};
  for (auto [lines, rows] : {std::pair(128, 256), {256, 128}, {64, 256}, {128, 128}, {64, 512}, {256, 256}})
    choice.candidates.emplace_back([lines = lines, rows = rows](ScheduleFields &schedule) {
      schedule.kBlock = lines;
      schedule.rowBlock = rows;
    });
  return choice;
}

Choice MatmulProbe::prefetch() {
  Choice choice{{One}, {}};
  for (auto [bytes, cache, lines] :
       {std::tuple(2048, 1, 0), {4096, 1, 0}, {8192, 1, 0}, {16384, 1, 0}, {8192, 2, 0}, {16384, 2, 0}, {32768, 2, 1}})
    choice.candidates.emplace_back([=, bytes = bytes, cache = cache, lines = lines](ScheduleFields &schedule) {
      schedule.prefetchBytes = bytes;
      schedule.prefetchCache = cache;
      schedule.prefetchLines = lines;
    });
  return choice;
}

// Rows, and columns of sums in the scratch.
Choice MatmulProbe::tileUnit(std::vector<unsigned> shapes) {
  Choice choice{std::move(shapes), {}};
  for (auto [rows, columns] : {std::pair(512, 512), {512, 1024}, {256, 2048}, {512, 4096}})
    choice.candidates.emplace_back([=, rows = rows, columns = columns](ScheduleFields &schedule) {
      TileAttr &tile = *schedule.find(TileRole::TileUnit);
      TileFields fields = TileFields::of(tile);
      fields.maxRows = rows;
      tile = fields.get(tile.getContext());
      schedule.scratchBytes = int64_t(rows) * columns * 4;
    });
  return choice;
}

// Sums, a line of each panel, and integers in all lanes; with halves of panels the products as well.
Choice MatmulProbe::words() const {
  Choice choice{{Many}, {}};
  for (auto [rows, panels] : {std::pair(14, 2), {12, 2}, {8, 2}, {14, 1}, {4, 1}, {5, 1}, {6, 1}, {2, 2}})
    if (int64_t sums = registersOf(rows, panels);
        sums + registersOf(1, panels) + 1 <= target.vectorRegisters() && 3 * sums >= target.vectorRegisters())
      choice.candidates.push_back(withTile(TileRole::Words, rows, panels * panelColumns, false));
  return choice;
}

// Rows, and columns of K as integers.
Choice MatmulProbe::wordBlocks() {
  Choice choice{{Many}, {}};
  for (auto [rows, k] : {std::pair(256, 1024), {128, 2048}, {256, 512}, {128, 1024}})
    choice.candidates.emplace_back([rows = rows, k = k](ScheduleFields &schedule) {
      TileAttr &tile = *schedule.find(TileRole::Words);
      TileFields fields = TileFields::of(tile);
      fields.maxRows = rows;
      fields.k = k;
      tile = fields.get(tile.getContext());
    });
  return choice;
}

Choice MatmulProbe::int16MaxRows() {
  Choice choice{{Sixteen, Many}, {}};
  for (int64_t rows : {8, 16, 0}) // 0: all
    choice.candidates.emplace_back([=](ScheduleFields &schedule) {
      TileAttr &tile = *schedule.find(TileRole::Int16);
      TileFields fields = TileFields::of(tile);
      fields.maxRows = rows;
      tile = fields.get(tile.getContext());
    });
  return choice;
}

std::vector<Choice> MatmulProbe::choices(ScheduleAttr base) const {
  auto manyOf = [&](bool isBf16, std::vector<unsigned> shapes) -> std::vector<Choice> {
    if (isBf16 && target.hasBf16Tiles())
      return base.getScratchBytes() ? std::vector{tileUnit(std::move(shapes))} : std::vector<Choice>();
    return {manyRows(shapes), blocks(shapes)};
  };
  if (spec.activation == MatmulActivation::Q8)
    return {integers(TileRole::Int8, {One, Four, Sixteen, Many}), prefetch()};
  bool isBf16 = spec.activation == MatmulActivation::Bf16;
  if (spec.int16FewRows) {
    std::vector<Choice> all;
    if (ScheduleFields::of(base).find(TileRole::Words))
      all = {words(), wordBlocks()};
    else
      all = manyOf(spec.hasRounded, {Many});
    all.push_back(integers(TileRole::Int16, {One, Four, Sixteen}));
    all.push_back(prefetch());
    // Last: with the best of both.
    all.push_back(int16MaxRows());
    return all;
  }
  using Shapes = std::vector<unsigned>;
  bool onTileUnit = isBf16 && target.hasBf16Tiles();
  std::vector<Choice> all = manyOf(isBf16, onTileUnit ? Shapes{One, Sixteen, Many} : Shapes{Sixteen, Many});
  if (!onTileUnit)
    all.push_back(fewRows());
  all.push_back(prefetch());
  return all;
}

//===- attention ----------------------------------------------------------===//

namespace {

class AttentionProbe : public KernelProbe {
public:
  AttentionProbe(const AttentionSpec &spec, const CpuTarget &target, const TuneSettings &settings)
      : spec(spec), target(target), settings(settings) {}

  std::vector<std::string> shapes() const override {
    return {"1 row over " + std::to_string(settings.decodeKeys) + " keys", std::to_string(settings.tokens) + " rows"};
  }
  std::vector<Choice> choices(ScheduleAttr base) const override;
  LogicalResult build(ModuleOp module, StringRef name, ScheduleAttr schedule) const override;
  void allocate() override {
    runs.push_back(std::make_unique<AttentionRun>(spec, settings.decodeKeys - 1, 1, settings.threads));
    runs.push_back(std::make_unique<AttentionRun>(spec, 0, settings.tokens, settings.threads));
  }
  Turn turn(void *kernel, ScheduleAttr, unsigned shape) const override { return runs[shape]->turn(kernel); }
  ArrayRef<float> result(unsigned shape) const override { return runs[shape]->result(); }

private:
  const AttentionSpec spec;
  const CpuTarget &target;
  const TuneSettings settings;
  std::vector<std::unique_ptr<AttentionRun>> runs;
};

} // namespace

LogicalResult AttentionProbe::build(ModuleOp module, StringRef name, ScheduleAttr schedule) const {
  AttentionSpec scheduled = spec;
  applySchedule(scheduled, schedule);
  if (std::string error; failed(verifyAttention(scheduled, error)))
    return module.emitError(error);
  buildAttention(module, name, scheduled, target);
  return success();
}

std::vector<Choice> AttentionProbe::choices(ScheduleAttr base) const {
  Choice tile{{0, 1}, {}}, registers{{0, 1}, {}};
  TileAttr rows = base.getTile(TileRole::Rows), sums = base.getTile(TileRole::Registers);
  for (int64_t count : {rows.getRows().front() / 2, rows.getRows().front() * 2, rows.getRows().front() / 4})
    tile.candidates.push_back(withTile(TileRole::Rows, count, rows.getColumns(), true));
  int64_t lanes = target.vectorLanes();
  for (auto [count, vectors] : {std::pair(12, 2), {8, 2}, {4, 4}, {6, 4}, {6, 2}, {4, 2}, {5, 2}, {12, 1}, {3, 4}})
    if (int64_t held = int64_t(count) * vectors;
        held + vectors + 1 <= target.vectorRegisters() && 3 * held >= target.vectorRegisters())
      registers.candidates.push_back(withTile(TileRole::Registers, count, vectors * lanes, true));
  // Products of bf16 run on AMX where there is one, whose registers are not to choose.
  if (sums.getK() == 2 && target.hasBf16Tiles())
    return {tile};
  return {registers, tile};
}

std::unique_ptr<KernelProbe> heddle::probeOf(const MatmulSpec &spec, const CpuTarget &target,
                                             const TuneSettings &settings) {
  return std::make_unique<MatmulProbe>(spec, target, settings);
}

std::unique_ptr<KernelProbe> heddle::probeOf(const AttentionSpec &spec, const CpuTarget &target,
                                             const TuneSettings &settings) {
  return std::make_unique<AttentionProbe>(spec, target, settings);
}
