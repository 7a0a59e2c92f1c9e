// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The keys are those of transformers' image processors that compute with Pillow; what a file leaves out, its class says.
#include "frontends/huggingface/ImageProcessor.h"

#include "frontends/Family.h"
#include "frontends/huggingface/Config.h"
#include "frontends/huggingface/JsonObject.h"
#include "frontends/huggingface/ProcessorConfig.h"

#include <array>
#include <cmath>
#include <tuple>

namespace heddle {

std::vector<std::pair<int64_t, int64_t>> readResolutions(JsonObject &object, int64_t side) {
  constexpr const char *key = "image_grid_pinpoints";
  constexpr size_t most = 64;
  constexpr int64_t mostTiles = 1 << 10, mostPixels = int64_t(1) << 27;
  std::vector<std::pair<int64_t, int64_t>> sizes;
  if (!object.has(key))
    sizes = {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};
  for (JsonItems entries(object.find(key)); entries.next() && sizes.size() <= most;) {
    int64_t values[3] = {}, count = 0;
    for (JsonItems pair(entries.value); pair.next() && count < 3; ++count)
      pair.value.integer(values[count]);
    sizes.emplace_back(count == 2 ? values[0] : 0, values[1]);
  }
  if (sizes.empty() || sizes.size() > most)
    object.fail(key, "has " + std::to_string(sizes.size()) + " sizes, expected 1 to 64");
  for (auto [height, width] : sizes)
    if (side < 1 || height < side || width < side || height % side || width % side || height / side > mostTiles ||
        width / side > mostTiles / (height / side) || width > mostPixels / height) {
      object.unsupported(key, "holds what is no height and width of up to 1024 squares of image_size (" +
                                  std::to_string(side) + ") and 2^27 pixels");
      break;
    }
  return sizes;
}

namespace {

constexpr int64_t mostOnSide = 1 << 14;

// Pillow's numbers.
constexpr int64_t lanczos = 1, bilinear = 2, bicubic = 3, lastFilter = 5;

using Colors = std::array<double, 3>;
constexpr Colors halves = {0.5, 0.5, 0.5};
constexpr Colors clipMean = {0.48145466, 0.4578275, 0.40821073}, clipDeviation = {0.26862954, 0.26130258, 0.27577711};

// A class of processors: what counts where the file says nothing. `edge`: the shorter side, else `side` is that of a square; crop 0: none.
struct ProcessorClass {
  const char *name;
  int64_t filter, side, edge, crop;
  Colors mean, deviation;
  bool squares;        // a size that is one number is that of a square, else of the shorter side
  bool hasCropPercent; // the ConvNeXT paper's: an image below 384 pixels is cropped out of a larger one
  int64_t tile = 0;    // an image becomes squares of that size, or one; 0: it stays one of any
  int64_t leastPixels = 0, mostPixels = 0; // an image keeps its ratio, with so many pixels; 0: it does not
  int64_t mostTiles = 0; // the grid of so many squares of its size that is nearest to its ratio; 0: it stays one image
  int64_t most = 0;      // an image keeps its ratio, within a square of that size; 0: it does not
};
constexpr ProcessorClass classes[] = {
    {"ViTImageProcessor", bilinear, 224, 0, 0, halves, halves, true, false},
    {"BeitImageProcessor", bicubic, 224, 0, 0, halves, halves, true, false},
    {"DeiTImageProcessor", bicubic, 256, 0, 224, halves, halves, true, false},
    {"BitImageProcessor", bicubic, 0, 224, 224, clipMean, clipDeviation, false, false},
    {"CLIPImageProcessor", bicubic, 0, 224, 224, clipMean, clipDeviation, false, false},
    {"SiglipImageProcessor", bicubic, 224, 0, 0, halves, halves, false, false},
    {"Gemma3ImageProcessor", bilinear, 224, 0, 0, halves, halves, true, false},
    {"Idefics3ImageProcessor", lanczos, 0, 1456, 0, halves, halves, false, false, 364},
    {"SmolVLMImageProcessor", lanczos, 0, 1456, 0, halves, halves, false, false, 364},
    {"Qwen2VLImageProcessor", bicubic, 0, 0, 0, clipMean, clipDeviation, false, false, 0, 3136, 1003520},
    {"PixtralImageProcessor", bicubic, 0, 0, 0, clipMean, clipDeviation, true, false, 0, 0, 0, 0, 1024},
    {"GotOcr2ImageProcessor", bicubic, 384, 0, 0, clipMean, clipDeviation, true, false, 0, 0, 0, 12},
    {"LlavaNextImageProcessor", bicubic, 0, 224, 224, clipMean, clipDeviation, false, false},
    {"ConvNextImageProcessor", bicubic, 0, 384, 0, halves, halves, false, true},
};

// The name of a class without what tells its implementations apart, and as it has been called since feature extractors were renamed.
std::string canonicalName(std::string name) {
  for (std::string ending : {"Fast", "Pil"})
    if (name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0)
      name.resize(name.size() - ending.size());
  if (size_t at = name.find("FeatureExtractor"); at != std::string::npos)
    name.replace(at, std::string("FeatureExtractor").size(), "ImageProcessor");
  return name;
}

class ProcessorReader {
public:
  ProcessorReader(JsonObject &object, ModelConfig &config) : object(object), config(config) {}

  void read() {
    chooseClass();
    if (!kind)
      return;
    if (kind->mostPixels)
      readPixels();
    else if (kind->most)
      readMost();
    else if (kind->tile)
      readTiles();
    else
      readSizes();
    if (!config.seen.resolutions.empty())
      checkMosaic();
    if (kind->mostTiles)
      readGrid();
    object.boolean("do_convert_rgb"); // files are read as RGB
    if (object.boolean("do_pan_and_scan").value_or(false))
      object.unsupported("do_pan_and_scan", "is true, which is not supported");
    // That of tiles fills a batch of images of different numbers of them, that of images of any size one of others.
    if (object.boolean("do_pad").value_or(false) && !kind->tile && !kind->most && config.seen.resolutions.empty())
      object.unsupported("do_pad", "is true, which is not supported");
    if (object.boolean("do_rescale").value_or(true))
      processing.factor = object.number("rescale_factor").value_or(1.0 / 255);
    if (!std::isfinite(processing.factor))
      object.fail("rescale_factor", "is not finite");
    if (object.boolean("do_normalize").value_or(true)) {
      processing.mean = readColors("image_mean", kind->mean);
      processing.deviation = readColors("image_std", kind->deviation);
      for (double deviation : processing.deviation)
        if (!(deviation > 0))
          object.fail("image_std", "has a number that is not above 0");
    }
    if (object.status().isOk())
      fitModel();
    config.imageProcessing = processing;
  }

private:
  void chooseClass() {
    const char *key = object.has("image_processor_type") ? "image_processor_type" : "feature_extractor_type";
    const Family *joint = config.seen.joint;
    std::string name = object.string(key).value_or(joint && joint->imageProcessor ? joint->imageProcessor
                                                                                  : config.family->imageProcessor),
                known;
    for (const ProcessorClass &candidate : classes) {
      known += (known.empty() ? "" : ", ") + std::string(candidate.name);
      if (canonicalName(name) == candidate.name)
        kind = &candidate;
    }
    if (!kind)
      return object.unsupported(key, "is '" + printable(name, 64) + "', which is not supported; known: " + known);
    bool keepsRatio = kind->most || kind->mostPixels, cuts = kind->tile || kind->mostTiles;
    if (keepsRatio != config.image.hasAnySize || (cuts && !config.seen.resolutions.empty()))
      object.unsupported(key, "is '" + printable(name, 64) + "', which does not make what the model's tower takes");
  }

  static int64_t bounded(JsonObject &of, const char *key, int64_t side) { return of.bounded(key, side, 1, mostOnSide); }

  // The value of `key`: one number for both sides, or of the shorter one where it squares nothing, a height and a width, or an object that names them.
  void readSize(const char *key, bool squares, int64_t &height, int64_t &width, int64_t *edge) {
    JsonValue found = object.find(key);
    if (!found)
      return;
    height = width = 0;
    if (edge)
      *edge = 0;
    if (!found.is(JsonKind::Object)) {
      std::vector<int64_t> sides = object.integers(key);
      if (sides.size() == 1 && !found.is(JsonKind::Array) && !squares && edge)
        *edge = bounded(object, key, sides[0]);
      else if (sides.size() == 2 || (sides.size() == 1 && !found.is(JsonKind::Array)))
        height = bounded(object, key, sides.front()), width = bounded(object, key, sides.back());
      else
        object.fail(key, "has " + std::to_string(sides.size()) + " numbers, expected a height and a width");
      return;
    }
    JsonObject sides = object.object(key);
    if (edge && sides.has("shortest_edge") && !sides.has("longest_edge"))
      *edge = bounded(sides, "shortest_edge", sides.integer("shortest_edge").value_or(0));
    else if (sides.has("height") && sides.has("width")) {
      height = bounded(sides, "height", sides.integer("height").value_or(0));
      width = bounded(sides, "width", sides.integer("width").value_or(0));
    } else {
      object.unsupported(key, std::string("has other keys than are supported; expected height and width") +
                                  (edge ? ", or shortest_edge alone" : ""));
    }
    object.adopt(sides);
  }

  void readFilter() {
    processing.filter = object.integer("resample").value_or(kind->filter);
    if (processing.filter < 0 || processing.filter > lastFilter)
      object.fail("resample", "is " + std::to_string(processing.filter) + ", expected 0 to 5, a filter of Pillow");
  }

  // The longest_edge of `key`, which has nothing else.
  int64_t readLongest(const char *key, int64_t fallback) {
    if (!object.has(key))
      return fallback;
    JsonObject sides = object.object(key);
    if (!sides.has("longest_edge"))
      object.unsupported(key, "has no longest_edge, which is expected of this image_processor_type");
    int64_t edge = bounded(sides, "longest_edge", sides.integer("longest_edge").value_or(fallback));
    object.adopt(sides);
    return edge;
  }

  // The nearest multiples of the model's size, by numbers of pixels that two keys of `size` name, or keys of their own.
  void readPixels() {
    readFilter();
    int64_t least = kind->leastPixels, most = kind->mostPixels;
    constexpr int64_t mostOfAll = int64_t(1) << 27;
    auto read = [&](JsonObject &of, const char *key, int64_t &pixels) {
      if (of.has(key) && !of.isNull(key))
        pixels = of.bounded(key, of.integer(key).value_or(pixels), 1, mostOfAll);
    };
    JsonObject sizes = object.object("size");
    bool hasEdges = sizes.has("shortest_edge") && sizes.has("longest_edge");
    read(sizes, "shortest_edge", least), read(sizes, "longest_edge", most);
    object.adopt(sizes);
    bool hasPixels = object.has("min_pixels") && object.has("max_pixels");
    if (object.has("size") && !object.isNull("size") && !hasEdges && !hasPixels)
      object.unsupported("size", "has other keys than are supported; expected shortest_edge and longest_edge");
    read(object, "min_pixels", least), read(object, "max_pixels", most);
    if (least > most)
      object.fail("size", "asks for at least " + std::to_string(least) + " pixels and at most " + std::to_string(most));
    processing.leastPixels = least, processing.mostPixels = most;
    if (!object.boolean("do_resize").value_or(true))
      object.unsupported("do_resize", "is false, which is not supported");
    const ImageConfig &image = config.image;
    for (auto [key, fallback, size] : {std::tuple<const char *, int64_t, int64_t>{"patch_size", 14, image.patch},
                                       {"temporal_patch_size", 2, image.frames},
                                       {"merge_size", 2, config.seen.side}})
      if (int64_t stated = object.integer(key).value_or(fallback); stated != size)
        object.fail(key, "is " + std::to_string(stated) + ", config.json's vision_config has " + std::to_string(size));
  }

  // A square, or a height and a width, within which larger images become; their sides are then the next multiples of the model's size, whatever this file
  // says of patches.
  void readMost() {
    readFilter();
    processing.isAtMost = true;
    processing.height = processing.width = kind->most;
    if (object.find("size").find("longest_edge"))
      processing.height = processing.width = readLongest("size", kind->most);
    else
      readSize("size", kind->squares, processing.height, processing.width, nullptr);
    object.pass("patch_size");
    if (!object.boolean("do_resize").value_or(true))
      object.unsupported("do_resize", "is false, which is not supported");
    if (object.boolean("do_center_crop").value_or(false))
      object.unsupported("do_center_crop", "is true, which is not supported of images of any size");
  }

  // The reference's processor of prompts asks for tiles, whatever the file says of crop_to_patches.
  void readGrid() {
    constexpr int64_t mostTiles = 1 << 10;
    object.pass("crop_to_patches");
    processing.minTiles = object.bounded("min_patches", object.integer("min_patches").value_or(1), 1, mostTiles);
    processing.maxTiles =
        object.bounded("max_patches", object.integer("max_patches").value_or(kind->mostTiles), 1, mostTiles);
    if (processing.minTiles > processing.maxTiles)
      object.fail("min_patches", "is above max_patches (" + std::to_string(processing.maxTiles) + ")");
    if (processing.maxTiles == 1)
      processing.minTiles = processing.maxTiles = 0;
    else if (!processing.height)
      object.unsupported("do_resize", "is false, which is not supported");
  }

  // Squares of the model's size are neither resized nor cropped.
  void checkMosaic() {
    int64_t side = config.image.size, height = processing.height ? processing.height : processing.shortestEdge;
    bool isCropped = processing.cropHeight != 0;
    if (height != side || (processing.width && processing.width != side) ||
        (isCropped && (processing.cropHeight != side || processing.cropWidth != side)))
      return object.unsupported(isCropped ? "crop_size" : "size",
                                "makes other images than of config.json's image_size (" + std::to_string(side) +
                                    "), which is not supported of tiles");
    if (object.has("image_grid_pinpoints") && readResolutions(object, side) != config.seen.resolutions)
      object.fail("image_grid_pinpoints", "is not what config.json has");
    processing.height = processing.width = side;
    processing.shortestEdge = processing.cropHeight = processing.cropWidth = 0;
  }

  // An image's longer side is resized; then it is cut into squares, or made one.
  void readTiles() {
    readFilter();
    int64_t side = readLongest("max_image_size", kind->tile);
    int64_t edge = readLongest("size", kind->edge);
    if (object.boolean("do_resize").value_or(true))
      processing.longestEdge = edge;
    processing.tiles = object.boolean("do_image_splitting").value_or(true);
    if (!processing.tiles && !processing.longestEdge)
      processing.height = processing.width = side;
    if (side != config.image.size)
      object.unsupported("max_image_size", "has longest_edge " + std::to_string(side) + ", config.json image_size " +
                                               std::to_string(config.image.size) + ", expected the same");
  }

  void readSizes() {
    readFilter();
    bool resizes = object.boolean("do_resize").value_or(true);
    if (resizes) {
      processing.height = processing.width = kind->side;
      processing.shortestEdge = kind->edge;
      readSize("size", object.boolean("default_to_square").value_or(kind->squares), processing.height, processing.width,
               &processing.shortestEdge);
    }
    if (resizes && kind->hasCropPercent)
      applyCropPercent();
    if (!object.boolean("do_center_crop").value_or(kind->crop > 0))
      return;
    if (kind->hasCropPercent)
      return object.unsupported("do_center_crop", "is true beside crop_pct, which is not supported");
    processing.cropHeight = processing.cropWidth = kind->crop;
    readSize("crop_size", /*squares=*/true, processing.cropHeight, processing.cropWidth, nullptr);
    if (!processing.cropHeight)
      object.fail("crop_size", "is missing, but do_center_crop is true");
  }

  // Below 384 pixels the shorter side is made 1 / crop_pct times as long, then the middle is taken; a larger image is made square.
  void applyCropPercent() {
    double share = object.number("crop_pct").value_or(224.0 / 256);
    if (!(share >= 1.0 / 16 && share <= 1))
      return object.fail("crop_pct", "is " + std::to_string(share) + ", expected a number from 0.0625 to 1");
    int64_t side = processing.shortestEdge;
    if (!side)
      return object.fail("size", "has no shortest_edge, which crop_pct is of");
    bool isWhole = side >= 384;
    processing.height = processing.width = isWhole ? side : 0;
    processing.shortestEdge = isWhole ? 0 : int64_t(double(side) / share);
    processing.cropHeight = processing.cropWidth = isWhole ? 0 : side;
  }

  // A number for each color, or one for all.
  std::vector<double> readColors(const char *key, const Colors &fallback) {
    if (!object.has(key))
      return {fallback.begin(), fallback.end()};
    double one = 0;
    std::vector<double> colors = object.find(key).number(one) ? std::vector<double>(3, one) : object.numbers(key);
    if (object.status().isOk() && colors.size() != fallback.size())
      object.fail(key, "has " + std::to_string(colors.size()) + " numbers, expected 3");
    return colors;
  }

  // Images of one size that is not the model's fit none.
  void fitModel() {
    int64_t height = processing.cropHeight ? processing.cropHeight : processing.height;
    int64_t width = processing.cropWidth ? processing.cropWidth : processing.width;
    ImageConfig &image = config.image;
    if (!height || image.hasAnySize || (height == image.size && width == image.size))
      return;
    std::string what = "makes images of " + std::to_string(height) + " by " + std::to_string(width) + " pixels, ";
    if (!config.family->interpolatesPositions)
      return object.fail(what + "config.json has image_size " + std::to_string(image.size));
    if (height != width || height % image.patch)
      return object.unsupported(processing.cropHeight ? "crop_size" : "size",
                                what + "expected a square of whole patches of " + std::to_string(image.patch));
    image.size = height;
  }

  JsonObject &object;
  ModelConfig &config;
  const ProcessorClass *kind = nullptr;
  ImageProcessing processing;
};

} // namespace

// Of a tower of images of one size beside a decoder: a processor writes as many tokens for one as the tower gives, or the reference fails.
static void checkTokens(JsonObject &object, const ModelConfig &config) {
  const SeenConfig &seen = config.seen;
  if (!seen.joint || config.image.hasAnySize)
    return;
  int64_t first = seen.skipsFirst ? 1 : 0, rows = config.image.tokens() - first;
  if (seen.side > 1)
    rows = config.image.grid() * config.image.grid() / (seen.side * seen.side);
  for (const char *key : {"image_seq_length", "image_seq_len"})
    if (int64_t stated = object.integer(key).value_or(rows); stated != rows)
      object.fail(key, "is " + std::to_string(stated) + ", config.json makes " + std::to_string(rows) +
                           " tokens of an image");
}

// LLaVA's processors count the tokens of patches themselves.
static void checkPatches(JsonObject &object, const ModelConfig &config) {
  const char *key = "patch_size", *strategy = "vision_feature_select_strategy";
  if (!object.has(key) || !object.has(strategy))
    return;
  if (int64_t patch = object.integer(key).value_or(0); patch != config.image.patch)
    return object.fail(key, "is " + std::to_string(patch) + ", config.json's vision_config has " +
                                std::to_string(config.image.patch));
  int64_t more = object.integer("num_additional_image_tokens").value_or(0),
          left = object.find(strategy).equals("default") ? 1 : 0;
  if (int64_t first = config.seen.skipsFirst ? 1 : 0; more - left != config.image.specialTokens - first)
    object.fail(strategy, "and num_additional_image_tokens count other tokens of an image than config.json makes");
}

// What the processor of prompts says of patches and of the tokens that it writes; the latter counts of a family whose images are whole.
static Status readPromptProcessor(ModelFiles &files, ModelConfig &config) {
  const char *name = "processor_config.json";
  if (!config.seen.joint || !files.has(name))
    return Status();
  Expected<JsonFile> json = readConfigFile(files, name, maxConfigBytes);
  if (!json)
    return json.status();
  JsonObject object(*json, files.pathOf(name));
  if (!config.image.isWhole) {
    checkTokens(object, config);
    if (!config.image.hasAnySize)
      checkPatches(object, config);
    return object.status();
  }
  constexpr int64_t mostOnPatch = 1 << 10;
  int64_t patch = object.bounded("patch_size", object.integer("patch_size").value_or(16), 1, mostOnPatch);
  int64_t merge =
      object.bounded("spatial_merge_size", object.integer("spatial_merge_size").value_or(1), 1, mostOnPatch);
  if (object.status().isOk() && patch * merge != config.image.size)
    object.fail("patch_size", "is " + std::to_string(patch) + " beside a spatial_merge_size of " +
                                  std::to_string(merge) + ", config.json makes a token of " +
                                  std::to_string(config.image.size) + " by as many pixels");
  SeenText &text = config.seen.text;
  text.marker = text.unmentioned = text.tile = object.string("image_token").value_or(text.marker);
  text.betweenRows = object.string("image_break_token").value_or(text.betweenRows);
  text.behindTiles = object.string("image_end_token").value_or(text.behindTiles);
  if (text.marker.empty())
    object.fail("image_token", "is empty");
  return object.status();
}

Status readImageProcessor(JsonObject &object, ModelConfig &config) {
  ProcessorReader(object, config).read();
  return object.status();
}

Status readImageProcessor(ModelFiles &files, ModelConfig &config) {
  HEDDLE_RETURN_IF_ERROR(readProcessorConfig(files, "image_processor", [&](JsonObject &object) {
    ProcessorReader(object, config).read();
    checkTokens(object, config);
  }));
  return readPromptProcessor(files, config);
}

} // namespace heddle
