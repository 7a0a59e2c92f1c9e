// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The hash of a model's files is that of their bytes, and its reader stays beside who packs them.

#include "compiler/SourceFiles.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

using namespace heddle;

namespace {

constexpr uint64_t megabyte = 1 << 20;

class SourceHashTest : public testing::Test {
protected:
  // A file of zeros behind `text`.
  SharedFile file(llvm::StringRef text, uint64_t size) {
    llvm::SmallString<128> path;
    int descriptor = -1;
    EXPECT_FALSE(llvm::sys::fs::createTemporaryFile("source", "bin", descriptor, path));
    removers.push_back(std::make_unique<llvm::FileRemover>(path));
    llvm::raw_fd_ostream(descriptor, /*shouldClose=*/false) << text;
    EXPECT_FALSE(llvm::sys::fs::resize_file(descriptor, size));
    auto mapped = std::make_shared<MappedFile>();
    EXPECT_TRUE(mapped->map(descriptor, path.str().str()).isOk());
    return mapped;
  }
  static std::string digits(llvm::StringRef bytes) {
    return llvm::toHex(sha256(bytes.data(), bytes.size()), /*LowerCase=*/true);
  }
  // Where the reader stands once it waits, or after a time that no reader of this machine needs.
  static uint64_t stand(const SourceHash &hash, uint64_t expected) {
    using namespace std::chrono_literals;
    for (int i = 0; i < 3000 && hash.hashed() < expected; ++i)
      std::this_thread::sleep_for(10ms);
    std::this_thread::sleep_for(50ms); // for it to go too far
    return hash.hashed();
  }

  std::vector<std::unique_ptr<llvm::FileRemover>> removers;
};

TEST_F(SourceHashTest, OfOneFileIsThatOfItsBytes) {
  EXPECT_EQ(SourceHash({file("abc", 3)}).get(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  std::string bytes = "weights" + std::string(40 * megabyte, '\0');
  EXPECT_EQ(SourceHash({file("weights", bytes.size())}, 16 * megabyte).get(), digits(bytes));
}

TEST_F(SourceHashTest, OfSeveralHasNamesAndSizes) {
  SharedFile a = file("one", 3), b = file("three", 5);
  auto part = [](const SharedFile &file, const char *size) {
    return file->path().substr(file->path().rfind('/') + 1) + '\0' + size + '\0' + std::string(file->text());
  };
  EXPECT_EQ(SourceHash({a, b}).get(), digits(part(a, "3") + part(b, "5")));
}

// What is hashed far ahead has left memory before it is packed, and is read from the disk again.
TEST_F(SourceHashTest, IsNeverFurtherAheadOfPackingThanItsLead) {
  SharedFile a = file("", 64 * megabyte), b = file("", 64 * megabyte);
  SourceHash hash({a, b}, 32 * megabyte);
  EXPECT_EQ(stand(hash, 32 * megabyte), 32 * megabyte);
  hash.follow(100, 800);
  EXPECT_EQ(stand(hash, 48 * megabyte), 48 * megabyte);
  hash.follow(300, 800);
  EXPECT_EQ(stand(hash, 80 * megabyte), 80 * megabyte);
  EXPECT_EQ(hash.get(), SourceHash({a, b}).get());
  EXPECT_EQ(hash.hashed(), 128 * megabyte);
}

TEST_F(SourceHashTest, EndsWhereNobodyAsks) {
  SourceHash hash({file("", 64 * megabyte)}, 16 * megabyte);
  EXPECT_EQ(stand(hash, 16 * megabyte), 16 * megabyte);
}

} // namespace
