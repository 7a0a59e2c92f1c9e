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
  if (object.boolean("scale_embedding").value_or(config.family->defaults.scalesEmbedding))
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

Status addTensor(Model &model, const std::string &name, TensorInfo tensor, const std::string &what,
                 const std::function<void(std::vector<char> &, int64_t)> &fillRow) {
  int descriptor = memfd_create("tensor", MFD_CLOEXEC);
  auto failed = [&] { return Status::failure(what + ": " + strerror(errno)); };
  if (descriptor < 0)
    return failed();
  const TensorTypeInfo &type = tensorTypeInfo(tensor.type);
  int64_t rows = tensor.shape.size() > 1 ? tensor.shape.front() : 1;
  std::vector<char> row(static_cast<size_t>(tensor.shape.back()) * type.blockBytes);
  for (int64_t index = 0; index < rows; ++index) {
    fillRow(row, index);
    for (size_t done = 0; done < row.size();) {
      ssize_t count = write(descriptor, row.data() + done, row.size() - done);
      if (count < 0 && errno != EINTR) {
        Status error = failed();
        close(descriptor);
        return error;
      }
      done += count > 0 ? size_t(count) : 0;
    }
  }
  Expected<std::shared_ptr<MappedFile>> file = mapShared(descriptor, what);
  if (!file)
    return file.status();
  tensor.file = uint32_t(model.checkpoint.files.size());
  tensor.offset = 0;
  tensor.bytes = uint64_t(rows) * row.size();
  model.checkpoint.files.push_back(std::move(*file));
  model.checkpoint.tensors[name] = std::move(tensor);
  return Status();
}

Status splitTaps(Model &model, const std::string &name) {
  constexpr int64_t taps = AudioConfig::taps;
  const TensorInfo kernel = *model.checkpoint.find(name);
  if (tensorTypeInfo(kernel.type).blockValues > 1)
    return Status::failure("tensor '" + name + "' has type " + tensorTypeInfo(kernel.type).name +
                           ", expected a convolution as f32, f16 or bf16");
  int64_t outs = kernel.shape[0], ins = kernel.shape[1] / taps;
  std::shared_ptr<MappedFile> file = model.checkpoint.files[kernel.file];
  size_t bytes = tensorTypeInfo(kernel.type).blockBytes;
  return addTensor(model, name, TensorInfo{kernel.type, {taps * outs, ins}}, "a convolution, tap by tap",
                   [&](std::vector<char> &row, int64_t index) {
                     int64_t tap = index / outs, out = index % outs;
                     for (int64_t in = 0; in < ins; ++in)
                       memcpy(&row[size_t(in) * bytes],
                              file->data() + kernel.offset + size_t((out * ins + in) * taps + tap) * bytes, bytes);
                   });
}

Status pickRows(Model &model, const std::string &name, int64_t rows, const std::function<int64_t(int64_t)> &from) {
  const TensorInfo stored = *model.checkpoint.find(name);
  const TensorTypeInfo &type = tensorTypeInfo(stored.type);
  std::shared_ptr<MappedFile> file = model.checkpoint.files[stored.file];
  const uint8_t *begin = file->data() + stored.offset;
  int64_t columns = stored.shape.back();
  TensorInfo picked = stored;
  picked.shape.front() = rows;
  if (stored.shape.size() > 1)
    return addTensor(model, name, picked, "rows of a weight", [&](std::vector<char> &row, int64_t index) {
      row.assign(size_t(columns) / type.blockValues * type.blockBytes, 0); // blocks of zeros are those of a scale of 0
      if (int64_t source = from(index); source >= 0)
        memcpy(row.data(), begin + size_t(source) * row.size(), row.size());
    });
  std::vector<float> numbers(static_cast<size_t>(columns));
  dequantize(stored.type, begin, numbers.size(), numbers.data());
  picked.type = TensorType::F32;
  return addTensor(model, name, picked, "numbers of a bias", [&](std::vector<char> &row, int64_t) {
    for (int64_t index = 0; index < rows; ++index) {
      int64_t source = from(index);
      float number = source < 0 ? 0.0f : numbers[size_t(source)];
      memcpy(&row[size_t(index) * sizeof(number)], &number, sizeof(number));
    }
  });
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
  std::vector<float> numbers(static_cast<size_t>(width));
  return addTensor(model, sinusoidalPositions, TensorInfo{TensorType::F32, {rows, width}},
                   "positions that the config describes", [&](std::vector<char> &row, int64_t position) {
                     fillSinusoids(numbers, position, kind);
                     memcpy(row.data(), numbers.data(), row.size());
                   });
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

TensorHandle embedText(ModelBuilder &b, const char *positions, bool isDecoder) {
  TensorHandle x = b.add(b.embedTokens(embeddingOf(b.config(), isDecoder)), b.embedPositions(positions));
  const char *norm = isDecoder ? "model.decoder.layernorm_embedding" : "model.encoder.layernorm_embedding";
  return b.config().hasEmbeddingNorm ? b.layerNorm(x, norm) : x;
}

// `layers` layers under `scope` over embeddings.
static TensorHandle buildStack(ModelBuilder &b, const std::string &scope, TensorHandle x, int64_t layers, int64_t heads,
                               bool isDecoder) {
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

void buildEncoderDecoder(ModelBuilder &b, TensorHandle source, const std::function<TensorHandle()> &answer) {
  const ModelConfig &config = b.config();
  TensorHandle states = buildStack(b, "model.encoder.", source, config.encoder.numLayers, config.encoder.numHeads,
                                   /*isDecoder=*/false);
  b.beginDecoder(states);
  TensorHandle x = buildStack(b, "model.decoder.", answer(), config.numHiddenLayers, config.numHeads,
                              /*isDecoder=*/true);
  b.finish(x, config.tieWordEmbeddings ? config.family->embedding : config.family->head, "final_logits_bias");
}

void buildEncoderDecoder(ModelBuilder &b, TensorHandle source, const char *decoderPositions) {
  buildEncoderDecoder(b, source, [&] { return embedText(b, decoderPositions, /*isDecoder=*/true); });
}

void buildEncoderDecoder(ModelBuilder &b, const char *encoderPositions, const char *decoderPositions) {
  buildEncoderDecoder(b, embedText(b, encoderPositions, /*isDecoder=*/false), decoderPositions);
}

} // namespace heddle
