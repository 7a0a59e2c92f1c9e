// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files of an output appear whole, or what was there before stays.

#include "compiler/package/OutputFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <set>

using namespace heddle;

namespace {

class OutputFileTest : public testing::Test {
protected:
  void SetUp() override {
    llvm::SmallString<128> path;
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("output-file", path));
    folder = path.str().str();
  }
  void TearDown() override { (void)llvm::sys::fs::remove_directories(folder); }

  std::string path(const char *name) const { return folder + "/" + name; }
  void put(const char *name, const char *content) {
    std::error_code error;
    llvm::raw_fd_ostream(path(name), error) << content;
  }
  std::string content(const char *name) const {
    auto buffer = llvm::MemoryBuffer::getFile(path(name));
    return buffer ? (*buffer)->getBuffer().str() : "absent";
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    std::error_code error;
    for (llvm::sys::fs::directory_iterator entry(folder, error), end; entry != end && !error; entry.increment(error))
      found.insert(entry->path().substr(folder.size() + 1));
    return found;
  }

  // A new program and its weights; `between` runs when both are written and neither has its name. Whether they were kept.
  bool writePair(void (*between)(OutputFileTest &test) = nullptr) {
    OutputFile file, weights;
    EXPECT_TRUE(OutputFile::create(path("model"), file, error) &&
                OutputFile::create(path("model.weights"), weights, error));
    EXPECT_TRUE(file.write(0, "new program") && weights.write(0, "new weights"));
    if (between)
      between(*this);
    bool kept = file.keepWith(weights, true);
    error = file.error();
    return kept;
  }
  // A program cannot take the name of a folder.
  static void block(OutputFileTest &test) { (void)llvm::sys::fs::create_directory(test.path("model")); }

  std::string folder, error;
};

// What fills a disk has said so before any name changes.
TEST_F(OutputFileTest, FinishedFileWaitsForItsName) {
  put("report.json", "old report");
  OutputFile file;
  EXPECT_FALSE(file.isOpen());
  ASSERT_TRUE(OutputFile::create(path("report.json"), file, error));
  EXPECT_TRUE(file.write(0, "new report") && file.finish(false));
  EXPECT_TRUE(file.isOpen());
  EXPECT_EQ(content("report.json"), "old report");
  EXPECT_TRUE(file.keep(false));
  EXPECT_FALSE(file.isOpen());
  EXPECT_EQ(content("report.json"), "new report");
  EXPECT_EQ(names(), (std::set<std::string>{"report.json"}));
}

TEST_F(OutputFileTest, PairIsKept) {
  EXPECT_TRUE(writePair());
  EXPECT_EQ(content("model"), "new program");
  EXPECT_EQ(content("model.weights"), "new weights");
  EXPECT_TRUE(llvm::sys::fs::can_execute(path("model")));
  EXPECT_FALSE(llvm::sys::fs::can_execute(path("model.weights")));
  EXPECT_EQ(names(), (std::set<std::string>{"model", "model.weights"}));
}

TEST_F(OutputFileTest, PairReplacesThePreviousOne) {
  put("model", "old program");
  put("model.weights", "old weights");
  EXPECT_TRUE(writePair());
  EXPECT_EQ(content("model"), "new program");
  EXPECT_EQ(content("model.weights"), "new weights");
  EXPECT_EQ(names(), (std::set<std::string>{"model", "model.weights"}));
}

TEST_F(OutputFileTest, PreviousWeightsStayWithoutTheirProgram) {
  put("model.weights", "old weights");
  EXPECT_FALSE(writePair(block));
  EXPECT_NE(error.find("model: cannot write: Is a directory"), std::string::npos) << error;
  EXPECT_EQ(content("model.weights"), "old weights");
  EXPECT_EQ(names(), (std::set<std::string>{"model", "model.weights"}));
}

TEST_F(OutputFileTest, NoWeightsAreLeftWithoutTheirProgram) {
  EXPECT_FALSE(writePair(block));
  EXPECT_EQ(names(), (std::set<std::string>{"model"}));
}

// Pieces of a huge page are gathered from writes of any size, with gaps, over boundaries, and with what stands in front of them written last.
TEST_F(OutputFileTest, gathersWrites) {
  constexpr size_t piece = 2 << 20;
  const std::pair<size_t, size_t> writes[] = {{4096, 100},           {4224, piece},         {piece + 4352, 3 * piece},
                                              {5 * piece + 1, 7000}, {5 * piece + 8000, 1}, {0, 300}};
  std::string expected(5 * piece + 8001, '\0');
  OutputFile file;
  ASSERT_TRUE(OutputFile::create(path("model"), file, error));
  for (auto [offset, size] : writes) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i)
      bytes[i] = char(1 + (offset + i) % 251);
    expected.replace(offset, size, bytes);
    ASSERT_TRUE(file.write(offset, bytes));
  }
  ASSERT_TRUE(file.keep(/*executable=*/false));
  EXPECT_TRUE(content("model") == expected);
}

TEST_F(OutputFileTest, LinksStay) {
  put("real", "old program");
  ASSERT_FALSE(llvm::sys::fs::create_link("real", path("model")));
  ASSERT_FALSE(llvm::sys::fs::create_link("none", path("model.weights")));
  EXPECT_TRUE(writePair()) << error;
  EXPECT_TRUE(llvm::sys::fs::is_symlink_file(path("model")) && llvm::sys::fs::is_symlink_file(path("model.weights")));
  EXPECT_EQ(content("real"), "new program");
  EXPECT_EQ(content("none"), "new weights");
  EXPECT_EQ(names(), (std::set<std::string>{"model", "model.weights", "none", "real"}));
}

TEST_F(OutputFileTest, WhatIsNotKeptIsRemoved) {
  {
    OutputFile file;
    ASSERT_TRUE(OutputFile::create(path("model"), file, error));
    EXPECT_TRUE(file.write(0, "half"));
  }
  EXPECT_TRUE(names().empty());
}

} // namespace
