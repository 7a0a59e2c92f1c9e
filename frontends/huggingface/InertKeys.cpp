// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys that change what a model computes, and that its family does not read.
#include "bytes/Status.h"
#include "frontends/Json.h"
#include "frontends/huggingface/Config.h"

#include <cstdlib>

namespace heddle {

namespace {

// Keys of transformers' config classes that change what a model computes, and the value with which they change nothing; null changes
// nothing either. What a family does not ask for, it does not compute.
struct InertValue {
  const char *key, *value;
};
constexpr InertValue inertValues[] = {
    {"add_cross_attention", "false"},
    {"alibi", "false"},
    {"apply_residual_connection_post_layernorm", "false"},
    {"attention_bias", "false"},
    {"attention_chunk_size", "null"},
    {"attention_multiplier", "null"},
    {"attention_out_bias", "false"},
    {"attn_logit_softcapping", "null"},
    {"attn_temperature_tuning", "false"},
    {"clip_qkv", "null"},
    {"dual_chunk_attention_config", "null"},
    {"embedding_multiplier", "1"},
    {"final_logit_softcapping", "null"},
    {"is_causal", "true"},
    {"is_encoder_decoder", "false"},
    {"lm_head_bias", "false"},
    {"logit_scale", "1"},
    {"logits_scaling", "1"},
    {"mlp_bias", "false"},
    {"mlp_gate_softcap", "null"}, // of FP8 experts, as are its kin, whatever the family
    {"mlp_up_softcap", "null"},
    {"n_routed_experts", "0"},
    {"n_shared_experts", "0"},
    {"no_rope_layer_interval", "null"},
    {"no_rope_layers", "null"},
    {"num_experts", "0"},
    {"num_local_experts", "0"},
    {"parallel_attn", "false"},
    {"per_layer_config", "null"},
    {"qk_layernorm", "false"},
    {"qk_norm", "false"},
    {"qkv_bias", "false"},
    {"query_pre_attn_scalar", "null"},
    {"residual_multiplier", "1"},
    {"rotary_pct", "1"},
    {"scale_attn_by_inverse_layer_idx", "false"},
    {"scale_attn_weights", "true"},
    {"scale_emb", "1"},
    {"scoring_func", "softmax"},
    {"shared_expert_intermediate_size", "0"},
    {"swiglu_alpha", "null"},
    {"swiglu_limit", "null"},
    {"use_alibi", "false"},
    {"use_bias", "false"},
    {"use_bidirectional_attention", "false"},
    {"use_parallel_residual", "false"},
    {"use_qk_norm", "false"},
    {"use_qkv_bias", "false"},
    {"use_sliding_window", "false"},
};

bool isInert(JsonValue found, const char *inert) {
  if (found.is(JsonKind::Array)) {
    for (JsonItems items(found); items.next();)
      if (!isInert(items.value, inert))
        return false;
    return true;
  }
  double number; // a word counts as 0
  return !found || found.is(JsonKind::Null) || found.raw() == inert || found.equals(inert) ||
         (found.number(number) && number == std::strtod(inert, nullptr));
}

} // namespace

void refuseUnread(JsonObject &object, const ModelConfig &config) {
  for (const InertValue &entry : inertValues) {
    bool isRead = object.wasAsked(entry.key);
    JsonValue found = object.find(entry.key);
    if (isRead || isInert(found, entry.value))
      continue;
    bool isContainer = found.is(JsonKind::Array) || found.is(JsonKind::Object);
    object.unsupported(entry.key, (isContainer ? std::string("is set") : "is " + printable(found.raw(), 64)) +
                                      ", which is not supported for " + config.architecture + "; expected " +
                                      entry.value);
  }
}

} // namespace heddle
