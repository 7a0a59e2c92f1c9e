// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The key is the hash of a list of lines, each of which names one thing that the output depends on. What a new flag or a new library changes
// is in the list without being named here: the key of something that did not matter only misses a cache.

#include "compiler/CacheKey.h"

#include "bytes/Sha256.h"
#include "bytes/Text.h"
#include "compiler/codegen/machine/LoadedCode.h"
#include "compiler/package/Link.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <algorithm>

using namespace mlir;
using namespace heddle;

// What outputs are linked with.
static LogicalResult addLinked(const Target &target, std::vector<std::string> &lines, std::string &error) {
  std::string linker = findLinker();
  if (!linker.empty() && failed(addFile("linker", linker, lines, error)))
    return failure();
  std::error_code code;
  for (llvm::sys::fs::directory_iterator entry(sysrootFolder(target), code), end; entry != end && !code;
       entry.increment(code))
    if (failed(addFile("linked", entry->path(), lines, error)))
      return failure();
  return success();
}

FailureOr<std::string> heddle::cacheKey(const CompileOptions &options, ArrayRef<Target> targets,
                                        const PackageInfo &info, std::string &error) {
  std::vector<std::string> lines = {"heddle-cache-key-1", "model " + info.sourceName + " " + info.sourceSha256,
                                    "symbol " + info.name};
  for (const Target &target : targets)
    lines.push_back("target " + target.name + " " + target.cpu.name + " " + target.cpu.cpu + " " +
                    llvm::join(target.cpu.features, " ") + " tune " + target.cpu.tune);
  if (options.emit == Emit::Library)
    lines.push_back("library " + llvm::sys::path::filename(options.output).str());
  if (!options.schedules.empty() && failed(addFile("schedules", options.schedules, lines, error)))
    return failure();
  FailureOr<std::vector<std::string>> code = loadedCode(error);
  if (failed(code))
    return failure();
  llvm::append_range(lines, *code);
  size_t fixed = lines.size();
  if (failed(addLinked(targets.front(), lines, error)))
    return failure();
  std::sort(lines.begin() + fixed, lines.end()); // nor does that of a folder's files
  // Nor does the order of flags, but of those that may be repeated.
  std::vector<std::string> flags = options.outputFlags;
  llvm::stable_sort(flags, [](StringRef a, StringRef b) { return a.split('=').first < b.split('=').first; });
  for (const std::string &flag : flags)
    lines.push_back("flag " + flag);
  std::string text = llvm::join(lines, "\n");
  Sha256Digest digest = sha256(text.data(), text.size());
  return hexadecimal(digest.data(), digest.size());
}
