// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/machine/LoadedObject.h"

#include "compiler/codegen/machine/TemporaryFiles.h"

#include "llvm/Support/Program.h"

#include <dlfcn.h>

using namespace heddle;

LoadedObject::~LoadedObject() {
  if (handle)
    dlclose(handle);
}

bool LoadedObject::load(llvm::StringRef object, const std::string &linker, std::string &error) {
  TemporaryFiles files;
  std::string objectPath, libraryPath;
  std::error_code code = files.add(object, objectPath);
  if (!code)
    code = files.add("", libraryPath);
  if (code) {
    error = "cannot write temporary files: " + code.message();
    return false;
  }
  // What is not its own, memset for one, is this process's.
  llvm::StringRef arguments[] = {"ld.lld", "-shared", "-o", libraryPath, objectPath};
  if (int status = llvm::sys::ExecuteAndWait(linker, arguments, std::nullopt, {}, 0, 0, &error)) {
    if (error.empty())
      error = linker + " ended with status " + std::to_string(status);
    return false;
  }
  handle = dlopen(libraryPath.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    error = dlerror();
  return handle;
}

void *LoadedObject::find(const std::string &name) const {
  return dlsym(handle, name.c_str());
}
