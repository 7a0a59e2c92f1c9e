// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// DeepSeek V2 (arXiv:2405.04434) and V3 (arXiv:2412.19437): keys and values from a low-rank latent that all heads share, a
// rotary key beside it, queries from a latent of their own or projected at once; the first layers dense, the others a
// mixture of experts, chosen by groups, with experts that every token passes.

#include "frontends/families/Families.h"

using namespace mlir;
using namespace heddle;

static Value queries(ModelBuilder &b, Value x) {
  const LatentConfig &latent = b.config().latent;
  if (latent.qLoraRank)
    return b.linear(b.rmsNorm(b.linear(x, "self_attn.q_a_proj"), "self_attn.q_a_layernorm", latent.normEps),
                    "self_attn.q_b_proj");
  return b.linear(x, "self_attn.q_proj");
}

// Each head's rows of kv_b_proj, (heads, nope + v, kv_lora_rank), or of the two tensors that hold keys' and values' apart,
// keys' transposed.
static void upProjections(ModelBuilder &b, SmallVectorImpl<Value> &keyUps, SmallVectorImpl<Value> &valueUps) {
  const LatentConfig &latent = b.config().latent;
  int64_t rank = latent.kvLoraRank, nope = latent.qkNopeHeadDim, v = latent.vHeadDim;
  for (int64_t head = 0; head < b.config().numHeads; ++head) {
    if (latent.splitUps) {
      keyUps.push_back(b.weightRows("self_attn.k_b_proj.weight", head * rank, rank, /*transposed=*/true));
      valueUps.push_back(b.weightRows("self_attn.v_b_proj.weight", head * v, v));
      continue;
    }
    keyUps.push_back(b.weightRows("self_attn.kv_b_proj.weight", head * (nope + v), nope));
    valueUps.push_back(b.weightRows("self_attn.kv_b_proj.weight", head * (nope + v) + nope, v));
  }
}

static Value attentionBlock(ModelBuilder &b, Value x) {
  const ModelConfig &c = b.config();
  int64_t rank = c.latent.kvLoraRank, rope = c.latent.qkRopeHeadDim;
  Value q = b.rope(b.splitHeads(queries(b, x), c.numHeads), c.latent.qkNopeHeadDim);
  Value kv = b.linear(x, "self_attn.kv_a_proj_with_mqa");
  Value latent = b.rmsNorm(b.columns(kv, 0, rank), "self_attn.kv_a_layernorm", c.latent.normEps);
  Value keyRope = b.rope(b.splitHeads(b.columns(kv, rank, rank + rope), 1));
  SmallVector<Value> keyUps, valueUps;
  upProjections(b, keyUps, valueUps);
  Value attended = b.latentAttention(q, b.splitHeads(latent, 1), keyRope, keyUps, valueUps);
  return b.linear(b.mergeHeads(attended), "self_attn.o_proj");
}

static Value dense(ModelBuilder &b, Value x, const std::string &scope) {
  return b.linear(b.glu(b.linear(x, scope + ".gate_proj"), b.linear(x, scope + ".up_proj")), scope + ".down_proj");
}

static Value feedForward(ModelBuilder &b, int64_t layer, Value x) {
  const MoeConfig &moe = b.config().moe;
  if (!moe.layerIsMoe[layer])
    return dense(b, x, "mlp");
  Value routed = b.moe(x, "mlp.gate", "mlp.experts", "gate_proj", "up_proj", "down_proj");
  return moe.sharedIntermediateSize ? b.add(routed, dense(b, x, "mlp.shared_experts")) : routed;
}

void heddle::buildDeepSeek(ModelBuilder &b) {
  Value x = b.embedTokens("model.embed_tokens.weight");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "model.layers." + std::to_string(i) + ".", x, [&](Value x) {
      x = b.add(x, attentionBlock(b, b.rmsNorm(x, "input_layernorm")));
      return b.add(x, feedForward(b, i, b.rmsNorm(x, "post_attention_layernorm")));
    });
  b.finish(b.rmsNorm(x, "model.norm"), b.config().tieWordEmbeddings ? "model.embed_tokens.weight" : "lm_head.weight");
}
