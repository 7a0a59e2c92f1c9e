// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/package/Elf.h"

#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <elf.h>

using namespace heddle;

// In the range that is left to operating systems; loaders ignore what they do not know there.
static constexpr uint32_t holdingSegmentType = 0x68656464; // "hedd"

// Turns the program header of `note` into that of a segment around `added`.
static void holdSections(std::string &elf, const Elf64_Ehdr &header, const Elf64_Shdr &note,
                         llvm::ArrayRef<AddedSection> added) {
  Elf64_Phdr holding = {};
  holding.p_type = holdingSegmentType;
  holding.p_flags = PF_R;
  holding.p_align = addedSectionAlignment;
  holding.p_offset = UINT64_MAX;
  uint64_t end = 0;
  for (const AddedSection &section : added) {
    holding.p_offset = std::min(holding.p_offset, section.offset);
    end = std::max(end, section.offset + section.size);
  }
  holding.p_filesz = end - holding.p_offset;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    char *place = elf.data() + header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr segment;
    std::memcpy(&segment, place, sizeof(segment));
    if (segment.p_type == PT_NOTE && segment.p_offset == note.sh_offset && segment.p_filesz == note.sh_size)
      std::memcpy(place, &holding, sizeof(holding));
  }
}

std::string heddle::declareSections(std::string &elf, llvm::ArrayRef<AddedSection> added, uint64_t tailOffset,
                                    llvm::StringRef reserved) {
  assert(elf.size() >= sizeof(Elf64_Ehdr) && tailOffset % 8 == 0 && "a linked ELF64 file");
  Elf64_Ehdr header;
  std::memcpy(&header, elf.data(), sizeof(header));
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), elf.data() + header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  std::string strings = elf.substr(sections[header.e_shstrndx].sh_offset, sections[header.e_shstrndx].sh_size);
  for (const Elf64_Shdr &section : sections)
    if (section.sh_type == SHT_NOTE && strings.c_str() + section.sh_name == reserved)
      holdSections(elf, header, section, added);
  for (const AddedSection &section : added) {
    Elf64_Shdr entry = {};
    entry.sh_name = strings.size();
    entry.sh_type = SHT_PROGBITS;
    entry.sh_offset = section.offset;
    entry.sh_size = section.size;
    entry.sh_addralign = addedSectionAlignment;
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

mlir::FailureOr<std::string> heddle::keepOneGlobal(const std::string &object, llvm::StringRef symbol,
                                                   std::string &error) {
  auto fail = [&](llvm::Error problem) {
    error = "symbols cannot be made local: " + llvm::toString(std::move(problem));
    return mlir::failure();
  };
  auto parsed = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "object"));
  if (!parsed)
    return fail(parsed.takeError());
  llvm::objcopy::ConfigManager config;
  auto keep = llvm::objcopy::NameOrPattern::create(symbol, llvm::objcopy::MatchStyle::Literal,
                                                   [](llvm::Error problem) { return problem; });
  if (!keep)
    return fail(keep.takeError());
  if (llvm::Error problem = config.Common.SymbolsToKeepGlobal.addMatcher(std::move(keep)))
    return fail(std::move(problem));
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  if (llvm::Error problem = llvm::objcopy::executeObjcopyOnBinary(config, **parsed, stream))
    return fail(std::move(problem));
  return std::string(bytes.begin(), bytes.end());
}
