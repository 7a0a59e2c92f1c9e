// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Status.h"

heddle::Status heddle::errorIn(std::string_view file, const std::string &what) {
  return invalidInput(printable(file, 1024) + ": " + what);
}
