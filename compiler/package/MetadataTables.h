// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parts of the metadata that every kind of model has.
#ifndef HEDDLE_COMPILER_PACKAGE_METADATATABLES_H
#define HEDDLE_COMPILER_PACKAGE_METADATATABLES_H

#include "compiler/weights/WeightsSection.h"
#include "runtime/schema/package_generated.h"

namespace heddle {

using StringTable = flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>>;

inline StringTable strings(flatbuffers::FlatBufferBuilder &b, llvm::ArrayRef<std::string> values) {
  std::vector<flatbuffers::Offset<flatbuffers::String>> result;
  for (const std::string &value : values)
    result.push_back(b.CreateString(value));
  return b.CreateVector(result);
}

inline flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<package::Weight>>>
weightTable(flatbuffers::FlatBufferBuilder &b, llvm::ArrayRef<PackedWeight> weights) {
  std::vector<flatbuffers::Offset<package::Weight>> result;
  for (const PackedWeight &weight : weights)
    result.push_back(package::CreateWeight(b, b.CreateString(weight.name), b.CreateString(weight.format),
                                           b.CreateVector(weight.shape), weight.offset, weight.size,
                                           b.CreateVector(weight.sha256.data(), weight.sha256.size())));
  return b.CreateVector(result);
}

} // namespace heddle

#endif
