// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How fast the CPU kernels are, alone: heddle-kernel-bench [--asm] TYPE ACT N K ROWS…, e.g. `q4_1 q8 8192 2048 1 512`.
// Prints one JSON object per row count, best of rounds for about a second; --asm prints the kernel's assembly instead.

#include "compiler/codegen/machine/EmitObject.h"
#include "compiler/codegen/targets/cpu/PackedMatmul.h"
#include "test/execute/KernelLibrary.h"
#include "test/execute/RandomWeights.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace heddle;
using namespace heddle::test;

using MatmulFunction = void(const void *, const float *, const int32_t *, const uint8_t *, const float *, float *,
                            int64_t, int64_t, int64_t, int64_t, int64_t, void *);
using Clock = std::chrono::steady_clock;

static uint8_t *allocate(size_t bytes) {
  size_t rounded = (bytes + 4095) / 4096 * 4096;
  auto *memory = static_cast<uint8_t *>(std::aligned_alloc(4096, rounded));
  std::memset(memory, 1, rounded);
  return memory;
}

// Random weights: one panel, repeated.
static const uint8_t *randomWeights(TensorType type, const MatmulSpec &spec) {
  int64_t bytes = spec.layout.panelBytes(spec.k);
  RandomWeights panel(type, PackedLayout::panelRows, spec.k, 1);
  uint8_t *weights = allocate(spec.layout.bytes(spec.n, spec.k));
  for (int64_t i = 0; i < spec.layout.numPanels(spec.n); ++i)
    std::memcpy(weights + i * bytes, panel.packed, bytes);
  return weights;
}

static const char *activationName(MatmulActivation activation) {
  return activation == MatmulActivation::Q8 ? "q8" : activation == MatmulActivation::Bf16 ? "bf16" : "f32";
}

static int64_t number(const char *text) {
  return std::strtoll(text, nullptr, 10);
}

static void measure(MatmulFunction *kernel, const MatmulSpec &spec, const uint8_t *weights, int64_t rows,
                    void *scratch) {
  bool q8 = spec.activation == MatmulActivation::Q8;
  // As plan-memory lays out what tiles read.
  int64_t stride = spec.activation == MatmulActivation::Bf16 && scratch ? spec.k + 32 : spec.k;
  auto *act = allocate(rows * stride * 4);
  auto *scales = reinterpret_cast<float *>(allocate(rows * spec.k / 8));
  auto *sums = reinterpret_cast<int32_t *>(allocate(rows * spec.k / 4));
  if (!q8) // no denormal products
    std::fill_n(reinterpret_cast<float *>(act), rows * stride, 0.5f);
  std::fill_n(scales, rows * spec.k / 32, 0.01f);
  auto *out = reinterpret_cast<float *>(allocate(rows * spec.n * 4));
  double best = 1e9, spent = 0;
  while (spent < 1) {
    auto start = Clock::now();
    kernel(act, scales, sums, weights, nullptr, out, rows, stride, spec.n, 0, spec.layout.numPanels(spec.n), scratch);
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    spent += seconds;
  }
  double bytes = spec.layout.bytes(spec.n, spec.k), flops = 2.0 * spec.n * spec.k * rows;
  std::printf("{\"rows\": %ld, \"act\": \"%s\", \"microseconds\": %.1f, \"gigabytes_per_second\": %.2f, "
              "\"gigaflops\": %.1f}\n",
              long(rows), activationName(spec.activation), best * 1e6, bytes / best * 1e-9, flops / best * 1e-9);
}

int main(int argc, char **argv) {
  bool assembly = argc > 1 && !std::strcmp(argv[1], "--asm");
  argv += assembly, argc -= assembly;
  if (argc < 6)
    return std::fprintf(stderr, "usage: heddle-kernel-bench [--asm] TYPE f32|int16|bf16|q8 N K ROWS...\n"), 2;
  TensorType type = TensorType::F32;
  for (TensorType candidate : weightTypes())
    if (!std::strcmp(tensorTypeInfo(candidate).name, argv[1]))
      type = candidate;
  MatmulActivation activation = !std::strcmp(argv[2], "q8")     ? MatmulActivation::Q8
                                : !std::strcmp(argv[2], "bf16") ? MatmulActivation::Bf16
                                                                : MatmulActivation::F32;
  MatmulSpec spec{*layoutFor(type), number(argv[3]), number(argv[4]), activation};
  spec.int16FewRows = !std::strcmp(argv[2], "int16");
  const char *target = std::getenv("HEDDLE_BENCH_TARGET");
  KernelLibrary library(target ? target : "native");
  if (failed(buildMatmul(library.module(), "kernel", spec, library.matmulSchedule(), library.target())))
    return 1;
  if (assembly) {
    if (failed(lowerToLLVM(library.module(), library.target())))
      return 1;
    std::fputs(emitMachineCode(library.module(), library.target(), MachineCode::Assembly)->c_str(), stdout);
    return 0;
  }
  auto start = Clock::now();
  if (!library.load())
    return 1;
  std::fprintf(stderr, "compiled in %.0f ms\n", std::chrono::duration<double>(Clock::now() - start).count() * 1e3);
  const uint8_t *weights = randomWeights(type, spec);
  for (int i = 5; i < argc; ++i)
    measure(library.find<MatmulFunction>("kernel"), spec, weights, number(argv[i]), library.scratch());
}
