// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// heddle-gpu-kernel: one GPU kernel as PTX, LLVM IR or MLIR on stdout, for the lit tests.
//   heddle-gpu-kernel matmul n=256 k=100 rows=128 [splits=2] [type=q4_0] [bias] [add] [silu|gelu|gated-silu|gated-gelu]
//   heddle-gpu-kernel gemv n=256 k=100 rows=1 type=q4_0 [act=bf16] [prepares|norm] [bias] [add] [silu|…]
//     [heads=8 kv-heads=2 head-dim=128 [heads-norm]]: it ends with the rotation of heads, of which it has n columns
//   heddle-gpu-kernel preparation k=100 [act=bf16] [norm]
//   heddle-gpu-kernel attention heads=8 kv-heads=2 head-dim=128 [window=N] [softcap=N] [sinks] [unshared] [split-kv=N]
//     [splits|combine]: of splits of the keys, and their merge, instead of whole attention
//   heddle-gpu-kernel linear-attention heads=4 kv-heads=2 head-dim=128 value-dim=128 [decay|decays] [delta]: of heads, or of columns of keys
// and for all [target=cuda:sm_80] [emit=ptx|llvm|mlir]

#include "compiler/codegen/targets/cuda/EmitPtx.h"
#include "compiler/codegen/targets/cuda/Gemv.h"
#include "compiler/codegen/targets/cuda/OnlineAttention.h"
#include "compiler/codegen/targets/cuda/PackedMatmul.h"
#include "compiler/codegen/targets/cuda/PreparedRows.h"
#include "compiler/codegen/targets/cuda/RaggedLinearAttention.h"
#include "test/execute/GpuTiles.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

static int64_t number(const llvm::StringMap<std::string> &words, StringRef key, int64_t otherwise) {
  int64_t value = otherwise;
  if (words.count(key) && StringRef(words.lookup(key)).getAsInteger(10, value))
    llvm::report_fatal_error("no number: " + key);
  return value;
}

static GpuMatmulSpec matmulSpec(const llvm::StringMap<std::string> &words) {
  GpuMatmulSpec spec;
  spec.n = number(words, "n", 256);
  spec.k = number(words, "k", 256);
  spec.hasBias = words.count("bias");
  spec.accumulate = words.count("add");
  for (auto [name, epilogue] : {std::pair("silu", MatmulEpilogue::Silu), std::pair("gelu", MatmulEpilogue::GeluTanh)})
    for (bool isGated : {false, true})
      if (words.count((isGated ? "gated-" : "") + std::string(name))) {
        spec.epilogue = epilogue;
        spec.isGated = isGated;
      }
  return spec;
}

static LogicalResult readType(const llvm::StringMap<std::string> &words, StringRef otherwise, GpuMatmulSpec &spec,
                              std::string &error) {
  std::optional<PackedLayout> layout = layoutNamed(words.count("type") ? words.lookup("type") : otherwise.str());
  if (!layout) {
    error = "no type of weights: " + words.lookup("type");
    return failure();
  }
  spec.layout = *layout;
  return success();
}

static LogicalResult addMatmul(gpu::GPUModuleOp module, const llvm::StringMap<std::string> &words, std::string &error) {
  GpuMatmulSpec spec = matmulSpec(words);
  if (failed(readType(words, "bf16", spec, error)) || failed(verifyGpuMatmul(spec, error)))
    return failure();
  std::string target = words.count("target") ? words.lookup("target") : "cuda:sm_80";
  GpuMatmulTile tile = heddle::test::gpuMatmulTile(number(words, "rows", 512), target);
  tile.splits = number(words, "splits", 1);
  buildGpuMatmul(module, "matmul", spec, tile);
  return success();
}

static std::optional<RowPreparation> preparation(const llvm::StringMap<std::string> &words) {
  if (words.count("norm"))
    return RowPreparation{/*hasNorm=*/true, /*eps=*/1e-5, /*weightOffset=*/0};
  return words.count("prepares") ? std::optional(RowPreparation()) : std::nullopt;
}

static LogicalResult addRows(gpu::GPUModuleOp module, const llvm::StringMap<std::string> &words, std::string &) {
  buildGpuPreparation(module, "rows", preparation(words).value_or(RowPreparation()), words.lookup("act") == "bf16",
                      number(words, "k", 256));
  return success();
}

static LogicalResult addGemv(gpu::GPUModuleOp module, const llvm::StringMap<std::string> &words, std::string &error) {
  GpuMatmulSpec spec = matmulSpec(words);
  if (failed(readType(words, "q4_0", spec, error)))
    return failure();
  if (words.lookup("act") != "bf16")
    spec.activation = MatmulActivation::F32;
  spec.prepares = preparation(words);
  if (words.count("heads")) {
    RotateAppendSpec heads;
    heads.numHeads = number(words, "heads", 8);
    heads.numKvHeads = number(words, "kv-heads", 2);
    heads.headDim = heads.rotaryDim = number(words, "head-dim", 128);
    if (words.count("heads-norm"))
      heads.heads = {/*hasNorm=*/true, /*eps=*/1e-6, /*weightOffset=*/0};
    spec.n = heads.width();
    spec.heads = heads;
  }
  if (failed(verifyGpuGemv(spec, error)))
    return failure();
  buildGpuGemv(module, "gemv", spec, heddle::test::gpuGemvTile(spec, number(words, "rows", 1)));
  return success();
}

static LogicalResult addAttention(gpu::GPUModuleOp module, const llvm::StringMap<std::string> &words,
                                  std::string &error) {
  AttentionSpec spec;
  spec.numHeads = number(words, "heads", 8);
  spec.numKvHeads = number(words, "kv-heads", 2);
  spec.headDim = number(words, "head-dim", 128);
  spec.scale = 1 / std::sqrt(double(spec.headDim));
  spec.window = number(words, "window", 0);
  spec.softcap = number(words, "softcap", 0);
  spec.shareKvHeads = !words.count("unshared");
  spec.tileRows = number(words, "tile-rows", 64);
  spec.hasSinks = words.count("sinks");
  spec.splitKv = number(words, "split-kv", spec.splitKv);
  if (failed(verifyGpuAttention(spec, error)))
    return failure();
  if (words.count("warpgroups")) {
    std::optional<AttentionSpec> wide = test::warpgroupAttention(spec);
    if (!wide) {
      error = "no attention of warpgroups has head_dim " + std::to_string(spec.headDim);
      return failure();
    }
    buildWarpgroupAttention(module, "attention", *wide);
    return success();
  }
  auto build = words.count("splits")    ? buildGpuAttentionSplit
               : words.count("combine") ? buildGpuCombineSplits
                                        : buildGpuAttention;
  build(module, "attention", spec);
  return success();
}

static LogicalResult addLinearAttention(gpu::GPUModuleOp module, const llvm::StringMap<std::string> &words,
                                        std::string &) {
  LinearAttentionSpec spec;
  spec.numHeads = number(words, "heads", 4);
  spec.numKeyHeads = number(words, "kv-heads", 2);
  spec.keyDim = number(words, "head-dim", 128);
  spec.valueDim = number(words, "value-dim", 128);
  spec.decaysByKey = words.count("decays");
  spec.hasDecay = spec.decaysByKey || words.count("decay");
  spec.hasBeta = words.count("delta");
  buildGpuLinearAttention(module, "linear_attention", spec);
  return success();
}

int main(int argc, char **argv) {
  llvm::StringMap<std::string> words;
  for (int i = 1; i < argc; ++i) {
    auto [key, value] = StringRef(argv[i]).split('=');
    words[key] = value.str();
  }
  auto word = [&](StringRef key, StringRef otherwise) {
    return words.count(key) ? words.lookup(key) : otherwise.str();
  };
  std::string error;
  FailureOr<GpuTarget> target = parseGpuTarget(word("target", "cuda:sm_80"), error);
  DialectRegistry registry;
  registerGpuDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  OpBuilder b(&context);
  OwningOpRef<ModuleOp> outer = ModuleOp::create(b, b.getUnknownLoc());
  b.setInsertionPointToStart(outer->getBody());
  auto module = gpu::GPUModuleOp::create(b, b.getUnknownLoc(), "kernels");
  auto build = words.count("attention")          ? addAttention
               : words.count("gemv")             ? addGemv
               : words.count("preparation")      ? addRows
               : words.count("linear-attention") ? addLinearAttention
                                                 : addMatmul;
  if (failed(target) || failed(build(module, words, error))) {
    llvm::errs() << error << "\n";
    return 2;
  }
  if (failed(verify(*outer)))
    return 1;
  std::string emit = word("emit", "ptx");
  if (emit == "mlir") {
    llvm::outs() << *outer;
    return 0;
  }
  if (failed(lowerToNVVM(module)))
    return 1;
  FailureOr<std::string> text = emitPtx(module, *target, emit == "llvm" ? MachineCode::LLVMIR : MachineCode::Assembly);
  if (failed(text))
    return 1;
  llvm::outs() << *text;
  return 0;
}
