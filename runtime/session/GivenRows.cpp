// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/GivenRows.h"

#include "runtime/session/ImageGrid.h"
#include "runtime/session/SessionParts.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace heddle {

Status GivenRows::createLinked(Package &package, Session &session, std::unique_ptr<GivenRows> &outRows) {
  const package::GivenRows &table = *package.metadata().given();
  std::unique_ptr<GivenRows> rows(new GivenRows(table, session));
  HEDDLE_RETURN_IF_ERROR(
      TensorFunction::create(package, table.graph(), /*threads=*/0, &session.threadPool(), rows->function));
  for (const TensorDeclaration &input : rows->function->inputs())
    rows->inputNames.push_back(input.name);
  if (std::vector<const char *> names = gridInputs(); table.grid())
    rows->inputNames.assign(names.begin(), names.end());
  outRows = std::move(rows);
  return Status();
}

Status GivenRows::add(const std::vector<StoredTensor> &inputs, const std::string &where) {
  if (table.grid())
    return addGrids(inputs, where);
  std::vector<GraphOutput> outputs;
  HEDDLE_RETURN_IF_ERROR(function->call(inputs, where, outputs));
  const GraphOutput &rows = outputs.front();
  int64_t total = rows.shape[0] * table.count();
  rowCounts.resize(rowCounts.size() + size_t(rows.shape[0]), table.count());
  return total ? give(static_cast<const float *>(rows.data), total, /*columns=*/0) : Status();
}

Status GivenRows::give(const float *rows, int64_t count, int64_t columns) {
  int32_t first = 0;
  HEDDLE_RETURN_IF_ERROR(session.give(rows, count, first, columns));
  rowIds.resize(rowIds.size() + size_t(count));
  std::iota(rowIds.end() - count, rowIds.end(), first);
  return Status();
}

Status GivenRows::addGrids(const std::vector<StoredTensor> &inputs, const std::string &where) {
  const package::GivenGrid &about = *table.grid();
  std::vector<std::pair<int64_t, int64_t>> sizes;
  const float *patches = nullptr;
  HEDDLE_RETURN_IF_ERROR(readGrids(inputs, where, about, sizes, patches));
  int64_t hiddenSize = session.package().metadata().hidden_size();
  std::vector<float> rows;
  for (auto [height, width] : sizes) {
    ImageGrid grid(about, height, width);
    std::vector<GraphOutput> outputs;
    HEDDLE_RETURN_IF_ERROR(function->call(grid.inputs(patches), where, outputs));
    const auto *given = static_cast<const float *>(outputs.front().data);
    rows.resize(size_t(grid.rows() * hiddenSize));
    for (int32_t row : grid.order()) {
      if (row >= 0)
        memcpy(rows.data() + row * hiddenSize, given, size_t(hiddenSize) * sizeof(float));
      given += hiddenSize;
    }
    rowCounts.push_back(grid.rows());
    HEDDLE_RETURN_IF_ERROR(give(rows.data(), grid.rows(), grid.columns()));
    patches += height * width * ImageGrid::patchWidth(about);
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
