// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Latent attention by itself, of DeepSeek-V2-Lite's shape over a bf16 cache: both bodies and the choice between them.
#ifndef HEDDLE_TEST_BENCH_LATENTBENCH_H
#define HEDDLE_TEST_BENCH_LATENTBENCH_H

#include "dialect/HeddleDialect.h"
#include "runtime/model/ModelAbi.h"
#include "test/execute/KernelLibrary.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace heddle::test {

// What a call costs by the op's model (KernelOpInterface, and the formulas of compiler/optimize/README.md for what keys add).
struct LatentCost {
  double flops, bytes;
};

// The kernels of one form of `online_latent_attention`, made as a program's are: by the target's emitter and schedule.
class LatentKernels {
public:
  // `splits`: keys are divided as those of a step of few rows are; 0: they are whole.
  LatentKernels(const std::string &targetName, LatentForm form, int64_t splits = 0);
  // False, with the reason printed, where they cannot be made.
  bool load();

  // In the order in which a step calls them; all threads meet between two.
  std::vector<void *> functions;
  const LatentForm form;
  const int64_t splits;
  // Of a query row whatever the keys, as the op says; `fixedBytes` are the up-projections.
  int64_t fixedBytes = 0, bytesPerRow = 0;

private:
  KernelLibrary library;
};

// Prints, as the elements of an array in JSON, seconds, operations and bytes of each body: of decoding behind 4096 tokens, of
// prompts, and of 1, 2, 4 … 2048 queries against 4096 keys. `only`: names begin with it. False where a kernel cannot be made or
// bodies disagree.
bool measureLatent(const std::string &target, int32_t threads, int rounds, const std::string &only);

} // namespace heddle::test

#endif
