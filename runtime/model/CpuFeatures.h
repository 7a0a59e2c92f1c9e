// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Instruction sets of this machine, by CPUID and by what the operating system saves (XCR0), or by HWCAP on AArch64.
#ifndef HEDDLE_RUNTIME_MODEL_CPUFEATURES_H
#define HEDDLE_RUNTIME_MODEL_CPUFEATURES_H

#include <string_view>

namespace heddle {

// Whether instructions of the LLVM feature `name` can be executed; false for an unknown name. For AMX this asks the
// operating system for permission to use the tile registers, which holds for the process from then on.
bool hasCpuFeature(std::string_view name);

} // namespace heddle

#endif
