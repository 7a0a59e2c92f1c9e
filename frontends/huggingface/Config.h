// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// config.json and generation_config.json, in the dialect of published checkpoints (rope_theta, rope_scaling) and in the
// newer one (rope_parameters).
#ifndef HEDDLE_FRONTENDS_HUGGINGFACE_CONFIG_H
#define HEDDLE_FRONTENDS_HUGGINGFACE_CONFIG_H

#include "frontends/Family.h"
#include "frontends/ModelFiles.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

// Config files are small; the bound keeps the objects built of them within the readers' memory limit.
constexpr size_t maxConfigBytes = 2 << 20;

// Reads config.json and, if there is one, generation_config.json, of one of `families`. Sizes are checked, the rest
// is not. A decoder embeds texts where `use` says it, where modules.json of sentence-transformers lies beside it, or where its tokens attend to
// all of their text.
Expected<ModelConfig> readHuggingFaceConfig(ModelFiles &files, const FamilyList &families, DecoderUse use);

// config.tower, of `top`'s vision_config, and what `joint`, the row that joins the two, reads of `top`. `config` is the decoder's.
Status joinTower(JsonObject &top, const Family &joint, const FamilyList &families, ModelConfig &config);

// What a graph does not say of a decoder, from the same two files beside it, where they are: the name of the
// architecture, special tokens, defaults of generation, and the trained length, which may only be less than what
// `config` holds.
Status readConfigBesideGraph(ModelFiles &files, ModelConfig &config);

// Keeps where the values lie that were read, for the checks that readers share.
void keepOffsets(const JsonObject &object, ModelConfig &config);

// Refuses what would change what a model computes and nobody has asked `object` for: after all else is read.
void refuseUnread(JsonObject &object, const ModelConfig &config);

// For the readers of a family's own keys. The first two fail the object where the value is missing, or no head has a whole width.
//
// The value under the family's name for `key`, else `fallback`; 0 stands for no fallback.
int64_t readSize(JsonObject &object, const ModelConfig &config, const char *key, int64_t fallback = 0);
void checkEvenHeads(JsonObject &object, const ModelConfig &config);
// The activation of this name; and all names, for messages.
std::optional<Activation> activationNamed(std::string_view name);
std::string knownActivations();
// A bound of softcapped scores or logits: `fallback` without the key, 0 for none where it is null. 0 itself is no bound: the reference divides by it.
double readSoftcap(JsonObject &object, const char *key, double fallback);
// num_local_experts, by the family's name for it, and num_experts_per_tok, with its defaults.
void readExpertCounts(JsonObject &object, ModelConfig &config, int64_t numExperts, int64_t expertsPerToken);
// Where a config says how it rotates: rope_scaling, unless it is empty, else rope_parameters.
const char *ropeKey(const JsonObject &object);
// One rotary embedding: `rope` holds type, factors and perhaps theta; `config` what stands outside of it.
RopeConfig readRope(JsonObject &rope, JsonObject &config, const ModelConfig &model, double theta);

// Of rotations by type of layer, once config.ropes has them: the reference reads truncate beside the types alone.
void readCommonTruncate(JsonObject &ropes, ModelConfig &config);
// config.ropes of a family whose layers that see all tokens and those with a window rotate apart: one object within rope_parameters for
// either or, in older files, bases under keys of their own, and rope_scaling, which those with a window take only if `scalesBoth`.
void readRopesByType(JsonObject &object, ModelConfig &config, double fullTheta, double slidingTheta, bool scalesBoth);

// config.ropes, and of config.layerRope (all 0 before) what differs, after layerWindow.
void readRopes(JsonObject &object, ModelConfig &config);

} // namespace heddle

#endif
