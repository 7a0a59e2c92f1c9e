// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/package/Metadata.h"

#include "compiler/optimize/Passes.h"
#include "compiler/package/AttentionTable.h"
#include "compiler/schedule/Passes.h"
#include "dialect/EncodeOutputs.h"
#include "dialect/Entries.h"
#include "frontends/Family.h"
#include "runtime/model/ModelAbi.h"
#include "runtime/schema/package_generated.h"

#include <map>

using namespace mlir;
using namespace heddle;
namespace fb = flatbuffers;

using StringTable = fb::Offset<fb::Vector<fb::Offset<fb::String>>>;

static StringTable strings(fb::FlatBufferBuilder &b, ArrayRef<std::string> values) {
  std::vector<fb::Offset<fb::String>> result;
  for (const std::string &value : values)
    result.push_back(b.CreateString(value));
  return b.CreateVector(result);
}

SmallVector<KvCacheType> heddle::kvCachesOf(ModuleOp module, bool cross) {
  SmallVector<KvCacheType> caches;
  func::FuncOp entry = raggedEntry(module);
  for (Type type : entry ? entry.getArgumentTypes() : TypeRange())
    if (auto cache = dyn_cast<KvCacheType>(type); cache && cache.getCross() == cross)
      caches.push_back(cache);
  return caches;
}

static fb::Offset<package::KvPlan> kvPlan(fb::FlatBufferBuilder &b, ModuleOp module, bool cross = false) {
  SmallVector<KvCacheType> caches = kvCachesOf(module, cross);
  if (caches.empty())
    return {};
  // The first that holds tokens says what all such are of.
  auto *ofTokens = llvm::find_if(caches, [](KvCacheType cache) { return !cache.isState(); });
  KvCacheType cache = ofTokens == caches.end() ? caches.front() : *ofTokens;
  auto type = cache.getBlockColumns()           ? package::KvType::Q8_0
              : cache.getElementType().isF32()  ? package::KvType::F32
              : cache.getElementType().isBF16() ? package::KvType::BF16
                                                : package::KvType::F16;
  std::vector<uint32_t> windows;
  if (auto ofLayers = module->getAttrOfType<DenseI64ArrayAttr>(kvWindowsAttr); ofLayers && !cross)
    windows.assign(ofLayers.asArrayRef().begin(), ofLayers.asArrayRef().end());
  uint32_t layers = 0;
  int64_t stateBytes = 0;
  std::vector<package::KvShape> shapes;
  for (KvCacheType part : caches) {
    layers += part.getNumLayers();
    stateBytes += part.isState() ? part.getNumLayers() * part.getLayerBytes() : 0;
    shapes.emplace_back(part.getNumLayers(), part.isState() ? 0 : part.getNumKvHeads(), part.getHeadDim(),
                        part.getLayerBytes());
  }
  if (shapes.size() == 1 && !stateBytes)
    shapes.clear();
  int64_t bytes = caches.back().getEndBytes();
  return package::CreateKvPlan(b, type, bytes, layers, cache.getNumKvHeads(), cache.getHeadDim(),
                               (bytes - stateBytes) / HEDDLE_KV_PAGE_SIZE, b.CreateVector(windows),
                               b.CreateVectorOfStructs(shapes), stateBytes);
}

static fb::Offset<package::RopeTable> ropeTable(fb::FlatBufferBuilder &b, const ModelConfig &config,
                                                const RopeConfig &rope) {
  float factor = 1, longFactor = 1;
  std::vector<float> frequency = rope.inverseFrequency(false, factor, config.contextLength), longFrequency;
  auto scaling = package::RopeScaling::None;
  if (rope.scaling == RopeScalingKind::Longrope) {
    scaling = package::RopeScaling::Longrope;
    longFrequency = rope.inverseFrequency(true, longFactor, config.contextLength);
  } else if (rope.scaling == RopeScalingKind::Dynamic) {
    scaling = package::RopeScaling::Dynamic;
  }
  std::vector<uint8_t> axes;
  if (rope.sectionsAlternate) {
    axes.assign(frequency.size(), 0);
    for (size_t axis = 1; axis < rope.sections.size(); ++axis)
      for (size_t i = axis; i < std::min(axes.size(), 3 * size_t(rope.sections[axis])); i += 3)
        axes[i] = uint8_t(axis);
  }
  for (size_t section = 0; !rope.sectionsAlternate && section < rope.sections.size(); ++section)
    axes.insert(axes.end(), size_t(rope.sections[section]), uint8_t(section % 3));
  fb::Offset<fb::Vector<uint8_t>> axesVector;
  if (config.tower && !axes.empty())
    axesVector = b.CreateVector(axes);
  return package::CreateRopeTable(b, frequency.size() * 2, b.CreateVector(frequency), b.CreateVector(longFrequency),
                                  factor, longFactor, scaling, rope.originalContext, rope.theta, rope.factor,
                                  rope.growth, rope.floor, axesVector);
}

// Of the last hidden state: what a decoder's head reads, which is as narrow as its embeddings.
static int64_t hiddenWidth(const ModelConfig &config) {
  return !config.encodes() && config.embeddingSize ? config.embeddingSize : config.hiddenSize;
}

static fb::Offset<package::Generation> generation(fb::FlatBufferBuilder &b, const ModelConfig &config) {
  std::vector<int32_t> eos(config.eosIds.begin(), config.eosIds.end());
  std::string source = config.samplingSource;
  if (!config.notApplied.empty())
    source += ", without " + llvm::join(config.notApplied, ", ");
  std::vector<int32_t> suppressed(config.suppressed.begin(), config.suppressed.end()),
      suppressedFirst(config.suppressedFirst.begin(), config.suppressedFirst.end());
  std::vector<fb::Offset<package::TokenSequence>> badWords;
  badWords.reserve(config.badWords.size());
  for (const std::vector<int64_t> &word : config.badWords)
    badWords.push_back(package::CreateTokenSequence(b, b.CreateVector(std::vector<int32_t>(word.begin(), word.end()))));
  return package::CreateGeneration(
      b, b.CreateVector(eos), config.bosId.value_or(-1), config.padId.value_or(-1), config.decoderStartId.value_or(-1),
      config.doSample ? config.temperature : 0, config.topK, config.topP, config.repetitionPenalty, config.minP,
      b.CreateString(source), config.forcedBosId.value_or(-1), config.forcedEosId.value_or(-1), config.numBeams,
      config.lengthPenalty, config.earlyStopping, config.noRepeatNgram, b.CreateVector(suppressed),
      b.CreateVector(suppressedFirst), config.neverStopsEarly, config.renormalizesLogits, b.CreateVector(badWords),
      uint32_t(config.minLength), uint32_t(config.minNewTokens), uint32_t(config.maxLength),
      uint32_t(config.maxNewTokens));
}

static fb::Offset<package::Speech> speechTable(fb::FlatBufferBuilder &b, const SpeechConfig &speech) {
  auto tokens = [&](const std::vector<std::pair<std::string, int64_t>> &names) {
    std::vector<fb::Offset<package::SpeechToken>> table;
    table.reserve(names.size());
    for (const auto &[name, id] : names)
      table.push_back(package::CreateSpeechToken(b, b.CreateString(name), int32_t(id)));
    return b.CreateVector(table);
  };
  std::vector<int32_t> forced;
  for (std::optional<int64_t> id : speech.forced)
    if (id || !speech.languages.empty()) // else there is none to hear
      forced.push_back(int32_t(id.value_or(-1)));
  auto languages = tokens(speech.languages), tasks = tokens(speech.tasks);
  auto forcedTable = b.CreateVector(forced);
  auto language = b.CreateString(speech.language), task = b.CreateString(speech.task);
  return package::CreateSpeech(b, languages, tasks, forcedTable, int32_t(speech.noTimestampsId.value_or(-1)),
                               int32_t(std::min<int64_t>(speech.maxInitialTimestamp.value_or(-1), INT32_MAX)),
                               speech.givesTimestamps, language, task);
}

static fb::Offset<package::ImageProcessing> imageProcessingTable(fb::FlatBufferBuilder &b, const ModelConfig &config) {
  const ImageProcessing &from = *config.imageProcessing;
  auto mean = b.CreateVector(std::vector<float>(from.mean.begin(), from.mean.end()));
  auto deviation = b.CreateVector(std::vector<float>(from.deviation.begin(), from.deviation.end()));
  return package::CreateImageProcessing(
      b, uint32_t(config.image.size), uint32_t(from.height), uint32_t(from.width), uint32_t(from.shortestEdge),
      uint8_t(from.filter), uint32_t(from.cropHeight), uint32_t(from.cropWidth), from.factor, mean, deviation,
      uint32_t(from.longestEdge), from.tiles, uint32_t(from.minTiles), uint32_t(from.maxTiles),
      uint64_t(from.leastPixels), uint64_t(from.mostPixels), from.isAtMost);
}

// How what a tower sees gets into prompts; each item gives `count` rows.
static fb::Offset<package::GivenRows> givenTable(fb::FlatBufferBuilder &b, const ModelConfig &tower, int64_t count) {
  const SeenConfig &seen = tower.seen;
  const ImageConfig &image = tower.image;
  fb::Offset<package::GivenGrid> grid;
  if (image.hasAnySize)
    grid = package::CreateGivenGrid(b, uint32_t(image.patch), uint32_t(image.frames), uint32_t(seen.side),
                                    uint32_t(image.channels), uint32_t(tower.headDim), seen.theta,
                                    uint32_t(image.window / seen.side), seen.alternates, image.isWhole,
                                    uint32_t(seen.placesOnSide));
  fb::Offset<package::GivenText> text;
  if (const SeenText &from = seen.text; !from.marker.empty())
    text = package::CreateGivenTextDirect(
        b, from.marker.c_str(), from.unmentioned.c_str(), from.whole.c_str(), from.tile.c_str(),
        from.betweenRows.c_str(), from.behindTiles.c_str(), from.beforeTiles.c_str(),
        from.tiledWhole.empty() ? nullptr : from.tiledWhole.c_str(), from.startsBehind, from.end.c_str());
  fb::Offset<package::GivenTiles> tiles;
  if (!seen.resolutions.empty()) {
    std::vector<uint32_t> sizes;
    for (auto [height, width] : seen.resolutions)
      sizes.insert(sizes.end(), {uint32_t(height), uint32_t(width)});
    tiles = package::CreateGivenTilesDirect(b, uint32_t(image.size), uint32_t(image.grid()), &sizes);
  }
  return package::CreateGivenRows(b, /*graph=*/0, image.hasAnySize ? 0 : uint32_t(count), int32_t(seen.token),
                                  seen.seesAhead, text, grid, seen.promptSeesAhead, tiles,
                                  uint32_t(seen.deepLayers.size()));
}

static std::vector<std::string> configLines(const ModelConfig &c, ModuleOp module) {
  std::vector<std::string> lines;
  auto add = [&](const char *key, auto value) { lines.push_back(std::string(key) + "=" + std::to_string(value)); };
  add("vocab_size", c.vocabSize), add("hidden_size", c.hiddenSize), add("intermediate_size", c.intermediateSize);
  add("num_hidden_layers", c.numHiddenLayers), add("num_attention_heads", c.numHeads),
      add("num_key_value_heads", c.numKvHeads);
  add("head_dim", c.headDim), add("max_position_embeddings", c.contextLength),
      add("tie_word_embeddings", int(c.tieWordEmbeddings));
  module.walk([&](OnlineLatentAttentionOp op) {
    lines.push_back("latent_attention=" + op.getDims().describe(op.getForm()));
    return WalkResult::interrupt();
  });
  return lines;
}

// A serialised table of its own, copied into the package.
static fb::Offset<package::Tokenizer> tokenizerTable(fb::FlatBufferBuilder &b, const std::string &bytes) {
  if (bytes.empty())
    return 0;
  std::unique_ptr<package::TokenizerT> unpacked(fb::GetRoot<package::Tokenizer>(bytes.data())->UnPack());
  return package::CreateTokenizer(b, unpacked.get());
}

// Each op that reads the buffer, in the functions that it is passed to as well.
static void forEachReader(ModuleOp module, Value buffer, llvm::function_ref<void(Operation *)> read) {
  for (OpOperand &use : buffer.getUses()) {
    auto call = dyn_cast<func::CallOp>(use.getOwner());
    auto callee = call ? module.lookupSymbol<func::FuncOp>(call.getCallee()) : func::FuncOp();
    if (callee)
      forEachReader(module, callee.getArgument(use.getOperandNumber()), read);
    else
      read(use.getOwner());
  }
}

// The part of a weight that an op reads for one token: a row of an embedding is next to nothing, of experts it takes top_k.
static double partRead(Operation *reader) {
  if (isa<DequantizeOp>(reader))
    return 0;
  auto experts = dyn_cast<ExpertMatmulOp>(reader);
  return experts ? double(experts.getTopK()) / double(experts.getNumExperts()) : 1;
}

// What one generated token reads: of every weight the largest part that an op reads of it, but nothing of bodies that many tokens take.
static uint64_t bytesPerToken(ModuleOp module, ArrayRef<PackedWeight> weights) {
  llvm::DenseMap<int64_t, double> parts;
  module.walk([&](WeightOp op) {
    double &part = parts[op.getPacking().getOffset()];
    for (Operation *user : op->getUsers())
      for (Value buffer : user->getResults())
        forEachReader(module, buffer, [&](Operation *reader) { part = std::max(part, partRead(reader)); });
    if (op.getPacking().getManyRows())
      part = 0;
  });
  double bytes = 0;
  for (const PackedWeight &weight : weights)
    if (auto part = parts.find(weight.offset); part != parts.end())
      bytes += part->second * double(weight.size);
  return uint64_t(bytes);
}

static fb::Offset<fb::Vector<fb::Offset<package::GraphTensor>>> tensorTable(fb::FlatBufferBuilder &b,
                                                                            ArrayRef<GraphTensor> tensors) {
  std::vector<fb::Offset<package::GraphTensor>> table;
  for (const GraphTensor &tensor : tensors) {
    auto name = b.CreateString(tensor.name);
    auto dims = b.CreateVector(tensor.dims);
    auto dimNames = tensor.dimNames.empty() ? StringTable() : strings(b, tensor.dimNames);
    table.push_back(package::CreateGraphTensor(b, name, tensor.type, dims, dimNames, tensor.fill.has_value(),
                                               tensor.fill.value_or(0)));
  }
  return b.CreateVector(table);
}

static fb::Offset<fb::Vector<fb::Offset<package::Graph>>> graphTable(fb::FlatBufferBuilder &b,
                                                                     ArrayRef<GraphSignature> signatures) {
  std::vector<fb::Offset<package::Graph>> table;
  for (const GraphSignature &signature : signatures) {
    auto name = b.CreateString(signature.name);
    auto inputs = tensorTable(b, signature.inputs), outputs = tensorTable(b, signature.outputs);
    table.push_back(package::CreateGraph(b, name, inputs, outputs));
  }
  return b.CreateVector(table);
}

static fb::Offset<fb::Vector<fb::Offset<package::Kernel>>> kernelTable(fb::FlatBufferBuilder &b,
                                                                       ArrayRef<KernelRecord> kernels) {
  std::vector<fb::Offset<package::Kernel>> table;
  for (const KernelRecord &kernel : kernels)
    table.push_back(package::CreateKernel(b, b.CreateString(kernel.name), b.CreateString(kernel.kind),
                                          b.CreateString(kernel.emitter), b.CreateString(kernel.schedule), kernel.calls,
                                          kernel.flopsPerRow, kernel.fixedBytes, kernel.bytesPerRow,
                                          b.CreateString(kernel.arithmetic), kernel.flopsPerPair, kernel.bytesPerKey,
                                          kernel.window, kernel.readsSources, kernel.chunk));
  return b.CreateVector(table);
}

namespace {

// The packages of one file, which refer to one copy of what they have in common.
class MetadataBuilder {
public:
  MetadataBuilder(const ModelConfig &config, ArrayRef<GraphSignature> graphs, const PackageInfo &info)
      : config(config), signatures(graphs), info(info) {}
  std::string build(ArrayRef<PackageVariant> variants);

private:
  fb::Offset<package::Package> packageOf(const PackageVariant &variant,
                                         ArrayRef<fb::Offset<package::Package>> others = {});
  fb::Offset<package::MemoryPlan> memoryPlan(ModuleOp module);
  fb::Offset<package::Encoder> encoderTable(ModuleOp module, fb::Offset<package::KvPlan> cross);
  fb::Offset<fb::Vector<fb::Offset<package::Weight>>> weightTable(ArrayRef<PackedWeight> weights);
  void addCommon(bool hasRows);

  const ModelConfig &config;
  ArrayRef<GraphSignature> signatures;
  const PackageInfo &info;
  fb::FlatBufferBuilder b{1 << 16};
  // Of all variants:
  fb::Offset<fb::Vector<fb::Offset<package::Graph>>> graphs;
  fb::Offset<fb::String> name, architecture, source, sha, version, precision, license;
  std::map<std::pair<uint64_t, std::string>, fb::Offset<package::Weight>> weights; // by place and name
  // Of a step or an encode:
  fb::Offset<package::Generation> generationTable;
  fb::Offset<package::Tokenizer> tokenizer;
  fb::Offset<fb::Vector<fb::Offset<package::RopeTable>>> ropes;
  // Of what sees images:
  fb::Offset<package::ImageProcessing> imageProcessing;
  StringTable labels;
};

} // namespace

// Whether labels are of what a graph is given, as commands over files take them, not of its tokens.
static bool labelsSequences(ArrayRef<GraphSignature> signatures) {
  return llvm::any_of(signatures, [](const GraphSignature &signature) {
    return llvm::any_of(signature.outputs,
                        [](const GraphTensor &output) { return output.name == "logits" && output.dims.size() == 2; });
  });
}

void MetadataBuilder::addCommon(bool hasRows) {
  if (hasRows) {
    std::vector<fb::Offset<package::RopeTable>> tables;
    tables.reserve(config.ropes.size());
    for (const RopeConfig &rope : config.ropes)
      tables.push_back(ropeTable(b, config, rope));
    generationTable = generation(b, config);
    ropes = b.CreateVector(tables);
  } else if (!config.labels.empty() && labelsSequences(signatures)) {
    labels = strings(b, config.labels);
  }
  tokenizer = tokenizerTable(b, info.tokenizer);
  if (config.seeing().imageProcessing)
    imageProcessing = imageProcessingTable(b, config.seeing());
  graphs = graphTable(b, signatures);
  name = b.CreateString(info.name), architecture = b.CreateString(info.architecture);
  source = b.CreateString(info.sourceName), sha = b.CreateString(info.sourceSha256);
  version = b.CreateString(HEDDLE_VERSION);
  precision = b.CreateString(info.precision), license = b.CreateString(info.license);
}

fb::Offset<fb::Vector<fb::Offset<package::Weight>>> MetadataBuilder::weightTable(ArrayRef<PackedWeight> table) {
  std::vector<fb::Offset<package::Weight>> result;
  for (const PackedWeight &weight : table) {
    fb::Offset<package::Weight> &entry = weights[{weight.offset, weight.name}];
    if (entry.IsNull())
      entry = package::CreateWeight(b, b.CreateString(weight.name), b.CreateString(weight.format),
                                    b.CreateVector(weight.shape), weight.offset, weight.size,
                                    b.CreateVector(weight.sha256.data(), weight.sha256.size()));
    result.push_back(entry);
  }
  return b.CreateVector(result);
}

fb::Offset<package::MemoryPlan> MetadataBuilder::memoryPlan(ModuleOp module) {
  auto bytes = [&](StringRef attribute) {
    auto attr = module->getAttrOfType<IntegerAttr>(attribute);
    return attr ? attr.getInt() : 0;
  };
  auto waits = module->getAttrOfType<IntegerAttr>(waitsAttr);
  return package::CreateMemoryPlan(b, bytes(fixedBytesAttr), bytes(rowBytesAttr), info.maxRows,
                                   waits ? uint32_t(waits.getInt()) : 0, bytes(threadBytesAttr));
}

static package::GlobalTokens globalsOf(GlobalDefault which) {
  switch (which) {
  case GlobalDefault::None:
    return package::GlobalTokens::Given;
  case GlobalDefault::First:
    return package::GlobalTokens::First;
  case GlobalDefault::Question:
    return package::GlobalTokens::Question;
  }
  llvm_unreachable("all defaults are listed");
}

fb::Offset<package::Encoder> MetadataBuilder::encoderTable(ModuleOp module, fb::Offset<package::KvPlan> cross) {
  func::FuncOp encode = raggedEntries(module).back();
  std::vector<fb::Offset<package::EncoderOutput>> outputs;
  SmallVector<EncodeOutput> said = outputsOf(encode);
  for (auto [output, destination] : llvm::zip_equal(said, encode.getArgumentTypes().take_back(said.size())))
    outputs.push_back(package::CreateEncoderOutput(b, b.CreateString(output.name), output.ofSequences,
                                                   uint32_t(cast<ShapedType>(destination).getDimSize(1)),
                                                   output.isSqueezed));
  auto table = b.CreateVector(outputs);
  auto labels = strings(b, config.labels);
  auto task = config.head ? package::EncoderTask(config.head->task) : package::EncoderTask::None;
  fb::Offset<package::Embedding> embedding; // null where nothing says how to pool
  if (const auto &pooling = config.pooling) {
    std::vector<package::Pooling> modes;
    for (PoolingConfig::Mode mode : pooling->modes)
      modes.push_back(package::Pooling(mode));
    auto modeTable = b.CreateVector(modes);
    embedding = package::CreateEmbedding(b, modeTable, pooling->normalizes, uint32_t(pooling->maxTokens),
                                         b.CreateString(pooling->prompt), !pooling->dense.empty());
  }
  fb::Offset<package::ImageInput> image; // null where it takes ids
  if (const ImageConfig &from = config.image; from.size)
    image = package::CreateImageInput(b, uint32_t(from.channels), uint32_t(from.size), uint32_t(from.patch),
                                      uint32_t(from.specialTokens));
  fb::Offset<package::AudioInput> audio; // null where it takes no sound
  fb::Offset<package::Speech> speech;
  if (const AudioConfig &from = config.audio; from.melBins) {
    audio = package::CreateAudioInput(b, uint32_t(from.melBins), uint32_t(from.samplingRate), uint32_t(from.fftSize),
                                      uint32_t(from.hop), uint32_t(from.samples));
    speech = speechTable(b, config.speech);
  }
  bool isWindowed = config.hasWindows();
  auto globals = package::GlobalTokens::Absent;
  if (config.hasGlobalTokens)
    globals = globalsOf(config.head ? config.head->globals : GlobalDefault::None);
  return package::CreateEncoder(b, uint32_t(config.tokenTypes), int32_t(config.positionPadding.value_or(-1)), table,
                                task, labels, package::LabelScores(config.labelScores), embedding, image,
                                info.sourceContext, info.sourceRows, uint32_t(config.vocabSize), cross, audio, speech,
                                config.relativeBuckets > 0 || isWindowed, globals, int32_t(config.separatorId));
}

fb::Offset<package::Package> MetadataBuilder::packageOf(const PackageVariant &variant,
                                                        ArrayRef<fb::Offset<package::Package>> others) {
  ModuleOp module = variant.module;
  bool hasRows = bool(raggedEntry(module));
  fb::Offset<package::MemoryPlan> memory;
  fb::Offset<package::KvPlan> kv;
  fb::Offset<package::Encoder> encoder; // null where the model generates
  StringTable configTable;
  fb::Offset<package::GivenRows> given; // null where a session is given none
  if (hasRows) {
    if (config.tower)
      given = givenTable(b, *config.tower, signatures.front().outputs.front().dims[1]);
    memory = memoryPlan(module);
    kv = kvPlan(b, module);
    fb::Offset<package::KvPlan> cross = kvPlan(b, module, /*cross=*/true);
    if (isEncoder(module) || isEncoderDecoder(module))
      encoder = encoderTable(module, cross);
    configTable = strings(b, configLines(config, module));
  }
  auto weightVector = weightTable(variant.weights);
  auto kernelVector = kernelTable(b, variant.kernels);
  auto attentions = attentionTable(b, module, variant.target, variant.launches);
  auto adapters = strings(b, info.adapters);
  auto virtualTokens = b.CreateVector(info.virtualTokens);
  // Graphs may run on a processor that has more than enqueues kernels.
  Target host = graphEntries(module).empty() ? variant.target : graphTargetOf(variant.target);
  auto features = strings(b, host.cpu.features), passes = strings(b, variant.passes);
  auto targetName = b.CreateString(variant.target.name);
  fb::Offset<fb::Vector<fb::Offset<package::Package>>> otherVector;
  if (!others.empty())
    otherVector = b.CreateVector(others.data(), others.size());

  package::PackageBuilder p(b);
  p.add_name(name), p.add_architecture(architecture);
  p.add_task(isEncoderDecoder(module) ? package::Task::Seq2Seq
             : isEncoder(module)      ? package::Task::Encode
             : hasRows                ? package::Task::Generate
                                      : package::Task::Graph);
  p.add_source_name(source), p.add_source_sha256(sha), p.add_compiler_version(version);
  p.add_target(targetName), p.add_cpu_features(features), p.add_precision(precision);
  p.add_license(license);
  p.add_weights_size(module->getAttrOfType<IntegerAttr>(weightsSizeAttr).getInt());
  p.add_weights(weightVector), p.add_kernels(kernelVector), p.add_passes(passes), p.add_graphs(graphs);
  if (!info.adapters.empty())
    p.add_adapters(adapters);
  if (!info.virtualTokens.empty())
    p.add_virtual_tokens(virtualTokens);
  if (hasRows) {
    p.add_vocab_size(config.vocabSize), p.add_hidden_size(hiddenWidth(config));
    p.add_num_layers(config.numHiddenLayers), p.add_context(info.context);
    p.add_position_offset(int32_t(config.positionOffset));
    p.add_positions_skip_masked(config.family && config.family->positionsSkipMasked);
    p.add_bytes_per_token(bytesPerToken(module, variant.weights));
    p.add_memory(memory), p.add_rope(ropes), p.add_generation(generationTable);
    if (!kv.IsNull())
      p.add_kv(kv);
    if (!given.IsNull())
      p.add_given(given);
    if (!encoder.IsNull())
      p.add_encoder(encoder);
    if (!attentions.IsNull())
      p.add_attentions(attentions);
    p.add_config(configTable);
  } else {
    p.add_scores(package::LabelScores(config.labelScores));
    if (!labels.IsNull())
      p.add_labels(labels);
    if (!tokenizer.IsNull())
      p.add_vocab_size(config.vocabSize), p.add_context(config.contextLength),
          p.add_pads_texts(config.family && config.family->padsTexts);
  }
  if (!tokenizer.IsNull())
    p.add_tokenizer(tokenizer);
  if (!imageProcessing.IsNull())
    p.add_image_processing(imageProcessing);
  if (!others.empty())
    p.add_variants(otherVector);
  return p.Finish();
}

std::string MetadataBuilder::build(ArrayRef<PackageVariant> variants) {
  addCommon(bool(raggedEntry(variants.front().module)));
  std::vector<fb::Offset<package::Package>> others;
  for (const PackageVariant &variant : variants.drop_front())
    others.push_back(packageOf(variant));
  package::FinishPackageBuffer(b, packageOf(variants.front(), others));
  return std::string(reinterpret_cast<const char *>(b.GetBufferPointer()), b.GetSize());
}

std::string heddle::buildMetadata(ArrayRef<PackageVariant> variants, const ModelConfig &config,
                                  ArrayRef<GraphSignature> graphs, const PackageInfo &info) {
  return MetadataBuilder(config, graphs, info).build(variants);
}
