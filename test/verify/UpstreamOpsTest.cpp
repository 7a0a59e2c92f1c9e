// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Upstream ops: rounding, integers, shapes, payloads, control flow.

#include "test/verify/Evaluate.h"

using namespace heddle;

// A function of scalars that evaluates `body`, whose value is %r.
static std::string scalars(const std::string &arguments, const std::string &result, const std::string &body) {
  return "func.func @main(" + arguments + ") -> " + result + " {\n" + body + "\nreturn %r : " + result + "\n}";
}

//===- arith and math -----------------------------------------------------===//

TEST(Arith, ResultsAreRoundedToTheirType) {
  auto sum = [](const std::string &type) {
    return scalars("", type,
                   "%a = arith.constant 1.0 : " + type + "\n%b = arith.constant 0.00390625 : " + type +
                       "\n%r = arith.addf %a, %b : " + type);
  };
  // 1 + 2^-8: halfway between two bf16 numbers, exact in f16 and f32.
  EXPECT_EQ(Evaluation(sum("bf16")).reals({}), (Reals{1}));
  EXPECT_EQ(Evaluation(sum("f16")).reals({}), (Reals{1.00390625}));
  EXPECT_EQ(Evaluation(scalars("", "f32",
                               "%a = arith.constant 16777216.0 : f32\n%b = arith.constant 1.0 : f32\n"
                               "%r = arith.addf %a, %b : f32"))
                .reals({}),
            (Reals{16777216}));
  EXPECT_EQ(
      Evaluation(scalars("", "f16", "%a = arith.constant 70000.0 : f32\n%r = arith.truncf %a : f32 to f16")).reals({}),
      (Reals{INFINITY}));
}

TEST(Arith, IntegersWrapToTheirWidth) {
  auto run = [](const std::string &op, int64_t a, int64_t b, const std::string &type) {
    return Evaluation(scalars("", type,
                              "%a = arith.constant " + std::to_string(a) + " : " + type + "\n%b = arith.constant " +
                                  std::to_string(b) + " : " + type + "\n%r = arith." + op + " %a, %b : " + type))
        .integers({})[0];
  };
  EXPECT_EQ(run("addi", 127, 1, "i8"), -128);
  EXPECT_EQ(run("muli", 65536, 65536, "i32"), 0);
  EXPECT_EQ(run("divsi", -7, 2, "i32"), -3);
  EXPECT_EQ(run("remsi", -7, 2, "i32"), -1);
  EXPECT_EQ(run("floordivsi", -7, 2, "i32"), -4);
  EXPECT_EQ(run("ceildivsi", 7, 2, "index"), 4);
  EXPECT_EQ(run("divui", -1, 2, "i8"), 127);
  EXPECT_EQ(run("shrui", -1, 4, "i8"), 15);
  EXPECT_EQ(run("shrsi", -16, 2, "i8"), -4);
  EXPECT_EQ(run("shli", 1, 7, "i8"), -128);
  EXPECT_EQ(run("maxui", -1, 1, "i8"), -1);
  EXPECT_EQ(run("maxsi", -1, 1, "i8"), 1);
}

TEST(Arith, DivisionByZeroIsAnError) {
  Evaluation run(scalars("%a: index, %b: index", "index", "%r = arith.divsi %a, %b : index"));
  EXPECT_NE(run.error({run.index(1), run.index(0)}).find("divides 1 by 0"), std::string::npos);
}

TEST(Arith, ConversionsKeepSignAndWidth) {
  auto run = [](const std::string &body, const std::string &type) {
    return Evaluation(scalars("", type, body)).result({});
  };
  EXPECT_EQ(run("%a = arith.constant true\n%r = arith.extui %a : i1 to i32", "i32").integers[0], 1);
  EXPECT_EQ(run("%a = arith.constant true\n%r = arith.extsi %a : i1 to i32", "i32").integers[0], -1);
  EXPECT_EQ(run("%a = arith.constant -1 : i8\n%r = arith.extui %a : i8 to i32", "i32").integers[0], 255);
  EXPECT_EQ(run("%a = arith.constant 300 : i32\n%r = arith.trunci %a : i32 to i8", "i8").integers[0], 44);
  EXPECT_EQ(run("%a = arith.constant -3 : i8\n%r = arith.uitofp %a : i8 to f32", "f32").reals[0], 253);
  EXPECT_EQ(run("%a = arith.constant -2.75 : f32\n%r = arith.fptosi %a : f32 to i32", "i32").integers[0], -2);
  EXPECT_EQ(run("%a = arith.constant 1.0 : f32\n%r = arith.bitcast %a : f32 to i32", "i32").integers[0], 0x3f800000);
  EXPECT_EQ(run("%a = arith.constant 16256 : i16\n%r = arith.bitcast %a : i16 to bf16", "bf16").reals[0], 1);
  Evaluation tooLarge(scalars("", "i8", "%a = arith.constant 200.0 : f32\n%r = arith.fptosi %a : f32 to i8"));
  EXPECT_NE(tooLarge.error({}).find("which its result type cannot hold"), std::string::npos);
}

TEST(Arith, ComparisonsKnowNaN) {
  auto run = [](const std::string &op) {
    return Evaluation(scalars("%a: f32, %b: f32", "i1", "%r = arith.cmpf " + op + ", %a, %b : f32"));
  };
  for (auto [op, expected] :
       {std::pair("olt", 0), {"ult", 1}, {"one", 0}, {"une", 1}, {"ord", 0}, {"uno", 1}, {"oeq", 0}, {"ueq", 1}}) {
    Evaluation evaluation = run(op);
    EXPECT_EQ(evaluation.integers({evaluation.f32({}, {NAN}), evaluation.f32({}, {1})})[0], expected) << op;
  }
  Evaluation maximum(scalars("%a: f32, %b: f32", "f32", "%r = arith.maximumf %a, %b : f32"));
  Evaluation maxnum(scalars("%a: f32, %b: f32", "f32", "%r = arith.maxnumf %a, %b : f32"));
  EXPECT_TRUE(std::isnan(maximum.reals({maximum.f32({}, {NAN}), maximum.f32({}, {1})})[0]));
  EXPECT_EQ(maxnum.reals({maxnum.f32({}, {NAN}), maxnum.f32({}, {1})})[0], 1);
}

TEST(Arith, UnsignedComparisonsOfNegativeNumbers) {
  for (auto [op, expected] : {std::pair("slt", 1), {"ult", 0}, {"sge", 0}, {"uge", 1}, {"eq", 0}, {"ne", 1}}) {
    Evaluation run(scalars("", "i1",
                           std::string("%a = arith.constant -1 : i32\n%b = arith.constant 1 : i32\n%r = arith.cmpi ") +
                               op + ", %a, %b : i32"));
    EXPECT_EQ(run.integers({})[0], expected) << op;
  }
}

TEST(Arith, SelectTakesOneConditionForATensor) {
  Evaluation run(
      "func.func @main(%c: i1, %d: tensor<2xi1>, %a: tensor<2xf32>, %b: tensor<2xf32>) -> (tensor<2xf32>, "
      "tensor<2xf32>) {\n"
      "%0 = arith.select %c, %a, %b : tensor<2xf32>\n%1 = arith.select %d, %a, %b : tensor<2xi1>, tensor<2xf32>\n"
      "return %0, %1 : tensor<2xf32>, tensor<2xf32>\n}");
  auto c = run.i1({}, {1}), d = run.i1({2}, {0, 1}), a = run.f32({2}, {1, 2}), b = run.f32({2}, {3, 4});
  EXPECT_EQ(run.reals({c, d, a, b}, 0), (Reals{1, 2}));
  EXPECT_EQ(run.reals({c, d, a, b}, 1), (Reals{3, 2}));
}

TEST(Math, FunctionsMatchTheLibrary) {
  const std::pair<const char *, double> cases[] = {
      {"exp", std::exp(0.5)},
      {"exp2", std::sqrt(2.0)},
      {"log", -std::log(2.0)},
      {"log2", -1},
      {"sqrt", std::sqrt(0.5)},
      {"rsqrt", std::sqrt(2.0)},
      {"tanh", std::tanh(0.5)},
      {"erf", std::erf(0.5)},
      {"sin", std::sin(0.5)},
      {"cos", std::cos(0.5)},
      {"absf", 0.5},
      {"floor", 0},
      {"ceil", 1},
      {"roundeven", 0},
      {"round", 1},
  };
  for (auto [name, expected] : cases) {
    Evaluation run(scalars("%a: f32", "f32", std::string("%r = math.") + name + " %a : f32"));
    expectNear(run.reals({run.f32({}, {0.5})}), {expected}, 1e-7);
  }
  Evaluation power(scalars("%a: f32, %b: f32", "f32", "%r = math.powf %a, %b : f32"));
  EXPECT_EQ(power.reals({power.f32({}, {3}), power.f32({}, {4})}), (Reals{81}));
  Evaluation fma(scalars("%a: f32, %b: f32", "f32", "%r = math.fma %a, %a, %b : f32"));
  EXPECT_EQ(fma.reals({fma.f32({}, {1 + 0x1p-12}), fma.f32({}, {-1})}), (Reals{0x1p-11 + 0x1p-24}));
}

TEST(Affine, MapsWithSymbols) {
  Evaluation run(scalars("%a: index, %b: index", "index",
                         "%0 = affine.apply affine_map<(d)[s] -> (d * s + 1)>(%a)[%b]\n"
                         "%1 = affine.min affine_map<(d)[s] -> (d, s floordiv 2)>(%0)[%b]\n"
                         "%r = affine.max affine_map<(d) -> (d, 2)>(%1)"));
  EXPECT_EQ(run.integers({run.index(3), run.index(10)}), (Integers{5}));
}

//===- tensor -------------------------------------------------------------===//

static Reals count(int64_t n) {
  Reals values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(i);
  return values;
}

TEST(TensorOps, SlicesStrideAndDropDimensions) {
  Evaluation run(R"(
    func.func @main(%x: tensor<3x4xf32>, %i: index, %n: index) -> (tensor<?xf32>, tensor<3x4xf32>) {
      %0 = tensor.extract_slice %x[%i, 0] [1, %n] [1, 2] : tensor<3x4xf32> to tensor<?xf32>
      %1 = tensor.insert_slice %0 into %x[0, 1] [1, %n] [1, 2] : tensor<?xf32> into tensor<3x4xf32>
      return %0, %1 : tensor<?xf32>, tensor<3x4xf32>
    })");
  auto x = run.f32({3, 4}, count(12));
  EXPECT_EQ(run.reals({x, run.index(2), run.index(2)}, 0), (Reals{8, 10}));
  EXPECT_EQ(run.reals({x, run.index(2), run.index(2)}, 1), (Reals{0, 8, 2, 10, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_NE(run.error({x, run.index(3), run.index(2)}).find("takes 1 elements from 3 of dimension 0, which has 3"),
            std::string::npos);
  EXPECT_NE(run.error({x, run.index(0), run.index(3)}).find("takes 3 elements from 0 of dimension 1"),
            std::string::npos);
}

TEST(TensorOps, ReshapesKeepOrder) {
  Evaluation run(R"(
    func.func @main(%x: tensor<?x4xf32>, %n: index) -> (tensor<?x2x2xf32>, tensor<?xf32>) {
      %0 = tensor.expand_shape %x [[0], [1, 2]] output_shape [%n, 2, 2] : tensor<?x4xf32> into tensor<?x2x2xf32>
      %1 = tensor.collapse_shape %0 [[0, 1, 2]] : tensor<?x2x2xf32> into tensor<?xf32>
      return %0, %1 : tensor<?x2x2xf32>, tensor<?xf32>
    })");
  auto x = run.f32({2, 4}, count(8));
  EXPECT_EQ(run.result({x, run.index(2)}, 0).shape, (llvm::SmallVector<int64_t>{2, 2, 2}));
  EXPECT_EQ(run.reals({x, run.index(2)}, 1), count(8));
  EXPECT_NE(run.error({x, run.index(3)}).find("makes 12 elements of 8"), std::string::npos);
}

TEST(TensorOps, ConcatAndPadPlaceTheirSources) {
  Evaluation run(R"(
    func.func @main(%x: tensor<2x1xf32>, %y: tensor<2x2xf32>) -> (tensor<2x3xf32>, tensor<3x4xf32>) {
      %c = arith.constant 9.0 : f32
      %0 = tensor.concat dim(1) %x, %y : (tensor<2x1xf32>, tensor<2x2xf32>) -> tensor<2x3xf32>
      %1 = tensor.pad %0 low[1, 0] high[0, 1] {
      ^bb0(%i: index, %j: index):
        tensor.yield %c : f32
      } : tensor<2x3xf32> to tensor<3x4xf32>
      return %0, %1 : tensor<2x3xf32>, tensor<3x4xf32>
    })");
  auto x = run.f32({2, 1}, {1, 4}), y = run.f32({2, 2}, {2, 3, 5, 6});
  EXPECT_EQ(run.reals({x, y}, 0), (Reals{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(run.reals({x, y}, 1), (Reals{9, 9, 9, 9, 1, 2, 3, 9, 4, 5, 6, 9}));
}

TEST(TensorOps, ElementsAndSizes) {
  Evaluation run(R"(
    func.func @main(%x: tensor<?x2xf32>, %i: index) -> (tensor<2xf32>, index, tensor<3xf32>, tensor<2x2xindex>) {
      %zero = arith.constant 0 : index
      %e = tensor.extract %x[%i, %zero] : tensor<?x2xf32>
      %n = tensor.dim %x, %zero : tensor<?x2xf32>
      %0 = tensor.from_elements %e, %e : tensor<2xf32>
      %1 = tensor.splat %e : tensor<3xf32>
      %2 = tensor.insert %e into %1[%zero] : tensor<3xf32>
      %3 = tensor.generate {
      ^bb0(%a: index, %b: index):
        %s = arith.addi %a, %b : index
        tensor.yield %s : index
      } : tensor<2x2xindex>
      return %0, %n, %2, %3 : tensor<2xf32>, index, tensor<3xf32>, tensor<2x2xindex>
    })");
  auto x = run.f32({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(run.reals({x, run.index(1)}, 0), (Reals{3, 3}));
  EXPECT_EQ(run.integers({x, run.index(1)}, 1), (Integers{2}));
  EXPECT_EQ(run.reals({x, run.index(0)}, 2), (Reals{1, 1, 1}));
  EXPECT_EQ(run.integers({x, run.index(0)}, 3), (Integers{0, 1, 1, 2}));
  EXPECT_NE(run.error({x, run.index(2)}).find("index 2 is outside dimension 0, which has 2"), std::string::npos);
}

TEST(TensorOps, CastsAreChecked) {
  Evaluation run(
      "func.func @main(%x: tensor<?xf32>) -> tensor<3xf32> {\n%0 = tensor.cast %x : tensor<?xf32> to tensor<3xf32>\n"
      "return %0 : tensor<3xf32>\n}");
  EXPECT_EQ(run.reals({run.f32({3}, {1, 2, 3})}), (Reals{1, 2, 3}));
  EXPECT_NE(run.error({run.f32({2}, {1, 2})}).find("gives tensor<2xf32> as result 0, which is 'tensor<3xf32>'"),
            std::string::npos);
}

TEST(TensorOps, UnwrittenElementsShow) {
  Evaluation run(
      "func.func @main() -> tensor<2xf32> {\n%0 = tensor.empty() : tensor<2xf32>\nreturn %0 : tensor<2xf32>\n}");
  for (double value : run.reals({}))
    EXPECT_TRUE(std::isnan(value));
}

TEST(TensorOps, SizesAreBounded) {
  Evaluation run("func.func @main(%n: index) -> tensor<?x?xf32> {\n%0 = tensor.empty(%n, %n) : tensor<?x?xf32>\n"
                 "return %0 : tensor<?x?xf32>\n}");
  EXPECT_NE(run.error({run.index(-1)}).find("makes a tensor of size -1"), std::string::npos);
  EXPECT_NE(run.error({run.index(int64_t(1) << 40)}).find("too many elements"), std::string::npos);
}

//===- linalg -------------------------------------------------------------===//

TEST(Linalg, NamedOps) {
  Evaluation run(R"(
    func.func @main(%a: tensor<?x3xf32>, %b: tensor<3x2xf32>, %o: tensor<?x2xf32>, %r: tensor<2xf32>) -> (tensor<?x2xf32>, tensor<2x?xf32>, tensor<2xf32>, tensor<2x2x3xf32>) {
      %zero = arith.constant 0 : index
      %f0 = arith.constant 0.0 : f32
      %n = tensor.dim %a, %zero : tensor<?x3xf32>
      %fill = linalg.fill ins(%f0 : f32) outs(%o : tensor<?x2xf32>) -> tensor<?x2xf32>
      %0 = linalg.matmul ins(%a, %b : tensor<?x3xf32>, tensor<3x2xf32>) outs(%fill : tensor<?x2xf32>) -> tensor<?x2xf32>
      %e = tensor.empty(%n) : tensor<2x?xf32>
      %1 = linalg.transpose ins(%0 : tensor<?x2xf32>) outs(%e : tensor<2x?xf32>) permutation = [1, 0]
      %2 = linalg.reduce { arith.maximumf } ins(%0 : tensor<?x2xf32>) outs(%r : tensor<2xf32>) dimensions = [0]
      %big = tensor.empty() : tensor<2x2x3xf32>
      %bt = tensor.empty() : tensor<2x3xf32>
      %t = linalg.transpose ins(%b : tensor<3x2xf32>) outs(%bt : tensor<2x3xf32>) permutation = [1, 0]
      %3 = linalg.broadcast ins(%t : tensor<2x3xf32>) outs(%big : tensor<2x2x3xf32>) dimensions = [0]
      return %0, %1, %2, %3 : tensor<?x2xf32>, tensor<2x?xf32>, tensor<2xf32>, tensor<2x2x3xf32>
    })");
  auto arguments = {run.f32({2, 3}, {1, 2, 3, 4, 5, 6}), run.f32({3, 2}, {1, 0, 0, 1, 1, 1}),
                    run.f32({2, 2}, {NAN, NAN, NAN, NAN}), run.f32({2}, {7, 7})};
  EXPECT_EQ(run.reals(arguments, 0), (Reals{4, 5, 10, 11}));
  EXPECT_EQ(run.reals(arguments, 1), (Reals{4, 10, 5, 11}));
  EXPECT_EQ(run.reals(arguments, 2), (Reals{10, 11}));
  EXPECT_EQ(run.reals(arguments, 3), (Reals{1, 0, 1, 0, 1, 1, 1, 0, 1, 0, 1, 1}));
}

TEST(Linalg, ReductionsAccumulateInDouble) {
  Evaluation run(R"(
    func.func @main(%a: tensor<1x1x3xf32>, %b: tensor<1x3x1xf32>, %o: tensor<1x1x1xf32>) -> tensor<1x1x1xf32> {
      %0 = linalg.batch_matmul ins(%a, %b : tensor<1x1x3xf32>, tensor<1x3x1xf32>) outs(%o : tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      return %0 : tensor<1x1x1xf32>
    })");
  EXPECT_EQ(
      run.reals({run.f32({1, 1, 3}, {0x1p30, 1, -0x1p30}), run.f32({1, 3, 1}, {1, 1, 1}), run.f32({1, 1, 1}, {0})}),
      (Reals{1}));
}

TEST(Linalg, PayloadsReadIndicesAndOtherTensors) {
  Evaluation run(R"(
    #id = affine_map<(i, j) -> (i, j)>
    #row = affine_map<(i, j) -> (i)>
    func.func @main(%ids: tensor<?xi32>, %table: tensor<3x2xf32>, %o: tensor<?x2xf32>, %s: f32) -> tensor<?x2xf32> {
      %0 = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]}
        ins(%ids : tensor<?xi32>) outs(%o : tensor<?x2xf32>) {
      ^bb0(%id: i32, %out: f32):
        %row = arith.index_cast %id : i32 to index
        %column = linalg.index 1 : index
        %e = tensor.extract %table[%row, %column] : tensor<3x2xf32>
        %r = arith.mulf %e, %s : f32
        linalg.yield %r : f32
      } -> tensor<?x2xf32>
      return %0 : tensor<?x2xf32>
    })");
  auto table = run.f32({3, 2}, count(6)), out = run.f32({2, 2}, {0, 0, 0, 0}), s = run.f32({}, {10});
  EXPECT_EQ(run.reals({run.i32({2}, {2, 0}), table, out, s}), (Reals{40, 50, 0, 10}));
  EXPECT_NE(run.error({run.i32({2}, {3, 0}), table, out, s}).find("index 3 is outside dimension 0"), std::string::npos);
}

TEST(Linalg, MapsMayShiftAndDivide) {
  Evaluation run(R"(
    func.func @main(%x: tensor<4xf32>, %o: tensor<4x1xf32>) -> tensor<4x1xf32> {
      %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i floordiv 2 + j)>, affine_map<(i, j) -> (i, j)>],
                           iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4xf32>) outs(%o : tensor<4x1xf32>) {
      ^bb0(%a: f32, %out: f32):
        linalg.yield %a : f32
      } -> tensor<4x1xf32>
      return %0 : tensor<4x1xf32>
    })");
  EXPECT_EQ(run.reals({run.f32({4}, {1, 2, 3, 4}), run.f32({4, 1}, {0, 0, 0, 0})}), (Reals{1, 1, 2, 2}));
}

TEST(Linalg, ShapesThatDoNotFitAreAnError) {
  Evaluation run("func.func @main(%a: tensor<?xf32>, %o: tensor<?xf32>) -> tensor<?xf32> {\n"
                 "%0 = linalg.exp ins(%a : tensor<?xf32>) outs(%o : tensor<?xf32>) -> tensor<?xf32>\nreturn %0 : "
                 "tensor<?xf32>\n}");
  EXPECT_NE(run.error({run.f32({3}, {1, 2, 3}), run.f32({2}, {0, 0})}).find("their shapes do not fit together"),
            std::string::npos);
}

//===- control flow -------------------------------------------------------===//

TEST(ControlFlow, LoopsCarryAndBranchesYield) {
  Evaluation run(R"(
    func.func private @half(%i: index) -> index {
      %two = arith.constant 2 : index
      %0 = arith.divsi %i, %two : index
      return %0 : index
    }
    func.func @main(%n: index) -> (index, index) {
      %zero = arith.constant 0 : index
      %three = arith.constant 3 : index
      %0:2 = scf.for %i = %zero to %n step %three iter_args(%sum = %zero, %last = %n) -> (index, index) {
        %large = arith.cmpi sgt, %i, %three : index
        %1 = scf.if %large -> index {
          %h = func.call @half(%i) : (index) -> index
          scf.yield %h : index
        } else {
          scf.yield %i : index
        }
        %2 = arith.addi %sum, %1 : index
        scf.yield %2, %i : index, index
      }
      return %0#0, %0#1 : index, index
    })");
  // i = 0, 3, 6, 9: 0 + 3 + 3 + 4.
  EXPECT_EQ(run.integers({run.index(10)}, 0), (Integers{10}));
  EXPECT_EQ(run.integers({run.index(10)}, 1), (Integers{9}));
  EXPECT_EQ(run.integers({run.index(0)}, 1), (Integers{0}));
}

TEST(ControlFlow, AssertionsAreChecked) {
  Evaluation run("func.func @main(%c: i1) -> i1 {\ncf.assert %c, \"rows agree\"\nreturn %c : i1\n}");
  EXPECT_EQ(run.integers({run.i1({}, {1})}), (Integers{1}));
  EXPECT_NE(run.error({run.i1({}, {0})}).find("does not hold: rows agree"), std::string::npos);
}

TEST(ControlFlow, ArgumentsAreChecked) {
  Evaluation run("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\nreturn %x : tensor<2xf32>\n}");
  EXPECT_NE(run.error({}).find("takes 1 arguments, got 0"), std::string::npos);
  EXPECT_NE(run.error({run.f32({3}, {1, 2, 3})}).find("argument 0 of 'main' is 'tensor<2xf32>', got tensor<3xf32>"),
            std::string::npos);
}
