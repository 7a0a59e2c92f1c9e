// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What schedules, the report and the benchmark ask of a kernel.
#ifndef HEDDLE_INTERFACES
#define HEDDLE_INTERFACES

include "mlir/IR/OpBase.td"

def Heddle_KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::heddle";
  let description = [{
    A kernel launch. Its cost is linear in the rows of its destination; the cost of attention over the cache is not counted
    here but by the length at run time.
  }];
  let methods = [
    InterfaceMethod<"The kernel's class, for the report: matmul, attention, …", "::llvm::StringRef", "getKernelKind">,
    InterfaceMethod<"Floating-point or integer operations per row", "int64_t", "getFlopsPerRow">,
    InterfaceMethod<"Bytes moved whatever the rows: the weights", "int64_t", "getFixedBytes">,
    InterfaceMethod<"Bytes of activations moved per row", "int64_t", "getBytesPerRow">,
    InterfaceMethod<"What its operations are of: f32, bf16, int16 or int8", "::llvm::StringRef", "getArithmetic", (ins), [{}],
                    /*defaultImplementation=*/[{ return "f32"; }]>,
  ];
}

#endif
