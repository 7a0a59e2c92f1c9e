// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What configs of encoder-decoders say of both stacks.
#include "FamilyFiles.h"
#include "frontends/Family.h"
#include "frontends/read/ReadModel.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;
using nlohmann::json;

namespace {

TEST(ConfigOfEncoderDecoders, bothStacks) {
  ModelConfig config = familyConfig("bart", {{"forced_bos_token_id", 5}, {"forced_eos_token_id", 6}});
  EXPECT_EQ(config.encoder.numLayers, 2);
  EXPECT_EQ(config.encoder.numHeads, 4);
  EXPECT_EQ(config.encoder.intermediateSize, 64);
  EXPECT_EQ(config.intermediateSize, 80);
  EXPECT_EQ(config.encoder.contextLength, 64);
  EXPECT_EQ(config.firstPosition, 2);
  EXPECT_TRUE(config.hasEmbeddingNorm && config.hasLogitsBias && !config.normsBefore && !config.hasFinalNorm);
  EXPECT_EQ(config.decoderStartId, 2);
  EXPECT_EQ(config.forcedBosId, 5);
  EXPECT_EQ(config.forcedEosId, 6);
  EXPECT_EQ(familyConfig("bart", {{"decoder_start_token_id", nullptr}}).decoderStartId, 0); // bos_token_id
  EXPECT_EQ(familyConfig("marian").embeddingScale, 8.0);
  EXPECT_EQ(familyConfig("marian").activation, Activation::Silu);
  EXPECT_EQ(familyConfig("transformer").activation, Activation::Relu);
  EXPECT_EQ(familyConfig("m2m_100").firstPosition, 2); // behind pad_token_id
  EXPECT_EQ(familyConfig("m2m_100", {{"pad_token_id", -1}}).firstPosition, 0);
  for (auto [family, scale] : {std::pair<const char *, double>{"m2m_100", 8.0}, {"bart", 1.0}})
    EXPECT_EQ(familyConfig(family, {{"scale_embedding", nullptr}}).embeddingScale, scale) << family;
  EXPECT_TRUE(familyConfig("mbart").normsBefore && familyConfig("mbart").hasEmbeddingNorm);
  EXPECT_TRUE(familyConfig("pegasus").hasFinalNorm && !familyConfig("pegasus").hasEmbeddingNorm);
  for (const auto &[family, patch, expected] : {
           std::tuple<const char *, json, const char *>{
               "bart", {{"encoder_layers", 0}}, "encoder_layers is 0, expected 1"},
           {"bart", {{"encoder_layers", 3}}, "tensor model.encoder.layers.2.self_attn.q_proj.weight is missing"},
           {"bart", {{"encoder_layers", 1}}, "encoder.layers.1.fc1.bias' and 15 more are not part of a model"},
           {"bart", {{"decoder_layers", nullptr}}, "decoder_layers is missing"},
           {"bart", {{"encoder_attention_heads", 5}}, "encoder_attention_heads (5) must divide d_model (64)"},
           {"bart", {{"encoder_ffn_dim", 1 << 30}}, "encoder_ffn_dim is 1073741824, expected 1 to"},
           {"bart", {{"max_position_embeddings", 63}}, "embed_positions.weight has shape (66, 64)"},
           {"bart", {{"is_encoder_decoder", false}}, "is_encoder_decoder is false, which is not supported"},
           {"bart", {{"forced_bos_token_id", 256}}, "forced_bos_token_id is 256, expected a token below vocab_size"},
           {"bart",
            {{"decoder_start_token_id", nullptr}, {"bos_token_id", nullptr}},
            "decoder_start_token_id is missing"},
           {"marian",
            {{"decoder_vocab_size", 255}},
            "decoder_vocab_size is 255, which is not supported beside vocab_size"},
           {"m2m_100", {{"pad_token_id", -2}}, "pad_token_id is -2, behind which positions begin: expected -1 to"},
           {"marian", {{"share_encoder_decoder_embeddings", false}}, "share_encoder_decoder_embeddings is false"},
           {"marian", {{"max_position_embeddings", 1 << 29}}, "expected at most 16777216 sinusoidal positions"},
           {"whisper", {{"num_mel_bins", 80}}, "conv1.weight has shape (64, 16, 3), the config asks for (64, 240)"},
           {"whisper", {{"num_mel_bins", 1 << 20}}, "num_mel_bins is 1048576, expected 1 to 1024"},
           {"whisper",
            {{"max_source_positions", 1500}},
            "encoder.embed_positions.weight has shape (24, 64), the config asks for (1500, 64)"},
           {"whisper", {{"max_target_positions", nullptr}}, "the config asks for (448, 64)"},
           {"whisper", {{"tie_word_embeddings", false}}, "tensor proj_out.weight is missing"},
           {"transformer", {{"share_embeddings", false}}, "share_embeddings is false"},
           {"transformer", {{"norm_first", true}}, "tensor model.encoder.layer_norm.weight is missing"},
           {"transformer", {{"attention_bias", false}}, "' and 23 more are not part of a model"},
           {"transformer", {{"position_embedding_type", "learned"}}, "is 'learned', expected sinusoidal_interleaved"},
           {"t5", {{"num_layers", 3}}, "tensor encoder.block.2.layer.0.SelfAttention.q.weight is missing"},
           {"t5",
            {{"num_layers", 3}, {"num_decoder_layers", nullptr}},
            "tensor encoder.block.2.layer.0.SelfAttention.q.weight is missing"},
           {"t5", {{"num_decoder_layers", 3}}, "tensor decoder.block.2.layer.0.SelfAttention.q.weight is missing"},
           {"t5", {{"num_decoder_layers", 0}}, "num_decoder_layers is 0, expected 1 to"},
           {"t5", {{"num_layers", nullptr}}, "num_layers is missing"},
           {"t5", {{"d_kv", 8}}, "layer.0.SelfAttention.q.weight has shape (64, 64), the config asks for (32, 64)"},
           {"t5", {{"is_gated_act", true}}, "tensor encoder.block.0.layer.1.DenseReluDense.wi_0.weight is missing"},
           {"t5", {{"dense_act_fn", "swoosh"}}, "dense_act_fn is 'swoosh', an unknown activation; known: silu"},
           {"t5",
            {{"dense_act_fn", nullptr}, {"feed_forward_proj", "gated-gelu-x"}},
            "feed_forward_proj is 'gated-gelu-x', expected ACTIVATION or gated-ACTIVATION, of silu"},
           {"t5", {{"relative_attention_num_buckets", 3}}, "relative_attention_num_buckets is 3, expected 4 to 4096"},
           {"t5",
            {{"relative_attention_num_buckets", 10}},
            "bias.weight has shape (8, 4), the config asks for (10, 4)"},
           {"t5",
            {{"relative_attention_max_distance", 4}},
            "relative_attention_max_distance is 4, expected a number above half of the 8 buckets, at most 8192"},
           {"t5", {{"is_encoder_decoder", false}}, "is_encoder_decoder is false, which is not supported"},
           {"switch_transformers", {{"num_experts", 0}}, "num_experts is 0, expected at least 1"},
           {"switch_transformers",
            {{"num_experts", 5}},
            "mlp.router.classifier.weight has shape (4, 64), the config asks for (5, 64)"},
           {"switch_transformers",
            {{"encoder_sparse_step", 1}},
            "tensor encoder.block.0.layer.1.mlp.router.classifier.weight is missing"},
           {"switch_transformers",
            {{"decoder_sparse_step", 0}},
            "tensor decoder.block.1.layer.2.mlp.wi.weight is missing"},
           {"switch_transformers",
            {{"router_bias", true}},
            "tensor encoder.block.1.layer.1.mlp.router.classifier.bias is missing"},
           {"switch_transformers", {{"expert_capacity", 0}}, "expert_capacity is 0, expected 1 to 1073741824"},
           {"switch_transformers",
            {{"router_dtype", "bfloat16"}},
            "router_dtype is 'bfloat16', which is not supported; expected float32"},
           {"switch_transformers", {{"is_encoder_decoder", false}}, "is_encoder_decoder is false"},
       }) {
    TemporaryFolder folder;
    Expected<Model> model = readFamily(folder, family, patch);
    ASSERT_FALSE(model) << expected;
    EXPECT_NE(model.message().find(expected), std::string::npos) << model.message();
  }
}

TEST(ConfigOfEncoderDecoders, distancesAndGates) {
  ModelConfig config = familyConfig("t5");
  EXPECT_EQ(config.encoder.numLayers, 2);
  EXPECT_EQ(config.relativeBuckets, 8);
  EXPECT_EQ(config.relativeDistance, 20);
  EXPECT_EQ(config.attentionScale, 1.0);
  EXPECT_TRUE(config.tieWordEmbeddings && !config.gatesFeedForward);
  EXPECT_EQ(config.logitScale, 1.0 / 8.0); // hidden_size ^ -0.5
  EXPECT_EQ(config.activation, Activation::Relu);
  EXPECT_EQ(familyConfig("t5", json::object(), {"scale_decoder_outputs"}).logitScale, 1.0); // null means false
  // What newer files say apart counts before feed_forward_proj and tie_word_embeddings.
  config = familyConfig("t5_gated", {{"feed_forward_proj", "relu"}});
  EXPECT_TRUE(config.gatesFeedForward);
  EXPECT_EQ(config.activation, Activation::GeluTanh);
  EXPECT_EQ(config.logitScale, 1.0);
  json older = {{"dense_act_fn", nullptr}, {"is_gated_act", nullptr}, {"scale_decoder_outputs", nullptr}};
  for (auto [form, activation] :
       {std::pair<const char *, Activation>{"gated-gelu", Activation::GeluTanh}, {"gated-silu", Activation::Silu}}) {
    older["feed_forward_proj"] = form;
    config = familyConfig("t5_gated", older);
    EXPECT_TRUE(config.gatesFeedForward);
    EXPECT_EQ(config.activation, activation);
    EXPECT_EQ(config.logitScale, 1.0 / 8.0);
  }
  older["tie_word_embeddings"] = false;
  EXPECT_EQ(familyConfig("t5_gated", older).logitScale, 1.0);
  older.merge_patch({{"model_type", "mt5"}, {"feed_forward_proj", nullptr}, {"tie_word_embeddings", true}});
  config = familyConfig("t5_gated", older);
  EXPECT_TRUE(config.gatesFeedForward);
  EXPECT_EQ(config.activation, Activation::GeluTanh);
  EXPECT_EQ(config.logitScale, 1.0);
}

TEST(ConfigOfEncoderDecoders, sparseLayersOfBothStacks) {
  ModelConfig config = familyConfig("switch_transformers");
  EXPECT_EQ(config.encoder.layerIsMoe, (std::vector<bool>{false, true}));
  EXPECT_EQ(config.moe.layerIsMoe, (std::vector<bool>{false, true}));
  EXPECT_EQ(config.moe.numExperts, 4);
  EXPECT_EQ(config.moe.expertsPerToken, 1);
  EXPECT_EQ(config.moe.capacity, 64);
  EXPECT_EQ(config.moe.intermediateSize, 40);
  EXPECT_TRUE(!config.moe.normTopkProb && !config.moe.hasRouterBias);
  EXPECT_EQ(config.logitScale, 1.0 / 8.0);
  // Where a file has no steps, the numbers of sparse layers give them.
  json counts = {{"encoder_sparse_step", nullptr}, {"decoder_sparse_step", nullptr}};
  EXPECT_EQ(familyConfig("switch_transformers", counts).moe.layerIsMoe, (std::vector<bool>{false, true}));
  counts["num_sparse_decoder_layers"] = 0; // as the reference: of all layers, the second
  EXPECT_EQ(familyConfig("switch_transformers", counts).moe.layerIsMoe, (std::vector<bool>{false, true}));
  counts["num_sparse_decoder_layers"] = 3; // more than there are: none
  EXPECT_NE(familyRefusal("switch_transformers", counts).find("decoder.block.1.layer.2.mlp.wi.weight is missing"),
            std::string::npos);
}

// The model of t5, with tensors as large as the embedding under `names`; the last byte of the last of them is `last`.
Expected<Model> readWithTensors(const TemporaryFolder &folder, std::initializer_list<const char *> names, char last) {
  EXPECT_TRUE(readFamily(folder, "t5"));
  json header = json::parse(familyData("t5/header.json"));
  uint64_t end = 0;
  for (const json &tensor : header)
    if (tensor.contains("data_offsets"))
      end = std::max(end, tensor["data_offsets"][1].get<uint64_t>());
  json tensor = header["shared.weight"];
  uint64_t size = tensor["data_offsets"][1].get<uint64_t>() - tensor["data_offsets"][0].get<uint64_t>();
  for (const char *name : names) {
    tensor["data_offsets"] = {end, end + size};
    header[name] = tensor;
    end += size;
  }
  std::string bytes = safetensorsFile(header.dump(), end);
  bytes.back() = last;
  folder.write("model.safetensors", bytes);
  return readModel(folder.path());
}

// Files may repeat the embedding under its names in the stacks, or hold a table for each; one that differs alone is refused. A head that they hold is
// the model's, whatever the config says.
TEST(ConfigOfEncoderDecoders, tensorsBesideTheEmbedding) {
  TemporaryFolder folder;
  const char *encoder = "encoder.embed_tokens.weight", *decoder = "decoder.embed_tokens.weight";
  EXPECT_TRUE(readWithTensors(folder, {encoder}, 0));
  Expected<Model> repeated = readWithTensors(folder, {encoder, decoder}, 0);
  ASSERT_TRUE(repeated) << repeated.message();
  EXPECT_FALSE(repeated->config.hasOwnEmbeddings);
  Expected<Model> apart = readWithTensors(folder, {encoder, decoder}, 1);
  ASSERT_TRUE(apart) << apart.message();
  EXPECT_TRUE(apart->config.hasOwnEmbeddings);
  Expected<Model> refused = readWithTensors(folder, {encoder}, 1);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.message().find(": encoder.embed_tokens.weight differs from shared.weight"), std::string::npos)
      << refused.message();
  Expected<Model> withHead = readWithTensors(folder, {"lm_head.weight"}, 1);
  ASSERT_TRUE(withHead) << withHead.message();
  EXPECT_FALSE(withHead->config.tieWordEmbeddings);
  EXPECT_EQ(withHead->config.logitScale, 1.0 / 8.0);
}

// conv1 is one matrix over its window, conv2 one for each tap: (tap, out) by (in).
TEST(ConfigOfEncoderDecoders, soundOfOneLength) {
  TemporaryFolder folder;
  Expected<Model> model = readFamily(folder, "whisper", {{"scale_embedding", true}, {"num_hidden_layers", 2}});
  ASSERT_TRUE(model) << model.message();
  const ModelConfig &config = model->config;
  EXPECT_EQ(config.audio.melBins, 16);
  EXPECT_EQ(config.inputWidth(), 3 * (3 * 16 + 1));
  EXPECT_EQ(config.encoder.contextLength, 24);
  EXPECT_EQ(config.contextLength, 48);
  EXPECT_EQ(config.embeddingScale, 1.0);
  EXPECT_TRUE(config.noKeyBias && config.tieWordEmbeddings);
  auto shapeOf = [&](const char *name) { return model->checkpoint.find(name)->shape; };
  EXPECT_EQ(shapeOf("model.encoder.conv1.weight"), (std::vector<int64_t>{64, 48}));
  EXPECT_EQ(shapeOf("model.encoder.conv2.weight"), (std::vector<int64_t>{192, 64}));
}

// Keys of published checkpoints that say nothing of the graph.
TEST(ConfigOfEncoderDecoders, publishedSpeech) {
  ModelConfig config = familyConfig("whisper", {{"begin_suppress_tokens", {20, 2}},
                                                {"forced_decoder_ids", {{1, 66}, {2, 69}, {3, 73}}},
                                                {"max_length", 48},
                                                {"suppress_tokens", {1, 2, 7}},
                                                {"torch_dtype", "float16"}});
  EXPECT_EQ(config.decoderStartId, 3);
  EXPECT_EQ(config.suppressed, (std::vector<int64_t>{1, 2, 7}));
  EXPECT_EQ(config.suppressedFirst, (std::vector<int64_t>{20, 2}));
  EXPECT_EQ(config.speech.forced, (std::vector<std::optional<int64_t>>{66, 69, 73}));
}

// The model of speech, of 48 frames, beside these files.
Expected<Model> readSpeech(const json &generation, const json &extractor) {
  TemporaryFolder folder;
  EXPECT_TRUE(readFamily(folder, "whisper"));
  folder.write("generation_config.json", generation.dump());
  json whole = {{"feature_size", 16}, {"hop_length", 333}, {"chunk_length", 1}, {"n_samples", 16000}};
  if (extractor.is_object())
    whole.merge_patch(extractor);
  folder.write("preprocessor_config.json", whole.dump());
  return readModel(folder.path());
}

TEST(ConfigOfEncoderDecoders, whatIsAskedOfSound) {
  json languages = {{"<|de|>", 11}, {"<|en|>", 10}};
  Expected<Model> model = readSpeech({{"lang_to_id", languages},
                                      {"task_to_id", {{"transcribe", 12}, {"translate", 13}}},
                                      {"forced_decoder_ids", {{1, nullptr}, {2, 12}}},
                                      {"no_timestamps_token_id", 20},
                                      {"max_initial_timestamp_index", 50},
                                      {"language", "<|de|>"},
                                      {"suppress_tokens", {4}}},
                                     {{"n_fft", 512}});
  ASSERT_TRUE(model) << model.message();
  const SpeechConfig &speech = model->config.speech;
  EXPECT_EQ(speech.languages, (std::vector<std::pair<std::string, int64_t>>{{"de", 11}, {"en", 10}}));
  EXPECT_EQ(speech.tasks.size(), 2u);
  EXPECT_EQ(speech.forced, (std::vector<std::optional<int64_t>>{std::nullopt, 12}));
  EXPECT_EQ(speech.language, "de");
  EXPECT_EQ(speech.noTimestampsId, 20);
  EXPECT_EQ(speech.maxInitialTimestamp, 50);
  EXPECT_EQ(model->config.notApplied, std::vector<std::string>());
  const AudioConfig &audio = model->config.audio;
  EXPECT_EQ(audio.fftSize, 512);
  EXPECT_EQ(audio.hop, 333);
  EXPECT_EQ(audio.samples, 16000);
  for (const auto &[generation, extractor, expected] : {
           std::tuple<json, json, const char *>{
               {{"lang_to_id", {{"<|en|>", 256}}}}, {}, "lang_to_id has '<|en|>' as 256, expected at most 1024 tokens"},
           {{{"forced_decoder_ids", {{2, 5}}}}, {}, "forced_decoder_ids has [2,5], expected [1, a token below"},
           {{{"forced_decoder_ids", {{1, 5}, {2, nullptr}}}}, {}, "forced_decoder_ids has [2,null]"},
           {{{"return_timestamps", true}}, {}, "return_timestamps is true, but no_timestamps_token_id is missing"},
           {{{"no_timestamps_token_id", 256}}, {}, "no_timestamps_token_id is 256, expected a token below"},
           {{{"max_initial_timestamp_index", -1}}, {}, "max_initial_timestamp_index is negative (-1)"},
           {{{"lang_to_id", languages}, {"language", "fr"}}, {}, "language is 'fr', which the file has no token for"},
           {{{"task", "sing"}}, {}, "task is 'sing', which the file has no token for"},
           {{{"suppress_tokens", {256}}}, {}, "suppress_tokens is 256, expected a token below"},
           {{{"begin_suppress_tokens", {-1}}}, {}, "begin_suppress_tokens is -1, expected a token below"},
           {json::object(), {{"feature_size", 80}}, "feature_size is 80, config.json has num_mel_bins 16"},
           {json::object(), {{"n_fft", 401}}, "n_fft is odd (401)"},
           {json::object(), {{"n_fft", 1 << 20}}, "n_fft is 1048576, expected 2 to 8192"},
           {json::object(), {{"sampling_rate", 0}}, "sampling_rate is 0, expected 1 to 384000"},
           {json::object(), {{"sampling_rate", 150}}, "n_fft is 400, of windows of 150 samples"},
           {json::object(), {{"hop_length", 160}}, "chunk_length makes 100 frames, config.json asks for 48"},
           {json::object(), {{"dither", 0.5}}, "dither is not 0"},
           {json::object(), {{"padding_side", "left"}}, "padding_side is 'left'"},
       }) {
    Expected<Model> refused = readSpeech(generation, extractor);
    ASSERT_FALSE(refused) << expected;
    EXPECT_NE(refused.message().find(expected), std::string::npos) << refused.message();
  }
}

} // namespace
