// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/package/SharedWeights.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;

namespace {

class SharedWeights : public testing::Test {
protected:
  SharedWeights() { context.loadDialect<HeddleDialect, func::FuncDialect>(); }

  // A weight of 16 rows of `k` numbers, from byte `from` of the model's file, at `offset` of its module's section.
  static std::string weight(const std::string &name, int k, int from, int offset, const std::string &format = "f32") {
    int bytes = 16 * k * (format == "f32" ? 4 : 2);
    return "heddle.weight \"" + name + "\" packed <layout = stacked, format = \"" + format + "\", shape = [16, " +
           std::to_string(k) + "], offset = " + std::to_string(offset) + ", sources = [<name = \"" + name +
           "\", rows = 16, storage = <type = \"" + format + "\", file = 0, offset = " + std::to_string(from) +
           ">>]> : tensor<" + std::to_string(bytes) + "xi8>\n";
  }

  ModuleOp module(const std::string &weights) {
    std::string text = "func.func @f() {\n" + weights + " return }";
    modules.push_back(parseSourceString<ModuleOp>(text, ParserConfig(&context)));
    EXPECT_TRUE(modules.back());
    return *modules.back();
  }

  // "a 0+1024, b 1024+2048": names, places and sizes.
  static std::string tableOf(ModuleOp module) {
    std::string text;
    for (const PackedWeight &weight : planWeights(module))
      text += (text.empty() ? "" : ", ") + weight.name + " " + std::to_string(weight.offset) + "+" +
              std::to_string(weight.size);
    return text;
  }

  MLIRContext context;
  std::vector<OwningOpRef<ModuleOp>> modules;
};

TEST_F(SharedWeights, OneModuleStaysAsItIs) {
  ModuleOp only = module(weight("a", 16, 0, 0) + weight("b", 32, 1024, 1024));
  shareWeights(only);
  EXPECT_EQ(tableOf(only), "a 0+1024, b 1024+2048");
  EXPECT_EQ(only->getAttrOfType<IntegerAttr>("heddle.weights_size").getInt(), 3072);
}

TEST_F(SharedWeights, EqualPackingsHaveOnePlaceAndOthersTheirOwn) {
  ModuleOp first = module(weight("a", 16, 0, 0) + weight("b", 32, 1024, 1024) + weight("c", 32, 8192, 3072));
  // b has another format here, d is new, and a and c lie in another order, c under another name.
  ModuleOp second = module(weight("renamed", 32, 8192, 0) + weight("b", 32, 1024, 2048, "f16") +
                           weight("a", 16, 0, 3072) + weight("d", 16, 4096, 4096));
  shareWeights({first, second});
  EXPECT_EQ(tableOf(first), "a 0+1024, b 1024+2048, c 3072+2048");
  EXPECT_EQ(tableOf(second), "a 0+1024, renamed 3072+2048, b 5120+1024, d 6144+1024");
  for (ModuleOp each : {first, second})
    EXPECT_EQ(each->getAttrOfType<IntegerAttr>("heddle.weights_size").getInt(), 7168);
  std::vector<PackedWeight> section = planWeights({first, second});
  EXPECT_EQ(section.size(), 5u);

  WeightShares shares = shareOf({weightsOf(first, section), weightsOf(second, section)});
  EXPECT_EQ(shares.shared, 3072u);
  EXPECT_EQ(shares.own, (std::vector<uint64_t>{2048, 2048}));
}

// Two of three variants read it: it is no one's own.
TEST_F(SharedWeights, WhatTwoReadIsShared) {
  ModuleOp first = module(weight("a", 16, 0, 0)), second = module(weight("a", 16, 0, 0, "f16")),
           third = module(weight("a", 16, 0, 0, "f16"));
  shareWeights({first, second, third});
  std::vector<PackedWeight> section = planWeights({first, second, third});
  WeightShares shares = shareOf({weightsOf(first, section), weightsOf(second, section), weightsOf(third, section)});
  EXPECT_EQ(shares.shared, 512u);
  EXPECT_EQ(shares.own, (std::vector<uint64_t>{1024, 0, 0}));
}

} // namespace
