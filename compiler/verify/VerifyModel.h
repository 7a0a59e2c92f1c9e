// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `heddle verify`: compiles a model and evaluates it on the way, to name the first stage or pass that changed what it computes.
#ifndef HEDDLE_COMPILER_VERIFY_VERIFYMODEL_H
#define HEDDLE_COMPILER_VERIFY_VERIFYMODEL_H

#include "compiler/Compile.h"

namespace heddle {

struct VerifyOptions {
  CompileOptions compile;   // what to verify; its output and emit are not read
  std::vector<int64_t> ids; // the sequence, empty: `tokens` random ones
  int64_t tokens = 0;       // 0: chosen
  std::string inputs;       // of a graph: a safetensors file; empty: random ones
  std::string entry;        // of several graphs; empty: the first
  uint64_t seed = 1;
  double limit = 0;        // largest NMSE; 0: by what the options let be rounded
  bool eachPass = false;   // after each pass, not only after each stage
  bool eachKernel = false; // run each kernel of the binary by itself, not only where the binary is wrong
};

// Prints a line per stage (pass) to stdout: what was compared and how far it lay apart. The reference is the imported module,
// evaluated by the interpreter on the model's own weights; stages are evaluated as long as they are on tensors, and the
// binary at the end is run; where it is wrong or dies, its kernels are run one by one. A failure says which of them moved a result, where it began, and by how much.
Status verifyModel(const VerifyOptions &options);

} // namespace heddle

#endif
