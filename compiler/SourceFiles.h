// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an output says of the files that its model was read from.
#ifndef HEDDLE_COMPILER_SOURCEFILES_H
#define HEDDLE_COMPILER_SOURCEFILES_H

#include "bytes/Sha256.h"
#include "compiler/Compile.h"
#include "frontends/ModelFiles.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace heddle {

// The SHA-256 of a single file, as sha256sum prints it; of several files that of all names, sizes and contents in order of path. Hashes the
// bytes that are mapped, which the output is made of: a name may lead to another file by now.
//
// A thread hashes while other work is done, and then goes along with who packs the same files: it is never further ahead than `lead` bytes, so
// that what it has read is still in memory when it is packed, and a file that memory does not hold is read from its disk once.
class SourceHash {
public:
  static constexpr uint64_t usualLead = 256 << 20;

  explicit SourceHash(std::vector<SharedFile> files, uint64_t lead = usualLead);
  SourceHash(const SourceHash &) = delete;
  SourceHash &operator=(const SourceHash &) = delete;
  ~SourceHash(); // leaves off where it is

  // `done` of `all` bytes are packed: about that share of the files.
  void follow(uint64_t done, uint64_t all);
  // Hashes the rest, whatever is packed. 64 hexadecimal digits.
  std::string get();
  // Bytes of the files that have been hashed.
  uint64_t hashed() const { return position; }

private:
  void run();
  void addFile(const MappedFile &file, Sha256 &hash);
  bool mayGoOn();
  void raiseLimit(uint64_t bytes);

  std::vector<SharedFile> files;
  uint64_t lead, size = 0;
  std::string digits; // once the thread has ended
  std::atomic<uint64_t> position{0};
  std::mutex mutex;
  std::condition_variable raised;
  uint64_t limit; // up to which bytes may be hashed
  bool isStopped = false;
  std::thread thread;
};

// A rule for make: what `options` write depends on `files`, on their plugins and on their schedules.
std::string makeRule(const CompileOptions &options, const std::vector<SharedFile> &files);

} // namespace heddle

#endif
