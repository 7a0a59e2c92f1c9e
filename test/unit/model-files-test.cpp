// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which files a model may be read from, and that each is read once.
#include "ModelFiles.h"
#include "frontends/ModelFiles.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <sys/stat.h>

using namespace heddle;
using namespace heddle::test;

namespace {

std::string contentOf(ModelFiles &files, const std::string &name) {
  Expected<SharedFile> file = files.open(name);
  return file ? std::string((*file)->text()) : file.message();
}

TEST(ModelFiles, pathsAreThoseOfTheUser) {
  TemporaryFolder folder;
  folder.write("m.onnx", "x");
  for (const auto &[model, beside] : {std::pair<std::string, std::string>{folder.path(), folder.path("a")},
                                      {folder.path() + "/", folder.path("a")},
                                      {folder.path("m.onnx"), folder.path("a")},
                                      {"m.onnx", "a"},
                                      {"./m.onnx", "./a"}})
    EXPECT_EQ(ModelFiles(model).pathOf("a"), beside);
  EXPECT_EQ(ModelFiles(folder.path("m.onnx")).fileName(), "m.onnx");
  EXPECT_TRUE(ModelFiles(folder.path()).isFolder());
  EXPECT_TRUE(ModelFiles(folder.path("m.onnx")).isThere());
  EXPECT_FALSE(ModelFiles(folder.path("n.onnx")).isThere());
}

// What was read is what counts, whatever has the name afterwards.
TEST(ModelFiles, eachFileIsOpenedOnce) {
  TemporaryFolder folder;
  folder.write("config.json", "first");
  ModelFiles files(folder.path());
  EXPECT_EQ(contentOf(files, "config.json"), "first");
  std::filesystem::rename(folder.write("new", "second"), folder.path("config.json"));
  EXPECT_EQ(contentOf(files, "config.json"), "first");
  ASSERT_EQ(files.opened().size(), 1u);
  EXPECT_EQ(files.opened()[0]->text(), "first");

  ModelFiles file(folder.write("m.gguf", "GGUF"));
  ASSERT_TRUE(file.open());
  EXPECT_EQ(contentOf(file, "m.gguf"), "GGUF");
  EXPECT_EQ(file.opened().size(), 1u);
}

TEST(ModelFiles, namesStayBelowTheFolder) {
  for (const char *name : {"a", "a/b", "./a", "a..b", "..a"})
    EXPECT_TRUE(isPathBelow(name)) << name;
  for (const char *name : {"", "/a", "a/", "a//b", "..", "../a", "a/../b", "a/.."})
    EXPECT_FALSE(isPathBelow(name)) << name;
  EXPECT_FALSE(isPathBelow(std::string("a\0b", 3)));
  EXPECT_FALSE(isPathBelow(std::string(5000, 'a')));
  TemporaryFolder folder;
  folder.write("config.json", "{}");
  ModelFiles files(folder.path());
  EXPECT_NE(contentOf(files, "../a").find("/../a: is not allowed: expected a relative path"), std::string::npos);
}

// A folder of a tokenizer alone: its first file stands for the model.
TEST(ModelFiles, blobsOfAFolderWithoutConfig) {
  TemporaryFolder folder, elsewhere;
  std::filesystem::create_directories(folder.path("blobs"));
  std::filesystem::create_directories(folder.path("snapshot"));
  folder.write("blobs/1", "tokens");
  folder.write("blobs/2", "settings");
  std::filesystem::create_symlink("../blobs/1", folder.path("snapshot/tokenizer.json"));
  std::filesystem::create_symlink("../blobs/2", folder.path("snapshot/tokenizer_config.json"));
  std::filesystem::create_symlink(elsewhere.write("x", "foreign"), folder.path("snapshot/vocab.json"));
  ModelFiles files(folder.path("snapshot"));
  EXPECT_EQ(contentOf(files, "tokenizer.json"), "tokens");
  EXPECT_EQ(contentOf(files, "tokenizer_config.json"), "settings");
  EXPECT_NE(contentOf(files, "vocab.json").find("outside of the model's folder: not allowed"), std::string::npos);
}

// The user's own link may lead anywhere; what lies beside it is looked for where the link is.
TEST(ModelFiles, theUsersOwnLink) {
  TemporaryFolder folder, elsewhere;
  std::filesystem::create_symlink(elsewhere.write("m.gguf", "GGUF"), folder.path("link.gguf"));
  ModelFiles files(folder.path("link.gguf"));
  ASSERT_TRUE(files.open());
  EXPECT_EQ((*files.open())->text(), "GGUF");
  EXPECT_NE(contentOf(files, "m.gguf").find("cannot be opened: No such file or directory"), std::string::npos);
}

TEST(ModelFiles, aPipeIsNotWaitedFor) {
  TemporaryFolder folder;
  folder.write("m.onnx", "x");
  ASSERT_EQ(mkfifo(folder.path("w").c_str(), 0600), 0);
  ModelFiles files(folder.path("m.onnx"));
  EXPECT_EQ(contentOf(files, "w"), folder.path("w") + ": is not a regular file");
}

// Hard links are common where files are kept once, and a file with a format of its own is no other file.
TEST(ModelFiles, hardLinks) {
  TemporaryFolder folder, elsewhere;
  folder.write("m.onnx", "x");
  std::filesystem::create_hard_link(elsewhere.write("foreign", "y"), folder.path("w"));
  ModelFiles files(folder.path("m.onnx"));
  Expected<SharedFile> raw = files.openRaw("w");
  ASSERT_FALSE(raw);
  EXPECT_NE(raw.message().find("/w: has 2 hard links, expected 1"), std::string::npos) << raw.message();
  EXPECT_EQ(contentOf(files, "w"), "y");
}

} // namespace
