// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of AArch64 run in a C program of their own, under emulation.
#ifndef HEDDLE_TEST_EXECUTE_FOREIGNPROGRAM_H
#define HEDDLE_TEST_EXECUTE_FOREIGNPROGRAM_H

#include <optional>
#include <string>

namespace heddle::test {

// What this machine lacks for it, empty if nothing. `./dev setup` installs all of it: clang and lld, which link with Debian's
// AArch64 C library, and qemu.
std::string missingForAArch64();

// Links the C source `driver`, which may include headers below `includeFolder`, with `object`, runs the program with `input` at
// its standard input and gives back its standard output; nothing, with the reason on stderr, if a step failed.
std::optional<std::string> runOnAArch64(const char *driver, const char *includeFolder, const std::string &object,
                                        const std::string &input);

} // namespace heddle::test

#endif
