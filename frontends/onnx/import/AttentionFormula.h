// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The formulas of attention and of rotary embedding, which the standard's ops and those of com.microsoft share. Axes
// are (batch, heads, sequence, head_dim).
#ifndef HEDDLE_FRONTENDS_ONNX_IMPORT_ATTENTIONFORMULA_H
#define HEDDLE_FRONTENDS_ONNX_IMPORT_ATTENTIONFORMULA_H

#include "frontends/onnx/import/GraphImporter.h"

namespace heddle {

struct AttentionOperands {
  GraphValue query, key, value;             // (B, H, S, D), (B, Hkv, T, D), (B, Hkv, T, Dv)
  double scale = 0;                         // 0: 1 / sqrt(D)
  double softcap = 0;                       // 0: none
  GraphValue allowed;                       // bool, broadcasts to (B, H, S, T); null: every key
  GraphValue bias;                          // added to scores, broadcasts to (B, H, S, T); null: none
  GraphValue sink;                          // (H): one more score of each head, of no value; null: none
  bool mayHideRows = false;                 // whether a query may have no key: its output is then 0
  OnnxType precision = OnnxType::Undefined; // of the softmax, if it is to be more than the accumulator's
};

struct AttentionResult {
  GraphValue output;                                // (B, H, S, Dv), in the query's type
  GraphValue scores, capped, masked, probabilities; // (B, H, S, T), in the accumulator's type
};

// softmax(softcap(scale * query @ key^T) + bias, hidden where not allowed) @ value, with H a multiple of Hkv; a sink is in the
// softmax's sum alone. Scores may be changed by `changeScores` before the softmax, probabilities by `changeProbabilities` after it.
using ChangeScores = llvm::function_ref<GraphValue(const GraphValue &)>;
AttentionResult attend(GraphBuilder &g, const AttentionOperands &a, ChangeScores changeScores = nullptr,
                       ChangeScores changeProbabilities = nullptr);

// Which keys a query sees by position: query i of a batch stands at `offset` + i, a number or one of shape (B, 1, 1,
// 1).
struct PositionMask {
  bool isCausal = false;
  int64_t left = -1, right = -1; // keys on either side that are seen; -1: all
};
GraphValue positionMask(GraphBuilder &g, const PositionMask &mask, const Dim &queries, const Dim &keys,
                        const GraphValue &offset);

// (B, S, H * D) -> (B, H, S, D) and back.
GraphValue splitHeads(NodeImport &n, const GraphValue &x, int64_t numHeads, const llvm::Twine &what);
GraphValue mergeHeads(GraphBuilder &g, const GraphValue &x);

// Rotates the first `rotaryDim` of the last axis of x by angles whose cosines and sines broadcast to half of it.
GraphValue rotate(GraphBuilder &g, const GraphValue &x, const GraphValue &cos, const GraphValue &sin,
                  const Dim &rotaryDim, bool interleaved);

} // namespace heddle

#endif
