// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights as a file stores them, plain, transposed and packed; inputs of a model.

#include "compiler/verify/ModelValues.h"
#include "test/verify/Evaluate.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace heddle;

// A checkpoint of one file: the f32 numbers 0, 1, 2, …
static std::shared_ptr<const Checkpoint> countingCheckpoint(int64_t count) {
  llvm::SmallString<128> path;
  int descriptor;
  EXPECT_FALSE(llvm::sys::fs::createTemporaryFile("heddle-weights", "bin", descriptor, path));
  llvm::raw_fd_ostream file(descriptor, /*shouldClose=*/true);
  for (int64_t i = 0; i < count; ++i) {
    float value = i;
    file.write(reinterpret_cast<const char *>(&value), sizeof(value));
  }
  file.close();
  auto checkpoint = std::make_shared<Checkpoint>();
  Expected<std::shared_ptr<MappedFile>> mapped = openShared(path.str().str());
  EXPECT_TRUE(bool(mapped));
  checkpoint->files.push_back(*mapped);
  llvm::sys::fs::remove(path);
  return checkpoint;
}

static InterpreterOptions reading(int64_t count) {
  InterpreterOptions options;
  options.weight = weightsOf(countingCheckpoint(count));
  return options;
}

static std::string storedWeight(const std::string &storage, const std::string &type) {
  return "func.func @main() -> " + type + " {\n  %0 = heddle.weight \"w\" <type = " + storage + "> : " + type +
         "\n  return %0 : " + type + "\n}";
}

TEST(ModelValues, WeightsAreReadFromTheirPlace) {
  Evaluation plain(storedWeight("\"f32\", file = 0, offset = 8", "tensor<2x3xf32>"), reading(8));
  EXPECT_EQ(plain.reals({}), (Reals{2, 3, 4, 5, 6, 7}));
  Evaluation transposed(storedWeight("\"f32\", file = 0, offset = 8, transposed = true", "tensor<2x3xf32>"),
                        reading(8));
  EXPECT_EQ(transposed.reals({}), (Reals{2, 4, 6, 3, 5, 7}));
}

TEST(ModelValues, PlacesOutsideTheFileAreRefused) {
  Evaluation beyond(storedWeight("\"f32\", file = 0, offset = 12", "tensor<2x3xf32>"), reading(8));
  EXPECT_NE(beyond.error({}).find("lies at 12 with 24 bytes, in a file of 32"), std::string::npos);
  Evaluation absent(storedWeight("\"f32\", file = 1, offset = 0", "tensor<2x3xf32>"), reading(8));
  EXPECT_NE(absent.error({}).find("lies in file 1 of 1"), std::string::npos);
  Evaluation unknown(storedWeight("\"f33\", file = 0, offset = 0", "tensor<2x3xf32>"), reading(8));
  EXPECT_NE(unknown.error({}).find("stored as 'f33'"), std::string::npos);
}

// Two matrices, (2, 2) at 0 and (1, 2) at 24, stacked.
static const char *packedProduct = R"(
  func.func @main(%x: tensor<1x2xf32>, %o: tensor<1x3xf32>) -> tensor<1x3xf32> {
    %w = heddle.weight "a+b" packed <layout = stacked, format = "f32", shape = [3, 2], offset = 0, sources = [
      <name = "a", rows = 2, storage = <type = "f32", file = 0, offset = 0>>,
      <name = "b", rows = 1, storage = <type = "f32", file = 0, offset = 24>>]> : tensor<128xi8>
    %0 = heddle.packed_matmul ins(%x, %w : tensor<1x2xf32>, tensor<128xi8>) outs(%o : tensor<1x3xf32>)
      {n = 3 : i64, k = 2 : i64, format = "f32"} -> tensor<1x3xf32>
    return %0 : tensor<1x3xf32>
  })";

TEST(ModelValues, PackedWeightsStackTheirSources) {
  Evaluation run(packedProduct, reading(8));
  // W = [[0, 1], [2, 3], [6, 7]].
  EXPECT_EQ(run.reals({run.f32({1, 2}, {1, 10}), run.f32({1, 3}, {0, 0, 0})}), (Reals{10, 32, 76}));
}

// A gate and an up projection (1, 2) of each of two experts: [0, 1] and [2, 3], [4, 5] and [6, 7].
TEST(ModelValues, ExpertsArePackedForThemselves) {
  Evaluation run(R"(
    func.func @main(%x: tensor<1x2xf32>, %f: tensor<1x3xi32>, %i: tensor<1x2xi32>, %s: tensor<1x2xf32>, %o: tensor<1x2xf32>) -> tensor<1x2xf32> {
      %w = heddle.weight "experts" packed <layout = interleaved, format = "f32", shape = [4, 2], offset = 0, sources = [
        <name = "g0", rows = 1, storage = <type = "f32", file = 0, offset = 0>>,
        <name = "u0", rows = 1, storage = <type = "f32", file = 0, offset = 8>>,
        <name = "g1", rows = 1, storage = <type = "f32", file = 0, offset = 16>>,
        <name = "u1", rows = 1, storage = <type = "f32", file = 0, offset = 24>>], group = 2> : tensor<512xi8>
      %0 = heddle.expert_matmul activated <relu> ins(%x, %w : tensor<1x2xf32>, tensor<512xi8>)
        list(%f, %i, %s : tensor<1x3xi32>, tensor<1x2xi32>, tensor<1x2xf32>) outs(%o : tensor<1x2xf32>)
        {num_experts = 2 : i64, top_k = 2 : i64, n = 1 : i64, k = 2 : i64, format = "f32"} -> tensor<1x2xf32>
      return %0 : tensor<1x2xf32>
    })",
                 reading(8));
  EXPECT_EQ(run.reals({run.f32({1, 2}, {1, 10}), run.i32({1, 3}, {0, 1, 2}), run.i32({1, 2}, {0, 0}),
                       run.f32({1, 2}, {1, 1}), run.f32({1, 2}, {0, 0})}),
            (Reals{10 * 32, 54 * 76}));
}

// What a kernel asks for before the weights have their places: the same numbers.
TEST(ModelValues, WeightsAboutToBePackedStackTheirSources) {
  Evaluation run(R"(
    func.func @main(%x: tensor<1x2xf32>, %o: tensor<1x3xf32>) -> (tensor<1x3xf32>, tensor<3xf32>) {
      %a = heddle.weight "a" <type = "f32", file = 0, offset = 0> : tensor<2x2xf32>
      %b = heddle.weight "b" <type = "f32", file = 0, offset = 24> : tensor<1x2xf32>
      %w = heddle.pack <stacked> "f32" (%a, %b : tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<128xi8>
      %0 = heddle.packed_matmul ins(%x, %w : tensor<1x2xf32>, tensor<128xi8>) outs(%o : tensor<1x3xf32>)
        {n = 3 : i64, k = 2 : i64, format = "f32"} -> tensor<1x3xf32>
      %c = heddle.weight "c" <type = "f32", file = 0, offset = 4> : tensor<2xf32>
      %d = heddle.weight "d" <type = "f32", file = 0, offset = 20> : tensor<1xf32>
      %1 = heddle.pack <vector> "f32" (%c, %d : tensor<2xf32>, tensor<1xf32>) -> tensor<3xf32>
      return %0, %1 : tensor<1x3xf32>, tensor<3xf32>
    })",
                 reading(8));
  auto x = run.f32({1, 2}, {1, 10}), o = run.f32({1, 3}, {0, 0, 0});
  EXPECT_EQ(run.reals({x, o}), (Reals{10, 32, 76}));
  EXPECT_EQ(run.reals({x, o}, 1), (Reals{1, 2, 5}));
}

// The matrix in the file is [[0, 1, 2], [3, 4, 5]]; its transpose is multiplied.
TEST(ModelValues, TransposesArePacked) {
  auto product = [](const std::string &weight) {
    return "func.func @main(%x: tensor<1x2xf32>, %o: tensor<1x3xf32>) -> tensor<1x3xf32> {\n" + weight +
           R"(%0 = heddle.packed_matmul ins(%x, %w : tensor<1x2xf32>, tensor<128xi8>) outs(%o : tensor<1x3xf32>)
             {n = 3 : i64, k = 2 : i64, format = "f32"} -> tensor<1x3xf32>
           return %0 : tensor<1x3xf32>
         })";
  };
  Evaluation asked(product(R"(%a = heddle.weight "a" <type = "f32", file = 0, offset = 0> : tensor<2x3xf32>
    %w = heddle.pack <stacked> "f32" (%a : tensor<2x3xf32>) {transposed} -> tensor<128xi8>
    )"),
                   reading(8));
  Evaluation packed(
      product(R"(%w = heddle.weight "a" packed <layout = stacked, format = "f32", shape = [3, 2], offset = 0,
      sources = [<name = "a", rows = 3, storage = <type = "f32", file = 0, offset = 0>>], transposed = true> : tensor<128xi8>
    )"),
      reading(8));
  for (Evaluation *run : {&asked, &packed})
    EXPECT_EQ(run->reals({run->f32({1, 2}, {1, 10}), run->f32({1, 3}, {0, 0, 0})}), (Reals{30, 41, 52}));
}

TEST(ModelValues, RandomWeightsAreTheSamePacked) {
  InterpreterOptions options;
  options.weight = randomWeights(3);
  Evaluation packed(packedProduct, options);
  Evaluation plain(R"(
    func.func @main(%x: tensor<1x2xf32>) -> tensor<1x3xf32> {
      %a = heddle.weight "a" <type = "f32", file = 0, offset = 0> : tensor<2x2xf32>
      %b = heddle.weight "b" <type = "f32", file = 0, offset = 24> : tensor<1x2xf32>
      %0 = heddle.linear %x, weights(%a, %b : tensor<2x2xf32>, tensor<1x2xf32>) : tensor<1x2xf32> -> tensor<1x3xf32>
      return %0 : tensor<1x3xf32>
    })",
                   options);
  EXPECT_EQ(packed.reals({packed.f32({1, 2}, {1, 10}), packed.f32({1, 3}, {0, 0, 0})}),
            plain.reals({plain.f32({1, 2}, {1, 10})}));
}

TEST(ModelValues, TablesHoldEveryPosition) {
  Evaluation run(R"(
    #rope = #heddle.rope<half, table = 1, attention_factor = 2.0, inverse_frequency = array<f32: 1.0>>
    func.func @main(%x: tensor<1x1x2x2xf32>, %p: tensor<1x2xi32>) -> (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) {
      %t = heddle.rope_table 1 : tensor<?x2xf32>
      %0 = heddle.rope %x, %p, #rope : tensor<1x1x2x2xf32>, tensor<1x2xi32>
      %1 = heddle.rope %x, %p table(%t : tensor<?x2xf32>) #rope : tensor<1x1x2x2xf32>, tensor<1x2xi32>
      return %0, %1 : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>
    })");
  auto x = run.f32({1, 1, 2, 2}, {1, 2, 3, 4}), p = run.i32({1, 2}, {5, 2047});
  expectNear(run.reals({x, p}, 1), run.reals({x, p}, 0), 1e-6);
  EXPECT_NE(run.error({x, run.i32({1, 2}, {5, 2048})}).find("position 2048 is outside the table's 2048 rows"),
            std::string::npos);
}
