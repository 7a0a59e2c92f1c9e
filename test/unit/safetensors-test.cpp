// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ModelFiles.h"
#include "frontends/ModelConfig.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;
using Header = nlohmann::ordered_json;

namespace {

const char *const q = "model.layers.0.self_attn.q_proj.weight";

// `bend` changes the header as JSON; the data stays as it was.
std::string refusalOf(const std::function<void(Header &)> &bend) {
  TemporaryFolder folder;
  writeHuggingFace(folder, tinyConfig(), tinyTensors());
  Header header = safetensorsHeader(tinyTensors());
  size_t bytes = header[tinyTensors().back().name]["data_offsets"][1];
  bend(header);
  folder.write("model.safetensors", safetensorsFile(header.dump(), bytes));
  return refusal(folder.path());
}

std::string refusalOfBytes(const std::string &bytes) {
  TemporaryFolder folder;
  writeHuggingFace(folder, tinyConfig(), {});
  folder.write("model.safetensors", bytes);
  return refusal(folder.path());
}

struct BadHeader {
  const char *name;
  std::function<void(Header &)> bend;
  const char *expected;
};

class HeaderRefused : public testing::TestWithParam<BadHeader> {};

TEST_P(HeaderRefused, saysWhy) {
  std::string message = refusalOf(GetParam().bend);
  EXPECT_NE(message.find(GetParam().expected), std::string::npos) << message;
  EXPECT_NE(message.find("model.safetensors: "), std::string::npos) << message;
}

Header offsets(int64_t begin, int64_t end) {
  return Header::array({begin, end});
}

const BadHeader badHeaders[] = {
    {"dtypeUnknown", [](Header &h) { h[q]["dtype"] = "F99"; }, "unknown dtype 'F99'"},
    {"dtypeNotString", [](Header &h) { h[q]["dtype"] = 32; }, "dtype: header byte"},
    {"dtypeMissing", [](Header &h) { h[q].erase("dtype"); }, "'dtype' is missing"},
    {"shapeMissing", [](Header &h) { h[q].erase("shape"); }, "'shape' is missing"},
    {"offsetsMissing", [](Header &h) { h[q].erase("data_offsets"); }, "'data_offsets' is missing"},
    {"dimNegative", [](Header &h) { h[q]["shape"] = {-16, -16}; }, "non-negative integer below 2^64, found '-16'"},
    {"dimFloat", [](Header &h) { h[q]["shape"] = {16.5, 16}; }, "found '16.5'"},
    {"dimAboveSigned", [](Header &h) { h[q]["shape"] = {UINT64_MAX, 16}; }, "out of range"},
    {"shapeNotArray", [](Header &h) { h[q]["shape"] = 256; }, "expected an array"},
    {"shapeOfManyDims", [](Header &h) { h[q]["shape"] = std::vector<int>(65, 1); }, "more than 64 dimensions"},
    {"shapeWraps", [](Header &h) { h[q]["shape"] = {1LL << 40, 1LL << 40}; }, "overflows"},
    {"shapeWrapsToZero", [](Header &h) { h[q]["shape"] = {1LL << 32, 1LL << 32}; }, "overflows"},
    {"shapeMismatch", [](Header &h) { h[q]["shape"] = {16, 15}; }, "need 960 bytes, but data_offsets hold 1024"},
    {"offsetsReversed", [](Header &h) { std::swap(h[q]["data_offsets"][0], h[q]["data_offsets"][1]); },
     "data_offsets are reversed"},
    {"offsetsThree", [](Header &h) { h[q]["data_offsets"].push_back(0); }, "more than two"},
    {"offsetsOne", [](Header &h) { h[q]["data_offsets"].erase(1); }, "fewer than two"},
    {"offsetsBeyond",
     [](Header &h) { h["zz"] = {{"dtype", "U8"}, {"shape", {1LL << 40}}, {"data_offsets", offsets(0, 1LL << 40)}}; },
     "beyond the end"},
    {"offsetsOverlap", [](Header &h) { h["zz"] = {{"dtype", "U8"}, {"shape", {8}}, {"data_offsets", offsets(0, 8)}}; },
     "(overlap)"},
    {"offsetsHole", [](Header &h) { h.erase(q); }, "(hole)"},
    {"bytesAfterLast", [](Header &h) { h.erase("model.layers.1.mlp.down_proj.weight"); },
     "bytes after the last tensor"},
    {"bitsOdd", [](Header &h) { h["zz"] = {{"dtype", "F4"}, {"shape", {3}}, {"data_offsets", offsets(0, 2)}}; },
     "12 bits of F4"},
    {"f8Named",
     [](Header &h) { h[q] = {{"dtype", "F8_E5M2"}, {"shape", {1024}}, {"data_offsets", h[q]["data_offsets"]}}; },
     "dtype F8_E5M2 is not supported"},
    {"metadataNotStrings", [](Header &h) { h["__metadata__"] = {{"format", 1}}; }, "__metadata__"},
    {"metadataNotObject", [](Header &h) { h["__metadata__"] = "pt"; }, "expected an object"},
    {"tensorNotObject", [](Header &h) { h["zz"] = 1; }, "tensor 'zz': header byte"},
};

INSTANTIATE_TEST_SUITE_P(Safetensors, HeaderRefused, testing::ValuesIn(badHeaders),
                         [](const auto &info) { return info.param.name; });

TEST(Safetensors, headerItself) {
  auto contains = [](const std::string &bytes, const char *expected) {
    std::string message = refusalOfBytes(bytes);
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  };
  contains("abc", "too short: 3 bytes");
  contains(bytesOf<uint64_t>(100'000'001) + "{}", "header of 100000001 bytes, the limit is 100000000");
  contains(bytesOf<uint64_t>(UINT64_MAX) + "{}", "the limit is");
  contains(bytesOf<uint64_t>(3) + "{}", "past the end of the file");
  contains(bytesOf<uint64_t>(0), "does not start with '{'");
  contains(safetensorsFile(" {}", 0), "does not start with '{'");
  contains(safetensorsFile("[]", 0), "does not start with '{'");
  contains(safetensorsFile("{\"\xff\": 1}", 0), "not UTF-8");
  contains(safetensorsFile("{}x", 0), "text after the end");
  contains(safetensorsFile("{", 0), "truncated");
  contains(safetensorsFile("{\"a\"}", 0), "expected ':'");
  contains(safetensorsFile("{\"a\\q\": 1}", 0), "unknown escape");
  contains(safetensorsFile("{\"\\ud800\": 1}", 0), "surrogate");
}

TEST(Safetensors, sameTensorTwice) {
  std::string entry = R"({"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  EXPECT_NE(
      refusalOfBytes(safetensorsFile("{\"a\":" + entry + ",\"a\":" + entry + "}", 0)).find("duplicate tensor 'a'"),
      std::string::npos);
  // The same name, spelled with an escape.
  EXPECT_NE(refusalOfBytes(safetensorsFile("{\"a\":" + entry + ",\"\\u0061\":" + entry + "}", 0))
                .find("duplicate tensor 'a'"),
            std::string::npos);
  EXPECT_NE(
      refusalOfBytes(safetensorsFile(R"({"a":{"dtype":"F32","dtype":"F16","shape":[0],"data_offsets":[0,0]}})", 0))
          .find("duplicate field 'dtype'"),
      std::string::npos);
}

TEST(Safetensors, nestingIsBounded) {
  std::string deep = "{\"a\":{\"x\":" + std::string(100'000, '[') + "}}";
  EXPECT_NE(refusalOfBytes(safetensorsFile(deep, 0)).find("nested deeper than 64"), std::string::npos);
}

TEST(Safetensors, tensorCountIsBounded) {
  std::string header = "{";
  for (int i = 0; i < 300'000; ++i)
    header += (i ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  EXPECT_NE(refusalOfBytes(safetensorsFile(header + "}", 0)).find("more than 262144 tensors"), std::string::npos);
}

TEST(Safetensors, spacesUnknownFieldsAndEmptyTensorsAreFine) {
  EXPECT_EQ(refusalOf([](Header &h) {
              h["__metadata__"] = {{"format", "pt"}};
              h["empty"] = {{"dtype", "F32"}, {"shape", {0, 7}}, {"data_offsets", offsets(0, 0)}};
              h[q]["note"] = {1, 2, {{"x", nullptr}}};
            }),
            "");
}

TEST(Safetensors, everyTruncationIsRefused) {
  TemporaryFolder folder;
  writeHuggingFace(folder, tinyConfig(), tinyTensors());
  std::string bytes = safetensorsFile(tinyTensors());
  for (size_t length = 0; length < bytes.size(); length += length < 3000 ? 7 : 301) {
    folder.write("model.safetensors", bytes.substr(0, length));
    EXPECT_NE(refusal(folder.path()), "") << length;
  }
}

class Sharded : public testing::Test {
protected:
  Sharded() {
    std::vector<SafetensorsTensor> all = tinyTensors();
    first.assign(all.begin(), all.begin() + 9);
    second.assign(all.begin() + 9, all.end());
    for (const SafetensorsTensor &tensor : first)
      map[tensor.name] = "a.safetensors";
    for (const SafetensorsTensor &tensor : second)
      map[tensor.name] = "b.safetensors";
    folder.write("config.json", tinyConfig().dump());
  }
  std::string refused() {
    folder.write("a.safetensors", safetensorsFile(first));
    folder.write("b.safetensors", safetensorsFile(second));
    return refusedAsWritten();
  }
  std::string refusedAsWritten() {
    folder.write("model.safetensors.index.json",
                 nlohmann::json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump());
    return refusal(folder.path());
  }
  TemporaryFolder folder;
  std::vector<SafetensorsTensor> first, second;
  nlohmann::json map;
};

TEST_F(Sharded, isRead) {
  EXPECT_EQ(refused(), "");
}

TEST_F(Sharded, linksAsInTheCache) {
  EXPECT_EQ(refused(), "");
  std::filesystem::create_directory(folder.path("blobs"));
  std::filesystem::rename(folder.path("b.safetensors"), folder.path("blobs/1234"));
  std::filesystem::create_symlink("blobs/1234", folder.path("b.safetensors"));
  EXPECT_EQ(refusedAsWritten(), "");
}

// snapshots/REVISION/NAME -> ../../blobs/HASH, whatever the model is read from.
TEST_F(Sharded, linksIntoBlobs) {
  EXPECT_EQ(refused(), "");
  TemporaryFolder cache;
  std::filesystem::create_directories(cache.path("blobs"));
  std::filesystem::create_directories(cache.path("snapshots/1"));
  for (const char *name : {"config.json", "model.safetensors.index.json", "a.safetensors", "b.safetensors"}) {
    std::filesystem::copy_file(folder.path(name), cache.path(std::string("blobs/") + name + "-hash"));
    std::filesystem::create_symlink(std::string("../../blobs/") + name + "-hash",
                                    cache.path(std::string("snapshots/1/") + name));
  }
  EXPECT_EQ(refusal(cache.path("snapshots/1")), "");
  EXPECT_EQ(refusal(cache.path("snapshots/1/")), "");
}

TEST_F(Sharded, linkThatLeadsOut) {
  EXPECT_EQ(refused(), "");
  TemporaryFolder elsewhere;
  std::filesystem::rename(folder.path("b.safetensors"), elsewhere.path("b"));
  std::filesystem::create_symlink(elsewhere.path("b"), folder.path("b.safetensors"));
  std::string message = refusedAsWritten();
  EXPECT_NE(message.find("b.safetensors: is, or lies behind, a symbolic link that leads to '"), std::string::npos)
      << message;
  EXPECT_NE(message.find("/b', outside of the model's folder: not allowed"), std::string::npos) << message;
}

TEST_F(Sharded, absentShard) {
  folder.write("a.safetensors", safetensorsFile(first));
  EXPECT_NE(refusedAsWritten().find("index.json: shard 'b.safetensors' is missing"), std::string::npos);
}

TEST_F(Sharded, pathsOutside) {
  for (const char *shard : {"../b.safetensors", "/etc/passwd", "sub/b.safetensors", "..", ""}) {
    map["lm_head.weight"] = shard;
    EXPECT_NE(refused().find("expected a plain file name"), std::string::npos) << shard;
  }
}

TEST_F(Sharded, tensorInTwoShards) {
  second.push_back(first[0]);
  EXPECT_NE(refused().find("b.safetensors: tensor 'lm_head.weight' is also in"), std::string::npos);
}

TEST_F(Sharded, tensorInAnotherShard) {
  map["lm_head.weight"] = "b.safetensors";
  EXPECT_NE(refused().find("tensor 'lm_head.weight' is not in 'b.safetensors'"), std::string::npos);
}

TEST_F(Sharded, brokenIndex) {
  refused();
  for (auto [text, expected] : {std::pair<const char *, const char *>{"{}", "'weight_map' is missing"},
                                {"[]", "expected an object"},
                                {"{\"weight_map\": {\"a\": 1}}", "expected a string"},
                                {"{\"weight_map\": {}, \"weight_map\": {}}", "duplicate key 'weight_map'"},
                                {"\xff", "not UTF-8"}}) {
    folder.write("model.safetensors.index.json", text);
    std::string message = refusal(folder.path());
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
}

TEST(Safetensors, directoriesWithoutWeights) {
  TemporaryFolder folder;
  EXPECT_NE(refusal(folder.path()).find("holds no config.json"), std::string::npos);
  folder.write("config.json", tinyConfig().dump());
  EXPECT_NE(refusal(folder.path()).find("holds no model.safetensors"), std::string::npos);
  folder.write("pytorch_model.bin", "x");
  EXPECT_NE(refusal(folder.path()).find("convert them to safetensors"), std::string::npos);
  std::string weights = folder.write("w.safetensors", safetensorsFile(tinyTensors()));
  EXPECT_NE(refusal(weights).find("give the directory"), std::string::npos);
}

} // namespace
