// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An operand is followed through views and calls to the place that plan-memory or the weights section gave it. The layers of a model are calls of
// one function, so that an op stands for as many attentions as calls lead to it. Of attention with split keys and the same without, a step
// runs one: both are one attention, behind whose kernel of either kind the operands are the same.

#include "compiler/package/AttentionTable.h"

#include "compiler/codegen/targets/cpu/PageLayout.h"
#include "compiler/schedule/Passes.h"
#include "dialect/Entries.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;
namespace fb = flatbuffers;

namespace {

using KernelsOfOps = llvm::DenseMap<Operation *, SmallVector<uint32_t>>;

class AttentionCollector {
public:
  AttentionCollector(ModuleOp module, bool isOfDevice, KernelsOfOps kernels)
      : module(module), isOfDevice(isOfDevice), kernels(std::move(kernels)) {
    if (auto bytes = module->getAttrOfType<IntegerAttr>(rowBytesAttr))
      rowBytes = bytes.getInt();
  }

  // The attentions of `block`, behind those that `out` has.
  LogicalResult collect(Block &block, std::vector<package::AttentionT> &out);

private:
  // What an operand is followed to: an op, or null for an argument of the entry, and how many bytes of a view lie before it.
  struct Origin {
    Operation *op = nullptr;
    int64_t offset = 0;
  };
  Origin originOf(Value value) const;
  LogicalResult place(Value value, std::unique_ptr<package::Place> &out) const;
  LogicalResult weight(Value value, int64_t &out, package::KvType &outType) const;
  LogicalResult cachedKeys(KvCacheType cache, Value layer, package::AttentionT &out) const;
  LogicalResult positions(Value table, std::optional<ArrayRef<int64_t>> starts, std::optional<ArrayRef<int64_t>> rows,
                          package::AttentionT &out) const;
  template <typename Op> LogicalResult describeScores(Op op, package::AttentionT &out) const;
  LogicalResult describe(OnlineAttentionOp op, package::AttentionT &out) const;
  LogicalResult describe(OnlineLatentAttentionOp op, package::AttentionT &out) const;
  LogicalResult describe(RaggedAttentionOp op, package::AttentionT &out) const;
  LogicalResult collectBranches(Operation &op, std::vector<package::AttentionT> &out);

  ModuleOp module;
  bool isOfDevice; // whose pages have rows alone
  KernelsOfOps kernels;
  int64_t rowBytes = 0;
  SmallVector<func::CallOp> calls; // that lead to the block
};

} // namespace

AttentionCollector::Origin AttentionCollector::originOf(Value value) const {
  Origin origin;
  ArrayRef<func::CallOp> path = calls;
  while (value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (path.empty() || !isa<func::FuncOp>(argument.getOwner()->getParentOp()))
        return origin;
      value = func::CallOp(path.back()).getOperand(argument.getArgNumber());
      path = path.drop_back();
    } else if (auto view = value.getDefiningOp<memref::SubViewOp>()) {
      auto [strides, offset] = view.getSourceType().getStridesAndOffset();
      for (auto [at, stride] : llvm::zip_equal(view.getStaticOffsets(), strides)) {
        if (ShapedType::isDynamic(at) || (at != 0 && ShapedType::isDynamic(stride)))
          return {};
        origin.offset += at * (at ? stride : 0) * int64_t(view.getSourceType().getElementTypeBitWidth() / 8);
      }
      value = view.getSource();
    } else if (Operation *op = value.getDefiningOp(); isa<bufferization::ToBufferOp, memref::CastOp>(op)) {
      value = op->getOperand(0);
    } else {
      origin.op = op;
      return origin;
    }
  }
  return origin;
}

LogicalResult AttentionCollector::place(Value value, std::unique_ptr<package::Place> &out) const {
  Origin origin = originOf(value);
  auto type = cast<MemRefType>(value.getType());
  auto alloc = dyn_cast_or_null<memref::AllocOp>(origin.op);
  auto [strides, offset] = type.getStridesAndOffset();
  if (!alloc || type.getRank() != 2 || !type.getElementType().isF32() || ShapedType::isDynamic(strides[0]) ||
      strides[1] != 1)
    return failure();
  auto ofRows = alloc->getAttrOfType<IntegerAttr>(rowOffsetAttr), fixed = alloc->getAttrOfType<IntegerAttr>(offsetAttr);
  if (!ofRows && !fixed)
    return failure();
  out = std::make_unique<package::Place>(uint64_t(origin.offset + (fixed ? fixed.getInt() : 0)),
                                         uint64_t(fixed ? rowBytes : ofRows.getInt()),
                                         uint64_t(strides[0]) * sizeof(float));
  return success();
}

static std::optional<package::KvType> typeOf(Type type) {
  if (type.isF32())
    return package::KvType::F32;
  if (type.isBF16())
    return package::KvType::BF16;
  if (type.isF16())
    return package::KvType::F16;
  return type.isInteger(8) ? std::optional(package::KvType::Q8_0) : std::nullopt;
}

LogicalResult AttentionCollector::weight(Value value, int64_t &out, package::KvType &outType) const {
  Origin origin = originOf(value);
  auto weight = dyn_cast_or_null<WeightOp>(origin.op);
  std::optional<package::KvType> type = typeOf(cast<ShapedType>(value.getType()).getElementType());
  if (!weight || !type || *type == package::KvType::Q8_0)
    return failure();
  out = weight.getPacking().getOffset() + origin.offset;
  outType = *type;
  return success();
}

LogicalResult AttentionCollector::cachedKeys(KvCacheType cache, Value layer, package::AttentionT &out) const {
  auto number = dyn_cast_or_null<arith::ConstantIndexOp>(originOf(layer).op);
  std::optional<package::KvType> type = typeOf(cache.getElementType());
  out.cached = true;
  out.key_pairs = !isOfDevice && cpu::hasPairedPages(cache);
  if (!number || !type || (*type == package::KvType::Q8_0 && !out.key_pairs && !isOfDevice))
    return failure();
  out.role = cache.getCross() ? package::AttentionRole::Cross : package::AttentionRole::Decoder;
  out.key_type = *type;
  out.key_offset = cache.getLayerBegin(number.value());
  out.key_head_bytes = cache.getPlaneBytes() / cache.getNumKvHeads();
  out.num_kv_heads = cache.getNumKvHeads();
  out.head_dim = cache.getHeadDim();
  return success();
}

LogicalResult AttentionCollector::positions(Value table, std::optional<ArrayRef<int64_t>> starts,
                                            std::optional<ArrayRef<int64_t>> rows, package::AttentionT &out) const {
  if (!table)
    return success();
  if (starts)
    out.starts.assign(starts->begin(), starts->end());
  if (rows)
    out.rows.assign(rows->begin(), rows->end());
  auto type = cast<MemRefType>(table.getType());
  if (auto constant = dyn_cast_or_null<memref::GetGlobalOp>(originOf(table).op)) { // slopes that no file has
    auto global = ModuleOp(module).lookupSymbol<memref::GlobalOp>(constant.getName());
    auto values = global ? dyn_cast_or_null<DenseFPElementsAttr>(global.getInitialValueAttr()) : DenseFPElementsAttr();
    if (!values || !values.getElementType().isF32())
      return failure();
    for (APFloat value : values.getValues<APFloat>())
      out.position_table.push_back(value.convertToFloat());
    return success();
  }
  if (!type.isDynamicDim(0))
    return weight(table, out.positions, out.positions_type);
  out.buckets = uint32_t(type.getDimSize(1) / (int64_t(2) * out.num_heads));
  return place(table, out.token_positions);
}

static void describeMask(MaskAttr mask, package::AttentionT &out) {
  out.causal = mask.getCausal();
  out.window = uint32_t(mask.getWindow());
  out.ahead = uint32_t(mask.getAhead());
  out.chunk = uint32_t(mask.getChunk());
}

template <typename Op> LogicalResult AttentionCollector::describeScores(Op op, package::AttentionT &out) const {
  out.num_heads = op.getNumHeads();
  out.scale = op.getScale().convertToDouble();
  out.softcap = op.getSoftcap().convertToDouble();
  describeMask(op.getMask(), out);
  package::KvType sinksType = package::KvType::F32;
  if (op.getSinks() && (failed(weight(op.getSinks(), out.sinks, sinksType)) || sinksType != package::KvType::F32))
    return failure();
  return success(succeeded(place(op.getQuery(), out.query)) &&
                 succeeded(positions(op.getPositions(), op.getStarts(), op.getRows(), out)));
}

LogicalResult AttentionCollector::describe(OnlineAttentionOp op, package::AttentionT &out) const {
  return success(succeeded(describeScores(op, out)) &&
                 succeeded(cachedKeys(op.getCache().getType(), op.getLayer(), out)));
}

// Folded queries lie in the op's scratch, side by side, once its first kernel has run: keys are then the rows that are cached.
LogicalResult AttentionCollector::describe(OnlineLatentAttentionOp op, package::AttentionT &out) const {
  if (op.getForm() == LatentForm::Materialised)
    return failure();
  out.num_heads = op.getNumHeads();
  out.scale = op.getScale().convertToDouble();
  describeMask(op.getMask(), out);
  return success(succeeded(cachedKeys(op.getCache().getType(), op.getLayer(), out)) &&
                 succeeded(place(op.getInits()[1], out.query)));
}

LogicalResult AttentionCollector::describe(RaggedAttentionOp op, package::AttentionT &out) const {
  if (op.getGlobals())
    return failure();
  out.role = package::AttentionRole::Encoder;
  out.num_kv_heads = op.getNumKvHeads();
  out.head_dim = op.getHeadDim();
  return success(succeeded(describeScores(op, out)) && succeeded(place(op.getKey(), out.key)));
}

// As it is stored, which is all that there is to compare.
static std::string bytesOf(const package::AttentionT &attention) {
  fb::FlatBufferBuilder b;
  b.Finish(package::CreateAttention(b, &attention));
  return std::string(reinterpret_cast<const char *>(b.GetBufferPointer()), b.GetSize());
}

LogicalResult AttentionCollector::collectBranches(Operation &op, std::vector<package::AttentionT> &out) {
  std::vector<package::AttentionT> first;
  for (auto [i, region] : llvm::enumerate(op.getRegions())) {
    std::vector<package::AttentionT> found;
    for (Block &block : region)
      if (failed(collect(block, found)))
        return failure();
    if (i == 0) {
      first = std::move(found);
      continue;
    }
    if (found.size() != first.size())
      return failure();
    for (auto [one, other] : llvm::zip_equal(first, found)) {
      auto ofOther = std::exchange(other.kernels, one.kernels);
      if (bytesOf(one) != bytesOf(other))
        return failure();
      one.kernels.insert(one.kernels.end(), ofOther.begin(), ofOther.end());
    }
  }
  std::move(first.begin(), first.end(), std::back_inserter(out));
  return success();
}

LogicalResult AttentionCollector::collect(Block &block, std::vector<package::AttentionT> &out) {
  for (Operation &op : block) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
      if (!callee || callee.isExternal())
        continue;
      calls.push_back(call);
      LogicalResult collected = collect(callee.front(), out);
      calls.pop_back();
      if (failed(collected))
        return failure();
      continue;
    }
    if (op.getNumRegions()) {
      if (failed(collectBranches(op, out)))
        return failure();
      continue;
    }
    package::AttentionT attention;
    std::optional<LogicalResult> described;
    if (auto online = dyn_cast<OnlineAttentionOp>(op))
      described = describe(online, attention);
    else if (auto latent = dyn_cast<OnlineLatentAttentionOp>(op))
      described = describe(latent, attention);
    else if (auto ragged = dyn_cast<RaggedAttentionOp>(op))
      described = describe(ragged, attention);
    if (!described)
      continue;
    if (failed(*described))
      return failure();
    if (auto launched = kernels.find(&op); launched != kernels.end())
      attention.kernels = {launched->second.front()};
    out.push_back(std::move(attention));
  }
  return success();
}

static std::vector<package::AttentionT> collectAttentions(ModuleOp module, const Target &target,
                                                          const KernelsOfOps &kernels) {
  std::vector<package::AttentionT> found;
  if (!raggedEntry(module))
    return found;
  AttentionCollector collector(module, target.isDevice(), kernels);
  for (func::FuncOp entry : raggedEntries(module))
    if (failed(collector.collect(entry.front(), found)))
      return {};
  return found;
}

AttentionTable heddle::attentionTable(fb::FlatBufferBuilder &b, ModuleOp module, const Target &target,
                                      ArrayRef<KernelLaunch> launches) {
  KernelsOfOps kernels;
  for (const KernelLaunch &launch : launches)
    kernels[launch.op].push_back(launch.kernel);
  std::vector<fb::Offset<package::Attention>> table;
  for (const package::AttentionT &attention : collectAttentions(module, target, kernels))
    table.push_back(package::CreateAttention(b, &attention));
  return table.empty() ? AttentionTable() : b.CreateVector(table);
}
