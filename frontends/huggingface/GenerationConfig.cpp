// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/huggingface/GenerationConfig.h"

#include "frontends/huggingface/Config.h"
#include "frontends/huggingface/Speech.h"

#include <algorithm>

namespace heddle {

namespace {

// Keys of transformers' GenerationConfig that change which tokens it generates and that no program here applies, with the number at which they
// change nothing.
struct GenerationKey {
  const char *key;
  std::optional<double> inert; // none: whatever it holds changes something
  bool shapesSamples = false;  // and nothing where do_sample is false
};
const GenerationKey generationKeys[] = {
    {"constraints", {}},
    {"diversity_penalty", 0},
    {"dola_layers", {}},
    {"encoder_no_repeat_ngram_size", 0},
    {"encoder_repetition_penalty", 1},
    {"epsilon_cutoff", 0, true},
    {"eta_cutoff", 0, true},
    {"exponential_decay_length_penalty", {}},
    {"force_words_ids", {}},
    {"forced_decoder_ids", {}},
    {"guidance_scale", 1},
    {"max_time", {}},
    {"num_beam_groups", 1},
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

// Those that readGeneration applies, but for tokens that every config.json names.
constexpr const char *appliedKeys[] = {
    "bad_words_ids",
    "begin_suppress_tokens",
    "do_sample",
    "early_stopping",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "min_p",
    "no_repeat_ngram_size",
    "num_beams",
    "renormalize_logits",
    "repetition_penalty",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
};

// What of the file asks for something beyond what readGeneration reads.
void noteNotApplied(const JsonObject &object, ModelConfig &config) {
  for (const GenerationKey &entry : generationKeys) {
    JsonValue found = object.find(entry.key);
    bool isContainer = found.is(JsonKind::Array) || found.is(JsonKind::Object);
    double number = found.isTrue();
    bool isNumber = found.is(JsonKind::Bool) || found.number(number);
    std::string_view key = entry.key;
    // Of a watermark without an entry, each has a default.
    bool isEmpty = isContainer && !JsonItems(found).next() && key != "watermarking_config";
    if (key == "num_beams" && !config.doSample)
      continue; // readGeneration has them
    if (key == "forced_decoder_ids" && config.audio.melBins)
      continue;
    if (!found || isEmpty || (isNumber && entry.inert && number == *entry.inert) ||
        (entry.shapesSamples && !config.doSample))
      continue;
    config.notApplied.push_back(entry.key + (isContainer ? "" : " " + printable(found.raw(), 64)));
  }
}

// A length that counts where it is at least 1.
int64_t readLength(JsonObject &object, const char *key) {
  return object.bounded(key, object.integer(key).value_or(0), 0, INT32_MAX);
}

// Sequences of tokens, none of them empty. A token and what parts it from the next take two bytes at least: no file (maxConfigBytes) names more
// tokens than a package may have (HEDDLE_MAX_BAD_WORD_TOKENS).
std::vector<std::vector<int64_t>> readBadWords(JsonObject &object) {
  const char *key = "bad_words_ids";
  std::vector<std::vector<int64_t>> words;
  JsonValue found = object.find(key);
  bool isList = !found || found.is(JsonKind::Array);
  for (JsonItems sequences(found); isList && sequences.next();) {
    std::vector<int64_t> &word = words.emplace_back();
    isList = sequences.value.is(JsonKind::Array);
    for (JsonItems ids(sequences.value); isList && ids.next();)
      isList = ids.value.integer(word.emplace_back());
    isList &= !word.empty();
  }
  if (!isList)
    object.fail(key, "is no list of lists of tokens");
  return words;
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
  if (JsonValue stops = object.find("early_stopping"); stops.equals("never"))
    config.neverStopsEarly = true;
  else
    config.earlyStopping = object.boolean("early_stopping").value_or(false);
  config.renormalizesLogits = object.boolean("renormalize_logits").value_or(false);
  config.badWords = readBadWords(object);
  config.minNewTokens = readLength(object, "min_new_tokens");
  config.minLength = object.has("min_new_tokens") ? 0 : readLength(object, "min_length"); // as the reference
  config.maxLength = readLength(object, "max_length");
  config.maxNewTokens = readLength(object, "max_new_tokens");
  config.doSample = object.boolean("do_sample").value_or(false);
  config.temperature = object.number("temperature").value_or(1.0);
  config.topP = object.number("top_p").value_or(1.0);
  config.minP = object.number("min_p").value_or(0.0);
  config.topK = object.integer("top_k").value_or(config.doSample ? defaultTopK : 0);
  config.repetitionPenalty = object.number("repetition_penalty").value_or(1.0);
}

Status readDefaults(JsonObject defaults, const char *name, ModelConfig &config) {
  readGeneration(defaults, config);
  HEDDLE_RETURN_IF_ERROR(defaults.status());
  keepOffsets(defaults, config);
  noteNotApplied(defaults, config);
  config.samplingSource = name;
  config.samplingFile = defaults.file();
  return validateGeneration(config, defaults.file());
}

// Whether a config.json holds keys of generation_config.json.
bool statesGeneration(const JsonObject &config) {
  auto isStated = [&](const char *key) { return config.has(key); };
  return std::any_of(std::begin(appliedKeys), std::end(appliedKeys), isStated) ||
         std::any_of(std::begin(generationKeys), std::end(generationKeys),
                     [&](const GenerationKey &entry) { return isStated(entry.key); });
}

} // namespace

JsonObject statedGeneration(JsonObject &config) {
  for (const char *part : {"decoder", "generator", "text_config"})
    if (JsonValue found = config.find(part); found.is(JsonKind::Object) && JsonItems(found).next())
      return config.orElse(config.object(part));
  return config;
}

Status readGenerationDefaults(ModelFiles &files, const JsonObject *stated, ModelConfig &config) {
  const char *name = "generation_config.json";
  if (!files.has(name))
    return stated && statesGeneration(*stated) ? readDefaults(*stated, "config.json", config) : Status();
  Expected<JsonFile> json = readConfigFile(files, name, maxConfigBytes);
  if (!json)
    return json.status();
  return readDefaults(JsonObject(*json, files.pathOf(name)), name, config);
}

} // namespace heddle
