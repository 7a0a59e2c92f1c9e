// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What stands for the binary is a script, which gives back hidden states and an embedding that lie beside it.

#include "compiler/verify/EmbedCheck.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace heddle;
using Mode = PoolingConfig::Mode;

namespace {

class EmbedCheckTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("embed-check", folder));
    write("model", "#!/bin/sh\n"
                   "case $1 in --io) cp $(dirname $0)/states $3;; *) cp $(dirname $0)/array $5;; esac\n");
    ASSERT_FALSE(llvm::sys::fs::setPermissions(pathOf("model"), llvm::sys::fs::all_all));
    // (1, 3, 2)
    std::string header = R"({"last_hidden_state":{"dtype":"F32","shape":[1,3,2],"data_offsets":[0,24]}} )";
    header.resize(80, ' ');
    write("states", std::string("\x50\0\0\0\0\0\0\0", 8) + header + floats({1, 6, 2, 4, 6, -1}));
  }
  void TearDown() override { (void)llvm::sys::fs::remove_directories(folder); }

  std::string pathOf(const char *name) const { return (folder + "/" + name).str(); }
  void write(const char *name, const std::string &bytes) const {
    std::error_code code;
    llvm::raw_fd_ostream(pathOf(name), code) << bytes;
    ASSERT_FALSE(code);
  }
  static std::string floats(const std::vector<float> &values) {
    return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float)};
  }

  // What is wrong with a binary that embeds as `given`; empty where nothing is.
  std::string check(const std::vector<float> &given, const std::vector<Mode> &modes, bool normalizes = false) {
    write("array", std::string("\x93NUMPY\x01\x00\x06\x00{    }", 16) + floats(given));
    PoolingConfig pooling;
    pooling.modes = modes;
    pooling.normalizes = normalizes;
    std::string error, path = folder.str().str();
    EmbedCheck embed({5, 3, 8}, /*hiddenSize=*/2, pooling, /*limit=*/1e-10,
                     [](const std::string &, const std::string &) {});
    EXPECT_EQ(embed.run(pathOf("model"), path, context, error), error.empty());
    return error;
  }

  llvm::SmallString<64> folder;
  mlir::MLIRContext context;
};

const char *const wrong = "the binary embeds 3 tokens as something else than its hidden states and dense layers give";

} // namespace

TEST_F(EmbedCheckTest, EachModeHasItsFormula) {
  EXPECT_EQ(check({1, 6}, {Mode::Cls}), "");
  EXPECT_EQ(check({6, -1}, {Mode::LastToken}), "");
  EXPECT_EQ(check({6, 6}, {Mode::Max}), "");
  EXPECT_EQ(check({3, 3}, {Mode::Mean}), "");
  EXPECT_EQ(check({5.19615242f, 5.19615242f}, {Mode::MeanSqrtLength}), "");
  EXPECT_EQ(check({23 / 6.0f, 11 / 6.0f}, {Mode::WeightedMean}), "");
  EXPECT_EQ(check({3, 3, 6, -1}, {Mode::Mean, Mode::LastToken}), "");
}

TEST_F(EmbedCheckTest, AnotherModeIsNamed) {
  EXPECT_NE(check({1, 6}, {Mode::Mean}).find(wrong), std::string::npos);
  EXPECT_NE(check({6, -1, 3, 3}, {Mode::Mean, Mode::LastToken}).find(wrong), std::string::npos);
  EXPECT_NE(check({3, 3}, {Mode::MeanSqrtLength}).find(wrong), std::string::npos);
}

TEST_F(EmbedCheckTest, LengthIsOneWhereItIsAskedFor) {
  EXPECT_EQ(check({0.70710678f, 0.70710678f}, {Mode::Mean}, /*normalizes=*/true), "");
  EXPECT_NE(check({3, 3}, {Mode::Mean}, /*normalizes=*/true).find(wrong), std::string::npos);
  EXPECT_NE(check({0.70710678f, 0.70710678f}, {Mode::Mean}).find(wrong), std::string::npos);
}

TEST_F(EmbedCheckTest, AnArrayOfAnotherSizeIsNamed) {
  EXPECT_EQ(check({1}, {Mode::Mean}),
            "the binary wrote an array of 20 bytes, expected 24: 2 numbers behind its header");
}
