// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels for GPUs alone, timed by the events of the driver, on random numbers: a JSON line for each line of standard input.
//   matmul ROWS N K [TYPE]                 out (ROWS, N) = act (ROWS, K) W (N, K)ᵀ on tensor cores, act bf16, W bf16 or of a type of codes
//   gemv ROWS N K TYPE                     the same for few rows, W of any type that has a kernel; act bf16 beside bf16, else f32
//   attention HEADS KV_HEADS HEAD_DIM PAST ROWS  causal attention of ROWS tokens behind PAST others, a cache of bf16
//   splits HEADS KV_HEADS HEAD_DIM PAST ROWS [SPLIT_KV]  the same with the keys divided among blocks, and their merge
// Arguments: [TARGET [ROUNDS]], cuda:sm_80 and 20.
#include "test/execute/AttentionReference.h"
#include "test/execute/GpuDriver.h"
#include "test/execute/GpuKernel.h"
#include "test/execute/GpuTiles.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>

using namespace heddle;
using namespace heddle::test;

namespace {

using Access = ptx::Memory::Access;

std::vector<uint16_t> randomBf16(size_t count) {
  std::vector<float> some = randomFloats(4099, 1.0f, 7); // a prime: rows do not repeat
  std::vector<uint16_t> bits(count);
  for (size_t i = 0; i < count; ++i)
    bits[i] = bf16BitsOf(some[i % some.size()]);
  return bits;
}

struct Figure {
  double flops, bytes;
  std::vector<float> microseconds;
};

Figure timeMatmul(const GpuMatmulSpec &spec, int64_t rows, const std::string &target, int rounds) {
  const GpuMatmulTile tile = gpuMatmulTile(rows, target, spec);
  if (!tile.maxRows)
    throw ptx::Error("no kernel for tensor cores of such weights, or of k = " + std::to_string(spec.k));
  GpuKernel kernel([&](mlir::gpu::GPUModuleOp module) { buildGpuMatmul(module, "matmul", spec, tile); }, target);
  int64_t actStride = spec.k, outStride = spec.n + spec.n % 2;
  std::vector<uint16_t> act = randomBf16(rows * actStride);
  std::vector<uint16_t> weights = randomBf16(spec.weightPanels() * spec.panelBytes() / 2);
  std::vector<float> out(rows * outStride);
  ptx::Memory memory;
  memory.allow(act.data(), act.size() * 2, Access::Read);
  memory.allow(weights.data(), weights.size() * 2, Access::Read);
  memory.allow(out.data(), out.size() * 4, Access::ReadWrite);
  const void *from = act.data(), *matrix = weights.data(), *bias = nullptr, *to = out.data();
  int32_t numRows = int32_t(rows);
  std::vector<float> times = kernel.time(
      matmulLaunch(spec, tile, rows), {&from, &matrix, &bias, &to, &numRows, &actStride, &outStride}, memory, rounds);
  return {2.0 * double(rows) * double(spec.n) * double(spec.k),
          double(act.size() + weights.size()) * 2 + double(out.size()) * 4, times};
}

// Weights are random bytes: a scale may be anything.
Figure timeGemv(GpuMatmulSpec spec, int64_t rows, const std::string &target, int rounds) {
  bool isBf16 = spec.layout.numbers == PackedNumbers::BF16;
  spec.activation = isBf16 ? MatmulActivation::Bf16 : MatmulActivation::F32;
  if (std::string error; failed(verifyGpuGemv(spec, error)))
    throw ptx::Error("no kernel " + error);
  int64_t tileRows = 1;
  while (tileRows < rows && tileRows < (hasCodeGemv(spec) ? 16 : 4))
    tileRows *= 2;
  GpuGemvTile tile = gpuGemvTile(spec, tileRows);
  GpuKernel kernel([&](mlir::gpu::GPUModuleOp module) { buildGpuGemv(module, "gemv", spec, tile); }, target);
  int64_t actStride = (spec.k + 7) / 8 * 8, outStride = spec.n;
  std::vector<uint16_t> act = randomBf16(rows * actStride * (isBf16 ? 1 : 2));
  std::vector<uint16_t> weights = randomBf16(spec.weightPanels() * spec.panelBytes() / 2);
  std::vector<float> out(rows * outStride);
  ptx::Memory memory;
  memory.allow(act.data(), act.size() * 2, Access::Read);
  memory.allow(weights.data(), weights.size() * 2, Access::Read);
  memory.allow(out.data(), out.size() * 4, Access::ReadWrite);
  const void *from = act.data(), *matrix = weights.data(), *bias = nullptr, *to = out.data();
  int32_t numRows = int32_t(rows);
  std::vector<float> times = kernel.time(
      gemvLaunch(spec, tile, rows), {&from, &matrix, &bias, &to, &numRows, &actStride, &outStride}, memory, rounds);
  return {2.0 * double(rows) * double(spec.n) * double(spec.k),
          double(act.size() + weights.size()) * 2 + double(out.size()) * 4, times};
}

Figure timeAttention(AttentionSpec spec, bool inSplits, int64_t past, int64_t rows, const std::string &target,
                     int rounds) {
  spec.scale = 1.0 / std::sqrt(double(spec.headDim));
  spec.kv = KvType::BF16;
  spec.tileRows = 64;
  if (std::string error; failed(verifyGpuAttention(spec, error)))
    throw ptx::Error(error);
  bool onWarpgroups = !inSplits && target == "cuda:sm_90a" && warpgroupAttention(spec);
  if (onWarpgroups)
    spec = *warpgroupAttention(spec);
  int64_t blocks = (past + rows + spec.splitKv - 1) / spec.splitKv * spec.numHeads / spec.headsOfTile();
  if (inSplits && blocks > 264 && rows * spec.headsOfTile() <= narrowed(spec).tileRows)
    spec = narrowed(spec);
  auto kernelOf = [&](auto build) {
    return GpuKernel([&](mlir::gpu::GPUModuleOp module) { build(module, "attention", spec); }, target);
  };
  int64_t plane = spec.numKvHeads * HEDDLE_KV_PAGE_SIZE * spec.headDim * 2, pageStride = 2 * plane, keys = 0;
  int32_t pages = int32_t((past + rows + HEDDLE_KV_PAGE_SIZE - 1) / HEDDLE_KV_PAGE_SIZE);
  int64_t width = spec.numHeads * spec.headDim;
  std::vector<uint16_t> cache = randomBf16(pages * pageStride / 2);
  std::vector<float> q = randomFloats(rows * width, 1.0f, 5), out(rows * width);
  std::vector<int32_t> table(pages), sequenceRows = {0, int32_t(rows)}, positions(rows);
  for (int32_t page = 0; page < pages; ++page)
    table[page] = page;
  for (int64_t row = 0; row < rows; ++row)
    positions[row] = int32_t(past + row);
  ptx::Memory memory;
  memory.allow(q.data(), q.size() * 4, Access::Read);
  memory.allow(out.data(), out.size() * 4, Access::ReadWrite);
  memory.allow(cache.data(), cache.size() * 2, Access::Read);
  for (const std::vector<int32_t> *numbers : {&table, &sequenceRows, &positions})
    memory.allow(numbers->data(), numbers->size() * 4, Access::Read);
  const void *queries = q.data(), *to = out.data(), *from = cache.data(), *pageTable = table.data();
  const void *ofSequences = sequenceRows.data(), *ofRows = positions.data();
  std::vector<float> times;
  if (!inSplits) {
    times = kernelOf(onWarpgroups ? buildWarpgroupAttention : buildGpuAttention)
                .time(onWarpgroups ? warpgroupAttentionLaunch(spec, rows, 1) : attentionLaunch(spec, rows, 1),
                      {&queries, &to, &from, &pageTable, &ofSequences, &ofRows, &keys, &plane, &pageStride, &width,
                       &width, &pages},
                      memory, rounds);
  } else {
    int64_t maxSplits = (past + rows + spec.splitKv - 1) / spec.splitKv;
    std::vector<float> outputs(rows * maxSplits * width), maxima(rows * maxSplits * spec.numHeads), sums = maxima;
    for (std::vector<float> *states : {&outputs, &maxima, &sums})
      memory.allow(states->data(), states->size() * 4, Access::ReadWrite);
    const void *ofSplits = outputs.data(), *ofMaxima = maxima.data(), *ofSums = sums.data();
    times = kernelOf(buildGpuAttentionSplit)
                .time(splitLaunch(spec, rows, past + rows, 1),
                      {&queries, &ofSplits, &from, &pageTable, &ofSequences, &ofRows, &keys, &plane, &pageStride,
                       &width, &maxSplits, &pages, &ofMaxima, &ofSums},
                      memory, rounds);
    std::vector<float> merges =
        kernelOf(buildGpuCombineSplits)
            .time(combineLaunch(spec, rows), {&ofSplits, &ofMaxima, &ofSums, &to, &ofRows, &width, &maxSplits}, memory,
                  rounds);
    for (size_t i = 0; i < times.size(); ++i)
      times[i] += merges[i];
  }
  double pairs = double(rows) * double(past) + double(rows) * double(rows + 1) / 2;
  return {4 * pairs * double(width), double(past + rows) * double(spec.numKvHeads * spec.headDim) * 4, times};
}

bool timeLine(const std::string &line, const std::string &target, int rounds) {
  std::istringstream words(line);
  std::string name;
  words >> name;
  std::vector<int64_t> numbers;
  std::optional<PackedLayout> layout; // the type behind the numbers
  for (std::string word; words >> word && !layout;)
    if (isdigit((unsigned char)word.front())) {
      numbers.push_back(strtoll(word.c_str(), nullptr, 10));
    } else {
      layout = layoutNamed(word);
      if (!layout)
        return false;
    }
  Figure figure;
  if (name == "matmul" && numbers.size() == 3) {
    GpuMatmulSpec spec;
    spec.n = numbers[1];
    spec.k = numbers[2];
    spec.layout = layout.value_or(spec.layout);
    figure = timeMatmul(spec, numbers[0], target, rounds);
  } else if (name == "gemv" && numbers.size() == 3 && numbers[0] > 0 && layout) {
    GpuMatmulSpec spec;
    spec.n = numbers[1];
    spec.k = numbers[2];
    spec.layout = *layout;
    figure = timeGemv(spec, numbers[0], target, rounds);
  } else if ((name == "attention" && numbers.size() == 5) ||
             (name == "splits" && (numbers.size() == 5 || numbers.size() == 6))) {
    AttentionSpec spec;
    spec.numHeads = numbers[0];
    spec.numKvHeads = numbers[1];
    spec.headDim = numbers[2];
    if (numbers.size() == 6)
      spec.splitKv = numbers[5];
    figure = timeAttention(spec, name == "splits", numbers[3], numbers[4], target, rounds);
  } else {
    return false;
  }
  std::sort(figure.microseconds.begin(), figure.microseconds.end());
  printf("{\"case\": \"%s\", \"microseconds\": %.3f, \"median\": %.3f, \"flops\": %.0f, \"bytes\": %.0f}\n",
         line.c_str(), double(figure.microseconds.front()), double(figure.microseconds[figure.microseconds.size() / 2]),
         figure.flops, figure.bytes);
  fflush(stdout);
  return true;
}

} // namespace

int main(int argc, char **argv) {
  std::string target = argc > 1 ? argv[1] : "cuda:sm_80";
  int rounds = argc > 2 ? std::max(1, int(strtol(argv[2], nullptr, 10))) : 20;
  try {
    if (!GpuDriver::get()) {
      fprintf(stderr, "heddle-gpu-bench: times kernels on a driver: set HEDDLE_GPU_TESTS=driver\n");
      return 2;
    }
    for (std::string line; std::getline(std::cin, line);)
      if (!timeLine(line, target, rounds)) {
        fprintf(
            stderr,
            "heddle-gpu-bench: neither 'matmul ROWS N K [TYPE]' nor 'gemv ROWS N K TYPE' nor 'attention|splits HEADS "
            "KV_HEADS HEAD_DIM PAST ROWS [SPLIT_KV]': '%s'\n",
            line.c_str());
        return 2;
      }
  } catch (const ptx::Error &error) {
    fprintf(stderr, "heddle-gpu-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
