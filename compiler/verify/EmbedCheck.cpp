// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/verify/EmbedCheck.h"

#include "compiler/interpreter/TensorBytes.h"
#include "compiler/verify/Compare.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

using Mode = PoolingConfig::Mode;

// One number of an embedding: `column` holds those of the tokens, in their order.
static double pooled(Mode mode, ArrayRef<double> column) {
  double count = column.size(), sum = 0, weighted = 0;
  for (auto [i, value] : llvm::enumerate(column)) {
    sum += value;
    weighted += (i + 1) * value;
  }
  switch (mode) {
  case Mode::Cls:
    return column.front();
  case Mode::LastToken:
    return column.back();
  case Mode::Max:
    return *llvm::max_element(column);
  case Mode::Mean:
    return sum / count;
  case Mode::MeanSqrtLength:
    return sum / std::sqrt(count);
  case Mode::WeightedMean: // token i weighs i + 1
    return weighted / (count * (count + 1) / 2);
  }
  llvm_unreachable("all modes are listed");
}

Tensor EmbedCheck::pool(const Tensor &hidden) const {
  int64_t modes = pooling.modes.size(), tokens = ids.size();
  Tensor all = Tensor::zeros(hidden.elementType, {1, modes * hiddenSize});
  for (auto [part, mode] : llvm::enumerate(pooling.modes))
    for (int64_t column = 0; column < hiddenSize; ++column) {
      std::vector<double> values(tokens);
      for (int64_t token = 0; token < tokens; ++token)
        values[token] = hidden.reals[token * hiddenSize + column];
      all.setReal(part * hiddenSize + column, pooled(mode, values));
    }
  return all;
}

// The numbers of an array of NumPy (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html): magic and version, the length of
// the header, the header, then as many f32 as `embedding` has.
static bool readArray(const std::string &path, Tensor &embedding, std::string &error) {
  constexpr size_t before = 10;
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  StringRef bytes = file ? (*file)->getBuffer() : StringRef();
  size_t header = bytes.size() < before ? 0 : llvm::support::endian::read16le(bytes.data() + before - 2);
  size_t expected = before + header + size_t(embedding.size()) * sizeof(float);
  if (!bytes.starts_with("\x93NUMPY") || bytes.size() != expected) {
    error = llvm::formatv("the binary wrote an array of {0} bytes, expected {1}: {2} numbers behind its header",
                          bytes.size(), expected, embedding.size())
                .str();
    return false;
  }
  embedding = tensorFromBytes(embedding.elementType, embedding.shape, bytes.bytes_begin() + before + header);
  return true;
}

static std::string idList(ArrayRef<int64_t> ids) {
  std::string text;
  for (int64_t id : ids)
    text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

bool EmbedCheck::run(const std::string &binary, const std::string &folder, MLIRContext &context,
                     std::string &error) const {
  int64_t tokens = ids.size();
  Type real = Float32Type::get(&context);
  Tensor sequence = Tensor::zeros(IntegerType::get(&context, 64), {1, tokens});
  sequence.integers = ids;
  std::vector<NamedTensor> hidden = {{"last_hidden_state", Tensor::zeros(real, {1, tokens, hiddenSize})}};
  if (!runBinary(binary, folder, {{"input_ids", sequence}}, hidden, error, {"--outputs", "last_hidden_state"}))
    return false;
  std::vector<NamedTensor> wanted = {{"sentence_embedding", pool(hidden[0].values)}};
  if (!pooling.dense.empty()) {
    NamedTensor given = {"pooled", wanted[0].values};
    wanted[0].values = Tensor::zeros(real, {1, pooling.dense.back().out});
    if (!runBinary(binary, folder, given, wanted, error))
      return false;
  }
  Tensor &embedding = wanted[0].values;
  if (pooling.normalizes) {
    double squares = 0;
    for (double value : embedding.reals)
      squares += value * value;
    for (int64_t i = 0; i < embedding.size(); ++i)
      embedding.setReal(i, embedding.reals[i] / std::max(std::sqrt(squares), 1e-12));
  }
  Tensor actual = embedding;
  std::string list = idList(ids), array = folder + "/embedding.npy", said;
  if (int code = execute(binary, {"--embed", "--prompt-ids", list, "--npy", array}, folder, said)) {
    error = llvm::formatv("the binary ended with code {0}: {1}", code, said).str();
    return false;
  }
  if (!readArray(array, actual, error))
    return false;
  Difference difference = compare(actual, embedding);
  if (difference.nmse > limit) {
    error =
        llvm::formatv("the binary embeds {0} tokens as something else than its hidden states and dense layers give: "
                      "NMSE {1:e3} (limit {2:e3}), element {3} by {4:e3}",
                      tokens, difference.nmse, limit, difference.worst, difference.maxAbs)
            .str();
    return false;
  }
  print(llvm::formatv("binary, an embedding of {0} tokens", tokens), llvm::formatv("NMSE {0:e2}", difference.nmse));
  return true;
}
