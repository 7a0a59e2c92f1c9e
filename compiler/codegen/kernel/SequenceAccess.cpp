// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/kernel/SequenceAccess.h"

#include "runtime/model/ModelAbi.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

SequenceValues heddle::loadSequence(RawBuilder &b, Value sequences, Value index) {
  Value base = b.at(sequences, index, sizeof(heddle_sequence));
  SequenceValues sequence;
  sequence.firstRow = b.loadIndex(b.at(base, offsetof(heddle_sequence, first_row)));
  sequence.numRows = b.loadIndex(b.at(base, offsetof(heddle_sequence, num_rows)));
  sequence.past = b.loadIndex(b.at(base, offsetof(heddle_sequence, past)));
  sequence.length = b.add(sequence.past, sequence.numRows);
  sequence.pages = b.load(b.pointerType(), b.at(base, offsetof(heddle_sequence, pages)));
  sequence.seesAhead = b.loadIndex(b.at(base, offsetof(heddle_sequence, sees_ahead)));
  return sequence;
}

Value heddle::loadPage(RawBuilder &b, Value pages, Value page) {
  return b.load(b.pointerType(), b.at(pages, page, sizeof(uint8_t *)));
}
