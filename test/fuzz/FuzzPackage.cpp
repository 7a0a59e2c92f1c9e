// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Any bytes as the metadata of a package: what passes both checks can be read in full.
#include "runtime/Package.h"

using namespace heddle;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  flatbuffers::Verifier verifier(data, size);
  if (!package::VerifyPackageBuffer(verifier))
    return 0;
  const package::Package *root = package::GetPackage(data);
  if (checkMetadata(*root, "fuzz").isOk())
    delete root->UnPack();
  return 0;
}
