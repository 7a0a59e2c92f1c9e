// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Objects that earlier compilations made, kept on disk (bytes/CodeCache.h): models of one size, and one model compiled again with other flags, share
// most of their kernels, and LLVM's work on these is most of what a compilation without large weights waits for.
#ifndef HEDDLE_COMPILER_CODEGEN_MACHINE_OBJECTCACHE_H
#define HEDDLE_COMPILER_CODEGEN_MACHINE_OBJECTCACHE_H

#include "bytes/CodeCache.h"
#include "compiler/codegen/machine/EmitObject.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <atomic>

namespace heddle {

// Objects for one target. Threads may ask at the same time.
class ObjectCache {
public:
  ObjectCache(const CpuTarget &target, Loops loops);
  ObjectCache(const ObjectCache &) = delete;
  // What was kept for the longest time makes room for what is new.
  ~ObjectCache();

  // The object of that bitcode: an earlier one, else what `emit` makes, which is kept unless it fails. The two have the same bytes: the key is
  // the SHA-256 of the bitcode, the target, the loops' kind and the code at work, the compiler and every library that it has loaded.
  mlir::FailureOr<std::string> objectOf(llvm::StringRef bitcode,
                                        llvm::function_ref<mlir::FailureOr<std::string>()> emit);

private:
  std::string maker; // what an object depends on besides its bitcode
  CodeCache cache;
  std::atomic<bool> hasStored = false;
};

} // namespace heddle

#endif
