// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which parts of the runtime the program of a model is linked with (runtime/README.md, "Parts").
#ifndef HEDDLE_COMPILER_PACKAGE_PARTS_H
#define HEDDLE_COMPILER_PACKAGE_PARTS_H

#include "runtime/schema/package_generated.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace heddle {

// The names behind heddle_part_.
llvm::SmallVector<llvm::StringRef> partsOf(const package::Package &metadata);

} // namespace heddle

#endif
