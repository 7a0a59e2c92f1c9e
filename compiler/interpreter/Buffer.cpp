// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/interpreter/Buffer.h"

#include "compiler/interpreter/TensorBytes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;
using namespace heddle;

static constexpr uint8_t neverWritten = 0xff;

Buffer Buffer::allocate(Type elementType, ArrayRef<int64_t> shape) {
  Buffer buffer{nullptr, 0, elementType, llvm::to_vector(shape), stridesOf(shape)};
  int64_t bytes = storedBytes(elementType);
  for (int64_t size : shape)
    bytes *= size;
  buffer.memory = std::make_shared<std::vector<uint8_t>>(bytes, neverWritten);
  return buffer;
}

Buffer Buffer::of(const Tensor &tensor) {
  Buffer buffer = allocate(tensor.elementType, tensor.shape);
  buffer.store(tensor);
  return buffer;
}

bool Buffer::isInside() const {
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip_equal(shape, strides)) {
    if (size == 0)
      return true;
    if (size < 0 || stride < 0)
      return false;
    last += (size - 1) * stride;
  }
  return offset >= 0 && offset + (last + 1) * storedBytes(elementType) <= int64_t(memory->size());
}

// `visit(byte, size)` for every run of bytes that holds neighbouring elements, row-major; all runs are of one size.
static void forEachRun(const Buffer &buffer, llvm::function_ref<void(int64_t, int64_t)> visit) {
  int64_t width = storedBytes(buffer.elementType), run = 1;
  ArrayRef<int64_t> shape = buffer.shape;
  for (; !shape.empty() && (buffer.strides[shape.size() - 1] == run || shape.back() == 1); shape = shape.drop_back())
    run *= shape.back();
  if (!run)
    return;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    int64_t at = 0;
    for (auto [i, stride] : llvm::zip(index, buffer.strides))
      at += i * stride;
    visit(buffer.offset + at * width, run * width);
  });
}

bool Buffer::overlaps(const Buffer &other) const {
  if (memory != other.memory)
    return false;
  auto bytesOf = [](const Buffer &buffer) {
    std::vector<int64_t> bytes;
    forEachRun(buffer, [&](int64_t byte, int64_t size) { llvm::append_range(bytes, llvm::seq(byte, byte + size)); });
    llvm::sort(bytes);
    return bytes;
  };
  auto extent = [](const Buffer &buffer) {
    int64_t last = 0;
    for (auto [size, stride] : llvm::zip_equal(buffer.shape, buffer.strides))
      last += std::max<int64_t>(0, size - 1) * stride;
    return std::pair(buffer.offset, buffer.offset + (last + 1) * storedBytes(buffer.elementType));
  };
  auto [begin, end] = extent(*this);
  auto [otherBegin, otherEnd] = extent(other);
  if (end <= otherBegin || otherEnd <= begin)
    return false;
  std::vector<int64_t> mine = bytesOf(*this), others = bytesOf(other), both;
  std::set_intersection(mine.begin(), mine.end(), others.begin(), others.end(), std::back_inserter(both));
  return !both.empty();
}

Tensor Buffer::load() const {
  std::vector<uint8_t> packed;
  forEachRun(*this, [&](int64_t byte, int64_t size) {
    packed.insert(packed.end(), memory->begin() + byte, memory->begin() + byte + size);
  });
  return tensorFromBytes(elementType, shape, packed.data());
}

void Buffer::store(const Tensor &tensor) const {
  std::string bytes = bytesOf(tensor);
  forEachRun(*this, [&, from = bytes.data()](int64_t byte, int64_t size) mutable {
    memcpy(memory->data() + byte, from, size);
    from += size;
  });
}
