// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every schedule that `heddle tune` tries gives the bits of the built-in one, on every target that this machine runs or emulates.

#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/schedule/ScheduleTable.h"
#include "compiler/schedule/TunedSchedules.h"
#include "compiler/tune/KernelProbe.h"
#include "test/execute/KernelLibrary.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace heddle;
using namespace heddle::test;

// Small, and no multiple of a tile: 5 panels, the last not full; K of blocks that no candidate divides.
static MatmulSpec matmulOf(const char *format, MatmulActivation activation = MatmulActivation::F32) {
  return {*layoutNamed(format), 70, 672, activation};
}

static TuneSettings small() {
  TuneSettings settings;
  settings.weightBytes = 0;
  settings.decodeKeys = 700;
  settings.tokens = 77;
  return settings;
}

// Rows up to which products are of integers: another number is another way of computing.
static int64_t int16Rows(ScheduleAttr schedule) {
  ScheduleFields fields = ScheduleFields::of(schedule);
  TileAttr *tile = fields.find(TileRole::Int16);
  return tile ? tile->getMaxRows() : 0;
}

static std::vector<ScheduleAttr> candidatesOf(const KernelProbe &probe, ScheduleAttr base, TargetAttr target) {
  std::vector<ScheduleAttr> schedules = {base};
  for (const Choice &choice : probe.choices(base))
    for (const auto &change : choice.candidates) {
      ScheduleFields fields = ScheduleFields::of(base);
      fields.blockKv = fields.splitKv = 0;
      change(fields);
      // What is fetched ahead is no matter of bits.
      if (fields.prefetchBytes != base.getPrefetchBytes())
        continue;
      std::string error;
      mlir::FailureOr<ScheduleAttr> merged = mergeSchedule(base, fields.get(base.getContext()), target, error);
      if (succeeded(merged) && int16Rows(*merged) == int16Rows(base) && !llvm::is_contained(schedules, *merged))
        schedules.push_back(*merged);
    }
  return schedules;
}

// The number of schedules that were compared with `base`.
static size_t compareBits(KernelLibrary &library, KernelProbe &probe, ScheduleAttr base) {
  TargetAttr target = targetAttr(base.getContext(), library.target());
  std::vector<ScheduleAttr> schedules = candidatesOf(probe, base, target);
  auto nameOf = [](size_t index) { return "candidate" + std::to_string(index); };
  for (size_t i = 0; i < schedules.size(); ++i)
    EXPECT_TRUE(succeeded(probe.build(library.module(), nameOf(i), schedules[i])));
  if (!library.load()) {
    ADD_FAILURE() << "candidates cannot be loaded";
    return 0;
  }
  probe.allocate();
  for (unsigned shape = 0; shape < probe.shapes().size(); ++shape) {
    std::vector<float> expected;
    for (size_t i = 0; i < schedules.size(); ++i) {
      probe.turn(library.find<void>(nameOf(i)), schedules[i], shape).body(0);
      llvm::ArrayRef<float> result = probe.result(shape);
      if (i == 0)
        expected = result.vec();
      std::string text;
      llvm::raw_string_ostream(text) << schedules[i];
      EXPECT_EQ(std::memcmp(expected.data(), result.data(), result.size() * sizeof(float)), 0)
          << probe.shapes()[shape] << ", " << text;
    }
    EXPECT_NE(expected.front(), 0);
  }
  return schedules.size() - 1;
}

static void compareMatmul(const std::string &targetName, const MatmulSpec &spec) {
  SCOPED_TRACE(targetName);
  KernelLibrary library(targetName);
  std::unique_ptr<KernelProbe> probe = probeOf(spec, library.target(), small());
  EXPECT_GE(compareBits(library, *probe, library.matmulSchedule()), 3u);
}

TEST(TunedSchedules, ProductsKeepTheirBits) {
  for (const std::string &target : KernelLibrary::runnableTargets()) {
    compareMatmul(target, matmulOf("f32"));
    compareMatmul(target, matmulOf("q4_1", MatmulActivation::Q8));
  }
  MatmulSpec byRows = matmulOf("q6_k");
  byRows.int16FewRows = true;
  compareMatmul("native", byRows);
}

TEST(TunedSchedules, ProductsOfBf16KeepTheirBits) {
  for (const std::string &target : KernelLibrary::bf16Targets())
    compareMatmul(target, matmulOf("bf16", MatmulActivation::Bf16));
  MatmulSpec byRows = matmulOf("q8_0");
  byRows.int16FewRows = byRows.hasRounded = true;
  compareMatmul("emulated-sapphirerapids", byRows);
}

static void compareAttention(const std::string &targetName, KvType kv, Products products) {
  SCOPED_TRACE(targetName);
  KernelLibrary library(targetName);
  AttentionSpec spec;
  spec.numHeads = 6;
  spec.numKvHeads = 2;
  spec.headDim = 40;
  spec.scale = 0.15;
  spec.kv = kv;
  std::unique_ptr<KernelProbe> probe = probeOf(spec, library.target(), small());
  TargetAttr target = targetAttr(library.module().getContext(), library.target());
  ScheduleAttr base = attentionSchedule(target, spec.headDim, 64, defaultSplitKv, products == Products::Bf16);
  EXPECT_GE(compareBits(library, *probe, base), 2u);
}

TEST(TunedSchedules, AttentionKeepsItsBits) {
  for (const std::string &target : KernelLibrary::runnableTargets())
    for (KvType kv : {KvType::F32, KvType::BF16})
      compareAttention(target, kv, Products::F32);
  for (const std::string &target : KernelLibrary::bf16Targets())
    compareAttention(target, KvType::BF16, Products::Bf16);
}
