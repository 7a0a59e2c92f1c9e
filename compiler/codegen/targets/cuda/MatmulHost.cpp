// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/MatmulHost.h"

#include "compiler/codegen/targets/cuda/Gemv.h"
#include "compiler/codegen/targets/cuda/PreparedRows.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

bool heddle::readsRowsOf(Value input, int64_t k) {
  SmallVector<int64_t> strides;
  int64_t offset;
  auto type = dyn_cast<MemRefType>(input.getType());
  return type && succeeded(type.getStridesAndOffset(strides, offset)) && strides.front() == k;
}

MatmulHost::Version MatmulHost::buildFewRows(const GpuMatmulSpec &few, TileAttr scheduled, bool isFixed) {
  GpuGemvTile tile = gemvTileOf(scheduled, few);
  std::string kernel = (name + (few.prepares ? "_own" : "") + (few.heads ? "_heads" : "") + "_gemv" + Twine(tile.rows) +
                        "x" + Twine(16 * tile.panels))
                           .str();
  buildGpuGemv(gpu.kernels, kernel, few, tile);
  return {kernel,        tile.maxRows,   int64_t(llvm::divideCeil(few.weightPanels(), tile.blockPanels())),
          tile.rows,     tile.threads(), tile.sharedBytes(few),
          /*blocksZ=*/1, isFixed};
}

// The kernels of a product, those for most rows first. `manyAlone`: others have few rows.
SmallVector<MatmulHost::Version> MatmulHost::buildVersions(const GpuMatmulSpec &many, ScheduleAttr schedule,
                                                           bool manyAlone) {
  SmallVector<Version> versions;
  for (const GpuMatmulTile &tile : tensorCoreTiles(schedule, many)) {
    std::string kernel = (name + "_gpu" + Twine(tile.blockM) + "x" + Twine(tile.blockN) +
                          (tile.splits > 1 ? "_splits" + Twine(tile.splits) : ""))
                             .str();
    buildGpuMatmul(gpu.kernels, kernel, many, tile);
    versions.push_back({kernel, tile.maxRows, int64_t(llvm::divideCeil(many.weightPanels() * 16, tile.blockN)),
                        tile.blockM, tile.threads(), launchedSharedBytes(tile.sharedBytes()), tile.splits,
                        /*isFixed=*/tile.splits == 1});
  }
  bool hasTensorCores = !versions.empty();
  for (TileAttr scheduled : schedule.getTiles())
    if (scheduled.getRole() == gemvRole(many) && !(manyAlone && !versions.empty())) {
      Version version = buildFewRows(many, scheduled, /*isFixed=*/!hasTensorCores);
      // Without tensor cores, the tile of most rows takes any number of them.
      if (versions.empty())
        version.maxRows = INT32_MAX;
      versions.push_back(version);
    }
  return versions;
}

// Those that prepare rows as they read them, and end with heads.
SmallVector<MatmulHost::Version> MatmulHost::buildFew(ScheduleAttr schedule) {
  bool isFixed = tensorCoreTiles(schedule, spec).empty();
  SmallVector<Version> versions;
  for (TileAttr scheduled : schedule.getTiles())
    if (scheduled.getRole() == gemvRole(spec))
      versions.push_back(buildFewRows(spec, scheduled, isFixed));
  return versions;
}

// The kernel that prepares rows, which products share.
std::string MatmulHost::preparationKernel() {
  bool rounds = spec.activation == MatmulActivation::Bf16;
  std::string kernel = (Twine("rows_k") + Twine(spec.k) + (rounds ? "_bf16" : "_f32")).str();
  if (spec.prepares->hasNorm)
    for (double number : {spec.prepares->eps, spec.prepares->weightOffset})
      kernel += "_" + llvm::utohexstr(llvm::bit_cast<uint64_t>(number));
  if (!gpu.kernels.lookupSymbol(kernel))
    buildGpuPreparation(gpu.kernels, kernel, *spec.prepares, rounds, spec.k);
  return kernel;
}

void MatmulHost::prepare() {
  for (Value argument : {call.act, call.room, call.norm, call.actStride, call.roomStride})
    l.add(argument);
  l.launch(l.entry(preparationKernel()), {call.rows, b.constant(1), b.constant(1)}, b.constant(preparingThreads));
}

// With fixed forms, one that sums in another order has none.
Value MatmulHost::mostRows(const Version &version) {
  Value most = b.constant(version.maxRows);
  if (version.isFixed)
    return most;
  Value isFree = b.equal(l.number(offsetof(heddle_step, fixed_forms)), b.constant(0));
  return b.select(isFree, most, b.constant(0));
}

// Each version takes the place of those before it up to the rows that it is for.
void MatmulHost::launch(ArrayRef<Version> versions, Value act, Value actStride, function_ref<void()> addMore) {
  Value entry, blocksX, blockRows, threads, sharedBytes, blocksZ;
  for (const Version &version : versions) {
    Value isFor = b.lessThan(call.rows, b.add(mostRows(version), 1));
    auto choose = [&](Value &chosen, Value value) { chosen = chosen ? b.select(isFor, value, chosen) : value; };
    choose(entry, l.entry(version.kernel));
    choose(blocksX, b.constant(version.blocksX));
    choose(blockRows, b.constant(version.blockRows));
    choose(threads, b.constant(version.threads));
    choose(sharedBytes, b.constant(version.sharedBytes));
    choose(blocksZ, b.constant(version.blocksZ));
  }
  for (Value argument : {act, call.weights, call.bias, call.out})
    l.add(argument);
  l.add(l.narrow(call.rows));
  l.add(actStride);
  l.add(call.outStride);
  addMore();
  Value blocksY = b.divide(b.sub(b.add(call.rows, blockRows), b.constant(1)), blockRows);
  l.launch(entry, {blocksX, blocksY, blocksZ}, threads, sharedBytes);
}

void MatmulHost::run(ScheduleAttr schedule, bool readsFew, Heads heads) {
  GpuMatmulSpec prepared = spec;
  prepared.prepares.reset();
  prepared.heads.reset();
  SmallVector<Version> few, many = buildVersions(prepared, schedule, readsFew);
  if (readsFew)
    few = buildFew(schedule);
  // No rows (of logits that nobody asks for): no grid that a driver takes.
  Value isMany = b.lessThan(b.constant(0), call.rows);
  if (readsFew) {
    Value most = mostRows(few.front()), isFew = b.lessThan(call.rows, b.add(most, 1));
    b.ifThen(arith::AndIOp::create(b, isFew, isMany), [&] {
      launch(few, call.act, call.actStride, [&] {
        if (spec.prepares)
          l.add(call.norm);
        if (spec.heads)
          heads.addArguments();
      });
    });
    isMany = b.lessThan(most, call.rows);
  }
  b.ifThen(isMany, [&] {
    if (spec.prepares)
      prepare();
    launch(many, spec.prepares ? call.room : call.act, spec.prepares ? call.roomStride : call.actStride, [] {});
    if (spec.heads)
      heads.launchApart();
  });
}
