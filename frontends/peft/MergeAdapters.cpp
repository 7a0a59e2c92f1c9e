// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// First every adapter is compared with the base, and what it says of a tensor is noted; then each tensor that changes is made, once, whatever
// the number of adapters: W + sum of factor * B A, and rows or columns scaled, one adapter after the other in f32, rounded once. Rows are those that the file stores, so that a matrix that is stored
// as (in, out), or in the order that GGUF's writer gives it, stays so.
#include "frontends/peft/MergeAdapters.h"

#include "frontends/peft/Bottleneck.h"
#include "frontends/peft/MergedFile.h"
#include "frontends/peft/ModelTensors.h"

#include <cmath>
#include <cstring>

namespace heddle {

namespace {

// One adapter's change of a matrix.
struct Update {
  const Adapter *adapter;
  AdaptedModule module;
  double factor;
};

struct Change {
  const Adapter *replacedBy = nullptr; // the base's numbers are this adapter's
  std::vector<Update> updates;
};

// Of the rows that a file stores: left (rows, rank) times right (rank, width) is added, or rows or columns are scaled.
struct RowChange {
  int64_t rank = 0;
  std::vector<float> left, right;
  std::vector<float> lengths;                   // (rows): that the sum's rows get; empty: they stay
  std::vector<float> rowFactors, columnFactors; // (rows), (width); empty: 1
};

class Merger {
public:
  Merger(Model &model, TensorType wide) : model(model), wide(wide), tensors(model) {}
  // Compares the adapter, which outlasts this object, with the base.
  Status note(const Adapter &adapter, double scale);
  Status mergeAll(AdapterMerge &result);

private:
  Status noteModule(const Adapter &adapter, const std::string &name, const AdaptedModule &module, double scale);
  Status noteUpdate(const Adapter &adapter, const std::string &name, const AdaptedModule &module, double scale);
  Status replace(const Adapter &adapter, const std::string &tensor, const TensorInfo &with);
  Status noteScales(const Adapter &adapter, const std::string &name, const AdaptedModule &module, double scale);
  void untie();
  RowChange lowRankOf(const Update &update, const TensorInfo &tensor, const std::vector<int64_t> &order) const;
  RowChange scalesOf(const Update &update, const TensorInfo &tensor, const std::vector<int64_t> &order) const;
  Status merge(const std::string &name, const Change &change, MergedFile &file, AdapterMerge &result);

  Model &model;
  TensorType wide;
  ModelTensors tensors;
  std::map<std::string, Change> changes;
};

} // namespace

// Embeddings and head are of one table in the file, and of two once an adapter has changed one of them.
void Merger::untie() {
  const Family &family = *model.config.family;
  model.checkpoint.tensors[family.head] = *model.checkpoint.find(family.embedding);
  model.config.tieWordEmbeddings = false;
  tensors.list();
}

Status Merger::replace(const Adapter &adapter, const std::string &name, const TensorInfo &with) {
  TensorInfo &tensor = model.checkpoint.tensors.find(name)->second;
  const RuledTensor &rule = tensors.rule(name);
  const ModelConfig &config = model.config;
  auto refused = [&](const std::string &why) {
    return errorIn(adapter.file, "the adapter's own " + name + " " + why).ofTensor(name);
  };
  TensorInfo own = with;
  own.transposed = rule.rule->order == StoredOrder::Conv1d && own.shape.size() == 2;
  if (own.transposed)
    std::swap(own.shape[0], own.shape[1]);
  own.rowOrder = rowOrderOf(*rule.rule);
  own.storedAs = tensor.storedAs;
  if (own.shape != tensor.shape)
    return refused("has shape " + shapeText(own.shape) + ", the model's has " + shapeText(tensor.shape));
  if (Change &change = changes[name]; change.replacedBy || !change.updates.empty())
    return refused("stands against another adapter, which changes it, too");
  bool isNorm = rule.rule->columns == ConfigDim::None && name.find("norm") != std::string::npos;
  bool differs = isNorm && config.family->normWeightOffset != config.normWeightOffset;
  TensorInfo asStored = tensor;
  asStored.rowOrder = own.rowOrder;
  if (differs || !tensors.rowOrder(asStored, rule).empty())
    return refused("is not supported over a GGUF file, which has it in another form: use the Hugging Face folder")
        .as(StatusCode::Unsupported);
  changes[name].replacedBy = &adapter;
  own.file = static_cast<uint32_t>(model.checkpoint.files.size());
  model.checkpoint.files.push_back(adapter.tensors.files.front());
  tensor = own;
  return Status();
}

Status Merger::noteUpdate(const Adapter &adapter, const std::string &name, const AdaptedModule &module, double scale) {
  std::string tensorName = tensors.find(name, ".weight");
  const TensorInfo &tensor = *model.checkpoint.find(tensorName);
  auto refused = [&](const std::string &why) {
    return errorIn(adapter.file, "module '" + printable(name) + "' " + why).ofTensor(tensorName);
  };
  HEDDLE_RETURN_IF_ERROR(tensors.checkFit(adapter, name, module, tensorName, tensor));
  int64_t out = tensor.shape[module.isEmbedding ? 1 : 0];
  Change &change = changes[tensorName];
  bool isNormed = module.magnitude != nullptr;
  for (const Update &other : change.updates)
    isNormed |= other.module.magnitude != nullptr;
  if (isNormed && !change.updates.empty())
    return refused("has use_dora, which does not add up with another adapter of " + tensorName)
        .as(StatusCode::Unsupported);
  if (module.magnitude && tensor.transposed)
    return refused("has use_dora over a matrix that is stored as (in, out), which is not supported")
        .as(StatusCode::Unsupported);
  if (std::vector<int64_t> lengths{out};
      module.magnitude && module.magnitude->shape != lengths && module.magnitude->shape != std::vector<int64_t>{out, 1})
    return refused("has lora_magnitude_vector of shape " + shapeText(module.magnitude->shape) + ", expected " +
                   shapeText(lengths));
  change.updates.push_back({&adapter, module, scale * adapter.config.factorOf(name)});
  return Status();
}

// A vector (out, 1) scales a bias as well.
Status Merger::noteScales(const Adapter &adapter, const std::string &name, const AdaptedModule &module, double scale) {
  std::string weight = tensors.find(name, ".weight"), bias = tensors.find(name, ".bias");
  const std::vector<int64_t> &base = model.checkpoint.find(weight)->shape, &shape = module.scales->shape;
  bool isMatrix = base.size() == 2;
  bool ofOutput = isMatrix && shape == std::vector<int64_t>{base[0], 1};
  if (!ofOutput && !(isMatrix && shape == std::vector<int64_t>{1, base[1]}))
    return errorIn(adapter.file, "module '" + printable(name) + "' has ia3_l of shape " + shapeText(shape) +
                                     ", which does not fit " + weight + " of shape " + shapeText(base) +
                                     ": expected (out, 1) or (1, in)")
        .ofTensor(weight);
  changes[weight].updates.push_back({&adapter, module, scale});
  if (ofOutput && !bias.empty())
    changes[bias].updates.push_back({&adapter, module, scale});
  return Status();
}

Status Merger::noteModule(const Adapter &adapter, const std::string &name, const AdaptedModule &module, double scale) {
  const Family &family = *model.config.family;
  bool isTable = tensors.isNamed(name, family.embedding), isHead = tensors.isNamed(name, family.head);
  bool isTied = model.config.tieWordEmbeddings && (isTable || isHead);
  if (isTied && model.config.head && model.config.head->task == HeadTask::FillMask)
    return errorIn(adapter.file, "module '" + printable(name) + "' is tied to the head, which is not supported here")
        .as(StatusCode::Unsupported);
  if (isTied && module.base)
    HEDDLE_RETURN_IF_ERROR(replace(adapter, family.embedding, *module.base));
  if (isTied && (module.a || module.weight || module.scales) && !family.isEncoder && !family.isGraph)
    untie();
  bool hasWeight = module.a || module.weight || module.base || module.scales;
  std::string weight = tensors.find(name, ".weight"), bias = tensors.find(name, ".bias");
  if ((hasWeight && weight.empty()) || (module.bias && bias.empty()))
    return errorIn(adapter.file, "module '" + printable(name) + "': " + model.sourcePath + " has no " +
                                     (hasWeight && weight.empty() ? "weight" : "bias") +
                                     " of that name that its program reads");
  HEDDLE_RETURN_IF_ERROR(tensors.checkOrder(adapter, name, weight));
  if (const TensorInfo *own = module.weight ? module.weight : isTied ? nullptr : module.base)
    HEDDLE_RETURN_IF_ERROR(replace(adapter, weight, *own));
  if (module.bias)
    HEDDLE_RETURN_IF_ERROR(replace(adapter, bias, *module.bias));
  if (module.scales)
    return noteScales(adapter, name, module, scale);
  return module.a ? noteUpdate(adapter, name, module, scale) : Status();
}

Status Merger::note(const Adapter &adapter, double scale) {
  for (const auto &[name, module] : adapter.modules)
    HEDDLE_RETURN_IF_ERROR(noteModule(adapter, name, module, scale));
  return Status();
}

// (rows, columns) as (columns, rows).
static std::vector<float> transposed(const std::vector<float> &matrix, int64_t rows, int64_t columns) {
  std::vector<float> result(matrix.size());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      result[static_cast<size_t>(column * rows + row)] = matrix[static_cast<size_t>(row * columns + column)];
  return result;
}

// `order` is of rows of W, which are those of B.
RowChange Merger::lowRankOf(const Update &update, const TensorInfo &tensor, const std::vector<int64_t> &order) const {
  const Checkpoint &own = update.adapter->tensors;
  const TensorInfo &a = *update.module.a, &b = *update.module.b;
  RowChange product;
  product.rank = a.shape[0];
  std::vector<float> down = numbersOf(own, a), up = numbersOf(own, b); // (r, in), (out, r)
  if (update.module.magnitude)
    product.lengths = numbersOf(own, *update.module.magnitude);
  if (!order.empty()) {
    std::vector<float> rows(up.size()), lengths(product.lengths.size());
    for (size_t row = 0; row < order.size(); ++row) {
      auto from = static_cast<size_t>(order[row]), rank = static_cast<size_t>(product.rank);
      std::copy_n(up.begin() + static_cast<ptrdiff_t>(from * rank), rank,
                  rows.begin() + static_cast<ptrdiff_t>(row * rank));
      if (!lengths.empty())
        lengths[row] = product.lengths[from];
    }
    up = std::move(rows);
    product.lengths = std::move(lengths);
  }
  // An embedding's rows are A's columns, as are those of a matrix that is stored as (in, out).
  bool isTurned = tensor.transposed != update.module.isEmbedding;
  if (isTurned) {
    product.left = transposed(down, a.shape[0], a.shape[1]);
    product.right = transposed(up, b.shape[0], b.shape[1]);
  } else {
    product.left = std::move(up);
    product.right = std::move(down);
  }
  for (float &number : product.left)
    number *= static_cast<float>(update.factor);
  return product;
}

// `order` is of rows of W, and of numbers of its bias.
RowChange Merger::scalesOf(const Update &update, const TensorInfo &tensor, const std::vector<int64_t> &order) const {
  const TensorInfo &stored = *update.module.scales;
  std::vector<float> scales = numbersOf(update.adapter->tensors, stored);
  for (float &number : scales)
    number = static_cast<float>(1 + update.factor * (double(number) - 1));
  bool ofOutput = stored.shape[1] == 1;
  if (ofOutput && !order.empty()) {
    std::vector<float> ordered;
    ordered.reserve(order.size());
    for (int64_t row : order)
      ordered.push_back(scales[static_cast<size_t>(row)]);
    scales = std::move(ordered);
  }
  RowChange change;
  bool ofRows = tensor.shape.size() == 2 && ofOutput != tensor.transposed;
  (ofRows ? change.rowFactors : change.columnFactors) = std::move(scales);
  return change;
}

// row += left[row] right; with lengths the sum is then scaled to its own. What has factors adds nothing.
static void changeRow(const RowChange &product, int64_t row, size_t width, float *out) {
  const float *left = product.left.data() + row * product.rank;
  for (int64_t r = 0; r < product.rank; ++r) {
    const float *right = product.right.data() + static_cast<size_t>(r) * width;
    for (size_t column = 0; column < width; ++column)
      out[column] += left[r] * right[column];
  }
  if (!product.rowFactors.empty())
    for (size_t column = 0; column < width; ++column)
      out[column] *= product.rowFactors[static_cast<size_t>(row)];
  for (size_t column = 0; column < product.columnFactors.size(); ++column)
    out[column] *= product.columnFactors[column];
  if (product.lengths.empty())
    return;
  double squares = 0;
  for (size_t column = 0; column < width; ++column)
    squares += double(out[column]) * double(out[column]);
  auto factor = static_cast<float>(product.lengths[static_cast<size_t>(row)] / std::sqrt(squares));
  for (size_t column = 0; column < width; ++column)
    out[column] *= factor;
}

Status Merger::merge(const std::string &name, const Change &change, MergedFile &file, AdapterMerge &result) {
  TensorInfo &tensor = model.checkpoint.tensors.find(name)->second;
  std::vector<int64_t> order = tensors.rowOrder(tensor, tensors.rule(name));
  std::vector<RowChange> products;
  products.reserve(change.updates.size());
  for (const Update &update : change.updates)
    products.push_back(update.module.scales ? scalesOf(update, tensor, order) : lowRankOf(update, tensor, order));
  std::vector<int64_t> stored = tensor.shape; // (rows, width); a vector is a row
  if (tensor.transposed)
    std::swap(stored[0], stored[1]);
  int64_t rows = stored.size() == 2 ? stored[0] : 1, width = stored.back();
  const TensorTypeInfo &info = tensorTypeInfo(tensor.type);
  const uint8_t *base = model.checkpoint.data(tensor);
  auto columns = static_cast<size_t>(width);
  uint64_t rowBytes = columns / info.blockValues * info.blockBytes;
  auto fill = [&](int64_t row, float *out) {
    dequantizeRows(tensor.type, base + static_cast<uint64_t>(row) * rowBytes, 1, columns, 0, out);
    for (const RowChange &product : products)
      changeRow(product, row, columns, out);
  };
  TensorType type = info.blockValues > 1 ? wide : tensor.type;
  if (type != tensor.type)
    result.widened.push_back(name);
  uint64_t offset = 0;
  if (Status added = file.add(name, type, rows, width, fill, offset); !added.isOk())
    return added.isUsersFault() ? errorIn(change.updates.front().adapter->file, added.message()).ofTensor(name) : added;
  tensor.type = type;
  tensor.file = static_cast<uint32_t>(model.checkpoint.files.size()); // that the file is going to have
  tensor.offset = offset;
  tensor.bytes = static_cast<uint64_t>(rows) * columns * tensorTypeInfo(type).blockBytes;
  ++result.changed;
  return Status();
}

Status Merger::mergeAll(AdapterMerge &result) {
  MergedFile file;
  for (const auto &[name, change] : changes) {
    result.replaced += change.replacedBy && change.updates.empty();
    if (!change.updates.empty())
      HEDDLE_RETURN_IF_ERROR(merge(name, change, file, result));
  }
  if (!result.changed)
    return Status();
  return file.addTo(model.checkpoint);
}

Expected<AdapterMerge> mergeAdapters(Model &model, const std::vector<AdapterUse> &uses, TensorType wide) {
  AdapterMerge result;
  std::vector<std::unique_ptr<Adapter>> adapters;
  Merger merger(model, wide);
  for (const AdapterUse &use : uses) {
    ModelFiles &files = result.files.emplace_back(use.folder);
    if (isAdapterHub(files)) {
      if (result.bottlenecks)
        return errorIn(files.model(), "is a second bottleneck adapter, which is not supported: expected one at most")
            .as(StatusCode::Unsupported);
      Expected<Bottlenecks> added = addBottlenecks(model, files, use.scale, result.warnings);
      if (!added)
        return added.status();
      result.bottlenecks = std::make_shared<const Bottlenecks>(std::move(*added));
      continue;
    }
    Expected<Adapter> adapter = readAdapter(files);
    if (!adapter)
      return adapter.status();
    if (adapter->prompt)
      return errorIn(adapter->file, "has virtual tokens, which no weight holds: use --adapter=NAME=DIR")
          .as(StatusCode::Unsupported);
    adapters.push_back(std::make_unique<Adapter>(std::move(*adapter)));
    HEDDLE_RETURN_IF_ERROR(merger.note(*adapters.back(), use.scale));
  }
  HEDDLE_RETURN_IF_ERROR(merger.mergeAll(result));
  return result;
}

} // namespace heddle
