// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/SourceFiles.h"

#include "bytes/Sha256.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <sys/mman.h>

using namespace heddle;
using llvm::StringRef;

// Adds the file's bytes and gives their pages back: what is resident does not grow by the file.
static void addFile(const MappedFile &file, Sha256 &hash) {
  constexpr uint64_t piece = 16 << 20;
  for (uint64_t at = 0; at < file.size(); at += piece) {
    uint64_t size = std::min(piece, file.size() - at);
    hash.update(file.data() + at, size);
    (void)madvise(const_cast<uint8_t *>(file.data()) + at, size, MADV_DONTNEED);
  }
}

std::string heddle::sourceHash(const std::vector<SharedFile> &files) {
  Sha256 hash;
  for (const SharedFile &file : files) {
    if (files.size() > 1) {
      std::string header = llvm::sys::path::filename(file->path()).str() + '\0' + std::to_string(file->size()) + '\0';
      hash.update(header.data(), header.size());
    }
    addFile(*file, hash);
  }
  return llvm::toHex(hash.finish(), /*LowerCase=*/true);
}

// As make reads a name.
static std::string escapeForMake(StringRef name) {
  std::string escaped;
  for (char c : name) {
    if (c == ' ' || c == '#' || c == '\\')
      escaped += '\\';
    else if (c == '$')
      escaped += '$';
    escaped += c;
  }
  return escaped;
}

std::string heddle::makeRule(const CompileOptions &options, const std::vector<SharedFile> &files) {
  std::string rule = escapeForMake(options.depfileTarget.empty() ? options.output : options.depfileTarget) + ":";
  auto add = [&](StringRef name) { rule += " \\\n  " + escapeForMake(name); };
  for (const SharedFile &file : files)
    add(file->path());
  for (const std::string &plugin : options.plugins)
    add(plugin);
  if (!options.schedules.empty())
    add(options.schedules);
  return rule + "\n";
}
