// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/huggingface/GenerationConfig.h"

#include "frontends/huggingface/Config.h"
#include "frontends/huggingface/Speech.h"

namespace heddle {

namespace {

// Keys of transformers' GenerationConfig that change which tokens it generates and that no program here applies, with the number at which they
// change nothing. Lengths are the caller's, and what shapes beams alone does nothing without num_beams.
struct GenerationKey {
  const char *key;
  std::optional<double> inert; // none: whatever it holds changes something
  bool shapesSamples = false;  // and nothing where do_sample is false
};
const GenerationKey generationKeys[] = {
    {"bad_words_ids", {}},
    {"constraints", {}},
    {"dola_layers", {}},
    {"early_stopping", {}}, // "never"
    {"encoder_no_repeat_ngram_size", 0},
    {"encoder_repetition_penalty", 1},
    {"epsilon_cutoff", 0, true},
    {"eta_cutoff", 0, true},
    {"exponential_decay_length_penalty", {}},
    {"force_words_ids", {}},
    {"forced_decoder_ids", {}},
    {"guidance_scale", 1},
    {"max_time", {}},
    {"min_length", 0},
    {"min_new_tokens", 0},
    {"num_beams", 1}, // with do_sample
    {"num_return_sequences", 1},
    {"penalty_alpha", 0},
    {"sequence_bias", {}},
    {"stop_strings", {}},
    {"token_healing", 0},
    {"top_h", {}, true},
    {"typical_p", 1, true},
    {"watermarking_config", {}},
};

// What a generation_config.json asks for beyond what readGeneration reads.
void noteNotApplied(const JsonObject &object, ModelConfig &config) {
  for (const GenerationKey &entry : generationKeys) {
    JsonValue found = object.find(entry.key);
    bool isContainer = found.is(JsonKind::Array) || found.is(JsonKind::Object);
    double number = found.isTrue();
    bool isNumber = found.is(JsonKind::Bool) || found.number(number);
    bool isEmpty = isContainer && !JsonItems(found).next();
    std::string_view key = entry.key;
    if ((key == "num_beams" && !config.doSample) || (key == "early_stopping" && found.is(JsonKind::Bool)))
      continue; // readGeneration has them
    if (key == "forced_decoder_ids" && config.audio.melBins)
      continue;
    if (!found || isEmpty || (isNumber && entry.inert && number == *entry.inert) ||
        (entry.shapesSamples && !config.doSample))
      continue;
    config.notApplied.push_back(entry.key + (isContainer ? "" : " " + printable(found.raw(), 64)));
  }
}

void readGeneration(JsonObject &object, ModelConfig &config) {
  std::vector<int64_t> eos = object.integers("eos_token_id");
  if (!eos.empty())
    config.eosIds = eos;
  if (std::optional<int64_t> bos = object.integer("bos_token_id"))
    config.bosId = bos;
  if (std::optional<int64_t> pad = object.integer("pad_token_id"))
    config.padId = *pad == -1 ? std::nullopt : pad;
  if (std::optional<int64_t> start = object.integer("decoder_start_token_id"))
    config.decoderStartId = start;
  config.forcedBosId = object.integer("forced_bos_token_id");
  config.forcedEosId = object.integer("forced_eos_token_id");
  config.suppressed = object.integers("suppress_tokens");
  config.suppressedFirst = object.integers("begin_suppress_tokens");
  if (config.audio.melBins)
    readSpeech(object, config);
  config.numBeams = object.integer("num_beams").value_or(1);
  config.noRepeatNgram = object.integer("no_repeat_ngram_size").value_or(0);
  config.lengthPenalty = object.number("length_penalty").value_or(1.0);
  if (JsonValue stops = object.find("early_stopping"); stops.is(JsonKind::Bool))
    config.earlyStopping = stops.isTrue();
  config.doSample = object.boolean("do_sample").value_or(false);
  config.temperature = object.number("temperature").value_or(1.0);
  config.topP = object.number("top_p").value_or(1.0);
  config.minP = object.number("min_p").value_or(0.0);
  config.topK = object.integer("top_k").value_or(config.doSample ? defaultTopK : 0);
  config.repetitionPenalty = object.number("repetition_penalty").value_or(1.0);
}

} // namespace

Status readGenerationFile(ModelFiles &files, ModelConfig &config) {
  const char *name = "generation_config.json";
  std::string path = files.pathOf(name);
  if (!files.has(name))
    return Status();
  Expected<JsonFile> json = readConfigFile(files, name, maxConfigBytes);
  if (!json)
    return json.status();
  JsonObject defaults(*json, path);
  readGeneration(defaults, config);
  HEDDLE_RETURN_IF_ERROR(defaults.status());
  keepOffsets(defaults, config);
  noteNotApplied(defaults, config);
  config.samplingSource = name;
  config.samplingFile = path;
  return validateGeneration(config, path);
}

} // namespace heddle
