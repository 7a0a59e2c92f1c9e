// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/package/Elf.h"

#include <cassert>
#include <cstring>
#include <elf.h>

using namespace heddle;

std::string heddle::declareSections(std::string &elf, llvm::ArrayRef<AddedSection> added, uint64_t tailOffset) {
  assert(elf.size() >= sizeof(Elf64_Ehdr) && tailOffset % 8 == 0 && "a linked ELF64 file");
  Elf64_Ehdr header;
  std::memcpy(&header, elf.data(), sizeof(header));
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), elf.data() + header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  std::string strings = elf.substr(sections[header.e_shstrndx].sh_offset, sections[header.e_shstrndx].sh_size);
  for (const AddedSection &section : added) {
    Elf64_Shdr entry = {};
    entry.sh_name = strings.size();
    entry.sh_type = SHT_PROGBITS;
    entry.sh_offset = section.offset;
    entry.sh_size = section.size;
    entry.sh_addralign = 1;
    strings += section.name;
    strings += '\0';
    sections.push_back(entry);
  }
  Elf64_Shdr &names = sections[header.e_shstrndx];
  names.sh_offset = tailOffset;
  names.sh_size = strings.size();
  strings.resize((strings.size() + 7) / 8 * 8);
  header.e_shoff = tailOffset + strings.size();
  header.e_shnum = sections.size();
  std::memcpy(elf.data(), &header, sizeof(header));
  strings.append(reinterpret_cast<const char *>(sections.data()), sections.size() * sizeof(Elf64_Shdr));
  return strings;
}
