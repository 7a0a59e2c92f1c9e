// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What both readers of safetensors files are fed with.
#ifndef HEDDLE_TEST_FUZZ_SAFETENSORSMUTATIONS_H
#define HEDDLE_TEST_FUZZ_SAFETENSORSMUTATIONS_H

#include "test/fuzz/Mutator.h"

#include <functional>

namespace heddle::fuzz {

// A file of these parts.
std::string safetensorsFile(const std::string &header, const std::string &data);
std::string tinySafetensors();

// What `target` says is wrong with the first of 3000 changed files that it deals badly with, or with the good one; else empty.
std::string mutateSafetensors(const std::function<std::string(std::string_view)> &target);

} // namespace heddle::fuzz

#endif
