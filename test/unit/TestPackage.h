// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds packages by hand: metadata, weights, and an ELF file that holds both, as the package stage does it for compiled models.
#ifndef HEDDLE_TEST_UNIT_TESTPACKAGE_H
#define HEDDLE_TEST_UNIT_TESTPACKAGE_H

#include "runtime/model/ModelAbi.h"
#include "runtime/schema/package_generated.h"

#include <functional>
#include <string>
#include <vector>

namespace heddle::reference {

using Bytes = std::vector<uint8_t>;

// The weights of test/models/llama, in weightSlots' order.
Bytes readWeights();

// The reference model's metadata as flatc's object: tests change fields of it.
package::PackageT makeMetadata(const Bytes &weights);
// Adds what sees images of 8 by 8 pixels, `rows` rows of `width` numbers of each, in the place of token 5.
void addImages(package::PackageT &metadata, uint32_t rows, int64_t width);

// Header and FlatBuffers: the contents of `.heddle.package`.
Bytes makePackage(const package::PackageT &metadata, const Bytes &weights, bool sidecar = false);

// A minimal ELF file of this machine with the two sections; an empty weights section is left out. With code, which nothing runs, it
// has the code's hash.
Bytes makeElf(const Bytes &package, const Bytes &weights, const Bytes &code = {});

// The bytes of `<file>.weights`.
Bytes makeSidecar(const Bytes &package, const Bytes &weights);

// A file in the test's scratch folder; returns its path.
std::string writeFile(const std::string &name, const Bytes &bytes);
std::string scratchFolder();

// Code that belongs to `package`.
heddle_model makeCode(const Bytes &package);

} // namespace heddle::reference

#endif
