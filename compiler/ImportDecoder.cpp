// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models that generate or encode: those whose architecture a frontend knows become @forward at once, and the options that are theirs alone
// are checked here, before the passes that would trip over them.

#include "compiler/Program.h"
#include "compiler/codegen/kernel/KvType.h"
#include "compiler/codegen/targets/KernelTargets.h"
#include "dialect/Entries.h"
#include "dialect/HeddleDialect.h"
#include "dialect/Locations.h"
#include "frontends/Family.h"
#include "frontends/import/ImportModel.h"
#include "frontends/read/ReadModel.h"
#include "frontends/tokenizer/TokenizerReader.h"
#include "runtime/model/ModelAbi.h"
#include "runtime/model/PackageHeader.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace heddle;

// Without --context.
static constexpr int64_t defaultContext = 8192;

DecoderUse heddle::decoderUse(const CompileOptions &options) {
  return options.textOnly                 ? DecoderUse::Text
         : options.task == Task::Generate ? DecoderUse::Generate
         : options.task == Task::Encode   ? DecoderUse::Encode
                                          : DecoderUse::Stated;
}

int64_t heddle::contextOf(const CompileOptions &options, const ModelConfig &config) {
  // The context of an encoder-decoder is that of both, as far as either has positions.
  if (options.context && (!config.encoder.contextLength || options.extrapolates))
    return options.context;
  return std::min(config.longestContext(), options.context ? options.context : defaultContext);
}

int64_t heddle::sourceContextOf(const CompileOptions &options, const ModelConfig &config) {
  if (config.audio.melBins) // sound has one length
    return config.encoder.contextLength;
  return std::min(config.encoder.contextLength, options.context ? options.context : defaultContext);
}

// The adapters of --merge-adapter become part of the weights, before anything is made of them; those of --adapter stand beside what is then the base.
static Status addAdapters(const CompileOptions &options, Program &program) {
  heddle::TensorType wide = options.pipeline.weights == "f16" ? heddle::TensorType::F16 : heddle::TensorType::BF16;
  if (!options.mergedAdapters.empty()) {
    Expected<AdapterMerge> merged = mergeAdapters(program.model, options.mergedAdapters, wide);
    if (!merged)
      return merged.status();
    program.merged = std::move(*merged);
  }
  if (options.adapters.empty())
    return Status();
  Expected<KeptAdapters> kept = keepAdapters(program.model, options.adapters);
  if (!kept)
    return kept.status();
  program.adapters = std::move(*kept);
  return Status();
}

// What the user might not expect of a quantised base: it grows.
static void remarkWidened(const AdapterMerge &merged, ModuleOp module) {
  for (const std::string &name : merged.widened)
    emitRemark(tensorLocation(module.getContext(), name), "tensor '")
        << name << "' is bf16: its sum with an adapter is not rounded to the blocks of its file";
}

Status heddle::importDecoder(const CompileOptions &options, const Target &target, function_ref<MLIRContext &()> context,
                             Program &program) {
  Expected<Model> read = options.mmproj.empty() ? readModel(program.files, {}, decoderUse(options))
                                                : readModelWithImages(program.files, program.mmproj);
  if (!read)
    return read.status();
  bool isGraph = read->config.family->isGraph;
  if (options.task == Task::Graph && !isGraph)
    return errorIn(options.model, "--task=graph: the model generates or encodes, expected one that is a graph");
  if (isGraph)
    HEDDLE_RETURN_IF_ERROR(checkGraphOptions(options));
  // A graph of a vocabulary reads texts beside others. What SigLIP's class does to a text before it is cut into pieces, tokenizer.json alone says.
  bool saysAll = !read->config.family->padsTexts || program.files.has("tokenizer.json");
  bool readsTexts = !isGraph || (read->config.vocabSize > 1 && saysAll);
  Expected<std::string> tokenizer =
      readsTexts ? readTokenizer(program.files, read->config.vocabSize) : Expected<std::string>(std::string());
  if (!tokenizer)
    return tokenizer.status();
  program.model = std::move(*read);
  HEDDLE_RETURN_IF_ERROR(addAdapters(options, program));
  program.tokenizer = std::move(*tokenizer);
  program.consistsOfModelOps = true;
  program.module = importModel(context(), program.model, program.merged.bottlenecks.get());
  if (!program.module)
    return diagnosed(StatusCode::Unsupported);
  if (failed(verify(*program.module)))
    return diagnosed(StatusCode::Failure);
  if (options.pipeline.weights.empty())
    remarkWidened(program.merged, *program.module);
  for (const std::string &warning : program.merged.warnings)
    program.module->emitWarning(warning);
  return fitOptions(options, target, program);
}

// Why the options do not fit the model; empty if they do.
static std::string optionMisfit(const CompileOptions &options, const Target &target, const ModelConfig &config) {
  bool computesF32 = options.activations == "auto" || options.activations == "f32";
  if (target.isDevice() && !computesF32)
    return "--activations=" + options.activations + ": target " + target.name + " computes in f32";
  if (target.isDevice() && !options.pipeline.flashTile)
    return "--flash-tile=off: target " + target.name + " has kernels in tiles only";
  // Of an encoder-decoder, whichever of its sequences may be longer.
  if (int64_t longest = std::max(config.longestContext(), config.encoder.contextLength);
      options.context > longest && !options.extrapolates)
    return "--context=" + std::to_string(options.context) + " is more than the model's " + std::to_string(longest) +
           " positions";
  if (options.context > HEDDLE_MAX_CONTEXT)
    return "--context=" + std::to_string(options.context) + " is more than the " + std::to_string(HEDDLE_MAX_CONTEXT) +
           " positions of a program";
  return "";
}

// The same of what tells encoders, models that generate and those that do one after the other.
static std::string kindMisfit(const CompileOptions &options, const ModelConfig &config, ModuleOp module) {
  bool encodes = isEncoder(module), answers = isEncoderDecoder(module);
  if (options.task == Task::Generate && encodes)
    return options.model + ": --task=generate: the model encodes and generates nothing";
  if (options.task == Task::Encode && !encodes)
    return options.model + ": --task=encode: the model generates";
  if (options.task == Task::Seq2Seq && !answers)
    return options.model + ": --task=seq2seq: the model is no encoder-decoder";
  if (!encodes && !answers)
    return "";
  if (encodes && options.kv != "auto")
    return "--kv=" + options.kv + ": an encoder has no cache";
  if (!options.pipeline.flashTile)
    return options.model + ": --flash-tile=off: attention of an encoder has kernels in tiles only";
  // Kernels count the numbers of a step, which holds whole sequences, in 32 bits.
  int64_t tokens = encodes ? contextOf(options, config) : sourceContextOf(options, config);
  int64_t most = INT32_MAX / std::max({config.hiddenSize, config.intermediateSize, config.encoder.intermediateSize,
                                       config.inputWidth()});
  if (tokens > most && config.audio.melBins)
    return options.model + ": sound of " + std::to_string(tokens) +
           " tokens (max_source_positions), expected at most " + std::to_string(most) + " of this width";
  if (tokens > most)
    return options.model + ": sequences of " + std::to_string(tokens) + " tokens, expected at most " +
           std::to_string(most) + " of this width: --context=" + std::to_string(most);
  return "";
}

// Numbers in a page of the cache: keys and values of layers that attend, and states of the others. A device's kernels count them in 32 bits.
static int64_t pageValues(const ModelConfig &config) {
  const RecurrentConfig &state = config.recurrent;
  int64_t keysAndValues = int64_t(2) * HEDDLE_KV_PAGE_SIZE * config.numKvHeads * config.headDim;
  int64_t channels = state.isLinear ? state.channels() : config.hiddenSize;
  int64_t states = (state.convWidth - 1) * channels + state.values() * state.keyDim, all = 0;
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer)
    all += (config.isRecurrent(layer) ? states : 0) + (config.attends(layer) ? keysAndValues : 0);
  return all;
}

// What has no kernel, by what the model asks for, not by what a pass made of it; empty if all has.
static std::string kernelMisfit(const CompileOptions &options, const Target &target, Program &program) {
  ModuleOp module = *program.module;
  bool isLatent = module.walk([](LatentAttentionOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (isLatent && !options.pipeline.flashTile)
    return options.model + ": --flash-tile=off: latent attention has kernels in tiles only";
  if (isLatent && options.kv == "q8_0")
    return options.model + ": --kv=q8_0: the model caches latents, expected keys and values";
  if (int64_t dim = program.model.config.headDim;
      options.kv == "q8_0" && dim % kvBlockColumns && program.model.config.hasAttention())
    return options.model + ": --kv=q8_0: heads of " + std::to_string(dim) + " columns, expected a multiple of " +
           std::to_string(kvBlockColumns);
  for (const auto &[part, its] :
       {std::pair(KernelTarget::Part::Step, target), std::pair(KernelTarget::Part::Graphs, graphTargetOf(target))})
    if (std::string missing = makeKernelTarget(its)->missingKernel(module, part); !missing.empty())
      return options.model + ": target " + its.name + " has no kernel for " + missing;
  if (!target.isDevice())
    return "";
  const ModelConfig &config = program.model.config;
  if (int64_t values = pageValues(config); values > INT32_MAX)
    return options.model + ": a page of the KV cache, " + std::to_string(HEDDLE_KV_PAGE_SIZE) + " tokens of " +
           std::to_string(config.numHiddenLayers) + " layers, holds " + std::to_string(values) +
           " numbers, those of target " + target.name + " at most " + std::to_string(INT32_MAX);
  return "";
}

// What products with quantised and bf16 weights multiply.
static void chooseProducts(const CompileOptions &options, const Target &target, PipelineOptions &pipeline) {
  bool fast = options.precision == Precision::Fast;
  pipeline.activations = fast && (!target.isDevice() || target.gpu) ? "by-rows" : "f32";
  bool hasBf16 = target.isDevice() ? target.gpu.has_value() : target.cpu.hasBf16Dot() || target.cpu.hasBf16Tiles();
  pipeline.bf16Products = fast && hasBf16;
  if (options.activations != "auto")
    pipeline.activations = options.activations;
}

// What DESIGN says of fast and precise, for the types that the file holds or its matrices take.
static void choosePrecision(const CompileOptions &options, const Target &target, Program &program) {
  bool quantized = false, bf16 = false, f16 = false;
  auto hold = [&](heddle::TensorType type) {
    quantized |= tensorTypeInfo(type).blockValues > 1;
    bf16 |= type == heddle::TensorType::BF16;
    f16 |= type == heddle::TensorType::F16;
  };
  for (auto &[name, tensor] : program.model.checkpoint.tensors)
    if (tensor.shape.size() >= 2)
      hold(tensor.type);
  if (std::optional<heddle::TensorType> taken = tensorTypeNamed(options.pipeline.weights))
    hold(*taken);
  PipelineOptions &pipeline = program.pipeline;
  pipeline.context = contextOf(options, program.model.config);
  bool fast = options.precision == Precision::Fast;
  pipeline.kvElementType = !fast ? "f32" : quantized || bf16 ? "bf16" : f16 ? "f16" : "f32";
  if (options.kv != "auto")
    pipeline.kvElementType = options.kv;
  chooseProducts(options, target, pipeline);
  pipeline.graphsByWeights = program.model.config.family; // of what sees images
  pipeline.singleResult = target.isDevice();
  // Tiles of AMX wait for what a product writes: a gate's is half as much.
  pipeline.gatesInProducts = target.isDevice() || (pipeline.bf16Products && target.cpu.hasBf16Tiles());
}

// The types of an ONNX or MLIR graph say what it computes with; who asks for other weights asks for the products that go with them. Of a family of
// models the weights say it, as of any other.
static void fitGraph(const CompileOptions &options, const Target &target, Program &program) {
  PipelineOptions &pipeline = program.pipeline;
  pipeline.graphsByWeights = !pipeline.weights.empty() || program.model.config.family;
  if (pipeline.graphsByWeights)
    chooseProducts(options, target, pipeline);
}

Status heddle::fitOptions(const CompileOptions &options, const Target &target, Program &program) {
  if (!raggedEntry(*program.module)) {
    fitGraph(options, target, program);
    return Status();
  }
  std::string misfit = optionMisfit(options, target, program.model.config);
  if (int64_t context = contextOf(options, program.model.config), own = program.adapters.mostVirtualTokens();
      misfit.empty() && own >= context)
    misfit = "--adapter: " + std::to_string(own) + " virtual tokens, expected fewer than the context, " +
             std::to_string(context);
  if (misfit.empty())
    misfit = kindMisfit(options, program.model.config, *program.module);
  if (misfit.empty())
    misfit = kernelMisfit(options, target, program);
  if (!misfit.empty())
    return invalidInput(misfit).inFile(options.model);
  choosePrecision(options, target, program);
  return Status();
}
