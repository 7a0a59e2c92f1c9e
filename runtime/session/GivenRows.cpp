// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/GivenRows.h"

#include "runtime/session/ImageGrid.h"
#include "runtime/session/Mosaic.h"
#include "runtime/session/SessionParts.h"

#include <algorithm>
#include <cstring>

namespace heddle {

Status GivenRows::createLinked(Package &package, Session &session, std::unique_ptr<GivenRows> &outRows) {
  const package::GivenRows &table = *package.metadata().given();
  std::unique_ptr<GivenRows> rows(new GivenRows(table, session));
  HEDDLE_RETURN_IF_ERROR(TensorFunction::create(package, table.graph(), session.threadsBeside(),
                                                session.hasDevice() ? nullptr : &session.threadPool(), rows->function));
  for (const TensorDeclaration &input : rows->function->inputs())
    rows->inputNames.push_back(input.name);
  if (table.grid() || table.tiles()) {
    std::vector<const char *> names = table.tiles() ? mosaicInputs() : gridInputs(*table.grid());
    rows->inputNames.assign(names.begin(), names.end());
  }
  outRows = std::move(rows);
  return Status();
}

Status GivenRows::add(const std::vector<StoredTensor> &inputs, const std::string &where) {
  if (table.grid())
    return addGrids(inputs, where);
  if (table.tiles())
    return addMosaics(inputs, where);
  std::vector<GraphOutput> outputs;
  HEDDLE_RETURN_IF_ERROR(function->call(inputs, where, outputs));
  const GraphOutput &rows = outputs.front();
  int64_t total = rows.shape[0] * table.count();
  rowCounts.resize(rowCounts.size() + size_t(rows.shape[0]), table.count());
  return total ? give(static_cast<const float *>(rows.data), total, /*columns=*/0) : Status();
}

Status GivenRows::give(const float *rows, int64_t count, int64_t columns) {
  int32_t first = 0, step = 1 + int32_t(table.deep());
  HEDDLE_RETURN_IF_ERROR(session.give(rows, count * step, first, columns));
  for (int64_t row = 0; row < count; ++row)
    rowIds.push_back(first + int32_t(row) * step);
  return Status();
}

// An image's rows are named in its order; that of the end of a line is named again and again.
Status GivenRows::addMosaics(const std::vector<StoredTensor> &inputs, const std::string &where) {
  std::vector<std::pair<int64_t, int64_t>> sizes;
  const StoredTensor *pixels = nullptr;
  HEDDLE_RETURN_IF_ERROR(readMosaics(inputs, where, *table.tiles(), sizes, pixels));
  const uint8_t *image = pixels->data;
  for (auto [height, width] : sizes) {
    Mosaic mosaic(*table.tiles(), height, width);
    std::vector<int64_t> shape(pixels->shape.begin() + 1, pixels->shape.end());
    uint64_t bytes = pixels->size / uint64_t(pixels->shape[0]);
    StoredTensor tiles = {"pixel_values", "F32", shape, image, bytes / uint64_t(shape[0]) * uint64_t(mosaic.tiles())};
    tiles.shape[0] = mosaic.tiles();
    std::vector<GraphOutput> outputs;
    HEDDLE_RETURN_IF_ERROR(function->call({tiles}, where, outputs));
    int32_t first = 0;
    HEDDLE_RETURN_IF_ERROR(session.give(static_cast<const float *>(outputs.front().data),
                                        mosaic.tiles() * table.count(), first, /*columns=*/0));
    std::vector<int32_t> order = mosaic.order();
    for (int32_t row : order)
      rowIds.push_back(first + row);
    rowCounts.push_back(int64_t(order.size()));
    image += bytes;
  }
  return Status();
}

Status GivenRows::addGrids(const std::vector<StoredTensor> &inputs, const std::string &where) {
  const package::GivenGrid &about = *table.grid();
  GivenPatches given;
  HEDDLE_RETURN_IF_ERROR(readGrids(inputs, where, about, given));
  const package::Package &metadata = session.package().metadata();
  bool hasPlaces =
      metadata.rope() && std::any_of(metadata.rope()->begin(), metadata.rope()->end(),
                                     [](const package::RopeTable *rope) { return rope->axes() != nullptr; });
  int64_t width = int64_t(metadata.hidden_size()) * (1 + table.deep()); // of a row and those behind it
  const float *patches = given.patches;
  std::vector<float> rows;
  for (auto [high, wide] : given.sizes) {
    ImageGrid grid(about, high, wide);
    std::vector<GraphOutput> outputs;
    HEDDLE_RETURN_IF_ERROR(function->call(grid.inputs(patches), where, outputs));
    const auto *computed = static_cast<const float *>(outputs.front().data);
    rows.resize(size_t(grid.rows() * width));
    for (int32_t row : grid.order()) {
      if (row >= 0)
        memcpy(rows.data() + row * width, computed, size_t(width) * sizeof(float));
      computed += width;
    }
    rowCounts.push_back(grid.rows());
    HEDDLE_RETURN_IF_ERROR(give(rows.data(), grid.rows(), hasPlaces ? grid.columns() : 0));
    patches += high * wide * ImageGrid::patchWidth(about);
  }
  return Status();
}

Status GivenRows::expand(std::vector<int32_t> &ids) const {
  int64_t tokens = std::count(ids.begin(), ids.end(), tokenId), items = int64_t(rowCounts.size());
  // As a processor writes it: a token for each row.
  bool isExpanded = tokens != items && tokens == numRows();
  if (tokens != items && !isExpanded)
    return invalidInput(format("the prompt has %lld times the token of an image (id %d), but there %s %lld image%s",
                               (long long)tokens, tokenId, items == 1 ? "is" : "are", (long long)items,
                               items == 1 ? "" : "s"));
  auto vocabSize = int64_t(session.package().metadata().vocab_size());
  for (int32_t id : ids)
    if (id >= vocabSize)
      return invalidInput(format("token id %d of the prompt is not in [0, %lld)", id, (long long)vocabSize));
  if (isExpanded) {
    size_t next = 0;
    replace(ids, next);
    return Status();
  }
  std::vector<int32_t> expanded;
  expanded.reserve(ids.size() + rowIds.size());
  auto next = rowIds.begin();
  auto count = rowCounts.begin();
  for (int32_t id : ids) {
    if (id != tokenId) {
      expanded.push_back(id);
      continue;
    }
    expanded.insert(expanded.end(), next, next + *count);
    next += *count++;
  }
  ids = std::move(expanded);
  return Status();
}

void GivenRows::replace(std::vector<int32_t> &ids, size_t &next) const {
  for (int32_t &id : ids)
    if (id == tokenId)
      id = rowIds[next++];
}

int64_t countGiven(const package::Package &metadata, const std::vector<int32_t> &ids) {
  return metadata.given() ? std::count(ids.begin(), ids.end(), metadata.given()->token()) : 0;
}

} // namespace heddle

const heddle::GivenSupport heddle_part_given = {heddle::GivenRows::createLinked};
