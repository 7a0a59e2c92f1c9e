// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PNG and JPEG files, and pixel_values beside those of the reference's image processors (make_image_golden.py wrote them).
#include "bytes/Safetensors.h"
#include "bytes/WholeFile.h"
#include "runtime/image/PixelValues.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace heddle;

namespace {

const std::string folder = HEDDLE_TEST_DIR "/models/images/files/";

std::string contents(const std::string &name) {
  std::ifstream file(folder + name, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

std::string refusal(const std::string &bytes, Image *out = nullptr) {
  Image image;
  Status status = readImage("f", reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(), image);
  if (out)
    *out = image;
  EXPECT_TRUE(status.isOk() || status.code() == StatusCode::InvalidInput);
  return status.message();
}

PixelOptions optionsOf(const nlohmann::json &setting) {
  PixelOptions options;
  options.height = setting["height"], options.width = setting["width"], options.shortestEdge = setting["shortest_edge"];
  options.filter = Resampling(setting["filter"].get<int>());
  options.cropHeight = setting["crop_height"], options.cropWidth = setting["crop_width"];
  options.factor = setting["factor"];
  options.normalizes = !setting["mean"].empty();
  for (size_t i = 0; i < setting["mean"].size(); ++i)
    options.mean[i] = setting["mean"][i], options.deviation[i] = setting["deviation"][i];
  return options;
}

// Those of a PNG file are the reference's; decoders of JPEG differ by a step or two of a color, which a small deviation makes more of.
TEST(Images, pixelValuesAreTheReferences) {
  nlohmann::json settings = nlohmann::json::parse(contents("pixels.json"))["settings"];
  SafetensorsFile golden;
  ASSERT_TRUE(golden.open(folder + "pixels.safetensors").isOk());
  ASSERT_EQ(golden.tensors().size(), 53u);
  for (const StoredTensor &tensor : golden.tensors()) {
    const nlohmann::json &setting = settings[tensor.name[0] - '0'];
    std::string file = tensor.name.substr(2);
    Image image;
    Status status = readImageFile(folder + file, image);
    ASSERT_TRUE(status.isOk()) << status.message();
    std::vector<float> values;
    status = computePixelValues(file, image, optionsOf(setting), tensor.shape[1], values);
    ASSERT_TRUE(status.isOk()) << tensor.name << ": " << status.message();
    ASSERT_EQ(values.size() * sizeof(float), tensor.size);
    bool isJpeg = file.find(".jpg") != std::string::npos;
    double most = 0, scale = setting["factor"].get<double>();
    for (size_t i = 0; i < values.size(); ++i) {
      float wanted;
      memcpy(&wanted, tensor.data + i * sizeof(float), sizeof(float));
      most = std::max(most, std::fabs(double(values[i]) - wanted));
    }
    EXPECT_LE(most, isJpeg ? 3 * scale / 0.26 : 1e-5) << tensor.name;
  }
}

TEST(Images, uprightAndOfTheirSize) {
  Image image;
  EXPECT_EQ(refusal(contents("turned.png"), &image), "");
  EXPECT_EQ(image.width, 30);
  EXPECT_EQ(image.height, 20);
  EXPECT_EQ(image.rgb.size(), 3u * 30 * 20);
}

TEST(Images, truncatedFilesAreRefused) {
  for (const char *name : {"photo.png", "palette.png", "photo.jpg", "progressive.jpg"}) {
    std::string whole = contents(name);
    for (size_t size = 0; size < whole.size(); size += size < 64 ? 1 : 37)
      EXPECT_NE(refusal(whole.substr(0, size)), "") << name << " of " << size << " bytes";
    EXPECT_NE(refusal(whole.substr(0, whole.size() - 1)), "") << name;
    EXPECT_EQ(refusal(whole), "") << name;
  }
}

// Chunks have checksums, so that no byte of a PNG file may differ; but the signature makes it one.
TEST(Images, damagedPngIsRefused) {
  std::string whole = contents("photo.png");
  for (size_t at = 0; at < whole.size(); at += 3) {
    std::string changed = whole;
    changed[at] ^= char(1 << at % 8);
    EXPECT_NE(refusal(changed), "") << "byte " << at;
  }
}

TEST(Images, refusalsSayWhat) {
  std::string whole = contents("photo.png"), changed = whole;
  changed[60] ^= 1;
  EXPECT_EQ(refusal(changed), "f: the PNG file is damaged: its chunk at byte 33 differs from its checksum");
  EXPECT_NE(refusal(whole.substr(0, 500)).find("f: the PNG file ends within its chunk at byte 33"), std::string::npos);
  EXPECT_EQ(refusal(contents("photo.jpg").substr(0, 900)),
            "f: is no image that can be read (it ends too early): expected a PNG or JPEG file");
  EXPECT_EQ(refusal("GIF89a"), "f: is no image that can be read (neither PNG nor JPEG, or damaged at its beginning): "
                               "expected a PNG or JPEG file");
  // 40000 by 40000 pixels in a frame header.
  std::string large = contents("photo.jpg");
  size_t frame = large.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  large.replace(frame + 5, 4, "\x9c\x40\x9c\x40");
  EXPECT_NE(refusal(large).find("more than 134217728 pixels"), std::string::npos);
}

// More codes than the decoder has room for, in every table of both kinds of JPEG; and bytes of a comment that look like a marker are no table.
TEST(Images, largeHuffmanTablesAreRefused) {
  for (const char *name : {"photo.jpg", "progressive.jpg"}) {
    const std::string good = contents(name);
    int tables = 0;
    for (size_t at = good.find("\xff\xc4"); at != std::string::npos; at = good.find("\xff\xc4", at + 1), ++tables) {
      std::string large = good;
      large[at + 5 + 14] = large[at + 5 + 15] = char(0xff);
      EXPECT_EQ(
          refusal(large),
          "f: is no image that can be read (a Huffman table has more than 256 codes): expected a PNG or JPEG file")
          << name << " at " << at;
    }
    EXPECT_GT(tables, 1);
    std::string filled = good;
    filled[good.find("\xff\xc4") + 5 + 14] = filled[good.find("\xff\xc4") + 5 + 15] = char(0xff);
    EXPECT_NE(refusal("\xff" + filled).find("more than 256 codes"), std::string::npos) << "a byte of filling in front";
    std::string comment("\xff\xfe\0\x20\xff\xc4", 6);
    std::string commented = good.substr(0, 2) + comment + std::string(0x20 - 4, char(0xee)) + good.substr(2);
    EXPECT_EQ(refusal(commented), "") << name;
  }
}

TEST(Images, sizesThatDoNotFit) {
  Image image;
  image.width = 1, image.height = 100000;
  image.rgb.resize(300000);
  PixelOptions options;
  options.shortestEdge = 224;
  std::vector<float> values;
  EXPECT_EQ(computePixelValues("f", image, options, 224, values).message(),
            "f: an image of 1 by 100000 pixels would be resized to 224 by 22400000, which is too large");
  options.shortestEdge = 0;
  EXPECT_EQ(computePixelValues("f", image, options, 224, values).message(),
            "f: the image becomes one of 1 by 100000 pixels, the model sees 224 by 224");
}

// A side that keeps its size keeps its pixels, and what is only moved up and down by whole pixels does not change.
TEST(Images, resizingOneSide) {
  Image image;
  image.width = 2, image.height = 2;
  image.rgb = {0, 0, 0, 100, 100, 100, 200, 200, 200, 255, 255, 255};
  EXPECT_EQ(resized(image, 2, 2, Resampling::Bicubic).rgb, image.rgb);
  EXPECT_EQ(resized(image, 2, 1, Resampling::Box).rgb, (std::vector<uint8_t>{100, 100, 100, 178, 178, 178}));
  EXPECT_EQ(resized(image, 4, 2, Resampling::Nearest).rgb[9], 100);
}

} // namespace
