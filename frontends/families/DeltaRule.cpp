// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// S = e^decay S, then S += beta k (x) (v - S^T k), for keys and queries of length 1; a query reads S^T q.
#include "frontends/families/DeltaRule.h"

#include <cmath>

namespace heddle {

TensorHandle deltaRule(ModelBuilder &b, const DeltaInputs &in, const std::string &block) {
  const RecurrentConfig &state = b.config().recurrent;
  double dim = static_cast<double>(state.keyDim);
  // x / sqrt(mean x^2 + eps / dim), which is sqrt(dim) times x / sqrt(sum x^2 + eps).
  auto ofOneLength = [&](TensorHandle x) {
    return b.mergeHeads(b.rmsNorm(b.splitHeads(x, state.numKeyHeads), block + "length", 1e-6 / dim));
  };
  TensorHandle q = ofOneLength(in.q), k = b.scale(ofOneLength(in.k), 1.0 / std::sqrt(dim));
  LinearAttentionTerms terms;
  terms.keyHeads = state.numKeyHeads;
  terms.valueHeads = state.numValueHeads;
  if (state.isTiled) { // each value head with a key of its own
    q = b.repeatColumns(q, terms.valueHeads / terms.keyHeads);
    k = b.repeatColumns(k, terms.valueHeads / terms.keyHeads);
    terms.keyHeads = terms.valueHeads;
  }
  terms.scale = 1.0 / dim; // of a query's length and of scores, sqrt(dim) each
  terms.decay = b.decay(b.softplus(in.steps, block + "dt_bias"), block + "A_log");
  terms.beta = b.scale(b.sigmoid(in.betas), state.betaScale);
  return b.linearAttention(q, k, in.v, terms);
}

} // namespace heddle
