// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dialect and the base class of its ops.
#ifndef HEDDLE_DIALECT
#define HEDDLE_DIALECT

include "mlir/IR/OpBase.td"

def Heddle_Dialect : Dialect {
  let name = "heddle";
  let summary = "Transformer models, from the architecture to scheduled kernels";
  let description = [{
    Model ops say what a Transformer computes, in the field's terms; cache ops keep keys and values between steps; kernel
    ops are destination-style and carry the schedule they run with. There is no add, transpose or reshape here: upstream
    dialects have them. Axes of heads are always (batch, heads, sequence, head_dim).
  }];
  let cppNamespace = "::heddle";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect"];
  let hasConstantMaterializer = 1;
}

class Heddle_Op<string mnemonic, list<Trait> traits = []> : Op<Heddle_Dialect, mnemonic, traits>;

#endif
