// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX files as a stranger may write them: external data, types within types, functions that call each other.
#include "ModelFiles.h"
#include "bytes/Text.h"
#include "frontends/onnx/OnnxModel.h"
#include "frontends/onnx/Sha1.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;

namespace {

// --- protobuf's wire format; the numbers are those of onnx-ml.proto -----------------------------------------------------------------

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7)
    out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string number(uint32_t field, uint64_t value) {
  return varint(field << 3) + varint(value);
}
std::string bytes(uint32_t field, const std::string &value) {
  return varint(field << 3 | 2) + varint(value.size()) + value;
}

std::string node(const std::string &op, const std::string &input, const std::string &output, const char *domain = "",
                 const std::string &attributes = "") {
  return bytes(1, input) + bytes(2, output) + bytes(4, op) + bytes(7, domain) + attributes;
}
std::string valueInfo(const std::string &name, const std::string &type) {
  return bytes(1, name) + bytes(2, type);
}
const std::string floatType = bytes(1, number(1, 1) + bytes(2, ""));

// A graph from x to y, and what else the model has.
std::string graphOf(const std::string &more, const std::string &xType = floatType) {
  return more + bytes(2, "g") + bytes(11, valueInfo("x", xType)) + bytes(12, valueInfo("y", floatType));
}
std::string modelOf(const std::string &graph, const std::string &more = "") {
  return number(1, 8) + bytes(7, graph) + bytes(8, number(2, 18)) + bytes(8, bytes(1, "local") + number(2, 1)) + more;
}
const std::string identity = bytes(1, node("Identity", "x", "y"));

std::string refusalOf(const std::string &model) {
  TemporaryFolder folder;
  return refusal(folder.write("model.onnx", model));
}

void expectRefused(const std::string &model, const std::string &expected) {
  std::string message = refusalOf(model);
  EXPECT_NE(message.find(expected), std::string::npos) << message;
  EXPECT_NE(message.find("model.onnx: "), std::string::npos) << message;
  EXPECT_LT(message.size(), 4096u);
}

// --- external data ------------------------------------------------------------------------------------------------------------------

using Entries = std::vector<std::pair<std::string, std::string>>;

// A model with the initializer w of two floats.
std::string externalModel(const Entries &entries) {
  std::string tensor = number(1, 2) + number(2, 1) + bytes(8, "w");
  for (const auto &[key, value] : entries)
    tensor += bytes(13, bytes(1, key) + bytes(2, value));
  return modelOf(graphOf(identity + bytes(5, tensor + number(14, 1))));
}

class External : public testing::Test {
protected:
  External() {
    folder.write("model.onnx", externalModel({{"location", "w.bin"}}));
    elsewhere.write("foreign", "01234567");
  }
  void expectRefusal(const std::string &expected) {
    std::string message = refusal(folder.path("model.onnx"));
    EXPECT_NE(message.find("model.onnx: tensor 'w': external data: "), std::string::npos) << message;
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
  TemporaryFolder folder, elsewhere;
};

TEST_F(External, isReadWhereTheEntriesSay) {
  folder.write("w.bin", "0123456789abcdef");
  ModelFiles files(folder.write("m.onnx", externalModel({{"checksum", "FE5567E8D769550852182CDF69D74BB16DFF8E29"},
                                                         {"length", "8"},
                                                         {"offset", "4"},
                                                         {"location", "w.bin"}})));
  Expected<OnnxModel> model = readOnnx(files);
  ASSERT_TRUE(model) << model.message();
  const OnnxTensor &tensor = model->graph.initializers[0];
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(model->data(tensor)), tensor.bytes), "456789ab");
  std::vector<std::string> opened;
  for (const SharedFile &file : files.opened())
    opened.push_back(file->path());
  EXPECT_EQ(opened, (std::vector<std::string>{folder.path("m.onnx"), folder.path("w.bin")}));
}

// Digests of FIPS 180-4's examples, and of every length around a block.
TEST(Sha1, isThatOfTheStandard) {
  auto digest = [](const std::string &text) {
    Sha1Digest bytes = sha1(text.data(), text.size());
    return hexadecimal(bytes.data(), bytes.size());
  };
  EXPECT_EQ(digest("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(digest(std::string(1000000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
  std::string all;
  for (size_t length = 0; length < 130; ++length)
    all += digest(std::string(length, 'x'));
  EXPECT_EQ(digest(all), "3bbe88bdb89312954ced71b5ab31e144c9122748");
}

TEST_F(External, entriesAreThoseOfTheSpecification) {
  folder.write("w.bin", "01234567");
  EXPECT_EQ(refusal(folder.path("model.onnx")), "");
  for (const auto &[entries, expected] : {
           std::pair<Entries, const char *>{{{"location", "w.bin"}, {"basepath", "/etc"}},
                                            "unknown key 'basepath', expected location, offset, length or checksum"},
           {{{"location", "w.bin"}, {"Offset", "0"}}, "unknown key 'Offset'"},
           {{{"location", "w.bin"}, {"", ""}}, "unknown key ''"},
           {{{"location", "w.bin"}, {"location", "w.bin"}}, "location is there twice"},
           {{{"location", "w.bin"}, {"offset", "0"}, {"offset", "4"}}, "offset is there twice"},
           {{{"offset", "0"}}, "location is missing"},
           {{{"location", "w.bin"}, {"offset", "-4"}}, "offset '-4' is no number of bytes"},
           {{{"location", "w.bin"}, {"length", "9"}}, "length 9, expected 8 bytes"},
           {{{"location", "w.bin"}, {"offset", "1"}}, "reach past the end of 'w.bin', which has 8 bytes"},
           {{{"location", "../w.bin"}}, "location '../w.bin' is not allowed: expected a relative path"},
           {{{"location", "/dev/zero"}}, "location '/dev/zero' is not allowed"},
           {{{"location", ""}}, "location '' is not allowed"},
           {{{"location", "."}}, ".: is not a regular file"},
           {{{"location", "w.bin"}, {"checksum", "da39a3ee5e6b4b0d3255bfef95601890afd80709"}},
            "checksum 'da39a3ee5e6b4b0d3255bfef95601890afd80709', but the SHA-1 of 'w.bin' is "
            "ccaa8d8dcc7d030cd6a6768db81f90d0ef976c3d"},
           {{{"location", "w.bin"}, {"checksum", "deadbeef"}}, "checksum 'deadbeef', but the SHA-1 of 'w.bin' is "},
           {{{"location", "w.bin"}, {"checksum", ""}}, "checksum '', but the SHA-1 of 'w.bin' is "},
       }) {
    folder.write("model.onnx", externalModel(entries));
    expectRefusal(expected);
  }
}

// snapshots/REVISION/model.onnx and model.onnx_data are links into blobs/.
TEST_F(External, linksIntoBlobs) {
  std::filesystem::create_directories(folder.path("blobs"));
  std::filesystem::create_directories(folder.path("snapshots/1/onnx"));
  folder.write("blobs/0a", externalModel({{"location", "w.bin"}}));
  folder.write("blobs/1b", "01234567");
  std::string model = folder.path("snapshots/1/onnx/model.onnx"), data = folder.path("snapshots/1/onnx/w.bin");
  std::filesystem::create_symlink("../../../blobs/0a", model);
  std::filesystem::create_symlink("../../../blobs/1b", data);
  EXPECT_EQ(refusal(model), "");
  // Into the folder of the model's own file only.
  std::filesystem::remove(data);
  std::filesystem::create_symlink(elsewhere.path("foreign"), data);
  EXPECT_NE(refusal(model).find("outside of the model's folder: not allowed"), std::string::npos);
}

TEST_F(External, linksWithinTheFolder) {
  std::filesystem::create_directory(folder.path("data"));
  folder.write("data/w", "01234567");
  std::filesystem::create_symlink("data/w", folder.path("w.bin"));
  EXPECT_EQ(refusal(folder.path("model.onnx")), "");
}

TEST_F(External, linksThatLeadOut) {
  std::filesystem::create_symlink(elsewhere.path("foreign"), folder.path("w.bin"));
  expectRefusal("w.bin: is, or lies behind, a symbolic link that leads to '");
  std::filesystem::create_directory_symlink(elsewhere.path(), folder.path("sub"));
  folder.write("model.onnx", externalModel({{"location", "sub/foreign"}}));
  expectRefusal("/foreign', outside of the model's folder: not allowed");
  // A folder whose name only begins as the model's is another one.
  std::filesystem::create_directory(folder.path() + "-more");
  std::filesystem::copy_file(elsewhere.path("foreign"), folder.path() + "-more/w");
  std::filesystem::create_symlink(folder.path() + "-more/w", folder.path("near"));
  folder.write("model.onnx", externalModel({{"location", "near"}}));
  expectRefusal("-more/w', outside of the model's folder: not allowed");
  std::filesystem::remove_all(folder.path() + "-more");
  std::filesystem::create_symlink("nothing", folder.path("dangling"));
  folder.write("model.onnx", externalModel({{"location", "dangling"}}));
  expectRefusal("dangling: cannot be opened: No such file or directory");
}

TEST_F(External, hardLinks) {
  std::filesystem::create_hard_link(elsewhere.path("foreign"), folder.path("w.bin"));
  expectRefusal("w.bin: has 2 hard links, expected 1");
  std::filesystem::remove(elsewhere.path("foreign"));
  EXPECT_EQ(refusal(folder.path("model.onnx")), "");
}

TEST_F(External, otherKindsOfFiles) {
  std::filesystem::create_directory(folder.path("w.bin"));
  expectRefusal("w.bin: is not a regular file");
}

// --- nesting ------------------------------------------------------------------------------------------------------------------------

TEST(OnnxTypes, areNestedSoDeepOnly) {
  auto nested = [](uint32_t wrapper, uint32_t element, int depth) {
    std::string type = floatType;
    for (int i = 0; i < depth; ++i)
      type = bytes(wrapper, bytes(element, type));
    return type;
  };
  const std::pair<uint32_t, uint32_t> sequence{4, 1}, map{5, 2}, optional{9, 1};
  for (auto [wrapper, element] : {sequence, map, optional}) {
    std::string deep = nested(wrapper, element, 2'000), shallow = nested(wrapper, element, 2);
    if (wrapper == map.first) // its keys are numbers
      shallow = bytes(5, number(1, 7) + bytes(2, floatType));
    auto asInput = [](const std::string &type) { return modelOf(graphOf(identity, type)); };
    auto asValue = [](const std::string &type) { return modelOf(graphOf(identity + bytes(13, valueInfo("v", type)))); };
    auto asAttribute = [](const std::string &type) {
      return modelOf(graphOf(bytes(1, node("Identity", "x", "y", "", bytes(5, bytes(1, "type") + bytes(14, type))))));
    };
    EXPECT_EQ(refusalOf(asInput(shallow)), "");
    EXPECT_EQ(refusalOf(asValue(shallow)), "");
    EXPECT_EQ(refusalOf(asAttribute(shallow)), "");
    expectRefused(asInput(deep), "messages nested deeper than 64");
    expectRefused(asValue(deep), "messages nested deeper than 64");
    expectRefused(asAttribute(deep), "messages nested deeper than 64");
  }
}

TEST(OnnxTypes, wrappersAreNoTensors) {
  TemporaryFolder folder;
  ModelFiles files(folder.write("model.onnx", modelOf(graphOf(identity, bytes(4, bytes(1, floatType))))));
  Expected<OnnxModel> model = readOnnx(files);
  ASSERT_TRUE(model) << model.message();
  EXPECT_FALSE(model->graph.inputs[0].isTensor);
}

TEST(OnnxGraphs, areNestedSoDeepOnly) {
  std::string graph = graphOf(identity);
  for (int i = 0; i < 1000; ++i)
    graph = graphOf(bytes(1, node("If", "x", "y", "", bytes(5, bytes(1, "then_branch") + bytes(6, graph)))));
  expectRefused(modelOf(graph), "messages nested deeper than 64");
}

// Functions f0 … of `calls` nodes each, of which each calls the next, or has a branch that does; the last one is plain.
std::string functions(int count, int calls, bool inBranches = false) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    std::string next = "f" + std::to_string(i + 1), nodes;
    for (int n = 0; n < calls; ++n) {
      std::string output = n + 1 < calls ? "t" + std::to_string(n) : "y";
      std::string call = i + 1 < count ? node(next, "x", output, "local") : node("Identity", "x", output);
      std::string branch = bytes(1, call) + bytes(12, valueInfo(output, floatType));
      nodes += bytes(7, inBranches ? node("If", "x", output, "", bytes(5, bytes(1, "then_branch") + bytes(6, branch)))
                                   : call);
    }
    all += bytes(25, bytes(1, "f" + std::to_string(i)) + bytes(4, "x") + bytes(5, "y") + nodes +
                         bytes(9, number(2, 18)) + bytes(9, bytes(1, "local") + number(2, 1)) + bytes(10, "local"));
  }
  return all;
}

TEST(OnnxFunctions, expandToSoManyNodesOnly) {
  std::string graph = graphOf(bytes(1, node("f0", "x", "y", "local")));
  EXPECT_EQ(refusalOf(modelOf(graph, functions(10, 2))), "");
  expectRefused(modelOf(graph, functions(40, 2)), "with its functions expanded it has more than 1048576 nodes");
  expectRefused(modelOf(graph, functions(65, 1)), "function 'f64' is called through more than 64 others");
  EXPECT_EQ(refusalOf(modelOf(graph, functions(64, 1))), "");
  EXPECT_EQ(refusalOf(modelOf(graph, functions(30, 1, /*inBranches=*/true))), "");
  expectRefused(modelOf(graph, functions(40, 1, /*inBranches=*/true)),
                "functions and graphs are nested deeper than 64");
  // Nor may a graph call a function that is just small enough many times.
  std::string many;
  for (int i = 0; i < 3; ++i)
    many += bytes(1, node("f0", "x", "y" + std::string(i ? std::to_string(i) : ""), "local"));
  expectRefused(modelOf(graphOf(many), functions(18, 2)),
                "the graph: with its functions expanded it has more than 1048576 nodes");
}

TEST(OnnxFunctions, doNotCallThemselves) {
  std::string self =
      bytes(25, bytes(1, "f0") + bytes(4, "x") + bytes(5, "y") + bytes(7, node("f0", "x", "y", "local")) +
                    bytes(9, bytes(1, "local") + number(2, 1)) + bytes(10, "local"));
  expectRefused(modelOf(graphOf(bytes(1, node("f0", "x", "y", "local"))), self),
                "function 'f0' calls itself: recursion is not allowed");
}

} // namespace
