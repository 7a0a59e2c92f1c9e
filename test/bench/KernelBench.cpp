// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How fast the CPU kernels are, alone: heddle-kernel-bench [--asm] TYPE ACT N K ROWS…, e.g. `q4_1 q8 8192 2048 1 512`.
// Prints one JSON object per row count, best of rounds for about a second; --asm prints the kernel's assembly instead.

#include "compiler/codegen/machine/EmitObject.h"
#include "compiler/codegen/targets/cpu/PackedMatmul.h"
#include "compiler/tune/MatmulRun.h"
#include "test/execute/KernelLibrary.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace heddle;
using namespace heddle::test;

using Clock = std::chrono::steady_clock;

static const char *activationName(MatmulActivation activation) {
  return activation == MatmulActivation::Q8 ? "q8" : activation == MatmulActivation::Bf16 ? "bf16" : "f32";
}

static int64_t number(const char *text) {
  return std::strtoll(text, nullptr, 10);
}

static void measure(MatmulRun &run, void *kernel, const MatmulSpec &spec, int64_t scratchBytes, int64_t rows) {
  Turn turn = run.turn(kernel, rows, run.numPanels(), scratchBytes);
  setRepeats(1, turn, 0.05);
  takeTurns(1, 20, {&turn});
  double best = turn.seconds, bytes = spec.layout.bytes(spec.n, spec.k), flops = 2.0 * spec.n * spec.k * rows;
  std::printf("{\"rows\": %ld, \"act\": \"%s\", \"microseconds\": %.1f, \"gigabytes_per_second\": %.2f, "
              "\"gigaflops\": %.1f}\n",
              long(rows), activationName(spec.activation), best * 1e6, bytes / best * 1e-9, flops / best * 1e-9);
}

int main(int argc, char **argv) {
  bool assembly = argc > 1 && !std::strcmp(argv[1], "--asm");
  argv += assembly, argc -= assembly;
  if (argc < 6)
    return std::fprintf(stderr, "usage: heddle-kernel-bench [--asm] TYPE f32|int16|bf16|q8 N K ROWS...\n"), 2;
  std::optional<PackedLayout> layout = layoutNamed(argv[1]);
  if (!layout)
    return std::fprintf(stderr, "no packed layout holds weights of type '%s'\n", argv[1]), 2;
  MatmulActivation activation = !std::strcmp(argv[2], "q8")     ? MatmulActivation::Q8
                                : !std::strcmp(argv[2], "bf16") ? MatmulActivation::Bf16
                                                                : MatmulActivation::F32;
  MatmulSpec spec{*layout, number(argv[3]), number(argv[4]), activation};
  spec.int16FewRows = !std::strcmp(argv[2], "int16");
  const char *target = std::getenv("HEDDLE_BENCH_TARGET");
  KernelLibrary library(target ? target : "native");
  ScheduleAttr schedule = library.matmulSchedule(/*isInStep=*/true, argv[1], spec.k);
  if (failed(buildMatmul(library.module(), "kernel", spec, schedule, library.target())))
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
  int64_t maxRows = 1, scratchBytes = schedule.getScratchBytes();
  for (int i = 5; i < argc; ++i)
    maxRows = std::max(maxRows, number(argv[i]));
  // One matrix, which stays in a cache that holds it.
  MatmulRun run(spec, maxRows, 1, 0);
  for (int i = 5; i < argc; ++i)
    measure(run, library.find<void>("kernel"), spec, scratchBytes, number(argv[i]));
}
