// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A weights file beside a program: its name, its header, and whether one that is there already is what would be written.
#ifndef HEDDLE_COMPILER_PACKAGE_SIDECAR_H
#define HEDDLE_COMPILER_PACKAGE_SIDECAR_H

#include "bytes/Sha256.h"
#include "compiler/weights/WeightsSection.h"

#include <optional>
#include <string>

namespace heddle {

// Where the weights of an output are with a sidecar: OUT.weights, beside the file itself where `output` is a link to it.
std::string sidecarOf(const std::string &output);

// Bytes up to the end of the last weight.
uint64_t weightsSize(llvm::ArrayRef<PackedWeight> weights);

// The header before `weights`, which were packed from what `recipe` is the hash of.
std::string sidecarHeader(llvm::ArrayRef<PackedWeight> weights, const Sha256Digest &recipe);

// The weights that lie in the file at `path`, if packing `planned` by `recipe` would write the same ones: the file was packed by that
// recipe, and every byte of a weight is still what was packed. Reads them all, which takes less time than packing.
std::optional<std::vector<PackedWeight>> findInSidecar(const std::string &path, std::vector<PackedWeight> planned,
                                                       const Sha256Digest &recipe);

} // namespace heddle

#endif
