// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is done to ELF files beside linking: non-loaded sections, which strip keeps and the loader ignores, and local symbols.
#ifndef HEDDLE_COMPILER_PACKAGE_ELF_H
#define HEDDLE_COMPILER_PACKAGE_ELF_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

struct AddedSection {
  std::string name;
  uint64_t offset, size; // where its bytes lie in the file
};

// What added sections are aligned to: linkers and strip keep it when they move them.
constexpr uint64_t addedSectionAlignment = 64;

// The tail of the file that declares `added` beside the sections of `elf` (ELF64, little-endian): string table and section headers, to
// be written at `tailOffset`, a multiple of 8. Changes the header in `elf` to point there. The program header of the note section
// `reserved`, where there is one, becomes that of a segment which holds `added` and which no loader maps: llvm-strip drops what
// lies in no segment.
std::string declareSections(std::string &elf, llvm::ArrayRef<AddedSection> added, uint64_t tailOffset,
                            llvm::StringRef reserved);

// `object` (relocatable) with every symbol that it defines made local, but `symbol`.
mlir::FailureOr<std::string> keepOneGlobal(const std::string &object, llvm::StringRef symbol, std::string &error);

} // namespace heddle

#endif
