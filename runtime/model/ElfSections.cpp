// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/model/ElfSections.h"

#include <cstring>

namespace heddle {

static bool contains(uint64_t size, uint64_t offset, uint64_t length) {
  return offset <= size && length <= size - offset;
}

Status ElfSections::read(const uint8_t *newBytes, uint64_t newSize, const std::string &newPath) {
  bytes = newBytes;
  size = newSize;
  path = newPath;
  if (size < sizeof elf || memcmp(bytes, ELFMAG, SELFMAG) != 0)
    return damagedFile(path + ": byte 0: not an ELF file");
  memcpy(&elf, bytes, sizeof elf);
  if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_ident[EI_DATA] != ELFDATA2LSB)
    return Status::failure(format("%s: code for another machine (e_machine %u)", path.c_str(), elf.e_machine));
  if (elf.e_shentsize != sizeof(Elf64_Shdr) ||
      !contains(size, elf.e_shoff, uint64_t(elf.e_shnum) * sizeof(Elf64_Shdr)) || elf.e_shstrndx >= elf.e_shnum)
    return damagedFile(format("%s: section headers at byte %llu do not lie in the file of %llu bytes", path.c_str(),
                              (unsigned long long)elf.e_shoff, (unsigned long long)size));
  names = sectionAt(elf.e_shstrndx);
  if (names.sh_type == SHT_NOBITS || !contains(size, names.sh_offset, names.sh_size))
    return damagedFile(path + ": the section names do not lie in the file");
  return Status();
}

Elf64_Shdr ElfSections::sectionAt(unsigned index) const {
  Elf64_Shdr section;
  memcpy(&section, bytes + elf.e_shoff + index * sizeof section, sizeof section);
  return section;
}

std::string_view ElfSections::nameOf(const Elf64_Shdr &section) const {
  if (section.sh_name >= names.sh_size)
    return {};
  const char *name = reinterpret_cast<const char *>(bytes + names.sh_offset + section.sh_name);
  size_t room = names.sh_size - section.sh_name, length = strnlen(name, room);
  return length < room ? std::string_view(name, length) : std::string_view();
}

Status ElfSections::checkRange(const Elf64_Shdr &section) const {
  if (section.sh_type != SHT_NOBITS && contains(size, section.sh_offset, section.sh_size))
    return Status();
  return damagedFile(format("%s: section %s ends at byte %llu of a file of %llu: truncated", path.c_str(),
                            std::string(nameOf(section)).c_str(),
                            (unsigned long long)section.sh_offset + section.sh_size, (unsigned long long)size));
}

Status ElfSections::find(std::string_view name, const uint8_t *&outBytes, uint64_t &outSize) const {
  outBytes = nullptr;
  outSize = 0;
  for (unsigned i = 0; i < elf.e_shnum; ++i) {
    Elf64_Shdr section = sectionAt(i);
    if (nameOf(section) != name)
      continue;
    HEDDLE_RETURN_IF_ERROR(checkRange(section));
    outBytes = bytes + section.sh_offset;
    outSize = section.sh_size;
  }
  return Status();
}

Status ElfSections::hashCode(Sha256Digest &outDigest) const {
  std::string digests;
  for (unsigned i = 0; i < elf.e_shnum; ++i) {
    Elf64_Shdr section = sectionAt(i);
    if (!(section.sh_flags & SHF_ALLOC) || section.sh_type == SHT_NOBITS || section.sh_type == SHT_DYNSYM)
      continue;
    HEDDLE_RETURN_IF_ERROR(checkRange(section));
    Sha256Digest digest = sha256(bytes + section.sh_offset, section.sh_size);
    digests.append(reinterpret_cast<const char *>(digest.data()), digest.size());
  }
  outDigest = sha256(digests.data(), digests.size());
  return Status();
}

} // namespace heddle
