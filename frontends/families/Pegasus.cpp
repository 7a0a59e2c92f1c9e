// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PEGASUS (Zhang et al. 2019, arXiv:1912.08777): the original Transformer with sinusoidal positions, all sines before all cosines, norms before
// attention and feed-forward, and one behind each stack.

#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"

namespace heddle {

// The table of positions, which some files hold.
static constexpr UnreadTensor unread[] = {{"model.encoder.embed_positions.weight"},
                                          {"model.decoder.embed_positions.weight"}};

static void build(ModelBuilder &b) {
  buildEncoderDecoder(b, sinusoidalPositions, sinusoidalPositions);
}

static constexpr Family describePegasus() {
  Family row = describeEncoderDecoder("pegasus");
  row.unread = unread;
  row.addTensors = addSinusoids<Sinusoids::Halves>;
  row.build = build;
  return row;
}
const Family family::pegasus = describePegasus();

} // namespace heddle
