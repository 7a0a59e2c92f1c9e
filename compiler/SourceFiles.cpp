// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/SourceFiles.h"

#include "bytes/Sha256.h"
#include "compiler/Program.h"
#include "frontends/CompanionFiles.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

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

// Adds the file's bytes; of a hole in it zeros, which need no reading.
static void addFile(const std::string &path, std::vector<char> &buffer, Sha256 &hash) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info;
  if (file < 0 || fstat(file, &info) != 0)
    info.st_size = 0;
  static const char zeros[1 << 16] = {};
  for (off_t at = 0; at < info.st_size;) {
    off_t data = lseek(file, at, SEEK_DATA), end = data < 0 ? info.st_size : std::min(data, info.st_size);
    if (data < 0 && errno != ENXIO) // a file system that tells of no holes
      data = end = at;
    for (off_t hole = end - at; hole > 0; hole -= std::min<off_t>(hole, sizeof zeros))
      hash.update(zeros, std::min<off_t>(hole, sizeof zeros));
    if (data < 0)
      break;
    off_t hole = lseek(file, at = end, SEEK_HOLE);
    for (end = hole < 0 ? info.st_size : hole; at < end;) {
      ssize_t count = pread(file, buffer.data(), std::min<size_t>(buffer.size(), end - at), at);
      if (count <= 0) {
        at = info.st_size;
        break;
      }
      hash.update(buffer.data(), count);
      at += count;
    }
  }
  if (file >= 0)
    close(file);
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
    addFile(path, buffer, hash);
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

std::string heddle::makeRule(const CompileOptions &options, const std::vector<std::string> &files) {
  std::string rule = escapeForMake(options.depfileTarget.empty() ? options.output : options.depfileTarget) + ":";
  for (const std::vector<std::string> &names : {files, options.plugins})
    for (const std::string &name : names)
      rule += " \\\n  " + escapeForMake(name);
  return rule + "\n";
}
