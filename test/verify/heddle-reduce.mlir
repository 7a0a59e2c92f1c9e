// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// REQUIRES: heddle, heddle-reduce
// RUN: %heddle-reduce %s --heddle-reduce-module='test=%S/Inputs/has-rms-norm.sh' -o %t
// RUN: FileCheck %s < %t
// RUN: %heddle-reduce %s --reduction-tree='traversal-mode=0 test=%S/Inputs/has-rms-norm.sh' -o %t
// RUN: FileCheck %s --check-prefix=TREE < %t

// A whole model becomes the function that calls for the norm, and next to nothing else.
// RUN: %heddle compile %S/../models/llama --stop-after=import -o %t.model --quiet
// RUN: %python -c "import sys; sys.exit(len(open(sys.argv[1]).readlines()) < 60)" %t.model
// RUN: %heddle-reduce %t.model --heddle-reduce-module='test=%S/Inputs/has-rms-norm.sh' -o %t
// RUN: FileCheck %s --check-prefix=MODEL < %t
// RUN: %python -c "import sys; sys.exit(len(open(sys.argv[1]).readlines()) >= 20)" %t
// MODEL: heddle.rms_norm
// MODEL-NOT: heddle.{{[a-z_]+}}

// What is not interesting to begin with is said, not reduced to nothing.
// RUN: not %heddle-reduce %s --heddle-reduce-module='test=%S/Inputs/absent-op.sh' -o %t 2>&1 | FileCheck %s --check-prefix=DULL
// DULL: error: heddle-reduce-module: '{{.*}}absent-op.sh' does not find the module interesting: exit code 1 is expected

// Functions, ops, arguments and results that the script does not need go, also through calls.
// CHECK-NOT: @uninteresting
// CHECK: func.func {{.*}}@{{[a-z]+}}(%[[X:.*]]: tensor<?x8xf32>, %[[W:.*]]: tensor<8xf32>)
// CHECK-NEXT: heddle.rms_norm %[[X]], %[[W]]
// CHECK-NEXT: return
// CHECK-NOT: func.func
// TREE-NOT: @uninteresting
// TREE: heddle.rms_norm
func.func @uninteresting(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = arith.addf %x, %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

func.func @interesting(%x: tensor<?x8xf32>, %w: tensor<8xf32>, %unused: i64) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %0 = arith.addf %x, %x : tensor<?x8xf32>
  %1 = func.call @layer(%0, %w, %unused) : (tensor<?x8xf32>, tensor<8xf32>, i64) -> tensor<?x8xf32>
  %2 = heddle.glu <silu> %1, %0 : tensor<?x8xf32>
  return %2, %x : tensor<?x8xf32>, tensor<?x8xf32>
}

func.func private @layer(%x: tensor<?x8xf32>, %w: tensor<8xf32>, %unused: i64) -> tensor<?x8xf32> {
  %0 = arith.mulf %x, %x : tensor<?x8xf32>
  %1 = heddle.rms_norm %0, %w {eps = 1.0e-5} : tensor<?x8xf32>, tensor<8xf32>
  %2 = arith.addf %1, %0 : tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}
