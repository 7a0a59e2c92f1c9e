// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types, keys and names are those of llama.cpp's converter (convert_hf_to_gguf.py --mmproj), and of the older one of LLaVA's files.
#include "frontends/families/Projectors.h"

#include "bytes/Json.h"
#include "bytes/Text.h"
#include "frontends/mmproj/ClipConfig.h"

#include <algorithm>
#include <tuple>

namespace heddle {

static constexpr ClipKey squareKeys[] = {{"vision.projector.scale_factor", ClipPart::Joint, "scale_factor"}};

// SigLIP's sides are divided by the factor, which is 4 where the file does not say it.
static void readGemma3(ClipConfig &config) {
  const char *key = "vision.projector.scale_factor";
  int64_t factor = config.integer(key, 4), grid = config.imageSize / std::max<int64_t>(config.patchSize, 1);
  if (factor < 1 || factor > grid || grid % factor)
    return config.fail(key, "is " + std::to_string(factor) + ", expected a divisor of the " + std::to_string(grid) +
                                " patches on a side of an image");
  int64_t onSide = std::min<int64_t>(grid / factor, 1 << 14);
  config.add(ClipPart::Joint, "mm_tokens_per_image", std::to_string(onSide * onSide), key);
}

// The longer side that an image is resized to before it is cut.
static void readIdefics3(ClipConfig &config) {
  const char *key = "vision.preproc_image_size";
  constexpr int64_t tilesOnSide = 4;
  int64_t edge = config.integer(key, tilesOnSide * std::clamp<int64_t>(config.imageSize, 0, 1 << 14));
  config.add(ClipPart::Processor, "size", "{\"longest_edge\": " + std::to_string(edge) + "}", key);
}

static constexpr ClipKey pixelKeys[] = {{"vision.spatial_merge_size", ClipPart::Vision, "spatial_merge_size"},
                                        {"vision.spatial_merge_size", ClipPart::Processor, "merge_size"},
                                        {"vision.patch_size", ClipPart::Processor, "patch_size", true},
                                        {"vision.embedding_length", ClipPart::Vision, "embed_dim", true},
                                        {"vision.window_size", ClipPart::Vision, "window_size"}};

// As llama.cpp, where the file says nothing: 8 to 4096 tokens.
static void readPixels(ClipConfig &config) {
  int64_t side = std::clamp<int64_t>(config.patchSize, 1, 1 << 10) *
                 std::clamp<int64_t>(config.integer("vision.spatial_merge_size", 2), 1, 64);
  for (auto [key, name, tokens] : {std::tuple("vision.image_min_pixels", "min_pixels", int64_t(8)),
                                   {"vision.image_max_pixels", "max_pixels", int64_t(4096)}})
    config.add(ClipPart::Processor, name,
               std::to_string(config.integer(key, std::min(tokens * side * side, int64_t(1) << 27))), key);
}

// The file's feed_forward_length is the decoder's width.
static void readQwen2(ClipConfig &config) {
  readPixels(config);
  int64_t width = std::max<int64_t>(config.integer("vision.embedding_length", 1), 1);
  const char *up = "v.blk.0.ffn_up.weight", *down = "v.blk.0.ffn_down.weight";
  int64_t wide =
      std::max(config.dimension(up, 0), config.dimension(down, 0)); // older files have the two the other way round
  config.add(ClipPart::Vision, "mlp_ratio", std::to_string(wide / width));
}

static void readQwen25(ClipConfig &config) {
  readPixels(config);
  const char *key = "vision.n_wa_pattern";
  int64_t layers = std::min<int64_t>(config.integer("vision.block_count", 0), 4096), every = config.integer(key, -1);
  if (every < 0 || every > layers)
    return config.fail(key, "is " + (every < 0 ? "missing or negative" : std::to_string(every)) +
                                ", expected a number of layers up to " + std::to_string(layers));
  std::vector<int64_t> whole;
  for (int64_t layer = 0; layer < layers; ++layer)
    if (every == 0 || (layer + 1) % every == 0)
      whole.push_back(layer);
  config.add(ClipPart::Vision, "fullatt_block_indexes", jsonIntegers(whole), key);
}

static void readQwen3(ClipConfig &config) {
  readPixels(config);
  config.add(ClipPart::Vision, "num_position_embeddings",
             std::to_string(config.dimension("v.position_embd.weight", 0)));
  const char *key = "vision.is_deepstack_layers";
  config.add(ClipPart::Vision, "deepstack_visual_indexes", jsonIntegers(config.setBits(key)), key);
}

static void readInternVl(ClipConfig &config) {
  const char *key = "vision.projector.scale_factor";
  int64_t factor = config.integer(key, 2);
  if (factor < 1 || factor > 64)
    return config.fail(key, "is " + std::to_string(factor) + ", expected 1 to 64");
  config.add(ClipPart::Joint, "downsample_ratio", jsonNumber(1.0 / double(factor)), key);
  auto flag = [&](const char *name, bool value) { config.add(ClipPart::Vision, name, value ? "true" : "false"); };
  config.add(ClipPart::Vision, "norm_type", config.holds("v.blk.0.ln1.bias") ? "\"layer_norm\"" : "\"rms_norm\"");
  flag("attention_bias", config.holds("v.blk.0.attn_q.bias") || config.holds("v.blk.0.attn_qkv.bias"));
  flag("use_qk_norm", config.holds("v.blk.0.attn_q_norm.weight"));
  flag("use_absolute_position_embeddings", config.holds("v.position_embd.weight"));
  flag("use_mean_pooling", !config.holds("v.post_ln.weight"));
}

static constexpr ClipKey tileKeys[] = {{"vision.preproc_min_tiles", ClipPart::Processor, "min_patches"},
                                       {"vision.preproc_max_tiles", ClipPart::Processor, "max_patches"}};

// What counts is the last layer that the file has, unless it says which.
static void readLlava(ClipConfig &config) {
  const char *key = "vision.feature_layer";
  std::vector<int64_t> layers = config.has(key) ? config.integers(key) : std::vector<int64_t>{-1};
  config.add(ClipPart::Joint, "vision_feature_layer", jsonIntegers(layers), key);
  if (config.holds("v.post_ln.weight"))
    config.unsupported(key, "counts before a norm behind the last layer (v.post_ln.weight), which is not supported of "
                            "projector_type 'mlp'");
  bool hasClass = config.holds("v.class_embd");
  config.add(ClipPart::Joint, "vision_feature_select_strategy", hasClass ? "\"default\"" : "\"full\"");
  for (const char *unused : {"vision.mm_projector_type", "vision.image_aspect_ratio", "vision.image_crop_resolution"})
    (void)config.has(unused);
}

// Sizes that an image is fitted into: widths and heights, as LLaVA's own config and llama.cpp have them, where a folder has heights and widths.
static void readLlavaNext(ClipConfig &config) {
  readLlava(config);
  const char *key = "vision.image_grid_pinpoints", *merge = "vision.mm_patch_merge_type", *unpadded = "spatial_unpad";
  std::vector<int64_t> sides = config.integers(key);
  std::vector<std::string> sizes;
  for (size_t i = 0; i + 1 < sides.size(); i += 2)
    sizes.push_back(jsonIntegers({sides[i + 1], sides[i]}));
  std::string list;
  for (const std::string &size : sizes)
    list += (list.empty() ? "" : ", ") + size;
  if (sides.size() % 2 || sides.empty())
    return config.fail(key, "has " + std::to_string(sides.size()) + " numbers, expected pairs of a width and a height");
  config.add(ClipPart::Joint, "image_grid_pinpoints", "[" + list + "]", key);
  if (std::string kind = config.string(merge, unpadded); kind != unpadded)
    config.unsupported(merge, "is '" + printable(kind, 64) + "', which is not supported; expected " + unpadded);
}

static void readPixtral(ClipConfig &config) {
  config.add(ClipPart::Joint, "multimodal_projector_bias", config.holds("mm.1.bias") ? "true" : "false");
  config.addNumber(ClipPart::Vision, "rope_theta", "rope.freq_base");
}

static constexpr ClipKey mergerKeys[] = {{"vision.spatial_merge_size", ClipPart::Joint, "spatial_merge_size", true}};

static constexpr ClipName llavaNames[] = {{"mm.0", "multi_modal_projector.linear_1"}};
static constexpr ClipName newerLlavaNames[] = {{"mm.0", "multi_modal_projector.linear_1"},
                                               {"v.image_newline", "image_newline"}};
static constexpr ClipName internVlNames[] = {{"mm.model.mlp.0", "multi_modal_projector.layer_norm"},
                                             {"mm.model.mlp.1", "multi_modal_projector.linear_1"},
                                             {"mm.model.mlp.3", "multi_modal_projector.linear_2"}};

static constexpr const char *gemma3Decoders[] = {"gemma3_text"};
static constexpr const char *qwen2Decoders[] = {"qwen2_vl"};
static constexpr const char *qwen3Decoders[] = {"qwen3_vl", "qwen3_vl_moe"};

#define SQUARE R"("size": {"height": $, "width": $})"
#define CROPPED R"("size": {"shortest_edge": $}, "crop_size": {"height": $, "width": $})"
#define WITHIN R"("size": {"longest_edge": $})"
#define TILES R"("max_image_size": {"longest_edge": $})"
#define PIXTRAL R"("vision_feature_layer": -1, "vision_feature_select_strategy": "full")"
#define INTERNVL R"("vision_feature_layer": -1, "vision_feature_select_strategy": "default")"

static constexpr double qwenEps = 1e-6, pixtralEps = 1e-5;

static constexpr Projector projectorOf(const char *type, const char *joint, const char *tower, const char *token) {
  Projector row;
  row.type = type, row.joint = joint, row.tower = tower, row.token = token;
  row.gelu = "gelu_pytorch_tanh";
  return row;
}

static constexpr Projector describeGemma3() {
  Projector row = projectorOf("gemma3", "gemma3", "siglip_vision_model", "<image_soft_token>");
  row.decoders = gemma3Decoders;
  row.plusOne = "mm.soft_emb_norm.weight";
  row.processed = SQUARE;
  row.rest = readGemma3;
  return row;
}

static constexpr Projector describeIdefics3() {
  Projector row = projectorOf("idefics3", "idefics3", "idefics3_vision", "<image>");
  row.keys = squareKeys;
  row.processed = TILES;
  row.rest = readIdefics3;
  return row;
}

static constexpr Projector describeInternVl() {
  Projector row = projectorOf("internvl", "internvl", "internvl_vision", "<IMG_CONTEXT>");
  row.gelu = "gelu";
  row.keys = tileKeys;
  row.names = internVlNames;
  row.joined = INTERNVL;
  row.processed = SQUARE;
  row.rest = readInternVl;
  return row;
}

static constexpr Projector describeLlava() {
  Projector row = projectorOf("mlp", "llava", "clip_vision_model", "<image>");
  row.mayLackToken = true;
  row.gelu = "gelu";
  row.names = llavaNames;
  row.processed = CROPPED;
  row.hasTextWidth = false; // but CLIP's projection, which is not read
  row.rest = readLlava;
  return row;
}

static constexpr Projector describeLlavaNext() {
  Projector row = describeLlava();
  row.mark = "model.image_newline";
  row.joint = "llava_next";
  row.rest = readLlavaNext;
  return row;
}

// Newer releases of llama.cpp call the row that ends a line so.
static constexpr Projector describeNewerLlavaNext() {
  Projector row = describeLlavaNext();
  row.mark = "v.image_newline";
  row.names = newerLlavaNames;
  return row;
}

static constexpr Projector describePixtral() {
  Projector row = projectorOf("pixtral", "llava", "pixtral", "[IMG]");
  row.gelu = "gelu";
  row.eps = pixtralEps;
  row.joined = PIXTRAL;
  row.processed = WITHIN;
  row.permutes = true;
  row.rest = readPixtral;
  return row;
}

static constexpr Projector describeMistral3() {
  Projector row = describePixtral();
  row.mark = "mm.patch_merger.weight";
  row.joint = "mistral3";
  row.keys = mergerKeys;
  row.joined = R"("vision_feature_layer": -1)";
  return row;
}

static constexpr Projector qwenProjector(const char *type, const char *joint, const char *tower,
                                         Listing<const char *> decoders, void (*rest)(ClipConfig &config)) {
  Projector row = projectorOf(type, joint, tower, "<|image_pad|>");
  row.decoders = decoders;
  row.eps = qwenEps;
  row.keys = pixelKeys;
  row.rest = rest;
  return row;
}

static constexpr Projector rows[] = {
    describeGemma3(),
    describeIdefics3(),
    describeInternVl(),
    describeLlava(),
    describeLlavaNext(),
    describeNewerLlavaNext(),
    describePixtral(),
    describeMistral3(),
    qwenProjector("qwen2vl_merger", "qwen2_vl", "qwen2_vl_vision", qwen2Decoders, readQwen2),
    qwenProjector("qwen2.5vl_merger", "qwen2_5_vl", "qwen2_5_vl_vision", qwen2Decoders, readQwen25),
    qwenProjector("qwen3vl_merger", "qwen3_vl", "qwen3_vl_vision", qwen3Decoders, readQwen3),
};

ProjectorList projectors() {
  return rows;
}

} // namespace heddle
