// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/GivenRows.h"

#include "runtime/session/SessionParts.h"

#include <algorithm>
#include <numeric>

namespace heddle {

Status GivenRows::createLinked(Package &package, Session &session, std::unique_ptr<GivenRows> &outRows) {
  const package::GivenRows &table = *package.metadata().given();
  std::unique_ptr<GivenRows> rows(new GivenRows(table, session));
  HEDDLE_RETURN_IF_ERROR(
      TensorFunction::create(package, table.graph(), /*threads=*/0, &session.threadPool(), rows->function));
  outRows = std::move(rows);
  return Status();
}

Status GivenRows::add(const std::vector<StoredTensor> &inputs, const std::string &where) {
  std::vector<GraphOutput> outputs;
  HEDDLE_RETURN_IF_ERROR(function->call(inputs, where, outputs));
  const GraphOutput &rows = outputs.front();
  int64_t total = rows.shape[0] * count;
  if (total == 0)
    return Status();
  int32_t first = 0;
  HEDDLE_RETURN_IF_ERROR(session.give(static_cast<const float *>(rows.data), total, first));
  rowIds.resize(rowIds.size() + size_t(total));
  std::iota(rowIds.end() - total, rowIds.end(), first);
  return Status();
}

Status GivenRows::expand(std::vector<int32_t> &ids) const {
  int64_t tokens = std::count(ids.begin(), ids.end(), tokenId), items = numRows() / count;
  if (tokens != items)
    return invalidInput(format("the prompt has %lld times the token of an image (id %d), but there %s %lld image%s",
                               (long long)tokens, tokenId, items == 1 ? "is" : "are", (long long)items,
                               items == 1 ? "" : "s"));
  auto vocabSize = int64_t(session.package().metadata().vocab_size());
  for (int32_t id : ids)
    if (id >= vocabSize)
      return invalidInput(format("token id %d of the prompt is not in [0, %lld)", id, (long long)vocabSize));
  std::vector<int32_t> expanded;
  expanded.reserve(ids.size() + rowIds.size());
  auto next = rowIds.begin();
  for (int32_t id : ids) {
    if (id != tokenId) {
      expanded.push_back(id);
      continue;
    }
    expanded.insert(expanded.end(), next, next + count);
    next += count;
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
