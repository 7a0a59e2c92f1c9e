// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/CudaKernels.h"

#include "compiler/codegen/host/HostKernel.h"
#include "compiler/codegen/targets/cuda/EmitPtx.h"
#include "compiler/codegen/targets/cuda/OnlineAttention.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

static constexpr char ptxName[] = "heddle_ptx";

namespace {

// Launches a kernel of the PTX module.
class LaunchBuilder : public HostKernel {
public:
  using HostKernel::HostKernel;

  Value narrow(Value value) { return arith::TruncIOp::create(b, b.getI32Type(), value); }
  // The address of the kernel's name.
  Value entry(StringRef kernel);

  // What the next launch passes: an address, or a number.
  void add(Value value) { arguments.push_back(value); }
  // `blocks`: (x, y, z). Shared memory is the kernel's own.
  void launch(Value entry, ArrayRef<Value> blocks, Value threads);

private:
  SmallVector<Value> arguments;
};

} // namespace

static void defineText(ModuleOp code, StringRef name, StringRef text) {
  OpBuilder b(code.getContext());
  b.setInsertionPointToStart(code.getBody());
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), text.size() + 1);
  LLVM::GlobalOp::create(b, code.getLoc(), type, /*isConstant=*/true, LLVM::Linkage::Internal, name,
                         b.getStringAttr(text + StringRef("\0", 1)));
}

Value LaunchBuilder::entry(StringRef kernel) {
  std::string name = (kernel + "_entry").str();
  defineText(code, name, kernel);
  return LLVM::AddressOfOp::create(b, b.pointerType(), name);
}

void LaunchBuilder::launch(Value entry, ArrayRef<Value> blocks, Value threads) {
  auto scratch = [&](int64_t bytes) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.front());
    return b.stackScratch(bytes);
  };
  Value launch = scratch(sizeof(heddle_launch)), values = scratch(8 * arguments.size());
  Value places = scratch(8 * arguments.size()), sizes = scratch(8 * arguments.size());
  for (auto [index, value] : llvm::enumerate(arguments)) {
    bool isAddress = isa<LLVM::LLVMPointerType>(value.getType());
    b.store(value, b.at(values, 8 * index));
    b.store(b.at(values, 8 * index), b.at(places, 8 * index));
    b.store(b.constant(isAddress ? 0 : value.getType().getIntOrFloatBitWidth() / 8), b.at(sizes, 8 * index));
  }
  auto i32 = [&](int64_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)).getResult(); };
  b.store(LLVM::AddressOfOp::create(b, b.pointerType(), ptxName), b.at(launch, offsetof(heddle_launch, code)));
  b.store(entry, b.at(launch, offsetof(heddle_launch, entry)));
  for (int axis = 0; axis < 3; ++axis) {
    b.store(narrow(blocks[axis]), b.at(launch, offsetof(heddle_launch, blocks) + 4 * axis));
    b.store(axis ? i32(1) : narrow(threads), b.at(launch, offsetof(heddle_launch, threads) + 4 * axis));
  }
  b.store(i32(0), b.at(launch, offsetof(heddle_launch, shared_bytes)));
  b.store(i32(arguments.size()), b.at(launch, offsetof(heddle_launch, num_arguments)));
  b.store(places, b.at(launch, offsetof(heddle_launch, arguments)));
  b.store(sizes, b.at(launch, offsetof(heddle_launch, argument_sizes)));
  Value device = pointer(offsetof(heddle_step, device));
  Value function = b.load(b.pointerType(), b.at(device, offsetof(heddle_device, launch)));
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {b.pointerType(), b.pointerType()});
  LLVM::CallOp::create(b, type, ValueRange{function, device, launch});
  arguments.clear();
}

GpuKernels::GpuKernels(ModuleOp code, const GpuTarget &target) : code(code), target(target) {
  OpBuilder b(code.getContext());
  module = ModuleOp::create(b, code.getLoc());
  b.setInsertionPointToStart(module->getBody());
  kernels = gpu::GPUModuleOp::create(b, code.getLoc(), "kernels");
}

// q, out, sequences, numSequences, kOffset, vOffset, qStride, outStride, sinks, thread, numThreads
func::FuncOp GpuKernels::attention(Location loc, StringRef name, const AttentionSpec &spec) {
  std::string kernel = (name + "_gpu").str();
  buildGpuAttention(kernels, kernel, spec);
  LaunchBuilder l(loc, code, name, "pppnnnnnptt");
  RawBuilder &b = l.builder();
  l.add(l.argument(0));
  l.add(l.argument(1));
  for (size_t offset : {offsetof(heddle_step, cache), offsetof(heddle_step, page_table),
                        offsetof(heddle_step, sequence_rows), offsetof(heddle_step, cache_positions)})
    l.add(l.pointer(offset));
  l.add(l.argument(4));
  l.add(l.argument(5));
  l.add(l.number(offsetof(heddle_step, page_stride)));
  l.add(l.argument(6));
  l.add(l.argument(7));
  l.add(l.narrow(l.number(offsetof(heddle_step, pages_per_sequence))));
  // The grid has tiles for the sequence with the most rows.
  Value sequences = l.argument(2), count = l.argument(3);
  Value longest = b.fold(b.constant(0), count, {b.constant(1)}, [&](Value index, ValueRange carried) {
    Value rows =
        b.loadIndex(b.at(b.at(sequences, index, sizeof(heddle_sequence)), offsetof(heddle_sequence, num_rows)));
    return SmallVector<Value>{b.max(carried[0], rows)};
  })[0];
  Value tiles = b.divideUp(b.mul(longest, spec.headsOfTile()), gpuAttentionRows);
  l.launch(l.entry(kernel), {tiles, b.constant(spec.numHeads / spec.headsOfTile()), count},
           b.constant(gpuAttentionThreads));
  return l.finish();
}

// act, scales, sums, weights, bias, out, rows, actStride, outStride, panelBegin, panelEnd
func::FuncOp GpuKernels::matmul(Location loc, StringRef name, const GpuMatmulSpec &spec) {
  LaunchBuilder l(loc, code, name, "ppppppnnnnn");
  RawBuilder &b = l.builder();
  Value rows = l.argument(6);
  for (unsigned index : {0, 3, 4, 5})
    l.add(l.argument(index));
  l.add(l.narrow(rows));
  l.add(l.argument(7));
  l.add(l.argument(8));
  // The largest tile first: each smaller one takes its place up to the rows that it is for.
  Value entry, blocksX, blockM, threads;
  for (const GpuMatmulTile &tile : gpuMatmulTiles()) {
    std::string kernel = (name + "_gpu" + Twine(tile.blockM) + "x" + Twine(tile.blockN)).str();
    buildGpuMatmul(kernels, kernel, spec, tile);
    Value isFor = b.lessThan(rows, b.constant(tile.maxRows + 1));
    auto choose = [&](Value &chosen, Value value) { chosen = chosen ? b.select(isFor, value, chosen) : value; };
    choose(entry, l.entry(kernel));
    choose(blocksX, b.constant((spec.weightPanels() * 16 + tile.blockN - 1) / tile.blockN));
    choose(blockM, b.constant(tile.blockM));
    choose(threads, b.constant(tile.threads()));
  }
  Value blocksY = b.divide(b.sub(b.add(rows, blockM), b.constant(1)), blockM);
  // No rows (of logits that nobody asks for): no grid that a driver takes.
  b.ifThen(b.lessThan(b.constant(0), rows), [&] { l.launch(entry, {blocksX, blocksY, b.constant(1)}, threads); });
  return l.finish();
}

FailureOr<std::string> GpuKernels::finish(MachineCode kind) {
  if (failed(lowerToNVVM(kernels)))
    return failure();
  FailureOr<std::string> text = emitPtx(kernels, target, kind == MachineCode::LLVMIR ? kind : MachineCode::Assembly);
  if (succeeded(text))
    defineText(code, ptxName, *text);
  return text;
}
