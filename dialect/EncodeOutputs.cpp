// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialect/EncodeOutputs.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace heddle;

static constexpr llvm::StringLiteral outputsAttr = "heddle.outputs";

SmallVector<EncodeOutput> heddle::outputsOf(func::FuncOp entry) {
  SmallVector<EncodeOutput> outputs;
  if (auto said = entry->getAttrOfType<ArrayAttr>(outputsAttr)) {
    for (auto output : said.getAsRange<DictionaryAttr>()) {
      auto name = output.getAs<StringAttr>("name");
      outputs.push_back({name ? name.str() : "", output.contains("of_sequences"), output.contains("squeezed")});
    }
    return outputs;
  }
  if (entry.getSymName() != "forward" && entry.getSymName() != "forward_encoder")
    return outputs;
  // (batch, sequence, width), or (batch, width)
  for (auto [i, type] : llvm::enumerate(entry.getResultTypes())) {
    auto name = entry.getResultAttrOfType<StringAttr>(i, outputNameAttr);
    outputs.push_back({name ? name.str() : "output_" + std::to_string(i), cast<RankedTensorType>(type).getRank() == 2,
                       bool(entry.getResultAttr(i, squeezedAttr))});
  }
  return outputs;
}

void heddle::setOutputs(func::FuncOp encode, ArrayRef<EncodeOutput> outputs) {
  Builder b(encode.getContext());
  SmallVector<Attribute> said;
  for (const EncodeOutput &output : outputs) {
    NamedAttrList attributes;
    attributes.set("name", b.getStringAttr(output.name));
    if (output.ofSequences)
      attributes.set("of_sequences", b.getUnitAttr());
    if (output.isSqueezed)
      attributes.set("squeezed", b.getUnitAttr());
    said.push_back(attributes.getDictionary(b.getContext()));
  }
  encode.removeResAttrsAttr();
  encode->setAttr(outputsAttr, b.getArrayAttr(said));
}
