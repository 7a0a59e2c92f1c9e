// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the pipelines of devices are written with (targets/opencl/): products, embedding, the cache and attention, which MLIR emits
// for a CPU. Dimensions are given innermost first, as Halide counts them; rows are the tokens of the step.
#ifndef HEDDLE_COMPILER_CODEGEN_HALIDE_DEVICEPIPELINE_H
#define HEDDLE_COMPILER_CODEGEN_HALIDE_DEVICEPIPELINE_H

#include "compiler/codegen/halide/EmitPipeline.h"
#include "compiler/codegen/halide/WeightExpressions.h"
#include "compiler/codegen/kernel/KvType.h"
#include "runtime/model/ModelAbi.h"

namespace heddle {

inline constexpr int pageTokens = HEDDLE_KV_PAGE_SIZE;

// The type that a pipeline reads numbers of the cache, or codes, as.
inline Halide::Type kvType(KvType kv) {
  return kv == KvType::F32    ? Halide::Type(Halide::Float(32))
         : kv == KvType::Q8_0 ? Halide::Type(Halide::Int(8))
                              : Halide::Type(Halide::UInt(16));
}

// Such a number in f32; of a code, before its scale.
inline Halide::Expr cachedExpr(KvType kv, Halide::Expr value) {
  return kv == KvType::F32    ? value
         : kv == KvType::Q8_0 ? Halide::cast<float>(value)
         : kv == KvType::BF16 ? bfloatExpr(value)
                              : halfExpr(value);
}

// Names and arguments of one pipeline.
class PipelineBuilder {
public:
  explicit PipelineBuilder(llvm::StringRef symbol) : symbol(symbol.str()) {}

  Halide::Func func(const char *name) { return Halide::Func(symbol + "_" + name); }
  // Extents are known but for the last, 0, which is read from the buffer; so are strides, but for the first.
  Halide::ImageParam input(const char *name, Halide::Type type, std::initializer_list<int64_t> extents) {
    Halide::ImageParam param(type, int(extents.size()), symbol + "_" + name);
    int d = 0;
    for (int64_t extent : extents) {
      if (extent)
        param.dim(d).set_bounds(0, int(extent));
      else
        param.dim(d).set_min(0);
      ++d;
    }
    pipeline.arguments.push_back(Halide::Argument(param));
    return param;
  }
  // One plane of the cache's pages: (columns, 64, heads, pages) of numbers or of codes.
  Halide::ImageParam pages(const char *name, KvType kv, int64_t columns, int64_t heads) {
    return ofPages(name, kvType(kv), columns, heads, kvPlaneBytes(kv, columns));
  }
  // The scales of such codes: (columns / 32, 64, heads, pages) f16.
  Halide::ImageParam scales(const char *name, int64_t columns, int64_t heads) {
    return ofPages(name, Halide::UInt(16), columns / kvBlockColumns, heads, kvPlaneBytes(KvType::Q8_0, columns));
  }
  // `inWords`: they are read four bytes at once, through one view more.
  WeightExpressions weights(const PackedLayout &layout, int64_t n, int64_t k, bool inWords = false) {
    WeightExpressions packed(layout, n, k, symbol, inWords);
    for (const WeightExpressions::View &view : packed.views())
      pipeline.arguments.push_back(Halide::Argument(view.param));
    return packed;
  }
  // `elements` of a Func are one thread's (OwnRegisters.h).
  void keepInRegisters(const Halide::Func &func, int elements) {
    pipeline.registers.push_back({func.name(), elements});
  }
  ScheduledPipeline finish(const Halide::Func &result) {
    pipeline.results = {result};
    return pipeline;
  }

private:
  Halide::ImageParam ofPages(const char *name, Halide::Type type, int64_t columns, int64_t heads, int64_t planeBytes) {
    Halide::ImageParam param = input(name, type, {columns, pageTokens, heads, 0});
    param.dim(1).set_stride(int(columns));
    param.dim(2).set_stride(int(planeBytes / type.bytes()));
    return param;
  }

  std::string symbol;
  ScheduledPipeline pipeline;
};

// One plane of the cache's pages, whose numbers are read in f32. A device keeps the 64 rows of a head one after the other, and behind those of codes
// their scales, row by row.
class CachedPlane {
public:
  CachedPlane(PipelineBuilder &b, const std::string &name, KvType kv, int64_t columns, int64_t heads)
      : kv(kv), stored(b.pages(name.c_str(), kv, columns, heads)) {
    if (kv == KvType::Q8_0)
      scales = b.scales((name + "_scales").c_str(), columns, heads);
  }
  Halide::Expr numPages() const { return stored.dim(3).extent(); }
  Halide::Expr operator()(Halide::Expr column, Halide::Expr slot, Halide::Expr head, Halide::Expr page) const {
    Halide::Expr number = cachedExpr(kv, stored(column, slot, head, page));
    return scales.defined() ? number * halfExpr(scales(column / int(kvBlockColumns), slot, head, page)) : number;
  }

private:
  KvType kv;
  Halide::ImageParam stored, scales;
};

// Where each row of a step lies in the cache.
struct StepPlaces {
  explicit StepPlaces(PipelineBuilder &b)
      : sequence(b.input("row_sequence", Halide::Int(32), {0})), position(b.input("positions", Halide::Int(32), {0})),
        table(b.input("page_table", Halide::Int(32), {0, 0})) {}
  // The page that holds token `token` of a sequence, or of the row's. Indices are what they are bounded to: Halide cannot know.
  Halide::Expr pageOf(Halide::Expr sequence, Halide::Expr token) {
    return table(Halide::clamp(token / pageTokens, 0, table.dim(0).extent() - 1), sequence);
  }
  Halide::Expr page(Halide::Expr row, Halide::Expr token) {
    return pageOf(Halide::clamp(sequence(row), 0, table.dim(1).extent() - 1), token);
  }
  Halide::Expr numTokens() { return table.dim(0).extent() * pageTokens; }

  Halide::ImageParam sequence, position, table;
};

} // namespace heddle

#endif
