// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a folder says of sound beside config.json: how it becomes a spectrogram (preprocessor_config.json), and which tokens ask for what of it
// (generation_config.json).
#ifndef HEDDLE_FRONTENDS_HUGGINGFACE_SPEECH_H
#define HEDDLE_FRONTENDS_HUGGINGFACE_SPEECH_H

#include "frontends/ModelFiles.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

struct ModelConfig;

// config.audio, once config.json is read. A folder that says nothing has the reference's values, and windows of as many frames as the model takes.
Status readFeatureExtractor(ModelFiles &files, ModelConfig &config);

// forced_decoder_ids of config.json or generation_config.json: what stands behind the decoder's start where nobody asks for more.
void readForcedTokens(JsonObject &object, ModelConfig &config);
// Languages, tasks and timestamps of generation_config.json.
void readSpeech(JsonObject &object, ModelConfig &config);

} // namespace heddle

#endif
