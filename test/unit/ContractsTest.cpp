// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layouts that files and generated code rely on. A change here is a change of format: raise the version that guards it.
#include "runtime/model/ModelAbi.h"
#include "runtime/model/PackageHeader.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace {

TEST(PackageHeader, IsSixtyFourBytesWithoutHoles) {
  EXPECT_EQ(sizeof(heddle_package_header), 64u);
  EXPECT_EQ(offsetof(heddle_package_header, major), 8u);
  EXPECT_EQ(offsetof(heddle_package_header, metadata_size), 16u);
  EXPECT_EQ(offsetof(heddle_package_header, weights_size), 24u);
  EXPECT_EQ(offsetof(heddle_package_header, sha256), 32u);
  EXPECT_EQ(sizeof(HEDDLE_PACKAGE_MAGIC) - 1, sizeof(heddle_package_header::magic));
}

TEST(ModelAbi, HoldsNoPaddingThatACompilerCouldPlaceElsewhere) {
  EXPECT_EQ(sizeof(heddle_sequence), 4 * sizeof(int32_t) + sizeof(void *));
  EXPECT_EQ(offsetof(heddle_model, package_sha256), 16u);
  EXPECT_EQ(offsetof(heddle_model, step), 48u);
  EXPECT_EQ(offsetof(heddle_model, encode), 56u);
  EXPECT_EQ(offsetof(heddle_model, graphs), 64u);
  EXPECT_EQ(offsetof(heddle_model, variants), 72u);
  EXPECT_EQ(sizeof(heddle_model), 80u);
  EXPECT_EQ(sizeof(heddle_step) % 8, 0u);
}

TEST(ModelAbi, CachePageIsAPowerOfTwo) {
  EXPECT_EQ(HEDDLE_KV_PAGE_SIZE & (HEDDLE_KV_PAGE_SIZE - 1), 0);
}

} // namespace
