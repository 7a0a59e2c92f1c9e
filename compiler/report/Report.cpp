// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/report/Report.h"

#include "bytes/JsonSchema.h"
#include "compiler/report/GraphReport.h"
#include "compiler/schedule/Passes.h"
#include "dialect/Entries.h"
#include "dialect/Locations.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using Json = nlohmann::ordered_json;

// Tokens of a page of the cache.
static constexpr int64_t pageTokens = HEDDLE_KV_PAGE_SIZE;

static std::string maskText(MaskAttr mask) {
  std::string text;
  llvm::raw_string_ostream(text) << mask;
  StringRef inner = StringRef(text).split('<').second.drop_back();
  return inner.empty() ? "no mask" : inner.str();
}

// What an op computes, in the terms of its source: "matmul 576 -> 960, q4_1, + residual".
static std::string describe(Operation *op) {
  std::string text;
  llvm::raw_string_ostream out(text);
  TypeSwitch<Operation *, void>(op)
      .Case([&](PackedMatmulOp matmul) {
        out << matmul.getK() << " → " << matmul.getN() << ", " << matmul.getFormat();
        if (matmul.getInputScales())
          out << ", int8 input";
        if (matmul.getBias())
          out << ", + bias";
        if (matmul.getActivation())
          out << ", " << stringifyActivationKind(*matmul.getActivation());
        if (matmul.getGated())
          out << ", gated";
        if (matmul.getAccumulate())
          out << ", + residual";
      })
      .Case([&](IntegerMatmulOp matmul) {
        out << matmul.getK() << " → " << matmul.getN() << ", bytes, " << (matmul.getIsUnsigned() ? "u8" : "i8")
            << " input, i32 sums";
      })
      .Case([&](ExpertMatmulOp matmul) {
        out << matmul.getK() << " → " << matmul.getN() << ", " << matmul.getFormat() << ", " << matmul.getTopK()
            << " of " << matmul.getNumExperts() << " experts";
        if (matmul.isGated())
          out << ", gated";
        if (matmul.getAccumulate())
          out << ", + residual";
      })
      .Case([&](RouteExpertsOp route) { out << route.getTopK() << " of " << route.getNumExperts() << " experts"; })
      .Case([&](OnlineAttentionOp attention) {
        KvCacheType cache = attention.getCache().getType();
        out << attention.getNumHeads() << " heads, " << cache.getNumKvHeads() << " of K and V, head_dim "
            << cache.getHeadDim() << ", " << maskText(attention.getMask())
            << (attention.getShareKv() ? ", one load of K and V for a group" : "");
        if (attention.storesScores())
          out << ", all scores stored";
        if (attention.getSplitKv())
          out << ", keys split every " << *attention.getSplitKv();
      })
      .Case([&](CombineSplitsOp combine) {
        out << combine.getNumHeads() << " heads, at most "
            << cast<ShapedType>(combine.getMaxima().getType()).getDimSize(1) / int64_t(combine.getNumHeads())
            << " splits";
      })
      .Case([&](OnlineLatentAttentionOp attention) {
        LatentDims dims = attention.getDims();
        int64_t rebuild = dims.rank * (dims.nope + dims.value), latent = 2 * dims.rank - dims.nope - dims.value;
        out << attention.getNumHeads() << " heads over latents of " << dims.rank << " + " << dims.rope << ", body "
            << stringifyLatentForm(attention.getForm()) << "; keys and values are rebuilt where queries × (" << rebuild
            << " + keys × " << latent << ") > keys × " << rebuild;
      })
      .Case([&](RotateAppendOp append) {
        if (append.getWeights())
          out << *append.getK() << " → " << append.getWidth() << ", " << *append.getFormat()
              << (append.getBias() ? ", + bias" : "") << ", ";
        out << append.getNumHeads() << " heads, " << append.getCache().getType().getNumKvHeads() << " of K and V, "
            << (append.getQueryNorm() ? "normalised, " : "") << "rotated, into the cache";
      })
      .Case([&](RaggedAttentionOp attention) {
        out << attention.getNumHeads() << " heads, " << attention.getNumKvHeads() << " of keys and values, head_dim "
            << attention.getHeadDim() << ", within each sequence";
      })
      .Case([&](RaggedConvOp conv) {
        out << conv.getChannels() << " channels, the last " << conv.getWidth() << " tokens"
            << (conv.getActivation() ? ", silu" : "");
      })
      .Case([&](RaggedLinearAttentionOp attention) {
        out << attention.getNumHeads() << " heads with a state of (" << attention.getKeyDim() << ", "
            << attention.getValueDim() << "), " << attention.getNumKeyHeads() << " of keys"
            << (attention.decaysByKey() ? ", columns of keys decaying"
                : attention.getDecay()  ? ", decaying"
                                        : "")
            << (attention.getBeta() ? ", delta rule" : "");
      })
      .Case([&](DequantizeOp rows) {
        out << "rows of (" << rows.getN() << ", " << rows.getK() << "), " << rows.getFormat();
      });
  return text;
}

// The ops that were fused into an outlined kernel, in order; views and changes of shape are no work.
static Json fusedOps(Operation *op) {
  Json ops = Json::array();
  auto call = dyn_cast<KernelCallOp>(op);
  auto callee = call ? SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, call.getCalleeAttr()) : func::FuncOp();
  if (callee)
    callee.walk([&](Operation *inner) {
      bool isView = isa<tensor::TensorDialect, func::FuncDialect>(inner->getDialect()) ||
                    inner->hasTrait<OpTrait::IsTerminator>() || inner->hasTrait<OpTrait::ConstantLike>() ||
                    isa<linalg::TransposeOp>(inner);
      if (!isView)
        ops.push_back(inner->getName().stripDialect().str());
    });
  return ops;
}

namespace {

// A function of the step: the step itself, or a layer that it calls several times.
struct StepFunction {
  func::FuncOp func;
  int64_t calls = 0;
  func::CallOp firstCall; // null for the step itself
};

} // namespace

// The weights that an op reads where the step first calls its function, by their names in the model.
static Json weightsOf(Operation *op, func::CallOp call) {
  Json names = Json::array();
  for (Value operand : op->getOperands()) {
    auto argument = dyn_cast<BlockArgument>(operand);
    for (const Json &name : weightNames(argument && call ? call.getOperand(argument.getArgNumber()) : operand))
      names.push_back(name);
  }
  return names;
}

static Json launchesOf(const StepFunction &function, const GeneratedCode &code) {
  Json launches = Json::array();
  for (const KernelLaunch &launch : code.launches) {
    if (launch.op->getParentOfType<func::FuncOp>() != function.func)
      continue;
    const KernelRecord &kernel = code.kernels[launch.kernel];
    Json entry = {{"kernel", kernel.name},
                  {"kind", kernel.kind},
                  {"emitter", kernel.emitter},
                  {"what", describe(launch.op)},
                  {"location", locationText(launch.op->getLoc())},
                  {"fused", fusedOps(launch.op)},
                  {"weights", weightsOf(launch.op, function.firstCall)},
                  {"flops_per_row", kernel.flopsPerRow},
                  {"fixed_bytes", kernel.fixedBytes},
                  {"bytes_per_row", kernel.bytesPerRow}};
    if (kernel.flopsPerPair)
      entry.update({{"flops_per_row_and_key", kernel.flopsPerPair}, {"bytes_per_key", kernel.bytesPerKey}});
    if (std::optional<LaunchChoice> choice = choiceOf(launch.op))
      entry["alternative"] = {{"splits", choice->splits},
                              {"max_rows", choice->preference.getMaxRows()},
                              {"split_kv", choice->preference.getSplitKv()},
                              {"items_per_thread", choice->preference.getItemsPerThread()},
                              {"num_kv_heads", choice->preference.getCache().getType().getNumKvHeads()}};
    launches.push_back(std::move(entry));
  }
  return launches;
}

// Where plan-memory put each buffer, bytes per row, and the launches between which it lives.
static Json buffersOf(func::FuncOp func) {
  DenseMap<Operation *, int64_t> index;
  int64_t launches = 0;
  func.walk<WalkOrder::PreOrder>([&](Operation *op) { // both sides of a branch count, one after the other
    index[op] = launches;
    launches += isa<KernelOpInterface, KvAppendOp, func::CallOp>(op);
  });
  Json buffers = Json::array();
  for (auto alloc : func.getOps<memref::AllocOp>()) {
    auto offset = alloc->getAttrOfType<IntegerAttr>(rowOffsetAttr);
    if (!offset)
      continue;
    int64_t first = launches, last = 0;
    SmallVector<Value> views = {alloc};
    while (!views.empty())
      for (Operation *user : views.pop_back_val().getUsers()) {
        first = std::min(first, index.lookup(user)), last = std::max(last, index.lookup(user));
        if (isa<memref::SubViewOp, memref::CastOp>(user))
          views.push_back(user->getResult(0));
      }
    std::string type;
    llvm::raw_string_ostream(type) << alloc.getType();
    int64_t bytes = alloc.getType().getElementType().getIntOrFloatBitWidth() / 8;
    for (int64_t size : alloc.getType().getShape().drop_front())
      bytes *= size;
    buffers.push_back(
        {{"type", type}, {"offset", offset.getInt()}, {"bytes", bytes}, {"first", first}, {"last", last}});
  }
  return buffers;
}

// The step and the encode, each with its layers in order of call.
static SmallVector<StepFunction> stepFunctions(ModuleOp module) {
  SmallVector<StepFunction> functions;
  for (func::FuncOp entry : raggedEntries(module)) {
    functions.push_back({entry, 1, {}});
    entry.walk([&](func::CallOp call) {
      auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
      auto known = llvm::find_if(functions, [&](const StepFunction &function) { return function.func == callee; });
      if (known == functions.end())
        functions.push_back({callee, 1, call});
      else
        ++known->calls;
    });
  }
  return functions;
}

static Json cacheOf(ModuleOp module) {
  SmallVector<KvCacheType> caches = kvCachesOf(module);
  if (caches.empty())
    return nullptr;
  KvCacheType cache = caches.front();
  int64_t layers = 0, stateBytes = 0;
  Json parts = Json::array();
  for (KvCacheType part : caches) {
    layers += part.getNumLayers();
    if (part.isState()) {
      stateBytes += part.getNumLayers() * part.getLayerBytes();
      parts.push_back({{"layers", part.getNumLayers()}, {"state", part.getHeadDim()}});
      continue;
    }
    cache = cache.isState() ? part : cache;
    parts.push_back(
        {{"layers", part.getNumLayers()}, {"num_kv_heads", part.getNumKvHeads()}, {"head_dim", part.getHeadDim()}});
  }
  Json json = {{"type", cache.getStorageName()},
               {"layers", layers},
               {"bytes_per_token", (caches.back().getEndBytes() - stateBytes) / pageTokens},
               {"latent", cache.isLatent()}};
  if (caches.size() > 1 || stateBytes)
    json["shapes"] = parts;
  if (stateBytes)
    json["state_bytes"] = stateBytes;
  if (cache.isLatent())
    json.update({{"kv_lora_rank", cache.getKeyDim()}, {"qk_rope_head_dim", cache.getValueDim()}});
  else if (!cache.isState())
    json.update({{"num_kv_heads", cache.getNumKvHeads()}, {"head_dim", cache.getHeadDim()}});
  return json;
}

// Bytes of the weights section by format.
static Json weightFormats(ModuleOp module) {
  std::map<std::string, int64_t> bytes;
  llvm::DenseSet<int64_t> seen;
  module.walk([&](WeightOp op) {
    PackingAttr packing = op.getPacking();
    auto type = cast<ShapedType>(op.getType());
    if (packing && seen.insert(packing.getOffset()).second)
      bytes[packing.getTableFormat().str()] += type.getNumElements() * type.getElementTypeBitWidth() / 8;
  });
  return bytes;
}

// Weights that were read in another form than their file's, or converted while they were packed, and what that changed in their numbers.
static Json convertedWeights(const Model &model, ArrayRef<PackedWeight> weights) {
  Json converted = Json::array();
  for (const RestoredWeight &weight : model.restored)
    converted.push_back({{"weight", weight.name},
                         {"from", model.quantMethod},
                         {"to", tensorTypeInfo(weight.type).name},
                         {"relative_rms_error", weight.relative()},
                         {"largest_error", weight.largest}});
  for (const PackedWeight &weight : weights)
    if (weight.loss.from)
      converted.push_back({{"weight", weight.name},
                           {"from", tensorTypeInfo(*weight.loss.from).name},
                           {"to", weight.format},
                           {"relative_rms_error", weight.loss.relative()},
                           {"largest_error", weight.loss.largest}});
  return converted;
}

// What a core of the target is taken to do where nothing was measured: two fused multiply-adds of a vector per cycle.
static Json assumedLimits(const CpuTarget &cpu) {
  return {{"flops_per_cycle", int64_t(cpu.vectorLanes()) * 4}, {"ghz", 3.0}, {"cores", 1}, {"read_bandwidth", 15e9}};
}

// Null where the file is for one target.
static Json describeVariants(ArrayRef<ReportedVariant> variants, uint64_t sharedWeights) {
  if (variants.empty())
    return nullptr;
  Json targets = Json::array();
  for (const ReportedVariant &variant : variants)
    targets.push_back({{"name", variant.target.name},
                       {"features", variant.target.cpu.features},
                       {"own_weight_bytes", variant.ownWeights}});
  return {{"shared_weight_bytes", sharedWeights}, {"targets", targets}};
}

std::string heddle::buildReport(ModuleOp module, const Model &model, const PackageInfo &info, const Target &target,
                                const GeneratedCode &code, ArrayRef<std::string> passes, ArrayRef<Remark> remarks,
                                ArrayRef<PackedWeight> weights, ArrayRef<ReportedVariant> variants,
                                uint64_t sharedWeights) {
  Json functions = Json::array(), kernels = Json::array(), said = Json::array(), sizes = Json::array();
  for (func::FuncOp graph : graphEntries(module)) {
    functions.push_back(describeGraph(graph));
    for (Json &size : namedSizes(functions.back()))
      if (!llvm::is_contained(sizes, size))
        sizes.push_back(std::move(size));
  }
  for (StepFunction &function : stepFunctions(module))
    functions.push_back({{"name", function.func.getSymName().str()},
                         {"calls", function.calls},
                         {"launches", launchesOf(function, code)},
                         {"buffers", buffersOf(function.func)}});
  for (const KernelRecord &kernel : code.kernels)
    kernels.push_back({{"name", kernel.name},
                       {"kind", kernel.kind},
                       {"emitter", kernel.emitter},
                       {"schedule", kernel.schedule},
                       {"calls", kernel.calls},
                       {"flops_per_row", kernel.flopsPerRow},
                       {"fixed_bytes", kernel.fixedBytes},
                       {"bytes_per_row", kernel.bytesPerRow}});
  for (const Remark &remark : remarks)
    said.push_back({{"location", remark.location}, {"text", remark.text}});
  auto moduleInt = [&](StringRef name) {
    return module->getAttrOfType<IntegerAttr>(name) ? module->getAttrOfType<IntegerAttr>(name).getInt() : 0;
  };
  Json report = {
      {"schema", schema::report},
      {"compiler", HEDDLE_VERSION},
      {"model", {{"name", info.sourceName}, {"architecture", info.architecture}, {"sha256", info.sourceSha256}}},
      {"target", {{"name", target.name}, {"features", target.cpu.features}, {"device", target.isDevice()}}},
      {"precision", info.precision},
      {"context", info.context},
      {"max_rows", info.maxRows},
      {"passes", passes.vec()},
      {"remarks", said},
      {"sizes", sizes},
      {"functions", functions},
      {"kernels", kernels},
      {"memory",
       {{"bytes_per_row", moduleInt(rowBytesAttr)},
        {"bytes_per_thread", moduleInt(threadBytesAttr)},
        {"bytes", moduleInt(rowBytesAttr) * info.maxRows + moduleInt(fixedBytesAttr)}}},
      {"cache", cacheOf(module)},
      {"weights",
       {{"bytes", moduleInt(weightsSizeAttr)},
        {"formats", weightFormats(module)},
        {"converted", convertedWeights(model, weights)}}},
      {"variants", describeVariants(variants, sharedWeights)},
      {"assumed", assumedLimits(target.cpu)},
      {"measured", nullptr}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}
