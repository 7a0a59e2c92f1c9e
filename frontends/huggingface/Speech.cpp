// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/huggingface/Speech.h"

#include "frontends/ModelConfig.h"
#include "frontends/huggingface/Config.h"
#include "frontends/huggingface/ProcessorConfig.h"

namespace heddle {

namespace {

constexpr int64_t mostLanguages = 1024;

// How the reference's feature extractor makes a spectrogram. What it computes with other values of the last keys is not compiled.
void readExtractor(JsonObject &object, ModelConfig &config) {
  AudioConfig &audio = config.audio;
  int64_t frames = 2 * config.encoder.contextLength;
  if (int64_t bins = object.integer("feature_size").value_or(audio.melBins); bins != audio.melBins)
    return object.fail("feature_size", "is " + std::to_string(bins) + ", config.json has num_mel_bins " +
                                           std::to_string(audio.melBins));
  audio.samplingRate =
      object.bounded("sampling_rate", object.integer("sampling_rate").value_or(audio.samplingRate), 1, 384000);
  audio.fftSize = object.bounded("n_fft", object.integer("n_fft").value_or(audio.fftSize), 2, 8192);
  audio.hop = object.bounded("hop_length", object.integer("hop_length").value_or(audio.hop), 1, 8192);
  audio.samples =
      object.bounded("chunk_length", object.integer("chunk_length").value_or(30), 1, 3600) * audio.samplingRate;
  if (audio.fftSize % 2)
    object.unsupported("n_fft", "is odd (" + std::to_string(audio.fftSize) + "), which is not supported");
  else if (audio.samples <= audio.fftSize / 2)
    object.fail("n_fft", "is " + std::to_string(audio.fftSize) + ", of windows of " + std::to_string(audio.samples) +
                             " samples");
  else if (audio.samples / audio.hop != frames)
    object.fail("chunk_length", "makes " + std::to_string(audio.samples / audio.hop) +
                                    " frames, config.json asks for " + std::to_string(frames) +
                                    " (2 max_source_positions)");
  for (const char *key : {"padding_value", "dither"})
    if (double value = object.number(key).value_or(0); value != 0)
      object.unsupported(key, "is not 0, which is not supported");
  if (std::string side = object.string("padding_side").value_or("right"); side != "right")
    object.unsupported("padding_side", "is '" + printable(side, 64) + "', which is not supported; expected right");
}

// "<|de|>" is called "de".
std::string bare(const std::string &token) {
  bool isMarked = token.size() > 4 && token.compare(0, 2, "<|") == 0 && token.compare(token.size() - 2, 2, "|>") == 0;
  return isMarked ? token.substr(2, token.size() - 4) : token;
}

// The ids of the names of an object.
std::vector<std::pair<std::string, int64_t>> readNames(JsonObject &object, const char *key, const ModelConfig &config) {
  std::vector<std::pair<std::string, int64_t>> names;
  for (JsonItems items(object.find(key)); items.next();) {
    int64_t id = -1;
    bool fits = items.value.integer(id) && id >= 0 && id < config.vocabSize;
    if (!fits || int64_t(names.size()) == mostLanguages) {
      object.fail(key, "has '" + printable(items.key.string(), 64) + "' as " + printable(items.value.raw(), 64) +
                           ", expected at most 1024 tokens below vocab_size (" + std::to_string(config.vocabSize) +
                           ")");
      return {};
    }
    names.emplace_back(bare(items.key.string()), id);
  }
  return names;
}

// A token that the file may name.
std::optional<int64_t> readToken(JsonObject &object, const char *key, const ModelConfig &config) {
  std::optional<int64_t> id = object.integer(key);
  if (id && (*id < 0 || *id >= config.vocabSize))
    object.fail(key, "is " + std::to_string(*id) + ", expected a token below vocab_size (" +
                         std::to_string(config.vocabSize) + ")");
  return id;
}

} // namespace

Status readFeatureExtractor(ModelFiles &files, ModelConfig &config) {
  AudioConfig &audio = config.audio;
  audio.samples = 2 * config.encoder.contextLength * audio.hop;
  return readProcessorConfig(files, "feature_extractor", [&](JsonObject &object) { readExtractor(object, config); });
}

void readForcedTokens(JsonObject &object, ModelConfig &config) {
  JsonValue list = object.find("forced_decoder_ids");
  if (!list)
    return;
  std::vector<std::optional<int64_t>> &forced = config.speech.forced;
  forced.clear();
  for (JsonItems pairs(list); pairs.next();) {
    JsonItems pair(pairs.value);
    int64_t place = 0, id = -1;
    bool fits = pair.next() && pair.value.integer(place) && place == int64_t(forced.size()) + 1 && pair.next();
    bool isOpen = fits && pair.value.is(JsonKind::Null) && place == 1; // the language that is heard
    fits = fits && (isOpen || (pair.value.integer(id) && id >= 0 && id < config.vocabSize));
    if (!fits || pair.next())
      return object.fail("forced_decoder_ids", "has " + printable(pairs.value.raw(), 64) + ", expected [" +
                                                   std::to_string(forced.size() + 1) + ", a token below vocab_size (" +
                                                   std::to_string(config.vocabSize) + ")]");
    forced.push_back(isOpen ? std::nullopt : std::optional(id));
  }
}

void readSpeech(JsonObject &object, ModelConfig &config) {
  SpeechConfig &speech = config.speech;
  readForcedTokens(object, config);
  speech.noTimestampsId = readToken(object, "no_timestamps_token_id", config);
  speech.maxInitialTimestamp = object.integer("max_initial_timestamp_index");
  if (speech.maxInitialTimestamp && *speech.maxInitialTimestamp < 0)
    object.fail("max_initial_timestamp_index", "is negative (" + std::to_string(*speech.maxInitialTimestamp) + ")");
  speech.givesTimestamps = object.boolean("return_timestamps").value_or(false);
  if (speech.givesTimestamps && !speech.noTimestampsId)
    object.fail("return_timestamps", "is true, but no_timestamps_token_id is missing, behind which timestamps stand");
  speech.language = bare(object.string("language").value_or(""));
  speech.task = object.string("task").value_or("");
  if (!object.boolean("is_multilingual").value_or(true))
    return;
  speech.languages = readNames(object, "lang_to_id", config);
  speech.tasks = readNames(object, "task_to_id", config);
  auto check = [&](const char *key, const std::string &name, const auto &known) {
    for (const auto &entry : known)
      if (entry.first == name)
        return;
    if (!name.empty())
      object.fail(key, "is '" + printable(name, 64) + "', which the file has no token for");
  };
  check("language", speech.language, speech.languages);
  check("task", speech.task, speech.tasks);
}

} // namespace heddle
