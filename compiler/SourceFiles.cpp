// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/SourceFiles.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <sys/mman.h>

using namespace heddle;
using llvm::StringRef;

SourceHash::SourceHash(std::vector<SharedFile> files, uint64_t lead)
    : files(std::move(files)), lead(lead), limit(lead) {
  for (const SharedFile &file : this->files)
    size += file->size();
  thread = std::thread([this] { run(); });
}

SourceHash::~SourceHash() {
  {
    std::lock_guard lock(mutex);
    isStopped = true;
  }
  raised.notify_one();
  if (thread.joinable())
    thread.join();
}

void SourceHash::raiseLimit(uint64_t bytes) {
  {
    std::lock_guard lock(mutex);
    limit = std::max(limit, bytes);
  }
  raised.notify_one();
}

void SourceHash::follow(uint64_t done, uint64_t all) {
  double share = all ? double(done) / double(all) : 0;
  raiseLimit(lead + uint64_t(share * double(size)));
}

std::string SourceHash::get() {
  raiseLimit(UINT64_MAX);
  if (thread.joinable())
    thread.join();
  return digits;
}

// Waits for the limit; false where nobody asks any more.
bool SourceHash::mayGoOn() {
  std::unique_lock lock(mutex);
  raised.wait(lock, [this] { return isStopped || position < limit; });
  return !isStopped;
}

// Adds the file's bytes and gives their pages back: what is resident does not grow by the file.
void SourceHash::addFile(const MappedFile &file, Sha256 &hash) {
  constexpr uint64_t piece = 16 << 20;
  for (uint64_t at = 0; at < file.size() && mayGoOn(); at += piece) {
    uint64_t bytes = std::min(piece, file.size() - at);
    hash.update(file.data() + at, bytes);
    (void)madvise(const_cast<uint8_t *>(file.data()) + at, bytes, MADV_DONTNEED);
    position += bytes;
  }
}

void SourceHash::run() {
  Sha256 hash;
  for (const SharedFile &file : files) {
    if (files.size() > 1) {
      std::string header = llvm::sys::path::filename(file->path()).str() + '\0' + std::to_string(file->size()) + '\0';
      hash.update(header.data(), header.size());
    }
    addFile(*file, hash);
  }
  digits = llvm::toHex(hash.finish(), /*LowerCase=*/true);
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
