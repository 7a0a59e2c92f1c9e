// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The config says which layers have an adapter, and how wide it is; the tensors are compared with that, one by one, so that none is left over. What
// multiplies the result of an adapter is part of its up-projection then.
#include "frontends/peft/Bottleneck.h"

#include "frontends/Family.h"
#include "frontends/families/AdaptedLayers.h"
#include "frontends/huggingface/HuggingFace.h"
#include "frontends/huggingface/Safetensors.h"
#include "frontends/peft/BottleneckConfig.h"
#include "frontends/peft/MergedFile.h"
#include "frontends/peft/ModelTensors.h"
#include "frontends/peft/PickledTensors.h"

#include <algorithm>

namespace heddle {

namespace {

constexpr const char *weightsName = "adapter.safetensors", *pickledName = "pytorch_adapter.bin";

class Adder {
public:
  Adder(Model &model, std::string file, const Checkpoint &tensors, const BottleneckConfig &config, double scale);
  // `layer` in its stack, `number` among those of all.
  Status addLayer(const AdaptedLayers &layers, int64_t layer, int64_t number);
  Status finish();

  std::set<std::string> places;

private:
  Status addPlace(const std::string &place, const std::string &module, int64_t width);
  // The adapter's tensor, whose shape is that; null once a failure is noted.
  const TensorInfo *take(const std::string &name, const std::vector<int64_t> &shape);
  Status store(const std::string &name, const std::vector<int64_t> &shape, const std::vector<float> &numbers);
  // (rows, columns), a linear layer or, with `columns` 0, a norm: both its tensors, times `factors` by row.
  Status addPair(const std::string &to, const std::string &from, int64_t rows, int64_t columns,
                 const std::vector<float> &factors = {});

  Model &model;
  std::string file;
  const Checkpoint &tensors;
  const BottleneckConfig &config;
  double scale;
  std::map<std::string, const std::string *> names; // of the adapter's tensors, by each name that they may have here
  std::set<std::string> taken;
  MergedFile made;
  Status failure;
};

} // namespace

Adder::Adder(Model &model, std::string file, const Checkpoint &tensors, const BottleneckConfig &config, double scale)
    : model(model), file(std::move(file)), tensors(tensors), config(config), scale(scale) {
  for (const auto &[name, tensor] : tensors.tensors)
    for (const std::string &canonical : canonicalNames(*model.config.family, name))
      names.emplace(canonical, &name);
}

const TensorInfo *Adder::take(const std::string &name, const std::vector<int64_t> &shape) {
  auto found = names.find(name);
  if (found == names.end()) {
    failure = errorIn(file, "holds no tensor '" + name + "', which adapter_config.json asks for");
    return nullptr;
  }
  const TensorInfo &tensor = *tensors.find(*found->second);
  auto refused = [&](const std::string &why) {
    failure = errorIn(file, "tensor '" + *found->second + "' " + why).ofTensor(*found->second);
    return nullptr;
  };
  if (tensor.type != TensorType::F32 && tensor.type != TensorType::F16 && tensor.type != TensorType::BF16)
    return refused(std::string("is of type ") + tensorTypeInfo(tensor.type).name + ", expected f32, f16 or bf16");
  if (tensor.shape != shape)
    return refused("has shape " + shapeText(tensor.shape) + ", expected " + shapeText(shape));
  taken.insert(*found->second);
  return &tensor;
}

Status Adder::store(const std::string &name, const std::vector<int64_t> &shape, const std::vector<float> &numbers) {
  TensorInfo tensor{TensorType::F32, shape};
  int64_t rows = shape.size() == 2 ? shape[0] : 1, width = shape.back();
  auto fill = [&](int64_t row, float *out) {
    std::copy_n(numbers.begin() + static_cast<ptrdiff_t>(row * width), width, out);
  };
  HEDDLE_RETURN_IF_ERROR(made.add(name, tensor.type, rows, width, fill, tensor.offset));
  tensor.file = static_cast<uint32_t>(model.checkpoint.files.size()); // that the file is going to have
  tensor.bytes = numbers.size() * sizeof(float);
  model.checkpoint.tensors[name] = std::move(tensor);
  return Status();
}

Status Adder::addPair(const std::string &to, const std::string &from, int64_t rows, int64_t columns,
                      const std::vector<float> &factors) {
  std::vector<int64_t> shape = columns ? std::vector<int64_t>{rows, columns} : std::vector<int64_t>{rows};
  for (const char *part : {".weight", ".bias"}) {
    bool isBias = part[1] == 'b';
    const std::vector<int64_t> own = isBias ? std::vector<int64_t>{rows} : shape;
    const TensorInfo *tensor = take(from + part, own);
    if (!tensor)
      return failure;
    std::vector<float> numbers = numbersOf(tensors, *tensor);
    size_t width = numbers.size() / static_cast<size_t>(rows);
    for (size_t i = 0; i < numbers.size() && !factors.empty(); ++i)
      numbers[i] *= factors[i / width];
    HEDDLE_RETURN_IF_ERROR(store(to + part, own, numbers));
  }
  return Status();
}

Status Adder::addPlace(const std::string &place, const std::string &module, int64_t width) {
  int64_t hidden = model.config.hiddenSize;
  const BottleneckWiring &wiring = config.wiring;
  std::vector<float> factors(static_cast<size_t>(hidden), static_cast<float>(config.factor * scale));
  if (config.scaling != BottleneckScaling::Constant) {
    bool isLearned = config.scaling == BottleneckScaling::Learned;
    const TensorInfo *tensor = take(module + "scaling", {isLearned ? 1 : hidden});
    if (!tensor)
      return failure;
    std::vector<float> numbers = numbersOf(tensors, *tensor);
    for (size_t i = 0; i < factors.size(); ++i)
      factors[i] = static_cast<float>(scale * double(numbers[isLearned ? 0 : i]));
  }
  if (wiring.normsBefore) {
    HEDDLE_RETURN_IF_ERROR(addPair(place + bottleneckNormBefore, module + "adapter_down.0", hidden, 0));
    // The library has the norm under two names.
    for (const char *again : {"adapter_norm_before.weight", "adapter_norm_before.bias"})
      if (names.count(module + again) && !take(module + again, {hidden}))
        return failure;
  }
  HEDDLE_RETURN_IF_ERROR(addPair(place + bottleneckDown,
                                 module + (wiring.normsBefore ? "adapter_down.1" : "adapter_down.0"), width, hidden));
  HEDDLE_RETURN_IF_ERROR(addPair(place + bottleneckUp, module + "adapter_up", hidden, width, factors));
  if (wiring.normsAfter)
    HEDDLE_RETURN_IF_ERROR(addPair(place + bottleneckNormAfter, module + "adapter_norm_after", hidden, 0));
  places.insert(place);
  return Status();
}

Status Adder::addLayer(const AdaptedLayers &layers, int64_t layer, int64_t number) {
  if (config.leftOut.count(number))
    return Status();
  int64_t width = config.widthOf(number, model.config.hiddenSize);
  if (!width)
    return errorIn(file, "reduction_factor says nothing of layer " + std::to_string(number) +
                             ": expected its number or default in adapter_config.json");
  std::string scope = tensorName(layers.layer, layer, 0), behind = ".adapters." + config.name + ".";
  if (config.behindAttention)
    HEDDLE_RETURN_IF_ERROR(addPlace(scope + layers.attention, scope + layers.attentionModule + behind, width));
  if (config.behindCross && layers.cross)
    HEDDLE_RETURN_IF_ERROR(addPlace(scope + layers.cross, scope + layers.crossModule + behind, width));
  return config.behindOutput ? addPlace(scope + layers.output, scope + layers.outputModule + behind, width) : Status();
}

Status Adder::finish() {
  for (const auto &[name, tensor] : tensors.tensors)
    if (!taken.count(name))
      return errorIn(file,
                     "tensor '" + printable(name) + "' is no part of the adapter that adapter_config.json describes")
          .ofTensor(name);
  return made.addTo(model.checkpoint);
}

static Expected<SharedFile> openWeights(ModelFiles &files) {
  for (const char *name : {weightsName, pickledName})
    if (files.has(name))
      return files.open(name);
  return errorIn(files.model(), std::string("holds no ") + weightsName + " and no " + pickledName +
                                    ": expected an adapter that PyPI's adapters has saved");
}

Expected<Bottlenecks> addBottlenecks(Model &model, ModelFiles &files, double scale,
                                     std::vector<std::string> &outWarnings) {
  std::vector<AdaptedLayers> stacks = adaptedLayersOf(model.config.architecture);
  if (stacks.empty())
    return errorIn(files.model(), "is a bottleneck adapter, which is not supported of model_type '" +
                                      model.config.architecture + "': expected " + knownAdaptedModels())
        .as(StatusCode::Unsupported);
  bool normsBehind = stacks.back().normsBehind;
  Expected<BottleneckConfig> config =
      readBottleneckConfig(files, model.config, normsBehind, /*hasCross=*/stacks.back().cross != nullptr);
  if (!config)
    return config.status();
  Expected<SharedFile> file = openWeights(files);
  if (!file)
    return file.status();
  Checkpoint tensors;
  bool isPickled = (*file)->path() != files.pathOf(weightsName);
  HEDDLE_RETURN_IF_ERROR(isPickled ? readPickledTensors(*file, tensors) : readSafetensors(*file, tensors));
  Adder adder(model, (*file)->path(), tensors, *config, scale);
  int64_t number = 0;
  for (const AdaptedLayers &layers : stacks) {
    bool isEncoder = std::string_view(layers.layer).find('%') != std::string_view::npos;
    int64_t count = isEncoder ? model.config.encoder.numLayers : model.config.numHiddenLayers;
    for (int64_t layer = 0; layer < count; ++layer)
      HEDDLE_RETURN_IF_ERROR(adder.addLayer(layers, layer, number++));
  }
  if (adder.places.empty())
    return errorIn(files.model(), "leave_out names all layers: expected an adapter of one");
  HEDDLE_RETURN_IF_ERROR(adder.finish());
  if (files.has("head_config.json"))
    outWarnings.push_back(files.pathOf("head_config.json") +
                          ": the head that was saved with the adapter takes no part: the program has the model's");
  return Bottlenecks{config->wiring, normsBehind, std::move(adder.places)};
}

} // namespace heddle
