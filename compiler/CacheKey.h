// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A name for what a compilation makes, known before it is made: equal keys, equal bytes.
#ifndef HEDDLE_COMPILER_CACHEKEY_H
#define HEDDLE_COMPILER_CACHEKEY_H

#include "compiler/Compile.h"
#include "compiler/codegen/machine/Target.h"
#include "compiler/package/Metadata.h"

namespace heddle {

// SHA-256, in hexadecimal digits, of all that the output depends on: the bytes of the model (`info`) and of its file of schedules, the
// flags, the targets as they were resolved, the symbols, and the code at work: the compiler with every library that it has loaded, plugins
// too, the linker, and the files of the sysroot. Nobody's clock, folder or environment is in it. A failure names in `error` the file that
// cannot be read.
mlir::FailureOr<std::string> cacheKey(const CompileOptions &options, llvm::ArrayRef<Target> targets,
                                      const PackageInfo &info, std::string &error);

} // namespace heddle

#endif
