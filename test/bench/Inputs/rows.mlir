// What row-bench gives to Halide: the shapes of a 1B Llama. The table of @rope holds what the frequencies give.

!hidden = tensor<?x2048xf32>
!split = tensor<1x?x32x64xf32>
!heads = tensor<1x32x?x64xf32>
!both = tensor<?x16384xf32>
!gated = tensor<?x8192xf32>

func.func @rms_norm(%x: !hidden, %w: tensor<2048xf32>) -> !hidden {
  %n = heddle.rms_norm %x, %w {eps = 1.0e-5 : f64} : !hidden, tensor<2048xf32>
  return %n : !hidden
}

func.func @rope(%x: !hidden, %p: tensor<?xi32>, %t: tensor<?x64xf32>) -> !hidden {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : !hidden
  %e = tensor.expand_shape %x [[0, 1], [2, 3]] output_shape [1, %n, 32, 64] : !hidden into !split
  %i = tensor.empty(%n) : !heads
  %q = linalg.transpose ins(%e : !split) outs(%i : !heads) permutation = [0, 2, 1, 3]
  %b = tensor.expand_shape %p [[0, 1]] output_shape [1, %n] : tensor<?xi32> into tensor<1x?xi32>
  %r = heddle.rope %q, %b table(%t : tensor<?x64xf32>) <half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32:
    1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
    1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0>> : !heads, tensor<1x?xi32>
  %j = tensor.empty(%n) : !split
  %u = linalg.transpose ins(%r : !heads) outs(%j : !split) permutation = [0, 2, 1, 3]
  %c = tensor.collapse_shape %u [[0, 1], [2, 3]] : !split into !hidden
  return %c : !hidden
}

func.func @glu(%x: !both) -> !gated {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : !both
  %g = tensor.extract_slice %x[0, 0] [%n, 8192] [1, 1] : !both to !gated
  %u = tensor.extract_slice %x[0, 8192] [%n, 8192] [1, 1] : !both to !gated
  %a = heddle.glu <silu> %g, %u : !gated
  return %a : !gated
}
