// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Written from Intel's description of the instructions (Software Developer's Manual, volume 2) and Arm's (Architecture Reference Manual).
// Subnormals are kept, where the processor takes them for zero, and every sum is rounded to nearest, where bfdot rounds to odd.

#include "test/execute/EmulatedInstructions.h"

#include "compiler/codegen/targets/cpu/KernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

using namespace heddle;
using namespace mlir;

namespace {

// What a thread's tile registers hold, in memory: the 64 bytes of ldtilecfg, then eight tiles of 16 rows of 64 bytes.
constexpr int64_t tilesOffset = 64, rowBytes = 64, maxRows = 16, tileBytes = maxRows * rowBytes, numTiles = 8;
constexpr int64_t stateBytes = tilesOffset + numTiles * tileBytes;

// A function of the state and further arguments that does what one instruction does.
class TileInstruction {
public:
  TileInstruction(ModuleOp module, StringRef name, StringRef signature)
      : b(module, ("emulated_" + name).str(), types(module.getContext(), signature)), state(b.argument(0)) {
    b.function.setPrivate();
  }
  // A pointer to the state, then by letter: `p` a pointer, `i` an i64.
  static SmallVector<Type> types(MLIRContext *context, StringRef signature) {
    SmallVector<Type> types = {LLVM::LLVMPointerType::get(context)};
    for (char kind : signature)
      types.push_back(kind == 'p' ? types.front() : IntegerType::get(context, 64));
    return types;
  }
  KernelBuilder b;
  Value state;

  Value argument(unsigned index) { return b.argument(index + 1); }
  Value tile(Value index) { return b.at(b.at(state, tilesOffset), b.mul(index, tileBytes)); }
  Value rows(Value index) { return widen(b.load(b.i8, b.at(b.at(state, 48), index))); }
  Value bytes(Value index) { return widen(b.load(b.i16, b.at(b.at(state, 16), b.mul(index, 2)))); }
  Value widen(Value integer) { return arith::ExtUIOp::create(b, b.i64, integer); }
  void require(Value condition) {
    b.branch(condition, [] {}, [&] { LLVM::Trap::create(b); });
  }
  void requireEqual(Value x, Value y) { require(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, y)); }
  void requireWithin(Value x, int64_t most) {
    require(b.lessThan(b.index(0), x));
    require(b.lessThan(x, b.index(most + 1)));
  }
  void requireShape(Value index) {
    requireEqual(widen(b.load(b.i8, state)), b.index(1)); // the palette
    requireWithin(rows(index), maxRows);
    requireWithin(bytes(index), rowBytes);
  }
  // Of sum (M, N) += x (M, K) y (K, N), with K in groups of four bytes.
  void requireProduct(Value sum, Value x, Value y) {
    for (Value tile : {sum, x, y})
      requireShape(tile);
    requireEqual(rows(sum), rows(x));
    requireEqual(bytes(sum), bytes(y));
    requireEqual(b.mul(rows(y), 4), bytes(x));
  }
  void clear(Value index) {
    b.loop(b.index(0), b.index(maxRows), 1,
           [&](Value row) { b.store(b.splatInt(0), b.at(tile(index), b.mul(row, rowBytes))); });
  }
  // Bytes that exist, row by row: body(offset in the tile, offset in memory).
  void forBytes(Value index, Value stride, function_ref<void(Value, Value)> body) {
    b.loop(b.index(0), rows(index), 1, [&](Value row) {
      b.loop(b.index(0), bytes(index), 1,
             [&](Value byte) { body(b.add(b.mul(row, rowBytes), byte), b.add(b.mul(row, stride), byte)); });
    });
  }
};

void buildLdtilecfg(ModuleOp module) {
  TileInstruction at(module, "ldtilecfg", "p");
  KernelBuilder &b = at.b;
  b.loop(b.index(0), b.index(tilesOffset), 1,
         [&](Value i) { b.store(b.load(b.i8, b.at(at.argument(0), i)), b.at(at.state, i)); });
  b.loop(b.index(0), b.index(numTiles), 1, [&](Value index) {
    at.requireShape(index);
    at.clear(index);
  });
  b.finish();
}

void buildTilerelease(ModuleOp module) {
  TileInstruction at(module, "tilerelease", "");
  at.b.store(at.b.splatInt(0), at.state);
  at.b.finish();
}

void buildTilezero(ModuleOp module) {
  TileInstruction at(module, "tilezero", "i");
  at.requireShape(at.argument(0));
  at.clear(at.argument(0));
  at.b.finish();
}

void buildTileloadNamed(ModuleOp module, StringRef name) {
  TileInstruction at(module, name, "ipi");
  KernelBuilder &b = at.b;
  Value index = at.argument(0), memory = at.argument(1);
  at.requireShape(index);
  at.clear(index);
  at.forBytes(index, at.argument(2), [&](Value inTile, Value offset) {
    b.store(b.load(b.i8, b.at(memory, offset)), b.at(at.tile(index), inTile));
  });
  b.finish();
}

void buildTileload(ModuleOp module) {
  buildTileloadNamed(module, "tileloadd64");
  buildTileloadNamed(module, "tileloaddt164"); // a hint for caches, no more
}

void buildTilestore(ModuleOp module) {
  TileInstruction at(module, "tilestored64", "ipi");
  KernelBuilder &b = at.b;
  Value index = at.argument(0), memory = at.argument(1);
  at.requireShape(index);
  at.forBytes(index, at.argument(2), [&](Value inTile, Value offset) {
    b.store(b.load(b.i8, b.at(at.tile(index), inTile)), b.at(memory, offset));
  });
  b.finish();
}

Value splat(ImplicitLocOpBuilder &b, uint32_t value, int64_t lanes = 16) {
  auto type = VectorType::get(lanes, b.getI32Type());
  return arith::ConstantOp::create(b, DenseElementsAttr::get(type, APInt(32, value)));
}

// The low and the high of two bf16 in each lane.
std::pair<Value, Value> halves(ImplicitLocOpBuilder &b, Value pairs) {
  int64_t lanes = cast<VectorType>(pairs.getType()).getDimSize(0);
  auto reals = VectorType::get(lanes, b.getF32Type());
  Value low = arith::ShLIOp::create(b, pairs, splat(b, 16, lanes)),
        high = arith::AndIOp::create(b, pairs, splat(b, 0xffff0000, lanes));
  return {LLVM::BitcastOp::create(b, reals, low), LLVM::BitcastOp::create(b, reals, high)};
}

// sum[m][n] += (sum over k of x[m][2k] y[k][2n]) + (sum over k of x[m][2k + 1] y[k][2n + 1])
void buildTdpbf16ps(ModuleOp module) {
  TileInstruction at(module, "tdpbf16ps", "iii");
  KernelBuilder &b = at.b;
  Value sum = at.argument(0), x = at.argument(1), y = at.argument(2);
  at.requireProduct(sum, x, y);
  b.loop(b.index(0), at.rows(sum), 1, [&](Value m) {
    Value row = b.at(at.tile(sum), b.mul(m, rowBytes)), left = b.at(at.tile(x), b.mul(m, rowBytes));
    SmallVector<Value> zeros(2, b.splatReal(0));
    SmallVector<Value> sums = b.loop(b.index(0), at.rows(y), 1, zeros, [&](Value k, ArrayRef<Value> carried) {
      auto [xLow, xHigh] = halves(b, b.splat(b.load(b.i32, b.at(left, b.mul(k, 4)))));
      auto [yLow, yHigh] = halves(b, b.load(b.v16i32, b.at(at.tile(y), b.mul(k, rowBytes))));
      return SmallVector<Value>{b.fma(xLow, yLow, carried[0]), b.fma(xHigh, yHigh, carried[1])};
    });
    b.store(b.add(b.load(b.v16f32, row), b.add(sums[0], sums[1])), row);
  });
  b.finish();
}

// sum[m][n] += sum over k and j < 4 of x[m][4k + j] y[k][4n + j], signed bytes by unsigned ones
void buildTdpbsud(ModuleOp module) {
  TileInstruction at(module, "tdpbsud", "iii");
  KernelBuilder &b = at.b;
  Value sum = at.argument(0), x = at.argument(1), y = at.argument(2);
  at.requireProduct(sum, x, y);
  b.loop(b.index(0), at.rows(sum), 1, [&](Value m) {
    Value row = b.at(at.tile(sum), b.mul(m, rowBytes)), left = b.at(at.tile(x), b.mul(m, rowBytes));
    SmallVector<Value> sums =
        b.loop(b.index(0), at.rows(y), 1, b.load(b.v16i32, row), [&](Value k, ArrayRef<Value> carried) {
          Value four = b.splat(b.load(b.i32, b.at(left, b.mul(k, 4))));
          Value codes = b.load(b.v16i32, b.at(at.tile(y), b.mul(k, rowBytes))), next = carried[0];
          for (int64_t j = 0; j < 4; ++j) {
            Value byte =
                arith::ShRSIOp::create(b, arith::ShLIOp::create(b, four, b.splatInt(24 - 8 * j)), b.splatInt(24));
            next = b.add(next, b.mul(byte, b.maskBits(b.shiftRight(codes, 8 * j), 0xff)));
          }
          return SmallVector<Value>{next};
        });
    b.store(sums[0], row);
  });
  b.finish();
}

// vdpbf16ps: the high halves first.
Value emulateDot(ImplicitLocOpBuilder &b, ValueRange operands) {
  auto pairs = cast<VectorType>(operands[0].getType()).clone(b.getI32Type());
  auto [xLow, xHigh] = halves(b, LLVM::BitcastOp::create(b, pairs, operands[1]));
  auto [yLow, yHigh] = halves(b, LLVM::BitcastOp::create(b, pairs, operands[2]));
  return math::FmaOp::create(b, xLow, yLow, math::FmaOp::create(b, xHigh, yHigh, operands[0]));
}

// bfmmla: 2 x 2 sums += (2 rows of x, two pairs each) (2 rows of y), one pair after the other.
Value emulateMatrices(ImplicitLocOpBuilder &b, OperandRange operands) {
  auto pairs = VectorType::get(4, b.getI32Type());
  Value x = LLVM::BitcastOp::create(b, pairs, operands[1]), y = LLVM::BitcastOp::create(b, pairs, operands[2]);
  Value sum = operands[0];
  for (int64_t k : {0, 1}) {
    Value rows = vector::ShuffleOp::create(b, x, x, ArrayRef<int64_t>{k, k, 2 + k, 2 + k});
    Value columns = vector::ShuffleOp::create(b, y, y, ArrayRef<int64_t>{k, 2 + k, k, 2 + k});
    sum = emulateDot(b, {sum, rows, columns});
  }
  return sum;
}

// To nearest even, as i16. Numbers only.
Value roundToBf16(ImplicitLocOpBuilder &b, Value reals) {
  int64_t lanes = cast<VectorType>(reals.getType()).getDimSize(0);
  Value bits = LLVM::BitcastOp::create(b, VectorType::get(lanes, b.getI32Type()), reals);
  Value odd = arith::AndIOp::create(b, arith::ShRUIOp::create(b, bits, splat(b, 16, lanes)), splat(b, 1, lanes));
  Value sum = arith::AddIOp::create(b, bits, arith::AddIOp::create(b, odd, splat(b, 0x7fff, lanes)));
  Value high = arith::ShRUIOp::create(b, sum, splat(b, 16, lanes));
  return arith::TruncIOp::create(b, VectorType::get(lanes, b.getI16Type()), high);
}

// vcvtne2ps2bf16: the second operand's values, then the first's.
Value emulateConversion(ImplicitLocOpBuilder &b, OperandRange operands) {
  SmallVector<int64_t> order(32);
  std::iota(order.begin(), order.end(), 0);
  Value joined = vector::ShuffleOp::create(b, roundToBf16(b, operands[1]), roundToBf16(b, operands[0]), order);
  return LLVM::BitcastOp::create(b, VectorType::get(32, b.getBF16Type()), joined);
}

// Part `index` of `bits` bits of each i32, as a signed or an unsigned number.
Value partOf(ImplicitLocOpBuilder &b, Value words, int64_t index, int64_t bits, bool isSigned) {
  int64_t lanes = cast<VectorType>(words.getType()).getDimSize(0);
  Value top = arith::ShLIOp::create(b, words, splat(b, 32 - bits * (index + 1), lanes));
  if (isSigned)
    return arith::ShRSIOp::create(b, top, splat(b, 32 - bits, lanes));
  return arith::ShRUIOp::create(b, top, splat(b, 32 - bits, lanes));
}

// sum + the products of the parts of x and y that lie in one i32: vpdpbusd and usdot (bytes, x unsigned), sdot, vpmaddwd (16 bits, no sum).
Value emulateParts(ImplicitLocOpBuilder &b, Value sum, Value x, Value y, int64_t bits, bool isSigned) {
  auto type = cast<VectorType>(x.getType());
  int64_t lanes = type.getDimSize(0) * type.getElementTypeBitWidth() / 32;
  auto words = VectorType::get(lanes, b.getI32Type());
  x = LLVM::BitcastOp::create(b, words, x);
  y = LLVM::BitcastOp::create(b, words, y);
  for (int64_t index = 0; index < 32 / bits; ++index) {
    Value product = arith::MulIOp::create(b, partOf(b, x, index, bits, isSigned), partOf(b, y, index, bits, true));
    sum = sum ? arith::AddIOp::create(b, sum, product).getResult() : product;
  }
  return sum;
}

// The entry of its group of 16 that the low four bits of each index name: vpermps of 16 numbers, vpshufb of 64 bytes.
Value emulateLookUp(ImplicitLocOpBuilder &b, Value table, Value indices) {
  auto type = cast<VectorType>(indices.getType());
  int64_t lanes = type.getDimSize(0);
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, DenseElementsAttr::get(type, APInt(type.getElementTypeBitWidth(), value)));
  };
  Value low = arith::AndIOp::create(b, indices, number(15)), found;
  for (int64_t entry = 0; entry < 16; ++entry) {
    SmallVector<int64_t> order(lanes);
    for (int64_t lane = 0; lane < lanes; ++lane)
      order[lane] = lane / 16 * 16 + entry;
    Value entries = vector::ShuffleOp::create(b, table, table, order);
    Value isMeant = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, low, number(entry));
    found = found ? arith::SelectOp::create(b, isMeant, entries, found).getResult() : entries;
  }
  return found;
}

// Bytes whose index is negative are 0.
Value emulateByteLookUp(ImplicitLocOpBuilder &b, Value table, Value indices) {
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(indices.getType()));
  Value isNegative = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, indices, zero);
  return arith::SelectOp::create(b, isNegative, zero, emulateLookUp(b, table, indices));
}

void emulateTile(ImplicitLocOpBuilder &b, func::FuncOp instruction, Value state, OperandRange operands) {
  SmallVector<Value> arguments = {state};
  for (Value operand : operands)
    arguments.push_back(operand.getType().isInteger(8) ? arith::ExtUIOp::create(b, b.getI64Type(), operand) : operand);
  func::CallOp::create(b, instruction, arguments);
}

} // namespace

void heddle::test::emulateInstructions(ModuleOp module) {
  SmallVector<arith::TruncFOp> conversions; // bfcvtn
  module.walk([&](arith::TruncFOp op) { conversions.push_back(op); });
  for (arith::TruncFOp op : conversions) {
    if (!getElementTypeOrSelf(op.getType()).isBF16())
      continue;
    ImplicitLocOpBuilder b(op.getLoc(), op);
    op.replaceAllUsesWith(LLVM::BitcastOp::create(b, op.getType(), roundToBf16(b, op.getIn())).getResult());
    op.erase();
  }
  SmallVector<LLVM::CallIntrinsicOp> calls;
  module.walk([&](LLVM::CallIntrinsicOp call) { calls.push_back(call); });
  for (auto build :
       {buildLdtilecfg, buildTilerelease, buildTileload, buildTilestore, buildTilezero, buildTdpbf16ps, buildTdpbsud})
    build(module);
  DenseMap<Operation *, Value> states; // of the functions that use tiles
  for (LLVM::CallIntrinsicOp call : calls) {
    StringRef name = call.getIntrin();
    ImplicitLocOpBuilder b(call.getLoc(), call);
    if (name.starts_with("llvm.x86.avx512bf16.dpbf16ps.")) {
      call.getResult(0).replaceAllUsesWith(emulateDot(b, call.getArgs()));
    } else if (name == "llvm.aarch64.neon.bfdot") {
      call.getResult(0).replaceAllUsesWith(emulateDot(b, call.getArgs()));
    } else if (name == "llvm.aarch64.neon.bfmmla") {
      call.getResult(0).replaceAllUsesWith(emulateMatrices(b, call.getArgs()));
    } else if (name == "llvm.aarch64.neon.sdot" || name == "llvm.aarch64.neon.usdot") {
      OperandRange args = call.getArgs();
      bool isSigned = name == "llvm.aarch64.neon.sdot";
      call.getResult(0).replaceAllUsesWith(emulateParts(b, args[0], args[1], args[2], 8, isSigned));
    } else if (name == "llvm.x86.avx512bf16.cvtne2ps2bf16.512") {
      call.getResult(0).replaceAllUsesWith(emulateConversion(b, call.getArgs()));
    } else if (name == "llvm.x86.avx512.vpdpbusd.512") {
      OperandRange args = call.getArgs();
      call.getResult(0).replaceAllUsesWith(emulateParts(b, args[0], args[1], args[2], 8, /*isSigned=*/false));
    } else if (name == "llvm.x86.avx512.pmaddw.d.512") {
      OperandRange args = call.getArgs();
      call.getResult(0).replaceAllUsesWith(emulateParts(b, Value(), args[0], args[1], 16, /*isSigned=*/true));
    } else if (name == "llvm.x86.avx512.permvar.sf.512") {
      OperandRange args = call.getArgs();
      call.getResult(0).replaceAllUsesWith(emulateLookUp(b, args[0], args[1]));
    } else if (name == "llvm.x86.avx512.pshuf.b.512") {
      OperandRange args = call.getArgs();
      call.getResult(0).replaceAllUsesWith(emulateByteLookUp(b, args[0], args[1]));
    } else if (name.consume_front("llvm.x86.")) {
      auto instruction = module.lookupSymbol<func::FuncOp>(("emulated_" + name).str());
      if (!instruction)
        continue; // one that every machine has
      auto function = call->getParentOfType<func::FuncOp>();
      Value &state = states[function];
      if (!state) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(&function.front());
        Value size = arith::ConstantOp::create(b, b.getI64IntegerAttr(stateBytes));
        state = LLVM::AllocaOp::create(b, LLVM::LLVMPointerType::get(b.getContext()), b.getI8Type(), size, 64);
      }
      emulateTile(b, instruction, state, call.getArgs());
    } else {
      continue;
    }
    call.erase();
  }
}
