// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A library that the machine may lack (a device's driver, a line editor): opened when it is needed, its functions taken by name.
#ifndef HEDDLE_RUNTIME_DEVICE_DYNAMICLIBRARY_H
#define HEDDLE_RUNTIME_DEVICE_DYNAMICLIBRARY_H

#include "bytes/Status.h"

#include <dlfcn.h>

namespace heddle {

// Stays loaded: drivers have threads of their own that outlive their last use.
class DynamicLibrary {
public:
  // `what` is the error's subject: "no CUDA driver".
  Status open(const char *name, const char *what) {
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return handle ? Status() : Status::failure(std::string(what) + ": " + dlerror());
  }
  // A function, or a variable's address.
  template <typename Pointer> Status load(const char *name, Pointer &pointer) {
    pointer = reinterpret_cast<Pointer>(dlsym(handle, name));
    return pointer ? Status() : Status::failure(std::string("the library is too old: ") + dlerror());
  }

private:
  void *handle = nullptr;
};

} // namespace heddle

#endif
