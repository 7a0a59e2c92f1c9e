// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/machine/ObjectCache.h"

#include "bytes/Sha256.h"
#include "compiler/codegen/machine/LoadedCode.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace heddle;

ObjectCache::ObjectCache(const CpuTarget &target, Loops loops) {
  std::string error;
  FailureOr<std::vector<std::string>> code = loadedCode(error);
  if (failed(code))
    return; // what cannot be named is not kept
  maker = "heddle-kernels-1\n" + target.triple + " " + target.cpu + " " + llvm::join(target.features, " ") + " tune " +
          target.tune + "\nloops " + std::to_string(int(loops)) + "\n" + llvm::join(*code, "\n") + "\n";
  cache.open(CodeKind::Kernels);
}

ObjectCache::~ObjectCache() {
  if (hasStored)
    cache.trim();
}

FailureOr<std::string> ObjectCache::objectOf(StringRef bitcode, llvm::function_ref<FailureOr<std::string>()> emit) {
  if (!cache.isOpen())
    return emit();
  Sha256 hash;
  hash.update(maker.data(), maker.size());
  hash.update(bitcode.data(), bitcode.size());
  Sha256Digest key = hash.finish();
  CachedCode found;
  if (cache.find(key, found).isOk() && found.size() > 0)
    return std::string(reinterpret_cast<const char *>(found.data()), found.size());
  FailureOr<std::string> object = emit();
  if (succeeded(object) && found.allocate(object->size()).isOk()) {
    llvm::copy(*object, found.data());
    cache.store(key, found);
    hasStored = true;
  }
  return object;
}
