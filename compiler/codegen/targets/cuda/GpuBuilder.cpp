// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cuda/GpuBuilder.h"

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace heddle;

static LLVM::LLVMPointerType pointerType(MLIRContext *context, NVVM::NVVMMemorySpace space) {
  return LLVM::LLVMPointerType::get(context, unsigned(space));
}

// Bytes that matrix descriptors count.
static constexpr int64_t descriptorUnit = 16;

Type GpuBuilder::globalPointer(MLIRContext *context) {
  return pointerType(context, NVVM::NVVMMemorySpace::Global);
}

GpuBuilder::GpuBuilder(gpu::GPUModuleOp module, StringRef name, ArrayRef<Type> parameters, int64_t threads,
                       int64_t sharedBytes, int64_t sharedAlignment)
    : ImplicitLocOpBuilder(module.getLoc(), module.getContext()) {
  setInsertionPointToEnd(module.getBody());
  bool isLaunched = launchedSharedBytes(sharedBytes);
  std::string sharedName = isLaunched ? "launched_shared" : (name + "_shared").str();
  if (sharedBytes && !module.lookupSymbol(sharedName)) {
    auto bytes = LLVM::LLVMArrayType::get(getI8Type(), isLaunched ? 0 : sharedBytes);
    LLVM::GlobalOp::create(*this, bytes, /*isConstant=*/false,
                           isLaunched ? LLVM::Linkage::External : LLVM::Linkage::Internal, sharedName, Attribute(),
                           isLaunched ? swizzleBytes : sharedAlignment, unsigned(NVVM::NVVMMemorySpace::Shared));
  }
  function = gpu::GPUFuncOp::create(*this, name, getFunctionType(parameters, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), getUnitAttr());
  function.setKnownBlockSizeAttr(getDenseI32ArrayAttr({int32_t(threads), 1, 1}));
  setInsertionPointToStart(&function.getBody().front());
  if (sharedBytes)
    sharedBase = LLVM::AddressOfOp::create(*this, pointerType(getContext(), NVVM::NVVMMemorySpace::Shared), sharedName);
}

gpu::GPUFuncOp GpuBuilder::finish() {
  gpu::ReturnOp::create(*this);
  return function;
}

void GpuBuilder::setBlocksPerProcessor(int64_t blocks) {
  function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), getI32IntegerAttr(blocks));
}

Value GpuBuilder::constant(int64_t value) {
  return arith::ConstantOp::create(*this, getI32IntegerAttr(value));
}
Value GpuBuilder::add(Value a, Value b) {
  return arith::AddIOp::create(*this, a, b);
}
Value GpuBuilder::sub(Value a, Value b) {
  return arith::SubIOp::create(*this, a, b);
}
Value GpuBuilder::mul(Value a, Value b) {
  return arith::MulIOp::create(*this, a, b);
}
Value GpuBuilder::divide(Value a, int64_t b) {
  return b == 1 ? a : arith::DivUIOp::create(*this, a, constant(b));
}
Value GpuBuilder::remainder(Value a, int64_t b) {
  return arith::RemUIOp::create(*this, a, constant(b));
}
Value GpuBuilder::bitXor(Value a, Value b) {
  return arith::XOrIOp::create(*this, a, b);
}
Value GpuBuilder::bitAnd(Value a, Value b) {
  return arith::AndIOp::create(*this, a, b);
}
Value GpuBuilder::bitOr(Value a, Value b) {
  return arith::OrIOp::create(*this, a, b);
}
Value GpuBuilder::shift(Value bits, int64_t places) {
  if (places == 0)
    return bits;
  if (places < 0)
    return shiftDown(bits, constant(-places));
  return arith::ShLIOp::create(*this, bits, constant(places));
}
Value GpuBuilder::shiftDown(Value bits, Value places) {
  return arith::ShRUIOp::create(*this, bits, places);
}
Value GpuBuilder::shiftSigned(Value value, int64_t places) {
  return arith::ShRSIOp::create(*this, value, constant(places));
}
Value GpuBuilder::min(Value a, Value b) {
  return arith::MinSIOp::create(*this, a, b);
}
Value GpuBuilder::max(Value a, Value b) {
  return arith::MaxSIOp::create(*this, a, b);
}
Value GpuBuilder::lessThan(Value a, Value b) {
  return arith::CmpIOp::create(*this, arith::CmpIPredicate::slt, a, b);
}
Value GpuBuilder::equal(Value a, Value b) {
  return arith::CmpIOp::create(*this, arith::CmpIPredicate::eq, a, b);
}
Value GpuBuilder::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(*this, condition, a, b);
}

Value GpuBuilder::constantBool(bool value) {
  return arith::ConstantOp::create(*this, getBoolAttr(value));
}

Value GpuBuilder::constantF32(double value) {
  return arith::ConstantOp::create(*this, getF32FloatAttr(value));
}
Value GpuBuilder::addF(Value a, Value b) {
  return arith::AddFOp::create(*this, a, b);
}
Value GpuBuilder::subF(Value a, Value b) {
  return arith::SubFOp::create(*this, a, b);
}
Value GpuBuilder::mulF(Value a, Value b) {
  return arith::MulFOp::create(*this, a, b);
}
Value GpuBuilder::divF(Value a, Value b) {
  return arith::DivFOp::create(*this, a, b);
}
Value GpuBuilder::fma(Value a, Value b, Value c) {
  return LLVM::FMAOp::create(*this, a, b, c);
}
Value GpuBuilder::maxF(Value a, Value b) {
  return LLVM::MaxNumOp::create(*this, a, b);
}

Value GpuBuilder::exp2(Value x) {
  return LLVM::Exp2Op::create(*this, x.getType(), x, LLVM::FastmathFlags::afn);
}

Value GpuBuilder::sqrt(Value x) {
  return LLVM::SqrtOp::create(*this, x);
}

Value GpuBuilder::floatOfBits(Value bits) {
  return LLVM::BitcastOp::create(*this, getF32Type(), bits);
}
Value GpuBuilder::floatOfHalf(Value half) {
  return arith::ExtFOp::create(*this, getF32Type(), half);
}
Value GpuBuilder::floatOfInt(Value value) {
  return arith::SIToFPOp::create(*this, getF32Type(), value);
}

std::array<Value, 2> GpuBuilder::unpackBf16(Value pair) {
  return {floatOfBits(shift(pair, 16)), floatOfBits(bitAnd(pair, constant(int32_t(0xffff0000))))};
}

std::array<Value, 2> GpuBuilder::unpackHalves(Value pair) {
  Value halves = LLVM::BitcastOp::create(*this, VectorType::get({2}, getF16Type()), pair);
  return {floatOfHalf(element(halves, 0)), floatOfHalf(element(halves, 1))};
}

Value GpuBuilder::packBf16(Value low, Value high) {
  auto rounded = arith::TruncFOp::create(*this, VectorType::get({2}, getBF16Type()), vector({low, high}));
  return LLVM::BitcastOp::create(*this, getI32Type(), rounded);
}

Value GpuBuilder::fmaBf16(Value a, Value b, Value c) {
  auto type = VectorType::get({2}, getBF16Type());
  auto bf16s = [&](Value bits) { return LLVM::BitcastOp::create(*this, type, bits).getResult(); };
  return LLVM::BitcastOp::create(*this, getI32Type(), fma(bf16s(a), bf16s(b), bf16s(c)));
}

Value GpuBuilder::roundToHalves(Value numbers) {
  auto type = cast<VectorType>(numbers.getType());
  return arith::TruncFOp::create(*this, VectorType::get(type.getShape(), getF16Type()), numbers);
}

static Value asI32(GpuBuilder &b, Value index) {
  return arith::IndexCastOp::create(b, b.getI32Type(), index);
}

Value GpuBuilder::threadIndex() {
  return asI32(*this, gpu::ThreadIdOp::create(*this, gpu::Dimension::x));
}

Value GpuBuilder::blockIndex(unsigned dimension) {
  return asI32(*this, gpu::BlockIdOp::create(*this, gpu::Dimension(dimension)));
}

void GpuBuilder::barrier() {
  gpu::BarrierOp::create(*this);
}

Value GpuBuilder::shuffleXor(Value value, int64_t mask) {
  return NVVM::ShflOp::create(*this, value.getType(), /*thread_mask=*/constant(-1), value, constant(mask),
                              /*mask_and_clamp=*/constant(warpSize - 1), NVVM::ShflKind::bfly, UnitAttr());
}

Value GpuBuilder::wide(Value value) {
  return arith::ExtSIOp::create(*this, getI64Type(), value);
}

Value GpuBuilder::at(Value pointer, Value index, int64_t bytes) {
  if (index.getType().isInteger(32))
    index = wide(index);
  if (bytes != 1)
    index = arith::MulIOp::create(*this, index, arith::ConstantOp::create(*this, getI64IntegerAttr(bytes)));
  return LLVM::GEPOp::create(*this, pointer.getType(), getI8Type(), pointer, ValueRange{index});
}

// Vectors are aligned to their size.
static unsigned alignmentOf(Type type) {
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.getNumElements() * alignmentOf(vector.getElementType());
  return type.isIntOrFloat() ? type.getIntOrFloatBitWidth() / 8 : 8;
}

Value GpuBuilder::load(Type type, Value pointer) {
  return LLVM::LoadOp::create(*this, type, pointer, alignmentOf(type));
}

void GpuBuilder::store(Value value, Value pointer) {
  LLVM::StoreOp::create(*this, value, pointer, alignmentOf(value.getType()));
}

static constexpr char deviceScope[] = "device";

// Of PTX 2.0; LLVM selects its intrinsic for sm_90 alone.
void GpuBuilder::prefetch(Value pointer) {
  LLVM::InlineAsmOp::create(*this, TypeRange(), pointer, "prefetch.global.L2 [$0];", "l", /*has_side_effects=*/true,
                            /*is_align_stack=*/false, LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr());
}

void GpuBuilder::fence() {
  LLVM::FenceOp::create(*this, LLVM::AtomicOrdering::acq_rel, deviceScope);
}

Value GpuBuilder::countUp(Value counter, Value last) {
  return LLVM::AtomicRMWOp::create(*this, LLVM::AtomicBinOp::uinc_wrap, counter, last, LLVM::AtomicOrdering::monotonic,
                                   deviceScope);
}

Value GpuBuilder::element(Value vector, int64_t index) {
  return vector::ExtractOp::create(*this, vector, index);
}

Value GpuBuilder::vector(ValueRange elements) {
  auto type = VectorType::get({int64_t(elements.size())}, elements.front().getType());
  return vector::FromElementsOp::create(*this, type, elements);
}

Value GpuBuilder::shared(Value byteOffset) {
  return LLVM::GEPOp::create(*this, sharedBase.getType(), getI8Type(), sharedBase, ValueRange{byteOffset});
}

void GpuBuilder::copyAsync(Value sharedTo, Value globalFrom, Value bytes) {
  NVVM::CpAsyncOp::create(*this, sharedTo, globalFrom, uint32_t(chunkBytes), NVVM::LoadCacheModifierKind::CG, bytes);
}

void GpuBuilder::commitCopies() {
  NVVM::CpAsyncCommitGroupOp::create(*this);
}
void GpuBuilder::waitCopies(int64_t groups) {
  NVVM::CpAsyncWaitGroupOp::create(*this, uint32_t(groups));
}

FragmentA GpuBuilder::loadMatrices(Value sharedRow, bool transposed) {
  auto result = LLVM::LLVMStructType::getLiteral(getContext(), SmallVector<Type>(4, getI32Type()));
  auto shape = NVVM::LdStMatrixShapeAttr::get(getContext(), 8, 8);
  Value matrices = NVVM::LdMatrixOp::create(*this, result, sharedRow, /*num=*/4,
                                            transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row, shape,
                                            NVVM::LdStMatrixEltType::B16);
  FragmentA fragment;
  for (int64_t i = 0; i < 4; ++i)
    fragment[i] = LLVM::ExtractValueOp::create(*this, matrices, i);
  return fragment;
}

Accumulators GpuBuilder::multiply(const FragmentA &a, const FragmentB &b, const Accumulators &c) {
  auto result = LLVM::LLVMStructType::getLiteral(getContext(), SmallVector<Type>(4, getF32Type()));
  using NVVM::MMALayout;
  using NVVM::MMATypes;
  Value sums =
      NVVM::MmaOp::create(*this, result, ValueRange(a), ValueRange(b), ValueRange(c), ArrayRef<int64_t>{16, 8, 16},
                          std::nullopt, std::nullopt, std::array<MMATypes, 2>{MMATypes::bf16, MMATypes::bf16},
                          std::array<MMALayout, 2>{MMALayout::row, MMALayout::col});
  Accumulators accumulators;
  for (int64_t i = 0; i < 4; ++i)
    accumulators[i] = LLVM::ExtractValueOp::create(*this, sums, i);
  return accumulators;
}

void GpuBuilder::fenceForWarpgroups() {
  NVVM::FenceProxyOp::create(*this, NVVM::ProxyKind::async_shared,
                             NVVM::SharedSpaceAttr::get(getContext(), NVVM::SharedSpace::shared_cta));
}

// PTX ISA, "Matrix Descriptor Format": the address, from bit 16 on what lies between 64 columns and the next ones, from bit 32 on between groups of 8 rows, at the
// end the swizzle of 128 bytes.
Value GpuBuilder::describeRows(Value byteOffset, int64_t columnsBytes) {
  constexpr int64_t swizzle128 = int64_t(1) << 62, groupsOfRows = (swizzleBytes / descriptorUnit) << 32;
  Value address = LLVM::PtrToIntOp::create(*this, getI32Type(), shared(byteOffset));
  Value place = arith::ExtUIOp::create(*this, getI64Type(), divide(bitAnd(address, constant(0x3ffff)), descriptorUnit));
  auto layout = arith::ConstantOp::create(
      *this, getI64IntegerAttr(swizzle128 | groupsOfRows | (columnsBytes / descriptorUnit) << 16));
  return arith::OrIOp::create(*this, place, layout);
}

Value GpuBuilder::advance(Value descriptor, int64_t bytes) {
  auto units = arith::ConstantOp::create(*this, getI64IntegerAttr(bytes / descriptorUnit));
  return arith::AddIOp::create(*this, descriptor, units);
}

void GpuBuilder::setCluster(int64_t count) {
  function->setAttr(NVVM::NVVMDialect::getClusterDimAttrName(), getDenseI32ArrayAttr({1, 1, int32_t(count)}));
}

void GpuBuilder::clusterBarrier() {
  NVVM::ClusterArriveOp::create(*this, getUnitAttr());
  NVVM::ClusterWaitOp::create(*this, getUnitAttr());
}

Value GpuBuilder::sharedOf(Value byteOffset, int64_t rank) {
  return NVVM::MapaOp::create(*this, pointerType(getContext(), NVVM::NVVMMemorySpace::SharedCluster),
                              shared(byteOffset), constant(rank));
}

static SmallVector<Value> multiplyInGroup(GpuBuilder &b, ArrayRef<FragmentA> a, ValueRange descriptors, ValueRange sums,
                                          size_t count, bool transposed) {
  SmallVector<Value> registers;
  for (const FragmentA &fragment : a)
    registers.append(fragment.begin(), fragment.end());
  SmallVector<Type> types(count, b.getF32Type());
  return llvm::to_vector(
      ValueRange(WarpgroupMultiplyOp::create(b, types, registers, descriptors, sums, transposed).getResults()));
}

SmallVector<Value> GpuBuilder::multiplyAsync(ArrayRef<FragmentA> a, ValueRange descriptors, ValueRange sums) {
  return multiplyInGroup(*this, a, descriptors, sums, sums.size(), /*transposed=*/false);
}
SmallVector<Value> GpuBuilder::startProducts(ArrayRef<FragmentA> a, ValueRange descriptors, int64_t columns) {
  return multiplyInGroup(*this, a, descriptors, {}, columns / 2, /*transposed=*/false);
}
SmallVector<Value> GpuBuilder::addProducts(ArrayRef<FragmentA> a, ValueRange transposed, ValueRange sums) {
  return multiplyInGroup(*this, a, transposed, sums, sums.size(), /*transposed=*/true);
}

SmallVector<Value> GpuBuilder::waitProducts(int64_t pending, ValueRange sums) {
  auto op = WarpgroupWaitOp::create(*this, sums.getTypes(), sums, pending);
  return SmallVector<Value>(op.getResults());
}

SmallVector<Value> GpuBuilder::fold(Value begin, Value end, ValueRange init,
                                    llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto op = scf::ForOp::create(*this, begin, end, constant(1), init);
  InsertionGuard guard(*this);
  setInsertionPointToStart(op.getBody());
  SmallVector<Value> carried = body(op.getInductionVar(), op.getRegionIterArgs());
  if (!init.empty())
    scf::YieldOp::create(*this, carried);
  return SmallVector<Value>(op.getResults());
}

void GpuBuilder::ifThen(Value condition, llvm::function_ref<void()> body) {
  auto op = scf::IfOp::create(*this, condition, /*withElseRegion=*/false);
  InsertionGuard guard(*this);
  setInsertionPointToStart(op.thenBlock());
  body();
}

SmallVector<Value> GpuBuilder::ifElse(Value condition, ValueRange otherwise,
                                      llvm::function_ref<SmallVector<Value>()> body) {
  auto op = scf::IfOp::create(*this, TypeRange(otherwise), condition, /*withElseRegion=*/true);
  InsertionGuard guard(*this);
  setInsertionPointToStart(op.thenBlock());
  scf::YieldOp::create(*this, body());
  setInsertionPointToStart(op.elseBlock());
  scf::YieldOp::create(*this, otherwise);
  return SmallVector<Value>(op.getResults());
}
