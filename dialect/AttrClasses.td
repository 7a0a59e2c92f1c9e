// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What definitions of attributes and enums are written with.
#ifndef HEDDLE_ATTR_CLASSES
#define HEDDLE_ATTR_CLASSES

include "dialect/HeddleDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Heddle_Attr<string name, string mnemonic_> : AttrDef<Heddle_Dialect, name> { let mnemonic = mnemonic_; }

class Heddle_Enum<string name, list<I32EnumAttrCase> cases> : I32EnumAttr<name, "", cases> {
  let cppNamespace = "::heddle";
  let genSpecializedAttr = 0;
}
class Heddle_EnumAttr<EnumAttrInfo info, string mnemonic_> : EnumAttr<Heddle_Dialect, info, mnemonic_> {
  let assemblyFormat = "`<` $value `>`";
}

#endif
