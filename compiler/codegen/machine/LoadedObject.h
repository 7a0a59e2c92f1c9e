// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels in this process, where they are measured or tested.
#ifndef HEDDLE_COMPILER_CODEGEN_MACHINE_LOADEDOBJECT_H
#define HEDDLE_COMPILER_CODEGEN_MACHINE_LOADEDOBJECT_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace heddle {

// An ELF object that was linked to a library of its own and loaded, until it goes.
class LoadedObject {
public:
  LoadedObject() = default;
  LoadedObject(const LoadedObject &) = delete;
  ~LoadedObject();

  // Once. `linker` is the path of an ld.lld. False, with one line in `error`, if a step fails.
  bool load(llvm::StringRef object, const std::string &linker, std::string &error);
  // The address of a global function; null if there is none.
  void *find(const std::string &name) const;

private:
  void *handle = nullptr;
};

} // namespace heddle

#endif
