// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The sections of a 64-bit little-endian ELF file, by its section headers, and the hash of what of them is code.
#ifndef HEDDLE_RUNTIME_MODEL_ELFSECTIONS_H
#define HEDDLE_RUNTIME_MODEL_ELFSECTIONS_H

#include "bytes/Sha256.h"
#include "bytes/Status.h"

#include <elf.h>
#include <string_view>

namespace heddle {

class ElfSections {
public:
  // `bytes` outlive this; `path` is named in errors. Checks the headers, and of the sections no more than that.
  Status read(const uint8_t *bytes, uint64_t size, const std::string &path);

  const Elf64_Ehdr &header() const { return elf; }
  // The contents of section `name`, the last of several; null where there is none. Fails where they do not lie in the file.
  Status find(std::string_view name, const uint8_t *&outBytes, uint64_t &outSize) const;
  // SHA-256 of the SHA-256s of all sections that are loaded from the file, in order: code, constants, relocations, data. Linkers decide
  // them, strip and the loader leave them. The symbol table is left out: it has numbers of sections, which strip may change.
  Status hashCode(Sha256Digest &outDigest) const;

private:
  Elf64_Shdr sectionAt(unsigned index) const;
  std::string_view nameOf(const Elf64_Shdr &section) const; // empty where it has none
  Status checkRange(const Elf64_Shdr &section) const;

  const uint8_t *bytes = nullptr;
  uint64_t size = 0;
  std::string path;
  Elf64_Ehdr elf = {};
  Elf64_Shdr names = {};
};

} // namespace heddle

#endif
