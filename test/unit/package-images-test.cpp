// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a package says of images in prompts, valid FlatBuffers that make no sense included.
#include "test/unit/TestPackage.h"

#include "runtime/model/PackageFile.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::reference;

namespace {

using Change = void (*)(package::PackageT &metadata);
constexpr int64_t rowsOfImage = 5; // a grid of 2 by 2, and the end of a line

// A model that sees images of one size, files of which are read.
package::PackageT seeing() {
  package::PackageT made = makeMetadata(readWeights());
  addImages(made, uint32_t(rowsOfImage), made.hidden_size);
  made.image_processing = std::make_unique<package::ImageProcessingT>();
  made.image_processing->size = made.image_processing->height = made.image_processing->width = 8;
  return made;
}

void writeText(package::PackageT &m) {
  m.given->text = std::make_unique<package::GivenTextT>();
  for (std::string *part : {&m.given->text->marker, &m.given->text->unmentioned, &m.given->text->whole,
                            &m.given->text->tile, &m.given->text->between_rows, &m.given->text->behind_tiles})
    *part = "<image>"; // an empty one would be left out
}

void cutTiles(package::PackageT &m) {
  m.given->tiles = std::make_unique<package::GivenTilesT>();
  m.given->tiles->side = 8;
  m.given->tiles->grid = 2;
  m.given->tiles->sizes = {8, 16, 16, 8};
}

// Images of any size, kept within numbers of pixels.
void makeGrid(package::PackageT &m) {
  auto grid = std::make_unique<package::GivenGridT>();
  grid->patch = 4, grid->frames = 1, grid->merge = 2, grid->channels = 3, grid->head_dim = 8, grid->theta = 1e4;
  m.given->grid = std::move(grid);
  m.given->count = 0;
  m.image_processing->least_pixels = 64, m.image_processing->most_pixels = 4096;
}

void seeDeep(package::PackageT &m) {
  makeGrid(m);
  m.given->deep = 1;
  m.graphs[0]->outputs[0]->dims[2] = int64_t(2) * m.hidden_size;
}

Status check(const package::PackageT &metadata) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(package::Package::Pack(builder, &metadata));
  return checkMetadata(*flatbuffers::GetRoot<package::Package>(builder.GetBufferPointer()), "package");
}

TEST(PackageOfImages, whatCompilersWriteIsTaken) {
  for (Change change :
       {Change([](package::PackageT &) {}), Change(writeText), Change(cutTiles), Change(makeGrid), Change(seeDeep)}) {
    package::PackageT made = seeing();
    change(made);
    Status status = check(made);
    EXPECT_TRUE(status.isOk()) << status.message();
  }
}

struct Case {
  const char *expected;
  Change change;
};

void expectRefusals(const std::vector<Case> &cases, Change before = [](package::PackageT &) {}) {
  for (const Case &c : cases) {
    package::PackageT made = seeing();
    before(made);
    c.change(made);
    Status status = check(made);
    EXPECT_EQ(status.exitCode(), 1) << c.expected;
    EXPECT_NE(status.message().find(c.expected), std::string::npos) << status.message() << "; expected: " << c.expected;
  }
}

TEST(PackageOfImages, rowsAreThoseOfTheGraph) {
  expectRefusals({
      {"given.graph is 1, expected one of the graphs", [](package::PackageT &m) { m.given->graph = 1; }},
      {"given.graph is 0, expected one of the graphs", [](package::PackageT &m) { m.graphs.clear(); }},
      {"given.count is 4, expected that of the graph's one output", [](package::PackageT &m) { m.given->count = 4; }},
      {"given.count is 0", [](package::PackageT &m) { m.given->count = m.graphs[0]->outputs[0]->dims[1] = 0; }},
      {"given.count is 5", [](package::PackageT &m) { m.graphs[0]->outputs[0]->dims[2] += 1; }},
      {"given.count is 5", [](package::PackageT &m) { m.graphs[0]->outputs[0]->dims.pop_back(); }},
      {"given.count is 5", [](package::PackageT &m) { m.graphs[0]->outputs[0]->type = package::DataType::I64; }},
      {"given.token is 256, expected an id of the vocabulary", [](package::PackageT &m) { m.given->token = 256; }},
      {"given.token is -1", [](package::PackageT &m) { m.given->token = -1; }},
      {"given.deep is 1, expected at most 64, and 0 of images of one size",
       [](package::PackageT &m) { m.given->deep = 1, m.graphs[0]->outputs[0]->dims[2] *= 2; }},
  });
  expectRefusals({{"given.deep is 65",
                   [](package::PackageT &m) {
                     m.given->deep = 65, m.graphs[0]->outputs[0]->dims[2] = int64_t(66) * m.hidden_size;
                   }},
                  {"given.count is 0", [](package::PackageT &m) { m.given->deep = 2; }}},
                 seeDeep);
}

TEST(PackageOfImages, textsHaveAllParts) {
  expectRefusals({{"given.text lacks a part", [](package::PackageT &m) { m.given->text->marker.clear(); }},
                  {"given.text lacks a part", [](package::PackageT &m) { m.given->text->behind_tiles.clear(); }}},
                 writeText);
}

TEST(PackageOfImages, gridsHaveSizes) {
  expectRefusals(
      {
          {"given.grid.patch is 0, expected 1", [](package::PackageT &m) { m.given->grid->patch = 0; }},
          {"given.grid.merge is 1025", [](package::PackageT &m) { m.given->grid->merge = 1025; }},
          {"given.grid.frames is 0", [](package::PackageT &m) { m.given->grid->frames = 0; }},
          {"given.grid.head_dim is 0", [](package::PackageT &m) { m.given->grid->head_dim = 0; }},
          {"given.grid.head_dim is 6, expected a multiple of 4",
           [](package::PackageT &m) { m.given->grid->head_dim = 6; }},
          {"beside a theta above 0", [](package::PackageT &m) { m.given->grid->theta = 0; }},
          {"beside a theta above 0", [](package::PackageT &m) { m.given->grid->theta = INFINITY; }},
          {"given.grid.channels is 4, expected 1", [](package::PackageT &m) { m.given->grid->channels = 4; }},
          {"given.grid.channels is 65",
           [](package::PackageT &m) { m.given->grid->channels = 65, m.image_processing.reset(); }},
          {"given.grid.window is 1025", [](package::PackageT &m) { m.given->grid->window = 1025; }},
          {"given.grid.places is 257", [](package::PackageT &m) { m.given->grid->places = 257; }},
          {"given.grid.frames is 2, expected 1 of images that are given whole",
           [](package::PackageT &m) { m.given->grid->frames = 2, m.given->grid->whole_images = true; }},
          {"image_processing.most_pixels is 0", [](package::PackageT &m) { m.image_processing->most_pixels = 0; }},
          {"image_processing.most_pixels is 63", [](package::PackageT &m) { m.image_processing->most_pixels = 63; }},
          {"image_processing.most_pixels is 134217729",
           [](package::PackageT &m) { m.image_processing->most_pixels = (1 << 27) + 1; }},
          {"image_processing.at_most is 1, expected beside a height",
           [](package::PackageT &m) { m.image_processing->at_most = true, m.image_processing->size = 4; }},
          {"image_processing.at_most is 1, expected beside a height",
           [](package::PackageT &m) { m.image_processing->at_most = true, m.image_processing->height = 0; }},
      },
      makeGrid);
}

TEST(PackageOfImages, tilesFillTheirSizes) {
  expectRefusals(
      {
          {"given.tiles.side is 0, expected 1", [](package::PackageT &m) { m.given->tiles->side = 0; }},
          {"given.tiles.side is 16385", [](package::PackageT &m) { m.given->tiles->side = (1 << 14) + 1; }},
          {"given.tiles.side is 8, expected", [](package::PackageT &m) { m.given->tiles->grid = 9; }},
          {"given.tiles.grid is 3, expected the root of given.count",
           [](package::PackageT &m) { m.given->tiles->grid = 3; }},
          {"given.tiles.sizes is 0, expected 2", [](package::PackageT &m) { m.given->tiles->sizes.clear(); }},
          {"given.tiles.sizes is 3", [](package::PackageT &m) { m.given->tiles->sizes.pop_back(); }},
          {"given.tiles.sizes is 130", [](package::PackageT &m) { m.given->tiles->sizes.assign(130, 8); }},
          {"given.tiles.sizes is 12, expected multiples", [](package::PackageT &m) { m.given->tiles->sizes[0] = 12; }},
          {"given.tiles.sizes is 8, expected multiples", [](package::PackageT &m) { m.given->tiles->sizes[1] = 0; }},
          {"given.tiles.sizes is 512, expected multiples",
           [](package::PackageT &m) { m.given->tiles->sizes = {512, 512}; }},
          {"image_processing.size is 16, expected given.tiles.side",
           [](package::PackageT &m) { m.image_processing->size = 16; }},
          {"given.tiles.side is 8", makeGrid},
      },
      cutTiles);
}

TEST(PackageOfImages, processingHasSizes) {
  expectRefusals({
      {"image_processing.size is 0, expected a size above 0",
       [](package::PackageT &m) { m.image_processing->size = 0; }},
      {"image_processing.height is 16385", [](package::PackageT &m) { m.image_processing->height = (1 << 14) + 1; }},
      {"image_processing.height is 8, expected beside a width",
       [](package::PackageT &m) { m.image_processing->width = 0; }},
      {"image_processing.height is 8, expected beside a width, without a shortest edge",
       [](package::PackageT &m) { m.image_processing->shortest_edge = 8; }},
      {"image_processing.crop_height is 0, expected beside a width",
       [](package::PackageT &m) { m.image_processing->crop_width = 8; }},
      {"image_processing.max_tiles is 1025", [](package::PackageT &m) { m.image_processing->max_tiles = 1025; }},
      {"image_processing.max_tiles is 2, expected at most 1024, and min_tiles or more",
       [](package::PackageT &m) { m.image_processing->max_tiles = 2, m.image_processing->min_tiles = 3; }},
      {"image_processing.filter is 6", [](package::PackageT &m) { m.image_processing->filter = 6; }},
      {"image_processing.factor is inf", [](package::PackageT &m) { m.image_processing->factor = INFINITY; }},
      {"image_processing.mean is 3, expected 3 beside as many deviations",
       [](package::PackageT &m) { m.image_processing->mean = {0, 0, 0}; }},
      {"image_processing.mean is 1",
       [](package::PackageT &m) { m.image_processing->mean = m.image_processing->deviation = {1}; }},
      {"image_processing.deviation is 0",
       [](package::PackageT &m) { m.image_processing->mean = {0, 0, 0}, m.image_processing->deviation = {1, 0, 1}; }},
  });
}

} // namespace
