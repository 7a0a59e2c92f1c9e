// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/package/CodeHash.h"

#include "runtime/model/ElfSections.h"

using namespace heddle;

bool heddle::hashCode(const std::string &elf, std::string &outHash, std::string &error) {
  ElfSections sections;
  Sha256Digest digest;
  Status status = sections.read(reinterpret_cast<const uint8_t *>(elf.data()), elf.size(), "the linked file");
  if (status.isOk())
    status = sections.hashCode(digest);
  if (status.isOk())
    outHash.assign(digest.begin(), digest.end());
  else
    error = "internal error: " + status.message();
  return status.isOk();
}
