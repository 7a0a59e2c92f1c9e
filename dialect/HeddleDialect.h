// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The heddle dialect: its ops, types and attributes. The reference is generated from the .td files beside this header.
#ifndef HEDDLE_DIALECT_HEDDLEDIALECT_H
#define HEDDLE_DIALECT_HEDDLEDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialect/HeddleDialect.h.inc"
#include "dialect/HeddleEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/HeddleAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/HeddleTypes.h.inc"

#include "dialect/HeddleInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialect/HeddleOps.h.inc"

namespace heddle {

// Bufferization of kernel and cache ops: destinations are written in place.
void registerBufferizationModels(mlir::DialectRegistry &registry);

} // namespace heddle

#endif
