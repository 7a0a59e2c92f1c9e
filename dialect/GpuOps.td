// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPU ops: instructions that the nvvm dialect has no op for. compiler/codegen/targets/cuda lowers them to PTX.
#ifndef HEDDLE_GPU_OPS
#define HEDDLE_GPU_OPS

include "dialect/HeddleDialect.td"
include "mlir/IR/CommonAttrConstraints.td"

def Heddle_WarpgroupMultiplyOp : Heddle_Op<"warpgroup_multiply", [AttrSizedOperandSegments]> {
  let summary = "Products of four warps on their tensor cores, with the left operands in registers";
  let description = [{
    sums + A B of bf16 matrices A (64, 16) and B (16, N) and f32 sums (64, N), for each b one after the other: PTX's wgmma.mma_async.m64nNk16 with A from
    registers, one group of them, from the fence of their registers to the commit. Without sums they begin at 0. The threads of four warps execute it together. It is asynchronous: until
    `warpgroup_wait`, its results must not be read, what `a` lies in must not be overwritten, and shared memory must stay as it is.

    Warp w has rows 16 w to 16 w + 15. Lane 4 g + t holds, of A, four pairs of columns of bf16: rows g and g + 8 of columns 2 t and 2 t + 1, then of the columns
    8 behind; of the sums, for each 8 columns in turn, row g and then row g + 8 of columns 2 t and 2 t + 1. `b` describes matrices in shared memory as PTX's matrix
    descriptors do, in rows of K, or `transposed`, in rows of N.

    Constraints:
      * C1: there are as many results as sums, if there are sums, N / 2 for an N of 8, 16, …, 256.
      * C2: `a` has four registers for each `b`, of which there is one at least.

    ```mlir
    func.func @columns_of_eight(%a: i32, %b: i64, %zero: f32) -> f32 {
      %r:4 = heddle.warpgroup_multiply(%a, %a, %a, %a), (%b), (%zero, %zero, %zero, %zero) : f32, f32, f32, f32
      %done:4 = heddle.warpgroup_wait(%r#0, %r#1, %r#2, %r#3) {pending = 0} : f32, f32, f32, f32
      return %done#0 : f32
    }
    ```
  }];
  let arguments = (ins Variadic<I32>:$a, Variadic<I64>:$b, Variadic<F32>:$sums, UnitAttr:$transposed);
  let results = (outs Variadic<F32>:$results);
  let assemblyFormat = "`(` $a `)` `,` `(` $b `)` `,` `(` $sums `)` attr-dict `:` type($results)";
  let hasVerifier = 1;
}

def Heddle_WarpgroupWaitOp : Heddle_Op<"warpgroup_wait"> {
  let summary = "Waits until at most so many groups of products of the warps are unfinished";
  let description = [{
    PTX's wgmma.wait_group. `results` are the sums of products that are finished then, which nothing but this op and another product may read before.

    Constraints:
      * C1: pending lies between 0 and 7.
      * C2: there are as many results as sums.

    ```mlir
    func.func @one_is_left() {
      heddle.warpgroup_wait() {pending = 1}
      return
    }
    ```
  }];
  let arguments = (ins Variadic<F32>:$sums, I64Attr:$pending);
  let results = (outs Variadic<F32>:$results);
  let assemblyFormat = "`(` $sums `)` attr-dict (`:` type($results)^)?";
  let hasVerifier = 1;
}

#endif
