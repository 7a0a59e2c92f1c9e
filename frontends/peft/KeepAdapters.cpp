// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/peft/KeepAdapters.h"

#include "frontends/peft/Bottleneck.h"
#include "frontends/peft/MergedFile.h"
#include "frontends/peft/ModelTensors.h"
#include "frontends/peft/VirtualTokens.h"

#include <algorithm>

namespace heddle {

namespace {

constexpr int64_t mostRanks = 1 << 14; // of all adapters together

// An adapter's part of the tensors of one weight.
struct Part {
  std::vector<float> down, up; // (r, in), (out, r)
  int64_t rank, in, first;     // first: of its rows among those of all adapters
};

struct Kept {
  std::vector<Part> parts;
  TensorInfo base;            // the weight
  std::vector<int64_t> order; // of its rows
  bool isEmbedding = false;
};

class Keeper {
public:
  explicit Keeper(Model &model) : model(model), tensors(model) {}
  Status add(const Adapter &adapter, double scale);
  Status write();
  const std::vector<int64_t> &virtualTokens() const { return prompts.counts(); }

private:
  Status addModule(const Adapter &adapter, const std::string &name, const AdaptedModule &module, double scale);
  Status write(const std::string &name, const Kept &kept, MergedFile &file);
  Status write(const std::string &name, TensorInfo tensor, MergedFile &file, const MergedFile::FillRow &fill);

  Model &model;
  ModelTensors tensors;
  std::map<std::string, Kept> weights;
  VirtualTokens prompts;
  std::vector<int64_t> firstRanks; // of each adapter
  int64_t numRanks = 0;
};

} // namespace

Status Keeper::addModule(const Adapter &adapter, const std::string &name, const AdaptedModule &module, double scale) {
  const Family &family = *model.config.family;
  auto refused = [&](const std::string &why) {
    return errorIn(adapter.file, "module '" + printable(name) + "' " + why).as(StatusCode::Unsupported);
  };
  if (module.weight || module.bias || module.magnitude || module.scales)
    return refused(std::string(module.magnitude ? "has use_dora"
                               : module.scales  ? "has scales of IA3"
                                                : "was trained whole, or its bias") +
                   ", which --adapter does not keep apart: use --merge-adapter");
  bool isTiedHead = model.config.tieWordEmbeddings && tensors.isNamed(name, family.head);
  std::string weight = isTiedHead ? family.head : tensors.find(name, ".weight");
  if (weight.empty())
    return errorIn(adapter.file, "module '" + printable(name) + "': " + model.sourcePath +
                                     " has no weight of that name that its program reads");
  const TensorInfo &base = *model.checkpoint.find(isTiedHead ? family.embedding : weight);
  if (!module.a) // what is stored of the base beside an adapter of it
    return refused("was stored without an adapter, which --adapter does not keep apart: use --merge-adapter");
  HEDDLE_RETURN_IF_ERROR(tensors.checkOrder(adapter, name, weight));
  HEDDLE_RETURN_IF_ERROR(tensors.checkFit(adapter, name, module, weight, base));
  Kept &kept = weights[weight];
  kept.base = base;
  kept.isEmbedding = module.isEmbedding;
  if (!isTiedHead)
    kept.order = tensors.rowOrder(base, tensors.rule(weight));
  Part part{numbersOf(adapter.tensors, *module.a), numbersOf(adapter.tensors, *module.b), module.a->shape[0],
            module.a->shape[1], firstRanks.back()};
  auto factor = static_cast<float>(scale * adapter.config.factorOf(name));
  for (float &number : part.up)
    number *= factor;
  kept.parts.push_back(std::move(part));
  return Status();
}

Status Keeper::add(const Adapter &adapter, double scale) {
  HEDDLE_RETURN_IF_ERROR(prompts.add(adapter, scale, model, tensors));
  int64_t rank = adapter.prompt ? 0 : 1;
  for (const auto &[name, module] : adapter.modules)
    rank = std::max(rank, module.a ? module.a->shape[0] : 1);
  firstRanks.push_back(numRanks);
  if (rank > mostRanks - numRanks)
    return errorIn(adapter.file, "has rank " + std::to_string(rank) + " behind those of other adapters, " +
                                     std::to_string(numRanks) + ", expected at most " + std::to_string(mostRanks) +
                                     " together");
  numRanks += rank;
  for (const auto &[name, module] : adapter.modules)
    HEDDLE_RETURN_IF_ERROR(addModule(adapter, name, module, scale));
  return Status();
}

Status Keeper::write(const std::string &name, TensorInfo tensor, MergedFile &file, const MergedFile::FillRow &fill) {
  HEDDLE_RETURN_IF_ERROR(file.add(name, tensor.type, tensor.shape[0], tensor.shape[1], fill, tensor.offset));
  tensor.file = static_cast<uint32_t>(model.checkpoint.files.size()); // that the file is going to have
  tensor.bytes = static_cast<uint64_t>(tensor.shape[0] * tensor.shape[1]) * tensorTypeInfo(tensor.type).blockBytes;
  model.checkpoint.tensors[name] = std::move(tensor);
  return Status();
}

// Where an adapter has no part, or one of less rank than elsewhere, there are zeros.
Status Keeper::write(const std::string &name, const Kept &kept, MergedFile &file) {
  bool is16Bit = kept.base.type == TensorType::F16 || kept.base.type == TensorType::BF16;
  TensorType type = kept.base.type == TensorType::F32 || is16Bit ? kept.base.type : TensorType::BF16;
  int64_t in = kept.parts.front().in, out = kept.base.shape[kept.isEmbedding ? 1 : 0];
  auto down = [&](int64_t rank, int64_t column) {
    for (const Part &part : kept.parts)
      if (rank >= part.first && rank < part.first + part.rank)
        return part.down[static_cast<size_t>((rank - part.first) * in + column)];
    return 0.0f;
  };
  TensorInfo tensor{type, {numRanks, in}};
  if (kept.isEmbedding)
    std::swap(tensor.shape[0], tensor.shape[1]);
  HEDDLE_RETURN_IF_ERROR(write(name + adapterDown, tensor, file, [&](int64_t row, float *numbers) {
    for (int64_t i = 0; i < tensor.shape[1]; ++i)
      numbers[i] = kept.isEmbedding ? down(i, row) : down(row, i);
  }));
  TensorInfo up{type, {out, numRanks}};
  up.rowOrder = kept.base.rowOrder;
  return write(name + adapterUp, up, file, [&](int64_t row, float *numbers) {
    int64_t from = kept.order.empty() ? row : kept.order[static_cast<size_t>(row)];
    std::fill_n(numbers, numRanks, 0.0f);
    for (const Part &part : kept.parts)
      std::copy_n(part.up.data() + from * part.rank, part.rank, numbers + part.first);
  });
}

Status Keeper::write() {
  MergedFile file;
  auto fillMask = [&](int64_t row, float *numbers) {
    for (int64_t rank = 0; rank < numRanks; ++rank) {
      auto after = std::upper_bound(firstRanks.begin(), firstRanks.end(), rank);
      numbers[rank] = after - firstRanks.begin() == row ? 1.0f : 0.0f;
    }
  };
  auto rows = static_cast<int64_t>(firstRanks.size()) + 1 + prompts.count();
  if (numRanks)
    HEDDLE_RETURN_IF_ERROR(write(adapterMask, TensorInfo{TensorType::F32, {rows, numRanks}}, file, fillMask));
  HEDDLE_RETURN_IF_ERROR(prompts.write(
      model, [&](const std::string &name, int64_t tableRows, int64_t width, const MergedFile::FillRow &fill) {
        return write(name, TensorInfo{TensorType::F32, {tableRows, width}}, file, fill);
      }));
  for (const auto &[name, kept] : weights)
    HEDDLE_RETURN_IF_ERROR(write(name, kept, file));
  return file.addTo(model.checkpoint);
}

Expected<KeptAdapters> keepAdapters(Model &model, const std::vector<NamedAdapter> &adapters) {
  const Family &family = *model.config.family;
  if (model.config.encodes() || family.isGraph || family.isEncoderDecoder || model.config.tower)
    return errorIn(model.sourcePath, "--adapter: of architecture '" + model.config.architecture +
                                         "' adapters are not kept apart: use --merge-adapter")
        .as(StatusCode::Unsupported);
  KeptAdapters kept;
  Keeper keeper(model);
  for (const NamedAdapter &named : adapters) {
    ModelFiles &files = kept.files.emplace_back(named.use.folder);
    if (isAdapterHub(files))
      return errorIn(files.model(), "is a bottleneck adapter, which --adapter does not keep apart: use --merge-adapter")
          .as(StatusCode::Unsupported);
    Expected<Adapter> adapter = readAdapter(files);
    if (!adapter)
      return adapter.status();
    HEDDLE_RETURN_IF_ERROR(keeper.add(*adapter, named.use.scale));
  }
  HEDDLE_RETURN_IF_ERROR(keeper.write());
  kept.virtualTokens = keeper.virtualTokens();
  return kept;
}

} // namespace heddle
