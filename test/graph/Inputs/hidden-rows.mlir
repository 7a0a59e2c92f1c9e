
// where(seen, scores, minus infinity), for hidden-rows.test; the parts are those of test/raise/Inputs/attention-ops.mlir.
func.func private @masked(%q: !heads, %k: !heads, %seen: !mask) -> !scores {
  %hidden = arith.constant 0xFF800000 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %masked = call @keep(%s, %seen, %hidden) : (!scores, !mask, f32) -> !scores
  return %masked : !scores
}

func.func @plain(%q: !heads {heddle.name = "q"}, %k: !heads {heddle.name = "k"}, %v: !heads {heddle.name = "v"},
                 %seen: !mask {heddle.name = "seen"}) -> (!heads {heddle.name = "y"}) {
  %s = call @masked(%q, %k, %seen) : (!heads, !heads, !mask) -> !scores
  %o = call @attend(%s, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

func.func @guarded(%q: !heads {heddle.name = "q"}, %k: !heads {heddle.name = "k"}, %v: !heads {heddle.name = "v"},
                   %seen: !mask {heddle.name = "seen"}) -> (!heads {heddle.name = "y"}) {
  %zero = arith.constant 0.0 : f32
  %s = call @masked(%q, %k, %seen) : (!heads, !heads, !mask) -> !scores
  %p = call @softmax(%s) : (!scores) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %zeros = tensor.splat %zero[%n, %m] : !scores
  %isNan = arith.cmpf uno, %p, %p : !scores
  %clean = arith.select %isNan, %zeros, %p : tensor<1x4x?x?xi1>, !scores
  %o = call @weigh(%clean, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
