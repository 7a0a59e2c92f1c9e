// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cache ops: keys and values kept between steps.
#ifndef HEDDLE_CACHE_OPS
#define HEDDLE_CACHE_OPS

include "dialect/HeddleAttrs.td"
include "dialect/HeddleTypes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Heddle_KvAppendOp : Heddle_Op<"kv_append", [MemoryEffects<[MemWrite]>]> {
  let summary = "Stores the keys and values of a step's tokens behind those that the cache holds";
  let description = [{
    Rows belong to sequences as the step says; row r of a sequence with `past` cached tokens goes to position past + r.
    Converts to the cache's element type.

    Of a latent cache, key is the latent and value the shared rotary key, if there is one.

    Constraints:
      * C1: key and value are (rows, num_kv_heads * head_dim); of a latent cache (rows, latent) and (rows, head_dim - latent),
        and there is no value where that is empty.
      * C2: layer is less than the cache's number of layers.
      * C3: the cache is of tokens, not of states.

    ```mlir
    func.func @of_the_second_layer(%cache: !heddle.kv_cache<2 x 3 x 64 x bf16>, %k: tensor<?x192xf32>, %v: tensor<?x192xf32>) {
      %layer = arith.constant 1 : index
      heddle.kv_append %cache[%layer], %k, %v : <2 x 3 x 64 x bf16>, tensor<?x192xf32>, tensor<?x192xf32>
      return
    }
    ```
  }];
  let arguments = (ins Heddle_KvCacheType:$cache, AnyTypeOf<[AnyRankedTensor, AnyMemRef]>:$key, Optional<AnyTypeOf<[AnyRankedTensor, AnyMemRef]>>:$value, Index:$layer);
  let assemblyFormat = "$cache `[` $layer `]` `,` $key (`,` $value^)? attr-dict `:` type($cache) `,` type($key) (`,` type($value)^)?";
  let hasVerifier = 1;
}

def Heddle_KvViewOp : Heddle_Op<"kv_view", [MemoryEffects<[MemRead]>]> {
  let summary = "All cached keys and values of a layer, those of this step included";
  let description = [{
    key and value are (batch, num_kv_heads, tokens, head_dim); of a latent cache the latent, (batch, 1, tokens, latent), and
    the shared rotary key, (batch, 1, tokens, head_dim - latent). A view is read by attention only, in its pages; it is never
    materialised.

    Constraints:
      * C1: heads and head_dim are the cache's.
      * C2: layer is less than the cache's number of layers.
      * C3: the cache is of tokens, not of states.

    ```mlir
    func.func @of_the_second_layer(%cache: !heddle.kv_cache<2 x 3 x 64 x bf16>, %q: tensor<1x9x?x64xf32>) -> tensor<1x9x?x64xf32> {
      %layer = arith.constant 1 : index
      %k, %v = heddle.kv_view %cache[%layer] : <2 x 3 x 64 x bf16> -> tensor<1x3x?x64xbf16>, tensor<1x3x?x64xbf16>
      %o = heddle.attention %q, %k, %v <causal> {scale = 0.125}
        : tensor<1x9x?x64xf32>, tensor<1x3x?x64xbf16>, tensor<1x3x?x64xbf16> -> tensor<1x9x?x64xf32>
      return %o : tensor<1x9x?x64xf32>
    }
    ```
  }];
  let arguments = (ins Heddle_KvCacheType:$cache, Index:$layer);
  let results = (outs 4DTensorOf<[AnyFloat]>:$key, 4DTensorOf<[AnyFloat]>:$value);
  let assemblyFormat = "$cache `[` $layer `]` attr-dict `:` type($cache) `->` type($key) `,` type($value)";
  let hasVerifier = 1;
}

#endif
