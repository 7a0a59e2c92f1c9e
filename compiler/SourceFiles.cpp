// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/SourceFiles.h"

#include "bytes/Sha256.h"
#include "compiler/Program.h"
#include "frontends/CompanionFiles.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <fstream>
#include <set>

using namespace heddle;
using llvm::StringRef;

std::vector<std::string> heddle::sourceFiles(const std::string &path, const Checkpoint &checkpoint,
                                             bool hasCompanions) {
  std::set<std::string> files;
  for (const auto &file : checkpoint.files)
    files.insert(file->path());
  bool isFolder = llvm::sys::fs::is_directory(path);
  if (!isFolder)
    files.insert(path);
  std::string folder = isFolder ? path : folderOf(path);
  if (isFolder || hasCompanions)
    for (const std::string &name : companionFiles(folder))
      files.insert(folder + "/" + name);
  return {files.begin(), files.end()};
}

std::string heddle::sourceHash(const std::vector<std::string> &files) {
  Sha256 hash;
  std::vector<char> buffer(1 << 20);
  for (const std::string &path : files) {
    uint64_t size = 0;
    if (files.size() > 1 && !llvm::sys::fs::file_size(path, size)) {
      std::string header = llvm::sys::path::filename(path).str() + '\0' + std::to_string(size) + '\0';
      hash.update(header.data(), header.size());
    }
    std::ifstream in(path, std::ios::binary);
    while (in.read(buffer.data(), buffer.size()), in.gcount() > 0)
      hash.update(buffer.data(), in.gcount());
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

std::string heddle::makeRule(const std::string &output, const std::vector<std::string> &files) {
  std::string rule = escapeForMake(output) + ":";
  for (const std::string &name : files)
    rule += " \\\n  " + escapeForMake(name);
  return rule + "\n";
}
