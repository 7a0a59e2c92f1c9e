// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What rows of families mean: which row a name stands for, and which tensors of which shapes the rules of a row ask of a config.
#include "frontends/Family.h"

#include <numeric>

namespace heddle {

const Family *findFamily(const FamilyList &families, std::string_view modelType) {
  const Family *joint = nullptr; // whose texts alone may have a row of the same name
  for (const Family *family : families)
    if (!family->isGgufOnly && modelType == family->modelType) {
      if (!family->towerModel)
        return family;
      joint = family;
    }
  return joint;
}

const char *embeddingOf(const ModelConfig &config, bool isDecoder) {
  const Family &family = *config.family;
  return config.hasOwnEmbeddings ? family.embeddingCopies.first[isDecoder] : family.embedding;
}

const Family *findGgufFamily(const FamilyList &families, std::string_view name, bool hasExperts,
                             const Checkpoint &tensors) {
  const Family *found = nullptr, *marked = nullptr;
  for (const Family *family : families) {
    bool isNamed = (family->gguf && name == family->gguf) || (family->ggufAhead && name == family->ggufAhead);
    if (isNamed && family->ggufMark) {
      if (tensors.find(family->ggufMark))
        marked = family;
    } else if (isNamed && (!found || family->hasExperts == hasExperts)) {
      found = family;
    }
  }
  return marked ? marked : found;
}

// Each name once, in the order of the list.
static std::string joinNames(const FamilyList &families, const char *Family::*name) {
  std::string names;
  for (const Family *family : families)
    if (family->*name && (name != &Family::modelType || !family->isGgufOnly) &&
        (", " + names).find(", " + std::string(family->*name) + ", ") == std::string::npos)
      names += std::string(family->*name) + ", ";
  return names.substr(0, names.size() - 2);
}

std::string knownFamilies(const FamilyList &families) {
  return joinNames(families, &Family::modelType);
}

std::string knownGgufFamilies(const FamilyList &families) {
  std::string ahead = joinNames(families, &Family::ggufAhead);
  return joinNames(families, &Family::gguf) + (ahead.empty() ? "" : ", " + ahead);
}

std::string tensorName(const char *pattern, int64_t layer, int64_t expert) {
  std::string name;
  for (const char *c = pattern; *c; ++c) {
    if (*c == '#' || *c == '%')
      name += std::to_string(layer);
    else if (*c == '@')
      name += std::to_string(expert);
    else
      name += *c;
  }
  return name;
}

// Of every family: rotary embeddings are computed from the config, and checkpoints of older releases hold them too.
static constexpr UnreadTensor unreadEverywhere[] = {{"*rotary_emb.inv_freq"}};

static bool matches(std::string_view pattern, std::string_view name, const ModelConfig &config) {
  if (pattern.empty())
    return name.empty();
  if (pattern[0] == '*') {
    for (size_t skipped = 0; skipped <= name.size(); ++skipped)
      if (matches(pattern.substr(1), name.substr(skipped), config))
        return true;
    return false;
  }
  if (pattern[0] == '#' || pattern[0] == '%' || pattern[0] == '+') {
    int64_t layer = 0;
    size_t digits = 0;
    for (; digits < name.size() && digits < 9 && name[digits] >= '0' && name[digits] <= '9'; ++digits)
      layer = 10 * layer + (name[digits] - '0');
    int64_t first = pattern[0] == '+' ? config.numHiddenLayers : 0;
    int64_t count = pattern[0] == '#'   ? config.numHiddenLayers
                    : pattern[0] == '%' ? config.encoder.numLayers
                                        : config.numPredictionLayers;
    return digits > 0 && layer >= first && layer - first < count &&
           matches(pattern.substr(1), name.substr(digits), config);
  }
  return !name.empty() && pattern[0] == name[0] && matches(pattern.substr(1), name.substr(1), config);
}

// Whether `name` is the weight or the bias of the head that makes logits.
static bool isOfHead(const Family &family, std::string_view name) {
  std::string_view head = family.head;
  head = head.substr(0, head.rfind('.') + 1);
  return name.substr(0, head.size()) == head;
}

const UnreadTensor *findUnread(const ModelConfig &config, std::string_view name) {
  static constexpr UnreadTensor head = {"*"};
  // Where no rule asks for it, a tensor of a GGUF file keeps its name.
  bool isGgufHead = config.source == "gguf" && name.substr(0, 7) == "output.";
  if (config.embedsTexts && (isGgufHead || isOfHead(*config.family, name)))
    return &head;
  for (UnreadTensors list : {config.family->unread, UnreadTensors(unreadEverywhere)})
    for (const UnreadTensor &tensor : list)
      if (matches(tensor.pattern, name, config))
        return &tensor;
  return nullptr;
}

int64_t partsOf(const TensorRule &rule, const ModelConfig &config, int64_t layer) {
  if (rule.parts != ConfigDim::None)
    return dimension(rule.parts, config, layer);
  return config.stages.empty() ? config.moe.numExperts : config.stages[static_cast<size_t>(layer)].depth;
}

int64_t dimension(ConfigDim dim, const ModelConfig &config, int64_t layer) {
  LayerShape shape = config.shapeOf(layer);
  int64_t heads = config.headsOf(layer), valueDim = config.valueDim ? config.valueDim : shape.headDim;
  StageConfig stage = config.stages.empty() ? StageConfig() : config.stages[static_cast<size_t>(layer)];
  switch (dim) {
  case ConfigDim::None:
    return 1;
  case ConfigDim::Vocab:
    return config.vocabSize;
  case ConfigDim::Positions:
    return config.contextLength + config.firstPosition + config.positionOffset;
  case ConfigDim::Labels:
    return static_cast<int64_t>(config.labels.size());
  case ConfigDim::PatchWidth:
    return config.image.patchWidth();
  case ConfigDim::StageWidth:
    return stage.width;
  case ConfigDim::StageHeads:
    return stage.numHeads;
  case ConfigDim::StageIntermediate:
    return stage.intermediateSize;
  case ConfigDim::MergedWidth:
    return 4 * stage.width;
  case ConfigDim::NextStageWidth:
    return 2 * stage.width;
  case ConfigDim::WindowDistances:
    return (2 * config.image.window - 1) * (2 * config.image.window - 1);
  case ConfigDim::MelWindow:
    return config.audio.windowWidth();
  case ConfigDim::HiddenWindow:
    return config.hiddenSize * AudioConfig::taps;
  case ConfigDim::One:
    return 1;
  case ConfigDim::Two:
    return 2;
  case ConfigDim::TokenTypes:
    return config.tokenTypes;
  case ConfigDim::TaskTypes:
    return config.taskTypes;
  case ConfigDim::PagePlaces:
    return config.page.places;
  case ConfigDim::PageCoordinate:
    return config.page.coordinateSize;
  case ConfigDim::PageShape:
    return config.page.shapeSize;
  case ConfigDim::PageBuckets:
    return config.page.buckets;
  case ConfigDim::HeadInput:
    return config.headInput;
  case ConfigDim::Hidden:
    return config.hiddenSize;
  case ConfigDim::TwiceHidden:
    return 2 * config.hiddenSize;
  case ConfigDim::Registers:
    return config.image.specialTokens - 1;
  case ConfigDim::Embedding:
    return config.embeddingSize ? config.embeddingSize : config.hiddenSize;
  case ConfigDim::Heads:
    return heads;
  case ConfigDim::KvHeads:
    return shape.numKvHeads;
  case ConfigDim::Buckets:
    return config.relativeBuckets;
  case ConfigDim::Queries:
    return heads * shape.headDim;
  case ConfigDim::KeyValues:
    return shape.numKvHeads * shape.headDim;
  case ConfigDim::Values:
    return shape.numKvHeads * valueDim;
  case ConfigDim::HeadValues:
    return heads * valueDim;
  case ConfigDim::QueriesKeysValues:
    return (heads + 2 * shape.numKvHeads) * shape.headDim;
  case ConfigDim::HeadDim:
    return shape.headDim;
  case ConfigDim::Intermediate:
    return shape.intermediateSize;
  case ConfigDim::QueryGroup:
    return config.hiddenSize / config.groups.query;
  case ConfigDim::KeyGroup:
    return config.hiddenSize / config.groups.key;
  case ConfigDim::ValueGroup:
    return config.hiddenSize / config.groups.value;
  case ConfigDim::OutputGroup:
    return config.hiddenSize / config.groups.output;
  case ConfigDim::UpGroup:
    return config.hiddenSize / config.groups.up;
  case ConfigDim::DownGroup:
    return shape.intermediateSize / config.groups.down;
  case ConfigDim::EncoderPositions:
    return config.encoder.contextLength + config.firstPosition;
  case ConfigDim::EncoderIntermediate:
    return config.encoder.intermediateSize;
  case ConfigDim::EncoderQueriesKeysValues:
    return 3 * config.encoder.hiddenSize;
  case ConfigDim::EncoderHidden:
    return config.encoder.hiddenSize;
  case ConfigDim::Projection:
    return config.projectionSize;
  case ConfigDim::DeepLayers:
    return static_cast<int64_t>(config.seen.deepLayers.size());
  case ConfigDim::Seen:
    return config.encoder.hiddenSize * static_cast<int64_t>(config.seen.layers.size()) *
           (config.seen.sideBySide ? config.seen.side * config.seen.side : 1);
  case ConfigDim::GateAndUp:
    return 2 * shape.intermediateSize;
  case ConfigDim::Experts:
    return config.moe.numExperts;
  case ConfigDim::ExpertInput:
    return config.moe.latentSize ? config.moe.latentSize : config.hiddenSize;
  case ConfigDim::ExpertGateAndUp:
    return 2 * config.moe.intermediateSize;
  case ConfigDim::ExpertIntermediate:
    return config.moe.intermediateSize;
  case ConfigDim::SharedIntermediate:
    return config.moe.sharedIntermediateSize;
  case ConfigDim::QueryRank:
    return config.latent.qLoraRank;
  case ConfigDim::LatentRank:
    return config.latent.kvLoraRank;
  case ConfigDim::LatentAndRope:
    return config.latent.kvLoraRank + config.latent.qkRopeHeadDim;
  case ConfigDim::LatentUps:
    return config.numHeads * (config.latent.qkNopeHeadDim + config.latent.vHeadDim);
  case ConfigDim::LatentKeyUps:
    return config.numHeads * config.latent.kvLoraRank;
  case ConfigDim::LatentOutput:
    return config.numHeads * config.latent.vHeadDim;
  case ConfigDim::NopeDim:
    return config.latent.qkNopeHeadDim;
  case ConfigDim::Streams:
    return config.streams.count;
  case ConfigDim::OtherStreams:
    return config.streams.count - 1;
  case ConfigDim::StreamPairs:
    return config.streams.count * config.streams.count;
  case ConfigDim::LaurelRank:
    return config.streams.laurelRank;
  case ConfigDim::LayerInput:
    return config.layerInputs.size;
  case ConfigDim::LayerInputs:
    return config.numHiddenLayers * config.layerInputs.size;
  case ConfigDim::LayerInputVocab:
    return config.layerInputs.vocabSize;
  case ConfigDim::ConvWidth:
    return config.recurrent.convWidth;
  case ConfigDim::ThriceHidden:
    return 3 * config.hiddenSize;
  case ConfigDim::GatedQueries:
    return 2 * heads * shape.headDim;
  case ConfigDim::StateHeads:
    return config.recurrent.numValueHeads;
  case ConfigDim::TwiceStateHeads:
    return 2 * config.recurrent.numValueHeads;
  case ConfigDim::StateHeadDim:
    return config.recurrent.valueDim;
  case ConfigDim::StateValues:
    return config.recurrent.values();
  case ConfigDim::StateKeys:
    return config.recurrent.numKeyHeads * config.recurrent.keyDim;
  case ConfigDim::StateChannels:
    return config.recurrent.channels();
  case ConfigDim::StateChannelsAndGates:
    return config.recurrent.channels() + config.recurrent.values();
  case ConfigDim::StateInputs:
    return config.recurrent.inputs();
  case ConfigDim::StepRank:
    return config.recurrent.stepRank;
  case ConfigDim::StepRankAndKeys:
    return config.recurrent.stepRank + 2 * config.recurrent.numKeyHeads * config.recurrent.keyDim;
  }
  return 1;
}

RowOrder rowOrderOf(const TensorRule &rule) {
  switch (rule.order) {
  case StoredOrder::ByKvHead:
    return RowOrder::ByKvHead;
  case StoredOrder::ByShard:
    return RowOrder::ByShard;
  case StoredOrder::ByGate:
    return RowOrder::ByGate;
  case StoredOrder::ByStateHead:
    return RowOrder::ByStateHead;
  case StoredOrder::ByStateTerm:
    return RowOrder::ByStateTerm;
  case StoredOrder::ByStatePart:
    return RowOrder::ByStatePart;
  case StoredOrder::Plain:
  case StoredOrder::Conv1d:
  case StoredOrder::Flattened:
    break;
  }
  return RowOrder::ByPart;
}

// Of groups one behind the other, each with parts of these sizes: the first parts of all, then the second ones, ….
static RowRuns partsOfGroups(int64_t groups, const std::vector<int64_t> &sizes) {
  int64_t group = std::accumulate(sizes.begin(), sizes.end(), int64_t(0)), begin = 0;
  RowRuns runs;
  for (int64_t size : sizes) {
    for (int64_t i = 0; i < groups; ++i)
      runs.emplace_back(i * group + begin, size);
    begin += size;
  }
  return runs;
}

// Of q, k and v in `shards` parts, each with its values before its keys.
static RowRuns partsOfShards(int64_t shards, int64_t queries, int64_t keys) {
  RowRuns runs;
  for (auto [begin, rows] : {std::pair(int64_t(0), queries), {queries + keys, keys}, {queries, keys}})
    for (int64_t shard = 0; shard < shards; ++shard)
      runs.emplace_back(shard * (queries + 2 * keys) + begin, rows);
  return runs;
}

RowRuns rowRuns(RowOrder order, const ModelConfig &config) {
  int64_t dim = config.headDim, queries = config.numHeads * dim, keys = config.numKvHeads * dim;
  const RecurrentConfig &state = config.recurrent;
  int64_t group = state.numKeyHeads ? state.numValueHeads / state.numKeyHeads : 0, values = group * state.valueDim;
  switch (order) {
  case RowOrder::ByPart:
    break;
  case RowOrder::ByKvHead:
    return partsOfGroups(config.numKvHeads, {queries / config.numKvHeads, dim, dim});
  case RowOrder::ByShard:
    return partsOfShards(4, queries / 4, keys / 4);
  case RowOrder::ByGate:
    return partsOfGroups(config.numHeads, {dim, dim});
  case RowOrder::ByStateHead:
    return partsOfGroups(state.numKeyHeads, {state.keyDim, state.keyDim, values, values});
  case RowOrder::ByStateTerm:
    return partsOfGroups(state.numKeyHeads, {group, group});
  case RowOrder::ByStatePart:
    return partsOfGroups(state.numKeyHeads, {state.keyDim, state.keyDim, values});
  }
  return {{0, queries}, {queries, keys}, {queries + keys, keys}};
}

bool applies(const TensorRule &rule, const ModelConfig &config, int64_t layer) {
  if (config.embedsTexts && isOfHead(*config.family, rule.name))
    return false;
  bool isOfEncoder = std::string_view(rule.name).find('%') != std::string_view::npos;
  const std::vector<bool> &layerIsMoe = isOfEncoder ? config.encoder.layerIsMoe : config.moe.layerIsMoe;
  bool sparse = static_cast<size_t>(layer) < layerIsMoe.size() && layerIsMoe[layer];
  bool isRecurrent = config.isRecurrent(layer), attends = config.attends(layer);
  bool hasOwnKeys = static_cast<size_t>(layer) >= config.keyLayers.size() || config.keyLayers[layer] == layer;
  bool hasOwnValues = hasOwnKeys && !config.shapeOf(layer).keysAreValues;
  switch (rule.when) {
  case When::Always:
    return true;
  case When::Tied:
    return config.tieWordEmbeddings;
  case When::Untied:
    return !config.tieWordEmbeddings;
  case When::OwnEmbeddings:
    return config.hasOwnEmbeddings;
  case When::FinalNorm:
    return config.hasFinalNorm;
  case When::Serial:
    return !config.parallelResidual;
  case When::Projected:
    return config.embeddingSize > 0;
  case When::SharedNorm:
    return !config.hasNormEach;
  case When::NormEach:
    return config.hasNormEach;
  case When::SequentialNorm:
    return !config.parallelResidual;
  case When::EmbeddingNorm:
    return config.hasEmbeddingNorm;
  case When::LogitsBias:
    return config.hasLogitsBias;
  case When::AttentionBias:
    return config.attentionBias && attends;
  case When::KeyBias:
    return config.attentionBias && !config.noKeyBias;
  case When::OutputBias:
    return config.attentionOutputBias && attends;
  case When::MlpBias:
    return config.mlpBias && !sparse;
  case When::HeadNorms:
    return config.normsHeads && !config.headNormsApart;
  case When::HeadNormsApart:
    return config.normsHeads && config.headNormsApart;
  case When::NormsBehind:
    return config.hasNormsBehind;
  case When::NormBias:
    return config.hasNormBias;
  case When::HeadBias:
    return config.hasHeadBias;
  case When::BehindFirst:
    return layer > 0;
  case When::Last:
    return layer + 1 == config.numHiddenLayers;
  case When::Windowed:
    return static_cast<size_t>(layer) < config.layerWindow.size() && config.layerWindow[layer] > 0;
  case When::HeadGates:
    return !config.gatesElements;
  case When::ElementGates:
    return config.gatesElements;
  case When::NormBiasBehindFirst:
    return config.hasNormBias && layer > 0;
  case When::Dense:
    return !sparse;
  case When::Sparse:
    return sparse;
  case When::Correction:
    return sparse && config.moe.hasCorrection;
  case When::Shared:
    return sparse && config.moe.sharedIntermediateSize > 0;
  case When::SharedBias:
    return sparse && config.mlpBias && config.moe.sharedIntermediateSize > 0;
  case When::ExpertLatent:
    return sparse && config.moe.latentSize > 0;
  case When::ExpertLatentBias:
    return sparse && config.mlpBias && config.moe.latentSize > 0;
  case When::RouterBias:
    return sparse && config.moe.hasRouterBias;
  case When::FusedGates:
    return sparse && !config.moe.splitGates;
  case When::SplitGates:
    return sparse && config.moe.splitGates;
  case When::QueryLora:
    return config.latent.qLoraRank > 0 && attends;
  case When::QueryLoraBias:
    return config.latent.qLoraRank > 0 && config.attentionBias && attends;
  case When::NoQueryLora:
    return config.latent.qLoraRank == 0 && attends;
  case When::WholeUps:
    return !config.latent.splitUps && attends;
  case When::SplitUps:
    return config.latent.splitUps && attends;
  case When::Pooler:
    return config.hasPooler;
  case When::Gated:
    return config.gatesFeedForward;
  case When::Ungated:
    return !config.gatesFeedForward;
  case When::PositionTable:
    return config.hasPositionTable;
  case When::TokenTypes:
    return config.tokenTypes > 0;
  case When::TaskTypes:
    return config.taskTypes > 0;
  case When::Distances:
    return config.relativeBuckets > 0;
  case When::DistancesEach:
    return config.relativeBuckets > 0 && !config.sharesDistances;
  case When::DistancesShared:
    return config.relativeBuckets > 0 && config.sharesDistances;
  case When::PageDistances:
    return config.relativeBuckets > 0 && config.page.buckets > 0;
  case When::LayerScales:
    return config.hasLayerScales;
  case When::DistanceNorm:
    return config.distances.isNormed;
  case When::NeighbourConv:
    return config.neighbourConv.has_value();
  case When::DistanceKeys:
    return config.relativeBuckets > 0 && config.distances.asKeys && !config.distances.sharesProjections;
  case When::DistanceQueries:
    return config.relativeBuckets > 0 && config.distances.asQueries && !config.distances.sharesProjections;
  case When::Texts:
    return config.vocabSize > 1;
  case When::Merged:
    return layer + 1 < config.numHiddenLayers;
  case When::OwnKeys:
    return hasOwnKeys;
  case When::OwnKeyBias:
    return hasOwnKeys && config.attentionBias;
  case When::LayerInputs:
    return config.layerInputs.size > 0;
  case When::OwnValues:
    return hasOwnValues;
  case When::OwnValueBias:
    return hasOwnValues && config.attentionBias;
  case When::ActivationTensors:
    return config.hasActivationTensors;
  case When::Attends:
    return attends;
  case When::Recurrent:
    return isRecurrent;
  case When::Alone:
    return !attends && !isRecurrent && !sparse;
  case When::AloneBias:
    return !attends && !isRecurrent && !sparse && config.mlpBias;
  case When::RecurrentBias:
    return isRecurrent && config.recurrent.hasBias;
  case When::StateProjectionBias:
    return isRecurrent && config.recurrent.hasProjectionBias;
  case When::StateOutputBias:
    return isRecurrent && config.recurrent.hasOutputBias;
  case When::StateNorm:
    return isRecurrent && config.recurrent.norm != StateNorm::None;
  case When::SplitStates:
    return isRecurrent && config.recurrent.isSplit;
  case When::FusedStates:
    return isRecurrent && !config.recurrent.isSplit;
  }
  return true;
}

} // namespace heddle
