// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Non-loaded sections of a linked ELF file: bytes that strip keeps and the loader ignores.
#ifndef HEDDLE_COMPILER_PACKAGE_ELF_H
#define HEDDLE_COMPILER_PACKAGE_ELF_H

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

// The tail of the file that declares `added` beside the sections of `elf` (ELF64, little-endian): string table and section headers, to
// be written at `tailOffset`, a multiple of 8. Changes the header in `elf` to point there.
std::string declareSections(std::string &elf, llvm::ArrayRef<AddedSection> added, uint64_t tailOffset);

} // namespace heddle

#endif
