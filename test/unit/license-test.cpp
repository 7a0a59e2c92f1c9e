// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model's licence is what its files state; what cannot be a name is nothing, and never an error.
#include "frontends/License.h"
#include "frontends/read/ReadModel.h"
#include "test/unit/ModelFiles.h"

#include <gtest/gtest.h>

namespace heddle::test {
namespace {

std::string licenseOf(const std::string &path) {
  ModelFiles files(path);
  Expected<Model> model = readModel(files);
  EXPECT_TRUE(bool(model)) << (model ? "" : model.message());
  return model ? model->config.license : "";
}

std::string cardLicense(const std::string &card) {
  TemporaryFolder folder;
  writeHuggingFace(folder, tinyConfig(), tinyTensors());
  folder.write("README.md", card);
  return licenseOf(folder.path());
}

TEST(License, ofModelCards) {
  EXPECT_EQ(cardLicense("---\nlicense: apache-2.0\n---\ntext\n"), "apache-2.0");
  EXPECT_EQ(cardLicense("---\r\ntags:\r\n- license: mit\r\nlicense: \"llama3.2\" # a comment\r\n---\r\n"), "llama3.2");
  EXPECT_EQ(cardLicense("---\nlicense: mit # or so\n"), "mit");
  EXPECT_EQ(cardLicense("---\nlicense: 'MIT OR Apache-2.0'\n---\n"), "MIT OR Apache-2.0");
}

TEST(License, absent) {
  EXPECT_EQ(cardLicense("license: mit\n"), "");
  EXPECT_EQ(cardLicense("---\n---\nlicense: mit\n"), "");
  EXPECT_EQ(cardLicense("---\nlicense:\n- mit\n---\n"), "");
  EXPECT_EQ(cardLicense("---\nlicense_name: mine\n---\n"), "");
  TemporaryFolder folder;
  writeHuggingFace(folder, tinyConfig(), tinyTensors());
  EXPECT_EQ(licenseOf(folder.path()), "");
}

TEST(License, whatIsNoName) {
  EXPECT_EQ(cardLicense("---\nlicense: \"\n---\n"), "");
  EXPECT_EQ(cardLicense("---\nlicense: 'mit\x1b[2J'\n---\n"), "");
  EXPECT_EQ(cardLicense("---\nlicense: " + std::string(129, 'x') + "\n---\n"), "");
  EXPECT_EQ(cardLicense("---\nlicense: " + std::string(128, 'x') + "\n---\n"), std::string(128, 'x'));
  EXPECT_EQ(cardLicense("---\n" + std::string(300 << 10, '#') + "\nlicense: mit\n---\n"), "");
}

TEST(License, ofGguf) {
  TemporaryFolder folder;
  GgufBuilder file = tinyGguf();
  file.string("general.license", "mit");
  EXPECT_EQ(licenseOf(folder.write("model.gguf", file.bytes())), "mit");
  file.string("general.license", "\xff\n");
  EXPECT_EQ(licenseOf(folder.write("model.gguf", file.bytes())), "");
  file.u32("general.license", 1);
  EXPECT_EQ(licenseOf(folder.write("model.gguf", file.bytes())), "");
}

} // namespace
} // namespace heddle::test
