// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A driver's library, opened when it is needed, and its functions by name.
#ifndef HEDDLE_RUNTIME_DEVICE_DRIVERLIBRARY_H
#define HEDDLE_RUNTIME_DEVICE_DRIVERLIBRARY_H

#include "bytes/Status.h"

#include <dlfcn.h>

namespace heddle {

// Stays loaded: drivers have threads of their own that outlive their last use.
class DriverLibrary {
public:
  // `what` is the error's subject: "no CUDA driver".
  Status open(const char *name, const char *what) {
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return handle ? Status() : Status::failure(std::string(what) + ": " + dlerror());
  }
  template <typename Function> Status load(const char *name, Function &function) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    return function ? Status() : Status::failure(std::string("the driver is too old: ") + dlerror());
  }

private:
  void *handle = nullptr;
};

} // namespace heddle

#endif
