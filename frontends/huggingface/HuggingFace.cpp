// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/huggingface/HuggingFace.h"
#include "bytes/Status.h"
#include "frontends/License.h"
#include "frontends/huggingface/Config.h"
#include "frontends/huggingface/ImageProcessor.h"
#include "frontends/huggingface/Safetensors.h"
#include "frontends/huggingface/SentenceTransformers.h"
#include "frontends/huggingface/Speech.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

namespace heddle {

namespace {

// What stands before the names of a checkpoint's tensors instead of the canonical "model." or "transformer."; "new." is of the releases before GTE had
// a name.
constexpr const char *otherPrefixes[] = {"language_model.model.", "model.language_model.", "model.text_model.", "new.",
                                         ""};

// Gives the tensors their canonical names; one that is taken keeps its tensor. The embedding tells the prefix of all.
void canonicalizeNames(const Family &family, Checkpoint &checkpoint) {
  std::string embedding = family.embedding;
  std::string canonical = embedding.substr(0, embedding.find('.') + 1);
  for (std::string prefix : otherPrefixes) {
    if (!checkpoint.find(prefix + embedding.substr(canonical.size())))
      continue;
    std::map<std::string, TensorInfo, std::less<>> renamed;
    while (!checkpoint.tensors.empty()) {
      auto node = checkpoint.tensors.extract(checkpoint.tensors.begin());
      std::string head = family.head;
      if (node.key() == "language_model." + head)
        node.key() = head;
      else if (node.key() != head && node.key().compare(0, prefix.size(), prefix) == 0)
        node.key() = canonical + node.key().substr(prefix.size());
      renamed.insert(std::move(node));
    }
    checkpoint.tensors = std::move(renamed);
    return;
  }
}

// Whether a checkpoint has what the family adds to scores where experts are chosen; names are canonical.
bool holdsCorrection(const ModelConfig &config, const Checkpoint &checkpoint) {
  const ExpertNames &names = config.family->experts;
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer)
    if (checkpoint.find("model.layers." + std::to_string(layer) + "." + names.block + names.correction))
      return true;
  return false;
}

// The same of a decoder with a tower, each of which has names of its own.
void canonicalizeNames(const ModelConfig &config, Checkpoint &checkpoint) {
  if (!config.tower && !config.seen.joint)
    return canonicalizeNames(*config.family, checkpoint);
  const Family &joint = config.tower ? *config.tower->seen.joint : *config.seen.joint;
  std::string model = "model.", tower = joint.towerPrefix, projector = joint.projectorPrefix;
  auto isBetween = [&](std::string_view name) {
    if (name.compare(0, projector.size(), projector) == 0)
      return true;
    const Listing<TensorRule> &rules = joint.heads.first->rules;
    return std::any_of(rules.begin(), rules.end(), [&](const TensorRule &rule) { return name == rule.name; });
  };
  Checkpoint ofTower, others;
  for (; !checkpoint.tensors.empty();) {
    auto node = checkpoint.tensors.extract(checkpoint.tensors.begin());
    std::string &name = node.key();
    auto begins = [&](std::string_view prefix) { return name.compare(0, prefix.size(), prefix) == 0; };
    if (begins(model + tower) || (begins(model) && isBetween(std::string_view(name).substr(model.size()))))
      name.erase(0, model.size());
    bool isSeeing = begins(tower);
    if (isSeeing)
      name.erase(0, tower.size());
    if (config.tower || (!isSeeing && !isBetween(name))) // whose texts alone are asked for
      (isSeeing ? ofTower : others).tensors.insert(std::move(node));
  }
  if (config.tower)
    canonicalizeNames(*config.tower->family, ofTower);
  canonicalizeNames(*config.family, others);
  checkpoint.tensors = std::move(others.tensors);
  checkpoint.tensors.merge(ofTower.tensors);
}

// Checkpoints that were converted from TensorFlow call what norms multiply by and add gamma and beta, as some of new releases do again. A name that is
// taken is given to nothing else.
void renameNorms(Checkpoint &checkpoint) {
  constexpr std::pair<std::string_view, const char *> endings[] = {{"LayerNorm.gamma", "weight"},
                                                                   {"LayerNorm.beta", "bias"}};
  std::vector<std::pair<std::string, std::string>> renames;
  for (const auto &[name, tensor] : checkpoint.tensors)
    for (auto [ending, usual] : endings) {
      if (name.size() < ending.size() || name.compare(name.size() - ending.size(), ending.size(), ending) != 0)
        continue;
      std::string to = name.substr(0, name.rfind('.') + 1) + usual;
      if (!checkpoint.find(to))
        renames.emplace_back(name, to);
    }
  for (auto &[name, to] : renames) {
    auto node = checkpoint.tensors.extract(name);
    node.key() = to;
    checkpoint.tensors.insert(std::move(node));
  }
}

// Rows [row, row + rows) of expert `expert` of a fused tensor (experts, all rows, columns), as a tensor of its own.
TensorInfo expertRows(const TensorInfo &fused, int64_t expert, int64_t row, int64_t rows) {
  uint64_t rowBytes = fused.bytes / static_cast<uint64_t>(fused.shape[0] * fused.shape[1]);
  TensorInfo view = fused;
  view.shape = {rows, fused.shape[2]};
  view.offset += static_cast<uint64_t>(expert * fused.shape[1] + row) * rowBytes;
  view.bytes = static_cast<uint64_t>(rows) * rowBytes;
  return view;
}

// Expert `expert` of a stacked tensor (experts, …), as a tensor of its own.
TensorInfo expertOf(const TensorInfo &stacked, int64_t expert) {
  TensorInfo view = stacked;
  view.shape.erase(view.shape.begin());
  view.bytes = stacked.bytes / static_cast<uint64_t>(stacked.shape[0]);
  view.offset += static_cast<uint64_t>(expert) * view.bytes;
  return view;
}

Status checkShape(const Checkpoint &checkpoint, const std::string &name, const TensorInfo &tensor,
                  const std::vector<int64_t> &expected) {
  if (tensor.shape == expected)
    return Status();
  return errorIn(checkpoint.files[tensor.file]->path(), "tensor " + name + " has shape " + shapeText(tensor.shape) +
                                                            ", the config asks for " + shapeText(expected))
      .ofTensor(name);
}

// A family whose experts have one matrix for gate and up stacks all of a kind, (experts, in, out) and (experts, out): gives each expert its
// own, NAME.weight and NAME.bias.
Status splitStackedExperts(const ModelConfig &config, Checkpoint &checkpoint) {
  const ExpertNames &names = config.family->experts;
  int64_t experts = config.moe.numExperts, wide = config.moe.intermediateSize, hidden = config.hiddenSize;
  bool isFused = names.gateAndUp && !config.moe.splitGates;
  for (int64_t layer = 0; isFused && layer < config.numHiddenLayers; ++layer) {
    std::string block = "model.layers." + std::to_string(layer) + "." + names.block + "experts.";
    for (bool isDown : {false, true})
      for (bool isBias : {false, true}) {
        std::string kind = isDown ? names.down : names.gateAndUp, name = block + kind + (isBias ? "_bias" : "");
        if (!isBias && !checkpoint.find(name)) // as matrices of layers that are no experts
          name += ".weight";
        const TensorInfo *found = checkpoint.find(name);
        if (!found)
          continue;
        TensorInfo stacked = *found;
        int64_t in = isDown ? wide : hidden, out = isDown ? hidden : 2 * wide;
        std::vector<int64_t> expected = isBias ? std::vector{experts, out} : std::vector{experts, in, out};
        HEDDLE_RETURN_IF_ERROR(checkShape(checkpoint, name, stacked, expected));
        std::string ending = "." + kind + (isBias ? ".bias" : ".weight");
        for (int64_t expert = 0; expert < experts; ++expert) {
          std::string ofExpert = block;
          ofExpert.append(std::to_string(expert)).append(ending);
          checkpoint.tensors.emplace(std::move(ofExpert), expertOf(stacked, expert));
        }
        checkpoint.tensors.erase(name);
      }
  }
  return Status();
}

// Cuts a tensor (gate then up, hidden) or (experts, gate then up, hidden), and one (…, hidden, intermediate), into those of each expert, whose names
// begin as `nameOf` says; both are left out where they are not there.
Status cutGateAndUp(Checkpoint &checkpoint, const std::string &gateAndUp, const std::string &down,
                    const ExpertNames &names, const std::vector<int64_t> &experts, int64_t wide, int64_t hidden,
                    const std::function<std::string(int64_t)> &nameOf) {
  for (bool isDown : {false, true}) {
    std::string name = isDown ? down : gateAndUp;
    const TensorInfo *found = checkpoint.find(name);
    if (!found)
      continue;
    TensorInfo fused = *found;
    std::vector<int64_t> expected = experts;
    expected.push_back(isDown ? hidden : 2 * wide);
    expected.push_back(isDown ? wide : hidden);
    HEDDLE_RETURN_IF_ERROR(checkShape(checkpoint, name, fused, expected));
    if (experts.empty())
      fused.shape.insert(fused.shape.begin(), 1);
    for (int64_t expert = 0; expert < fused.shape[0]; ++expert) {
      std::string prefix = nameOf(expert);
      if (isDown) {
        checkpoint.tensors.emplace(prefix + names.down + ".weight", expertRows(fused, expert, 0, hidden));
        continue;
      }
      checkpoint.tensors.emplace(prefix + names.gate + ".weight", expertRows(fused, expert, 0, wide));
      checkpoint.tensors.emplace(prefix + names.up + ".weight", expertRows(fused, expert, wide, wide));
    }
    checkpoint.tensors.erase(name);
  }
  return Status();
}

// Newer checkpoints hold the experts of a layer in two tensors, beside mlp.gate, whatever the family called them before; where they have gates. Some
// families' shared experts lie so, which are the feed-forward block of a layer without others.
Status splitFusedExperts(const ModelConfig &config, Checkpoint &checkpoint) {
  const ExpertNames &names = config.family->experts;
  const MoeConfig &moe = config.moe;
  bool isApart = names.gate && (!names.gateAndUp || moe.splitGates);
  for (int64_t layer = 0; isApart && layer < config.numHiddenLayers; ++layer) {
    std::string base = "model.layers." + std::to_string(layer) + ".", block = base + names.block;
    bool isDense = moe.numExperts == 0;
    int64_t sharedWidth = isDense ? config.intermediateSize : moe.sharedIntermediateSize;
    if (names.fusedSharedDown && sharedWidth > 0) {
      std::string shared = isDense ? base + config.family->feedForward.block : block + names.shared + ".";
      HEDDLE_RETURN_IF_ERROR(cutGateAndUp(checkpoint, base + names.fusedSharedGateAndUp, base + names.fusedSharedDown,
                                          names, {}, sharedWidth, config.hiddenSize, [&](int64_t) { return shared; }));
    }
    if (isDense)
      continue;
    if (auto router = checkpoint.tensors.extract(base + "mlp.gate.weight")) {
      router.key() = block + "gate.weight";
      checkpoint.tensors.insert(std::move(router));
    }
    HEDDLE_RETURN_IF_ERROR(cutGateAndUp(
        checkpoint, base + names.fusedGateAndUp, base + names.fusedDown, names, {moe.numExperts}, moe.intermediateSize,
        config.hiddenSize, [&](int64_t expert) { return block + names.expert + std::to_string(expert) + "."; }));
  }
  return Status();
}

// Where a family calls sparse blocks something else than dense ones, transformers writes the latter under the name of the former, too.
void renameDenseBlocks(const ModelConfig &config, Checkpoint &checkpoint) {
  const FeedForwardNames &names = config.family->feedForward;
  std::string sparse = config.family->experts.block, dense = names.block;
  for (int64_t layer = 0; sparse != dense && names.gate && layer < config.numHiddenLayers; ++layer) {
    std::string base = "model.layers." + std::to_string(layer) + ".";
    for (const char *part : {names.gate, names.up, names.down}) {
      std::string own = base, other = base;
      own.append(dense).append(part).append(".weight");
      other.append(sparse).append(part).append(".weight");
      if (checkpoint.find(own))
        continue;
      if (auto node = checkpoint.tensors.extract(other)) {
        node.key() = own;
        checkpoint.tensors.insert(std::move(node));
      }
    }
  }
}

// Some checkpoints hold the experts of a layer one below another: gives each its own.
Status splitExpertRows(const ModelConfig &config, Checkpoint &checkpoint) {
  const ExpertNames &names = config.family->experts;
  const MoeConfig &moe = config.moe;
  for (int64_t layer = 0; names.rowsOfAll && layer < config.numHiddenLayers; ++layer) {
    std::string all = tensorName(names.rowsOfAll, layer, 0);
    std::string block = all.substr(0, all.find(names.block)) + names.block + names.expert;
    for (std::string kind : {names.gate, names.up, names.down}) {
      const TensorInfo *found = checkpoint.find(all + kind);
      if (!found)
        continue;
      TensorInfo rows = *found;
      HEDDLE_RETURN_IF_ERROR(
          checkShape(checkpoint, all + kind, rows, {moe.numExperts * moe.intermediateSize, config.hiddenSize}));
      rows.shape = {moe.numExperts, moe.intermediateSize, config.hiddenSize};
      for (int64_t expert = 0; expert < moe.numExperts; ++expert) {
        std::string ofExpert = block;
        ofExpert.append(std::to_string(expert)).append(".").append(kind).append(".weight");
        checkpoint.tensors.emplace(std::move(ofExpert), expertOf(rows, expert));
      }
      checkpoint.tensors.erase(all + kind);
    }
  }
  return Status();
}

// A convolution is a linear layer over what lies under its kernel: over patches, or over frames of sound; one of each channel alone has a row of its
// tokens for each. A learned token or table has a batch dimension. What differs otherwise keeps its shape, which the check of shapes then refuses.
void flatten(TensorInfo &tensor, int64_t rows, int64_t columns, const ImageConfig &image) {
  std::vector<int64_t> stored = tensor.shape, matrix = {rows, columns};
  while (stored.size() > 1 && stored[0] == 1)
    stored.erase(stored.begin());
  bool isVector = std::min(rows, columns) == 1 && stored == std::vector<int64_t>{std::max(rows, columns)};
  bool isConvolution =
      columns == image.patchWidth() && stored == std::vector<int64_t>{rows, image.channels, image.patch, image.patch};
  bool isOverFrames = columns % AudioConfig::taps == 0 &&
                      stored == std::vector<int64_t>{rows, columns / AudioConfig::taps, AudioConfig::taps};
  bool isOverVolume = columns == image.patchWidth() &&
                      stored == std::vector<int64_t>{rows, image.channels, image.frames, image.patch, image.patch};
  bool isOfChannels = stored == std::vector<int64_t>{rows, 1, columns};
  bool isOfOneToken = stored == std::vector<int64_t>{rows, columns, 1};
  if (stored == matrix || isVector || isConvolution || isOverVolume || isOverFrames || isOfChannels || isOfOneToken)
    tensor.shape = matrix;
  if (stored.empty() && rows == 1 && columns == 1) // a number
    tensor.shape = {1};
}

// Stacks that do not share a table have one each beside it, which then nothing reads.
bool hasOwnEmbeddings(const Family &family, const Checkpoint &checkpoint) {
  const TensorInfo *shared = checkpoint.find(family.embedding);
  bool differ = false;
  for (const char *name : family.embeddingCopies) {
    const TensorInfo *own = checkpoint.find(name);
    if (!own || !shared)
      return false;
    differ |= !isSameTensor(checkpoint, *own, *shared);
  }
  return differ;
}

// Texts that are filled up to the context are so behind their tokens.
Status checkPaddingSide(ModelFiles &files) {
  const char *name = "tokenizer_config.json";
  if (!files.has(name))
    return Status();
  Expected<JsonFile> json = readConfigFile(files, name, maxTokenizerConfigBytes);
  if (!json)
    return json.status();
  JsonObject object(*json, files.pathOf(name));
  if (std::string side = object.string("padding_side").value_or("right"); side != "right")
    object.unsupported("padding_side", "is '" + printable(side, 64) + "', which is not supported; expected right");
  return object.status();
}

} // namespace

// What a family's files store in another order than the graph reads: a weight as (in, out) is reported as (out, in), transposed. What was
// quantised is (out, in) in every family.
void noteStoredOrder(Model &model) {
  std::set<std::string_view> restored;
  for (const RestoredWeight &weight : model.restored)
    restored.insert(weight.name);
  auto note = [&](const ModelConfig &config, const TensorRule &rule, int64_t layer, int64_t expert) {
    auto found = model.checkpoint.tensors.find(tensorName(rule.name, layer, expert));
    if (found == model.checkpoint.tensors.end())
      return;
    TensorInfo &tensor = found->second;
    tensor.rowOrder = rowOrderOf(rule);
    tensor.transposed = rule.order == StoredOrder::Conv1d && tensor.shape.size() == 2 && !restored.count(found->first);
    if (tensor.transposed)
      std::swap(tensor.shape[0], tensor.shape[1]);
    if (rule.order == StoredOrder::Flattened)
      flatten(tensor, dimension(rule.rows, config, layer), dimension(rule.columns, config, layer), config.image);
    if (rule.order == StoredOrder::Flattened && rule.columns == ConfigDim::None && tensor.shape.size() == 2 &&
        tensor.shape[1] == 1)
      tensor.shape.pop_back();
  };
  for (const ModelConfig *part : model.config.parts()) {
    [[maybe_unused]] Status done =
        forEachTensor(*part, [&](const TensorRule &rule, int64_t layer, int64_t expert) -> Status {
          note(*part, rule, layer, expert);
          return Status();
        });
    assert(done.isOk());
  }
}

std::vector<std::string> canonicalNames(const Family &family, const std::string &name) {
  std::string embedding = family.embedding, canonical = embedding.substr(0, embedding.find('.') + 1);
  std::vector<std::string> names = {name};
  if (name == std::string("language_model.") + family.head)
    names.emplace_back(family.head);
  for (std::string prefix : otherPrefixes)
    if (name.compare(0, prefix.size(), prefix) == 0)
      names.push_back(canonical + name.substr(prefix.size()));
  return names;
}

Expected<Model> readHuggingFace(ModelFiles &files, const FamilyList &families, RestoreTensors restoreQuantized,
                                DecoderUse use) {
  const std::string &directory = files.model();
  if (!files.has("config.json"))
    return errorIn(directory, "holds no config.json: expected a Hugging Face directory or a GGUF file");
  Expected<ModelConfig> config = readHuggingFaceConfig(files, families, use);
  if (!config)
    return config.status();
  Expected<Checkpoint> checkpoint = readSafetensorsDirectory(files);
  if (!checkpoint)
    return checkpoint.status();
  Model model{std::move(*config), std::move(*checkpoint), directory, nullptr};
  model.config.license = modelCardLicense(files);
  const Family &family = *model.config.family;
  renameNorms(model.checkpoint);
  canonicalizeNames(model.config, model.checkpoint);
  if (family.headIfStored)
    model.config.tieWordEmbeddings = !model.checkpoint.find(family.head);
  if (family.correctionIfStored)
    model.config.moe.hasCorrection = holdsCorrection(model.config, model.checkpoint);
  model.config.hasOwnEmbeddings = hasOwnEmbeddings(family, model.checkpoint);
  model.config.hasPooler = family.pooler && model.checkpoint.find(family.pooler);
  if (ModelConfig *tower = model.config.tower.get())
    tower->hasPooler = tower->family->pooler && model.checkpoint.find(tower->family->pooler);
  if (model.config.encodes() && !model.config.image.size)
    HEDDLE_RETURN_IF_ERROR(readPooling(files, model.config));
  if (family.padsTexts)
    HEDDLE_RETURN_IF_ERROR(checkPaddingSide(files));
  ModelConfig &seeing = model.config.tower ? *model.config.tower : model.config;
  bool readsFiles = seeing.seen.joint || seeing.family->imageProcessor;
  if (seeing.image.channels == 3 && readsFiles) // of colors; files hold no others
    HEDDLE_RETURN_IF_ERROR(readImageProcessor(files, seeing));
  if (model.config.audio.melBins)
    HEDDLE_RETURN_IF_ERROR(readFeatureExtractor(files, model.config));
  model.config.hasLogitsBias |= family.logitsBias && model.checkpoint.find(family.logitsBias);
  renameDenseBlocks(model.config, model.checkpoint);
  HEDDLE_RETURN_IF_ERROR(restoreQuantized(files, model));
  HEDDLE_RETURN_IF_ERROR(splitFusedExperts(model.config, model.checkpoint));
  HEDDLE_RETURN_IF_ERROR(splitStackedExperts(model.config, model.checkpoint));
  HEDDLE_RETURN_IF_ERROR(splitExpertRows(model.config, model.checkpoint));
  noteStoredOrder(model);
  HEDDLE_RETURN_IF_ERROR(validate(model, files.pathOf("config.json")));
  // Once every size has been found to be that of a tensor.
  if (family.addTensors)
    HEDDLE_RETURN_IF_ERROR(family.addTensors(model).inFile(files.pathOf("config.json")));
  HEDDLE_RETURN_IF_ERROR(readDenseTensors(files, model));
  return model;
}

} // namespace heddle
