// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The stacks of the original Transformer (Vaswani et al. 2017, arXiv:1706.03762) and its descendants: norms behind residuals, or before what
// they are added to.

#include "frontends/families/EncoderDecoder.h"

#include "frontends/huggingface/Config.h"

#include <cmath>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace heddle {

void readEncoderDecoderSizes(JsonObject &object, ModelConfig &config) {
  config.numKvHeads = config.numHeads;
  config.headDim = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  config.intermediateSize = readSize(object, config, "intermediate_size");
  config.normEps = config.family->defaults.normEps;
  EncoderConfig &encoder = config.encoder;
  encoder.numLayers = readSize(object, config, "encoder_layers");
  encoder.numHeads = readSize(object, config, "encoder_attention_heads");
  encoder.intermediateSize = readSize(object, config, "encoder_ffn_dim");
  encoder.contextLength = readSize(object, config, "max_source_positions", config.family->defaults.context);
  checkEvenHeads(object, config);
  if (encoder.numHeads > 0 && config.hiddenSize % encoder.numHeads)
    object.fail(fieldName(config, "encoder_attention_heads").c_str(),
                "(" + std::to_string(encoder.numHeads) + ") must divide " + fieldName(config, "hidden_size") + " (" +
                    std::to_string(config.hiddenSize) + ")");
}

void readEncoderDecoderScales(JsonObject &object, ModelConfig &config) {
  if (!object.boolean("is_encoder_decoder").value_or(true))
    object.unsupported("is_encoder_decoder",
                       "is false, which is not supported: the model is compiled with its encoder");
  if (object.boolean("scale_embedding").value_or(false))
    config.embeddingScale = std::sqrt(double(config.hiddenSize));
  config.attentionBias = true;
  config.tokenTypes = 1;
}

// One row: (width).
static void fillSinusoids(std::vector<float> &row, int64_t position, Sinusoids kind) {
  size_t half = row.size() / 2;
  for (size_t k = 0; k < half; ++k) {
    double angle = double(position) / std::pow(10000.0, double(2 * k) / double(row.size()));
    if (kind == Sinusoids::Tensor2Tensor) {
      float step = float(std::log(10000.0) / double(half - 1));
      angle = float(position) * std::exp(float(k) * -step);
    }
    bool isPairs = kind == Sinusoids::Pairs;
    row[isPairs ? 2 * k : k] = float(std::sin(angle));
    row[isPairs ? 2 * k + 1 : half + k] = float(std::cos(angle));
  }
}

// The rows of the table, in a file that lies in memory alone: what packs weights reads files.
static Expected<std::shared_ptr<MappedFile>> makeSinusoids(int64_t rows, int64_t width, Sinusoids kind) {
  const char *name = "positions that the config describes";
  int descriptor = memfd_create("positions", MFD_CLOEXEC);
  if (descriptor < 0)
    return Status::failure(std::string(name) + ": " + strerror(errno));
  std::vector<float> row(static_cast<size_t>(width));
  for (int64_t position = 0; position < rows; ++position) {
    fillSinusoids(row, position, kind);
    const char *bytes = reinterpret_cast<const char *>(row.data());
    for (size_t done = 0, size = row.size() * sizeof(float); done < size;) {
      ssize_t count = write(descriptor, bytes + done, size - done);
      if (count < 0 && errno != EINTR) {
        Status failed = Status::failure(std::string(name) + ": " + strerror(errno));
        close(descriptor);
        return failed;
      }
      done += count > 0 ? size_t(count) : 0;
    }
  }
  return mapShared(descriptor, name);
}

template <Sinusoids kind> Status addSinusoids(Model &model) {
  constexpr int64_t most = int64_t(1) << 30;
  const ModelConfig &config = model.config;
  int64_t width = config.hiddenSize;
  int64_t rows = std::max(config.contextLength, config.encoder.contextLength) + config.firstPosition;
  if (width % 2 || width < 4)
    return errorIn(model.sourcePath, fieldName(config, "hidden_size") + " is " + std::to_string(width) +
                                         ", sinusoidal positions need an even number from 4");
  if (rows > most / width)
    return errorIn(model.sourcePath, fieldName(config, "max_position_embeddings") + " is " + std::to_string(rows) +
                                         ", expected at most " + std::to_string(most / width) +
                                         " sinusoidal positions of this width");
  Expected<std::shared_ptr<MappedFile>> file = makeSinusoids(rows, width, kind);
  if (!file)
    return file.status();
  TensorInfo table{TensorType::F32, {rows, width}};
  table.file = uint32_t(model.checkpoint.files.size());
  table.bytes = uint64_t(rows) * uint64_t(width) * sizeof(float);
  model.checkpoint.files.push_back(std::move(*file));
  model.checkpoint.tensors[sinusoidalPositions] = std::move(table);
  return Status();
}

template Status addSinusoids<Sinusoids::Halves>(Model &model);
template Status addSinusoids<Sinusoids::Pairs>(Model &model);
template Status addSinusoids<Sinusoids::Tensor2Tensor>(Model &model);

// x and what `body` computes of it, with its norm on the side that the config says.
static TensorHandle residual(ModelBuilder &b, TensorHandle x, const std::string &norm,
                             const ModelBuilder::LayerBody &body) {
  if (b.config().normsBefore)
    return b.add(x, body(b.layerNorm(x, norm)));
  return b.layerNorm(b.add(x, body(x)), norm);
}

// `heads`: of this stack. `isCross`: keys and values are those of the source.
static TensorHandle attentionBlock(ModelBuilder &b, TensorHandle x, const std::string &name, int64_t heads,
                                   bool isCross) {
  auto project = [&](const char *part) {
    return
        [&b, projection = name + part, heads](TensorHandle x) { return b.splitHeads(b.linear(x, projection), heads); };
  };
  TensorHandle query = project(".q_proj")(x);
  TensorHandle key = isCross ? b.ofSource(project(".k_proj")) : project(".k_proj")(x);
  TensorHandle value = isCross ? b.ofSource(project(".v_proj")) : project(".v_proj")(x);
  return b.linear(b.mergeHeads(b.attention(query, key, value)), name + ".out_proj");
}

static TensorHandle feedForward(ModelBuilder &b, TensorHandle x) {
  return b.linear(b.activation(b.linear(x, "fc1")), "fc2");
}

// `layers` layers under `scope`, behind their embeddings.
static TensorHandle buildStack(ModelBuilder &b, const std::string &scope, const char *positions, int64_t layers,
                               int64_t heads, bool isDecoder) {
  TensorHandle x = b.add(b.embedTokens(b.config().family->embedding), b.embedPositions(positions));
  if (b.config().hasEmbeddingNorm)
    x = b.layerNorm(x, scope + "layernorm_embedding");
  for (int64_t i = 0; i < layers; ++i)
    x = b.layer(i, scope + "layers." + std::to_string(i) + ".", x, [&](TensorHandle x) {
      auto attend = [&](const char *name, bool isCross) {
        return residual(b, x, std::string(name) + "_layer_norm",
                        [&](TensorHandle x) { return attentionBlock(b, x, name, heads, isCross); });
      };
      x = attend("self_attn", false);
      if (isDecoder)
        x = attend("encoder_attn", true);
      return residual(b, x, "final_layer_norm", [&](TensorHandle x) { return feedForward(b, x); });
    });
  return b.config().hasFinalNorm ? b.layerNorm(x, scope + "layer_norm") : x;
}

void buildEncoderDecoder(ModelBuilder &b, const char *encoderPositions, const char *decoderPositions) {
  const ModelConfig &config = b.config();
  TensorHandle states = buildStack(b, "model.encoder.", encoderPositions, config.encoder.numLayers,
                                   config.encoder.numHeads, /*isDecoder=*/false);
  b.beginDecoder(states);
  TensorHandle x = buildStack(b, "model.decoder.", decoderPositions, config.numHiddenLayers, config.numHeads,
                              /*isDecoder=*/true);
  b.finish(x, config.tieWordEmbeddings ? config.family->embedding : "lm_head.weight", "final_logits_bias");
}

} // namespace heddle
