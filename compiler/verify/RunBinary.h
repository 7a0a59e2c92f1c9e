// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a compiled binary on given tensors.
#ifndef HEDDLE_COMPILER_VERIFY_RUNBINARY_H
#define HEDDLE_COMPILER_VERIFY_RUNBINARY_H

#include "compiler/interpreter/Tensor.h"

#include <string>
#include <vector>

namespace heddle {

struct NamedTensor {
  std::string name;
  Tensor values;
  bool isUnsigned = false;
};

// Runs `binary` with `arguments`, whose output is dropped. Its exit code, negative where it had none; other than 0, `said` is the
// first line of its errors, or the signal that ended it. `folder` takes its errors.
int execute(const std::string &binary, llvm::ArrayRef<llvm::StringRef> arguments, const std::string &folder,
            std::string &said);

// Runs `binary` with --io and `options` in `folder`. `outputs` come with the names and the reference's values and get the binary's; fails, with
// one line in `error`, where the binary does or an output has another shape.
bool runBinary(const std::string &binary, const std::string &folder, llvm::ArrayRef<NamedTensor> inputs,
               std::vector<NamedTensor> &outputs, std::string &error, llvm::ArrayRef<llvm::StringRef> options = {});

} // namespace heddle

#endif
