// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A bias whose sizes only the run knows: of one number, of one for each key, of a row for each query; masks as exporters write them.
// RUN: %heddle compile %s -o %t --quiet
// Two queries, three keys, equal scores: a row is the mean of the values that are seen.
// RUN: %python %tools/graph_io.py %t q=F32[1,1,2,2]:0 k=F32[1,1,3,2]:1 v=F32[1,1,3,1]:3,6,30 bias=F32[1,1,1,1]:5 | FileCheck %s --check-prefix=ONE
// ONE: y F32[1,1,2,1] 13 13
// RUN: %python %tools/graph_io.py %t q=F32[1,1,2,2]:0 k=F32[1,1,3,2]:1 v=F32[1,1,3,1]:3,6,30 bias=F32[1,1,1,3]:0,0,-inf | FileCheck %s --check-prefix=KEYS
// KEYS: y F32[1,1,2,1] 4.5 4.5
// The second row sees nothing; the most negative number hides all of its keys alike.
// RUN: %python %tools/graph_io.py %t q=F32[1,1,2,2]:0 k=F32[1,1,3,2]:1 v=F32[1,1,3,1]:3,6,30 bias=F32[1,1,2,3]:0,-inf,-inf,-inf,-inf,-inf | FileCheck %s --check-prefix=NONE
// NONE: y F32[1,1,2,1] 3 0
// RUN: %python %tools/graph_io.py %t q=F32[1,1,2,2]:0 k=F32[1,1,3,2]:1 v=F32[1,1,3,1]:3,6,30 bias=F32[1,1,2,3]:0,0,-3.4028234663852886e38,-3.4028234663852886e38,-3.4028234663852886e38,-3.4028234663852886e38 | FileCheck %s --check-prefix=LOWEST
// LOWEST: y F32[1,1,2,1] 4.5 13
// RUN: %python %tools/graph_io.py %t q=F32[0,1,2,2]: k=F32[0,1,3,2]: v=F32[0,1,3,1]: bias=F32[1,1,1,1]:5 | FileCheck %s --check-prefix=EMPTY
// EMPTY: y F32[0,1,2,1]

// Sizes that do not fit together.
// RUN: not %python %tools/graph_io.py %t q=F32[1,1,2,2]:0 k=F32[2,1,3,2]:1 v=F32[2,1,3,1]:3 bias=F32[1,1,1,1]:5 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: in.safetensors: attention: keys have another batch than queries
// RUN: not %python %tools/graph_io.py %t q=F32[1,1,2,2]:0 k=F32[1,1,3,2]:1 v=F32[2,1,3,1]:3 bias=F32[1,1,1,1]:5 2>&1 | FileCheck %s --check-prefix=VALUES
// VALUES: in.safetensors: attention: values have another batch than queries
// RUN: not %python %tools/graph_io.py %t q=F32[1,1,2,2]:0 k=F32[1,1,3,2]:1 v=F32[1,1,4,1]:3 bias=F32[1,1,1,1]:5 2>&1 | FileCheck %s --check-prefix=SEQUENCE
// SEQUENCE: in.safetensors: attention: there are not as many values as keys
// RUN: not %python %tools/graph_io.py %t q=F32[1,1,2,2]:0 k=F32[1,1,3,2]:1 v=F32[1,1,3,1]:3 bias=F32[1,1,1,2]:5 2>&1 | FileCheck %s --check-prefix=BIAS
// BIAS: in.safetensors: attention: the bias has another shape than the scores

func.func @graph(%q: tensor<?x1x?x2xf32> {heddle.name = "q"}, %k: tensor<?x1x?x2xf32> {heddle.name = "k"},
                 %v: tensor<?x1x?x1xf32> {heddle.name = "v"}, %bias: tensor<?x?x?x?xf32> {heddle.name = "bias"})
    -> (tensor<?x1x?x1xf32> {heddle.name = "y"}) attributes {heddle.task = "graph"} {
  %y = heddle.attention %q, %k, %v bias(%bias : tensor<?x?x?x?xf32>) <full> {scale = 1.0}
    : tensor<?x1x?x2xf32>, tensor<?x1x?x2xf32>, tensor<?x1x?x1xf32> -> tensor<?x1x?x1xf32>
  return %y : tensor<?x1x?x1xf32>
}
