// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --io on the executable reference-llama.
#include "bytes/Safetensors.h"
#include "test/unit/ReferenceModel.h"
#include "test/unit/TestPackage.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/wait.h>

using namespace heddle;
using namespace heddle::reference;

namespace {

struct Io {
  SafetensorsFile goldens;
  std::string in = scratchFolder() + "/io-in", out = scratchFolder() + "/io-out", err = scratchFolder() + "/io-err";
  std::vector<TensorToWrite> inputs;
  std::unique_ptr<SafetensorsFile> outputs;
  std::string message;

  Io() { EXPECT_TRUE(goldens.open(HEDDLE_TEST_MODELS "/llama/golden.safetensors").isOk()); }
  void give(const char *name, const char *goldenName) {
    const StoredTensor &tensor = *goldens.find(goldenName);
    inputs.push_back({name, std::string(tensor.dtype), tensor.shape, tensor.data, tensor.size});
  }
  int run(const std::string &flags = "") {
    unlink(out.c_str());
    EXPECT_TRUE(writeSafetensors(in, inputs).isOk());
    std::string command = "'" HEDDLE_REFERENCE_LLAMA "' --io " + in + " " + out + " " + flags + " 2>" + err;
    int status = system(command.c_str());
    FILE *file = fopen(err.c_str(), "r");
    char line[4096] = "";
    if (file && fgets(line, sizeof line, file))
      message = line;
    if (file)
      fclose(file);
    outputs.reset(new SafetensorsFile);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    EXPECT_EQ(outputs->open(out).isOk(), code == 0) << message;
    return code;
  }
  const float *floats(const char *name) { return reinterpret_cast<const float *>(outputs->find(name)->data); }
  const float *golden(const char *name) { return reinterpret_cast<const float *>(goldens.find(name)->data); }
};

TEST(Io, logitsOfAllPositions) {
  Io io;
  io.give("input_ids", "p1.input_ids");
  ASSERT_EQ(io.run(), 0) << io.message;
  EXPECT_EQ(io.outputs->find("logits")->shape, (std::vector<int64_t>{1, 7, vocabSize}));
  EXPECT_EQ(io.outputs->find("last_hidden_state")->shape, (std::vector<int64_t>{1, 7, hiddenSize}));
  for (int i = 0; i < 7 * vocabSize; ++i)
    ASSERT_NEAR(io.floats("logits")[i], io.golden("p1.logits")[i], 1e-4);
  // The last of the golden's hidden states is the one after the final norm.
  for (int i = 0; i < 7 * hiddenSize; ++i)
    ASSERT_NEAR(io.floats("last_hidden_state")[i], io.golden("p1.hidden_states")[2 * 7 * hiddenSize + i], 1e-4);
}

TEST(Io, paddingMayLieLeftOrRight) {
  for (bool explicitPositions : {false, true}) {
    Io io;
    io.give("input_ids", "batch.input_ids");
    io.give("attention_mask", "batch.attention_mask");
    if (explicitPositions)
      io.give("position_ids", "batch.position_ids");
    ASSERT_EQ(io.run(), 0) << io.message;
    const auto *mask = reinterpret_cast<const int64_t *>(io.goldens.find("batch.attention_mask")->data);
    for (int at = 0; at < 14; ++at)
      for (int i = 0; i < vocabSize; ++i)
        ASSERT_NEAR(io.floats("logits")[at * vocabSize + i],
                    mask[at] ? io.golden("batch.logits")[at * vocabSize + i] : 0, 1e-4);
  }
  // The same row padded on the other side.
  Io io;
  int32_t ids[] = {60, 61, 62, 0, 0, 0, 60, 61, 62, 0}, mask[] = {1, 1, 1, 0, 0, 0, 1, 1, 1, 0};
  io.inputs = {{"input_ids", "I32", {2, 5}, ids, sizeof ids}, {"attention_mask", "I32", {2, 5}, mask, sizeof mask}};
  ASSERT_EQ(io.run(), 0) << io.message;
  EXPECT_EQ(memcmp(io.floats("logits"), io.floats("logits") + 6 * vocabSize, 3 * vocabSize * sizeof(float)), 0);
}

// A masked token between others keeps its place.
TEST(Io, masksWithGaps) {
  Io gap, places, closed;
  int64_t ids[] = {60, 61, 99, 62, 0}, mask[] = {1, 1, 0, 1, 0}, three[] = {60, 61, 62}, positions[] = {0, 1, 3};
  gap.inputs = {{"input_ids", "I64", {1, 5}, ids, sizeof ids}, {"attention_mask", "I64", {1, 5}, mask, sizeof mask}};
  places.inputs = {{"input_ids", "I64", {1, 3}, three, sizeof three},
                   {"position_ids", "I64", {1, 3}, positions, sizeof positions}};
  closed.inputs = {{"input_ids", "I64", {1, 3}, three, sizeof three}};
  ASSERT_EQ(gap.run(), 0) << gap.message;
  ASSERT_EQ(places.run(), 0) << places.message;
  ASSERT_EQ(closed.run(), 0) << closed.message;
  size_t bytes = vocabSize * sizeof(float);
  EXPECT_EQ(memcmp(gap.floats("logits") + 3 * vocabSize, places.floats("logits") + 2 * vocabSize, bytes), 0);
  EXPECT_NE(memcmp(gap.floats("logits") + 3 * vocabSize, closed.floats("logits") + 2 * vocabSize, bytes), 0);
}

TEST(Io, generates) {
  Io io;
  io.give("input_ids", "p2.input_ids");
  ASSERT_EQ(io.run("-n 24 --temp 0 --ignore-eos --outputs=ids,generated_logits"), 0) << io.message;
  EXPECT_EQ(io.outputs->tensors().size(), 2u);
  EXPECT_EQ(memcmp(io.outputs->find("ids")->data, io.goldens.find("p2.greedy_ids")->data, 24 * 8), 0);
  for (int i = 0; i < 24 * vocabSize; ++i)
    ASSERT_NEAR(io.floats("generated_logits")[i], io.golden("p2.greedy_logits")[i], 1e-4);
}

TEST(Io, rowsThatEndArePadded) {
  Io io;
  io.give("input_ids", "p1.input_ids");
  int64_t third = reinterpret_cast<const int64_t *>(io.goldens.find("p1.greedy_ids")->data)[2];
  ASSERT_EQ(io.run("-n 5 --temp 0 --eos " + std::to_string(third)), 0) << io.message;
  const auto *ids = reinterpret_cast<const int64_t *>(io.outputs->find("ids")->data);
  EXPECT_EQ(ids[2], third);
  EXPECT_EQ(ids[3], 0); // the pad token
  EXPECT_EQ(ids[4], 0);
}

TEST(Io, beamsOfABatch) {
  Io io;
  io.give("input_ids", "batch.input_ids");
  io.give("attention_mask", "batch.attention_mask");
  ASSERT_EQ(io.run("-n 4 --beam 3 --num-return-sequences 2 --ignore-eos"), 0) << io.message;
  EXPECT_EQ(io.outputs->find("ids")->shape, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(io.outputs->find("generated_logits")->shape, (std::vector<int64_t>{4, 4, vocabSize}));
}

TEST(Io, deterministicIsBitEqualAcrossBatches) {
  Io batch, single;
  int64_t ids[] = {9, 8, 7, 5, 6, 7}, row[] = {5, 6, 7};
  batch.inputs = {{"input_ids", "I64", {2, 3}, ids, sizeof ids}};
  single.inputs = {{"input_ids", "I64", {1, 3}, row, sizeof row}};
  ASSERT_EQ(batch.run("--deterministic"), 0);
  std::vector<float> second(batch.floats("logits") + 3 * vocabSize, batch.floats("logits") + 6 * vocabSize);
  ASSERT_EQ(single.run("--deterministic"), 0);
  EXPECT_EQ(memcmp(second.data(), single.floats("logits"), second.size() * sizeof(float)), 0);
}

TEST(IoErrors, nameTheTensor) {
  auto refuse = [](std::vector<TensorToWrite> inputs, const std::string &flags, const std::string &fragment) {
    Io io;
    io.inputs = std::move(inputs);
    EXPECT_EQ(io.run(flags), 2);
    EXPECT_NE(io.message.find(fragment), std::string::npos) << io.message;
  };
  int64_t ids[] = {5, 6, 256, 1}, mask[] = {1, 2}, far[] = {0, 128};
  std::vector<int64_t> tooLong(129, 5);
  TensorToWrite good = {"input_ids", "I64", {1, 2}, ids, 16};
  refuse({{"input_ids", "I64", {1, 3}, ids, 24}}, "", "input_ids[0, 2] is 256, expected an id in [0, 256)");
  refuse({{"input_ids", "F32", {1, 4}, ids, 16}}, "", "tensor 'input_ids' is F32, expected I64 or I32");
  refuse({{"input_ids", "I64", {2}, ids, 16}}, "", "tensor 'input_ids' has shape (2), expected (batch, sequence)");
  refuse({{"tokens", "I64", {1, 2}, ids, 16}}, "", "tensor 'tokens' is no input of this model");
  refuse({{"attention_mask", "I64", {1, 2}, ids, 16}}, "", "no tensor 'input_ids'");
  refuse({good, {"attention_mask", "I64", {1, 2}, mask, 16}}, "", "attention_mask[0, 1] is 2, expected 0 or 1");
  refuse({good, {"attention_mask", "I64", {1, 1}, mask, 8}}, "",
         "tensor 'attention_mask' has shape (1, 1), input_ids has (1, 2)");
  refuse({good, {"position_ids", "I64", {1, 2}, far, 16}}, "", "position_ids[0, 1] is 128, expected one in [0, 128)");
  refuse({{"input_ids", "I64", {1, 129}, tooLong.data(), 129 * 8}}, "", "the prompt has 129 tokens, the context 128");
  refuse({good}, "-n 200", "2 tokens and -n 200, the context is 128");
  refuse({good}, "--outputs=attentions", "--outputs: 'attentions' is no output of this model");
}

} // namespace
