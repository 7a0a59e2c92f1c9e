// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/machine/LoadedCode.h"

#include "bytes/MappedFile.h"
#include "bytes/Sha256.h"
#include "bytes/Text.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

#include <link.h>

using namespace mlir;
using namespace heddle;

namespace {

// The program, or a library that it has loaded.
struct LoadedFile {
  std::string path, buildId;
};

} // namespace

// The descriptor of NT_GNU_BUILD_ID among the notes of a loaded segment, in hexadecimal digits; "" where there is none.
static std::string buildIdIn(const uint8_t *notes, size_t size) {
  for (size_t at = 0; size - at >= sizeof(ElfW(Nhdr));) {
    ElfW(Nhdr) note;
    memcpy(&note, notes + at, sizeof(note));
    size_t name = at + sizeof(note), descriptor = name + llvm::alignTo<4>(note.n_namesz),
           end = descriptor + llvm::alignTo<4>(note.n_descsz);
    if (end > size)
      break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0)
      return hexadecimal(notes + descriptor, note.n_descsz);
    at = end;
  }
  return "";
}

static int addLoadedFile(dl_phdr_info *info, size_t, void *user) {
  auto &files = *static_cast<std::vector<LoadedFile> *>(user);
  LoadedFile file{info->dlpi_name, ""};
  if (files.empty())
    file.path = llvm::sys::fs::getMainExecutable(nullptr, nullptr); // the program comes first and has no name
  for (int i = 0; i < info->dlpi_phnum && file.buildId.empty(); ++i)
    if (const ElfW(Phdr) &segment = info->dlpi_phdr[i]; segment.p_type == PT_NOTE) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      auto notes = reinterpret_cast<const uint8_t *>(info->dlpi_addr + segment.p_vaddr);
      file.buildId = buildIdIn(notes, segment.p_memsz);
    }
  // What is no file is the kernel's.
  if (llvm::StringRef(file.path).contains('/'))
    files.push_back(std::move(file));
  return 0;
}

LogicalResult heddle::addFile(llvm::StringRef what, const std::string &path, std::vector<std::string> &lines,
                              std::string &error) {
  MappedFile file;
  if (Status status = file.open(path); !status.isOk()) {
    error = status.message();
    return failure();
  }
  Sha256Digest digest = sha256(file.data(), file.size());
  lines.push_back(
      (what + " " + llvm::sys::path::filename(path) + " " + hexadecimal(digest.data(), digest.size())).str());
  return success();
}

FailureOr<std::vector<std::string>> heddle::loadedCode(std::string &error) {
  std::vector<LoadedFile> loaded;
  std::vector<std::string> lines;
  dl_iterate_phdr(addLoadedFile, &loaded);
  for (const LoadedFile &file : loaded) {
    if (!file.buildId.empty())
      lines.push_back("code " + file.buildId);
    else if (failed(addFile("code", file.path, lines, error)))
      return failure();
  }
  llvm::sort(lines); // the order in which libraries are loaded says nothing
  return lines;
}
