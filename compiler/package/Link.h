// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Links objects with the shipped runtime, by ld.lld as a child process: no compiler is needed on the machine.
#ifndef HEDDLE_COMPILER_PACKAGE_LINK_H
#define HEDDLE_COMPILER_PACKAGE_LINK_H

#include "compiler/codegen/machine/Target.h"

namespace heddle {

// SharedLibrary holds the runtime and exports its C ABI; Package is a shared object of code alone; Relocatable is an object.
enum class LinkKind { Executable, SharedLibrary, Package, Relocatable };

struct LinkNames {
  llvm::StringRef model;   // of the heddle_model_<model> that main runs, the only symbol of the objects that others see
  llvm::StringRef library; // the file by which programs that were linked with a shared library look for it
};

// The linked bytes of `objects`, with the runtime for executables and libraries, and for a device what Halide's code calls. An executable holds the
// `parts` of the runtime (Parts.h) alone, other outputs all.
// On failure `error` says in one line what was missing or what the linker said.
mlir::FailureOr<std::string> link(LinkKind kind, llvm::ArrayRef<std::string> objects, const LinkNames &names,
                                  const Target &target, std::string &error, llvm::ArrayRef<llvm::StringRef> parts = {});

// `objects` as one relocatable object in which `symbol` is the only name that others see.
mlir::FailureOr<std::string> mergeObjects(llvm::ArrayRef<std::string> objects, llvm::StringRef symbol,
                                          const Target &target, std::string &error);

// The ld.lld that link() runs; "" where there is none.
std::string findLinker();

// Where lib/heddle/<triple> lies, beside the compiler's bin/; also used to bound the size of a linked file.
std::string sysrootFolder(const Target &target);

} // namespace heddle

#endif
