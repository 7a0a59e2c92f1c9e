// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/ForwardConfig.h"

#include "dialect/HeddleDialect.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace heddle;

// A graph that says how its tensors are called keeps these names: only those of a decoder may become @forward's.
static std::string otherName(StringAttr name, StringRef wanted) {
  bool isOther = name && name.getValue() != wanted;
  return isOther ? ("'" + name.getValue() + "' is not called '" + wanted + "'").str() : "";
}

DecoderInput heddle::decoderInput(func::FuncOp graph, unsigned index) {
  auto name = graph.getArgAttrOfType<StringAttr>(index, "heddle.name");
  if (!name)
    return graph.getNumArguments() == 1 ? DecoderInput::InputIds : DecoderInput::Other;
  return llvm::StringSwitch<DecoderInput>(name.getValue())
      .Case("input_ids", DecoderInput::InputIds)
      .Case("attention_mask", DecoderInput::AttentionMask)
      .Case("position_ids", DecoderInput::PositionIds)
      .Default(DecoderInput::Other);
}

std::string heddle::noDecoderSignature(func::FuncOp graph) {
  unsigned numIds = 0;
  for (auto [i, argument] : llvm::enumerate(graph.getArguments())) {
    auto name = graph.getArgAttrOfType<StringAttr>(i, "heddle.name");
    DecoderInput input = decoderInput(graph, i);
    if (name && name.getValue().starts_with("past"))
      return "it takes its cache as inputs ('" + name.getValue().str() + "'), expected an export without one";
    if (input == DecoderInput::Other)
      return "its input '" + (name ? name.getValue().str() : "#" + std::to_string(i)) +
             "' is none of input_ids, attention_mask and position_ids";
    numIds += input == DecoderInput::InputIds;
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || type.getRank() != 2 || !isa<IntegerType>(type.getElementType()) || type.getDimSize(1) == 1)
      return "its input" + (name ? " '" + name.getValue().str() + "'" : "") +
             " is not (batch, sequence) integers of more than one token";
    if (type.getDimSize(1) != cast<RankedTensorType>(graph.getArgumentTypes()[0]).getDimSize(1))
      return "its inputs are of different lengths";
  }
  if (numIds != 1 || graph.getNumResults() != 1)
    return "it has " + std::to_string(numIds) + " inputs called input_ids and " +
           std::to_string(graph.getNumResults()) + " outputs, expected input_ids and logits";
  std::string other = otherName(graph.getResultAttrOfType<StringAttr>(0, "heddle.name"), "logits");
  if (!other.empty())
    return other;
  auto logits = dyn_cast<RankedTensorType>(graph.getResultTypes()[0]);
  bool isFloat = logits && isa<FloatType>(logits.getElementType()) && logits.getElementTypeBitWidth() <= 32;
  if (!isFloat || logits.getRank() != 3 || logits.isDynamicDim(2))
    return "its output is not (batch, sequence, vocabulary) floats of at most 32 bits with a static vocabulary";
  return "";
}

// Of a graph that looks no positions up.
static constexpr int64_t unlimitedPositions = 1 << 20;

static int64_t lastSize(Type type) {
  return cast<RankedTensorType>(type).getShape().back();
}

static void readRope(RopeAttr rope, ModelConfig &config) {
  if (int64_t(config.ropes.size()) <= rope.getTable())
    config.ropes.resize(rope.getTable() + 1);
  RopeConfig &table = config.ropes[rope.getTable()];
  table.rotaryDim = rope.getRotaryDim();
  table.interleaved = rope.getInterleaved();
  table.attentionFactor = rope.getAttentionFactor().getValueAsDouble();
  ArrayRef<float> frequencies = rope.getInverseFrequency().asArrayRef();
  table.stated.assign(frequencies.begin(), frequencies.end());
  table.growth = rope.getGrowth() ? rope.getGrowth().getValueAsDouble() : 0.0;
  table.floor = rope.getFloor();
}

// Whether the head multiplies by the table that ids are looked up in.
static bool tiesEmbeddings(func::FuncOp forward) {
  SmallVector<StorageAttr> tables, heads;
  forward.walk([&](WeightOp weight) {
    for (Operation *user : weight->getUsers())
      if (isa<EmbeddingOp, LinearOp>(user))
        (isa<EmbeddingOp>(user) ? tables : heads).push_back(weight.getStorage());
  });
  return llvm::any_of(tables, [&](StorageAttr table) { return llvm::is_contained(heads, table); });
}

bool heddle::readForward(ModuleOp module, ModelConfig &config) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  if (!forward)
    return false;
  auto mostTokens = forward->getAttrOfType<IntegerAttr>(mostTokensAttr);
  config.contextLength = mostTokens ? mostTokens.getInt() : unlimitedPositions;
  config.vocabSize = lastSize(forward.getResultTypes()[0]);
  config.tieWordEmbeddings = tiesEmbeddings(forward);
  config.numHiddenLayers = llvm::range_size(forward.getOps<func::CallOp>());
  module.walk([&](Operation *op) {
    if (auto embedding = dyn_cast<EmbeddingOp>(op)) {
      config.hiddenSize = lastSize(embedding.getType());
      if (embedding.getIds() == forward.getArgument(1))
        config.contextLength = std::min(config.contextLength, embedding.getTable().getType().getShape()[0]);
    } else if (auto attention = dyn_cast<AttentionOp>(op)) {
      config.numHeads = attention.getNumHeads();
      config.numKvHeads = attention.getNumKvHeads();
      config.headDim = attention.getHeadDim();
    } else if (auto glu = dyn_cast<GluOp>(op)) {
      config.intermediateSize = lastSize(glu.getType());
    } else if (auto rope = dyn_cast<RopeOp>(op)) {
      readRope(rope.getRope(), config);
    }
  });
  return true;
}
