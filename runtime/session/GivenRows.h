// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a model is told otherwise than by ids: a graph of its package makes rows of named tensors (of images), a session takes them, and ids from
// the vocabulary's end on name them where a prompt has a token that stands for them.
#ifndef HEDDLE_RUNTIME_SESSION_GIVENROWS_H
#define HEDDLE_RUNTIME_SESSION_GIVENROWS_H

#include "runtime/session/Session.h"
#include "runtime/session/TensorFunction.h"

namespace heddle {

class GivenRows { // the part `given` (SessionParts.h)
public:
  virtual ~GivenRows() = default;
  // Of a model that is given rows; its graph runs on the threads of `session`, which outlives this, and on the CPU where that has a device.
  static Status create(Package &package, Session &session, std::unique_ptr<GivenRows> &outRows);
  // The same, where the part is linked: for its table.
  static Status createLinked(Package &package, Session &session, std::unique_ptr<GivenRows> &outRows);

  // Computes the rows of all items of `inputs` and gives them to the session. `where` begins messages.
  virtual Status add(const std::vector<StoredTensor> &inputs, const std::string &where);
  // What add() takes: the inputs of the graph, or those that it is made of (gridInputs()).
  const std::vector<std::string> &inputs() const { return inputNames; }

  // In `ids`, a prompt as its tokenizer makes it, each token that stands for an item becomes the ids of its rows; it has one for each item, or
  // one for each row.
  virtual Status expand(std::vector<int32_t> &ids) const;
  // Each of these tokens in `ids` becomes the id of a row, from row `next` on, which then is the next one.
  virtual void replace(std::vector<int32_t> &ids, size_t &next) const;
  int64_t numRows() const { return int64_t(rowIds.size()); }
  int32_t token() const { return tokenId; }

private:
  GivenRows(const package::GivenRows &table, Session &session)
      : session(session), table(table), tokenId(table.token()) {}
  Status addGrids(const std::vector<StoredTensor> &inputs, const std::string &where);
  Status addMosaics(const std::vector<StoredTensor> &inputs, const std::string &where);
  Status give(const float *rows, int64_t count, int64_t columns);

  Session &session;
  const package::GivenRows &table;
  const int32_t tokenId;
  std::vector<std::string> inputNames;
  std::unique_ptr<TensorFunction> function;
  std::vector<int32_t> rowIds;    // of all items, in the order of prompts
  std::vector<int64_t> rowCounts; // of each
};

// How many tokens of `ids` stand for what the model is given.
int64_t countGiven(const package::Package &metadata, const std::vector<int32_t> &ids);

} // namespace heddle

#endif
