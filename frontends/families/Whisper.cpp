// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whisper (Radford et al. 2022, arXiv:2212.04356): the encoder reads a log-mel spectrogram of fixed length through two convolutions over time, the
// decoder writes what is said. Learned positions, norms before attention and feed-forward, keys without biases.

#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule whisperRules[] = {
    {"model.decoder.embed_tokens.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"proj_out.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"model.encoder.conv1.weight", nullptr, ConfigDim::Hidden, ConfigDim::MelWindow, When::Always,
     StoredOrder::Flattened},
    {"model.encoder.conv1.bias", nullptr, ConfigDim::Hidden, ConfigDim::One, When::Always, StoredOrder::Flattened},
    {"model.encoder.conv2.weight", nullptr, ConfigDim::Hidden, ConfigDim::HiddenWindow, When::Always,
     StoredOrder::Flattened},
    {"model.encoder.conv2.bias", nullptr, ConfigDim::Hidden},
};

static constexpr KeyName keyNames[] = {
    HEDDLE_ENCODER_DECODER_KEYS,
    {"max_position_embeddings", "max_target_positions"},
};

static constexpr KeyAlias aliases[] = {{"num_key_value_heads", "encoder_attention_heads"},
                                       HEDDLE_ENCODER_DECODER_ALIASES};

static void readSizes(JsonObject &object, ModelConfig &config) {
  readEncoderDecoderSizes(object, config);
  config.encoder.contextLength = object.integer("max_source_positions").value_or(1500);
  config.audio.melBins = object.integer("num_mel_bins").value_or(80);
  if (int64_t bins = config.audio.melBins; bins < 1 || bins > 1024)
    object.fail("num_mel_bins", "is " + std::to_string(bins) + ", expected 1 to 1024");
}

static void readRest(JsonObject &object, ModelConfig &config) {
  readEncoderDecoderScales(object, config);
  config.embeddingScale = 1.0; // the reference keeps scale_embedding and never multiplies by it
  config.noKeyBias = true;
}

// A token's numbers hold what conv1 sees at each tap of conv2, so that both are linear layers of one token. Where a tap lies outside of the
// sound, conv2 is padded with zeros: its numbers and what stands for conv1's bias are zeros, and GELU keeps them.
static TensorHandle embedSound(ModelBuilder &b) {
  const AudioConfig &audio = b.config().audio;
  int64_t hidden = b.config().hiddenSize, width = audio.windowWidth();
  TensorHandle rows = b.patches(), x;
  for (int64_t tap = 0; tap < AudioConfig::taps; ++tap) {
    int64_t begin = tap * (width + 1);
    TensorHandle seen = b.linear(b.columns(rows, begin, begin + width), "model.encoder.conv1.weight", "");
    seen = b.add(seen, b.linear(b.columns(rows, begin + width, begin + width + 1), "model.encoder.conv1.bias", ""));
    TensorHandle part = b.linear(b.activation(seen, Activation::Gelu), "model.encoder.conv2.weight",
                                 tap ? "" : "model.encoder.conv2.bias", tap * hidden, hidden);
    x = tap ? b.add(x, part) : part;
  }
  return b.add(b.activation(x, Activation::Gelu), b.embedPositions("model.encoder.embed_positions.weight"));
}

static void build(ModelBuilder &b) {
  buildEncoderDecoder(b, embedSound(b), "model.decoder.embed_positions.weight");
}

static constexpr Family describeWhisper() {
  Family row = describeEncoderDecoder("whisper");
  row.embedding = "model.decoder.embed_tokens.weight";
  row.head = "proj_out.weight";
  row.embeddingCopies = {};
  row.logitsBias = nullptr;
  row.rules = {TensorRules(whisperRules), TensorRules(encoderDecoderRules), TensorRules(learnedPositionRules)};
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.defaults.vocabSize = 51865;
  row.defaults.context = 448;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readRest;
  row.addTensors = [](Model &model) { return splitTaps(model, "model.encoder.conv2.weight"); };
  row.build = build;
  return row;
}
const Family family::whisper = describeWhisper();

} // namespace heddle
