// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which rows a session hands to a step where a prompt holds rows that it was given.
#include "test/unit/TestModel.h"

#include <gtest/gtest.h>
#include <vector>

using namespace heddle;
using namespace heddle::reference;

namespace {

struct Rows {
  int32_t past, count;
  bool seesAhead;
  bool operator==(const Rows &other) const {
    return past == other.past && count == other.count && seesAhead == other.seesAhead;
  }
};
std::ostream &operator<<(std::ostream &out, const Rows &rows) {
  return out << rows.count << " behind " << rows.past << (rows.seesAhead ? ", ahead" : "");
}

std::vector<Rows> steps; // of all since the last look
int32_t firstId;         // of the last step

void record(const heddle_step *step, int32_t thread, int32_t) {
  if (thread)
    return;
  for (int64_t i = 0; i < step->num_sequences; ++i)
    steps.push_back({step->sequences[i].past, step->sequences[i].num_rows, step->sequences[i].sees_ahead != 0});
  firstId = step->ids[0];
  std::fill_n(step->logits, step->num_outputs * vocabSize, 0.0F);
}

std::vector<Rows> taken() {
  return std::exchange(steps, {});
}

void noGraph(heddle_graph_call *) {}

// The reference model as one all of whose prompts with images see themselves.
struct SeeingModel : TestModel {
  explicit SeeingModel(bool prompts, uint32_t deep = 0) {
    addImages(metadata, /*rows=*/2, hiddenSize * (1 + int64_t(deep)));
    metadata.given->prompt_sees_ahead = prompts;
    metadata.given->sees_ahead = !prompts && !deep;
    if (deep) {
      metadata.given->deep = deep;
      metadata.given->count = 0;
      auto grid = std::make_unique<package::GivenGridT>();
      grid->patch = 4, grid->frames = 1, grid->merge = 1, grid->channels = 3, grid->head_dim = 8, grid->theta = 1e4;
      metadata.given->grid = std::move(grid);
    }
    bytes = makePackage(metadata, weights);
    code = makeCode(bytes);
    code.step = record;
    static const heddle_graph_function graphs[] = {noGraph};
    code.num_graphs = 1;
    code.graphs = graphs;
    Status status = Package::openFile(writeFile("seeing", makeElf(bytes, weights)), &code, {}, package);
    EXPECT_TRUE(status.isOk()) << status.message();
    taken();
  }
};

// Ids of two rows that the session is given.
int32_t givenTo(Session &session, int64_t columns = 0, int64_t width = hiddenSize) {
  std::vector<float> rows(size_t(2 * width), 1.0F);
  int32_t first = -1;
  Status status = session.give(rows.data(), int64_t(rows.size()) / hiddenSize, first, columns);
  EXPECT_TRUE(status.isOk()) << status.message();
  return first;
}

Status append(Session &session, const std::vector<int32_t> &ids) {
  return session.append(0, ids.data(), int32_t(ids.size()));
}

TEST(SessionOfImages, aPromptThatSeesItselfIsComputedWhole) {
  SeeingModel seeing(/*prompts=*/true);
  auto session = seeing.session();
  int32_t image = givenTo(*session);
  ASSERT_TRUE(append(*session, {7, image, image + 1, 8}).isOk());
  EXPECT_EQ(taken(), (std::vector<Rows>{{0, 4, true}}));
  ASSERT_TRUE(append(*session, {9}).isOk());
  EXPECT_EQ(taken(), (std::vector<Rows>{{4, 1, false}}));
  ASSERT_TRUE(append(*session, {9, 10}).isOk());
  EXPECT_EQ(taken(), (std::vector<Rows>{{5, 2, false}}));
  // What is left of an answer stays.
  session->truncate(0, 5);
  ASSERT_TRUE(append(*session, {11}).isOk());
  EXPECT_EQ(taken(), (std::vector<Rows>{{5, 1, false}}));
  session->truncate(0, 4);
  ASSERT_TRUE(append(*session, {11}).isOk());
  EXPECT_EQ(taken(), (std::vector<Rows>{{4, 1, false}}));
}

// What is left of such a prompt saw what is gone: it is computed again, with what follows it, which is part of the prompt then.
TEST(SessionOfImages, aPromptThatIsCutShortIsComputedAgain) {
  SeeingModel seeing(/*prompts=*/true);
  auto session = seeing.session();
  int32_t image = givenTo(*session);
  ASSERT_TRUE(append(*session, {7, image, image + 1, 8}).isOk());
  ASSERT_TRUE(append(*session, {9}).isOk());
  taken();
  session->truncate(0, 3);
  ASSERT_TRUE(append(*session, {12, 13}).isOk());
  EXPECT_EQ(taken(), (std::vector<Rows>{{0, 5, true}}));
  EXPECT_EQ(firstId, 7);
  ASSERT_TRUE(append(*session, {9}).isOk());
  EXPECT_EQ(taken(), (std::vector<Rows>{{5, 1, false}}));
  // Without its image it is as any other.
  session->truncate(0, 1);
  ASSERT_TRUE(append(*session, {12, 13}).isOk());
  EXPECT_EQ(taken(), (std::vector<Rows>{{0, 3, false}}));
  session->truncate(0, 2);
  ASSERT_TRUE(append(*session, {14}).isOk());
  EXPECT_EQ(taken(), (std::vector<Rows>{{2, 1, false}}));
  session->truncate(0, 0);
  ASSERT_TRUE(append(*session, {image, image + 1}).isOk());
  EXPECT_EQ(taken(), (std::vector<Rows>{{0, 2, true}}));
}

TEST(SessionOfImages, aStepTakesAPromptThatSeesItselfWholeOrNotAtAll) {
  SeeingModel seeing(/*prompts=*/true);
  auto session = seeing.session();
  int32_t image = givenTo(*session);
  std::vector<int32_t> ids(maxRows + 1, 7);
  ids[3] = image, ids[4] = image + 1;
  EXPECT_EQ(append(*session, ids).message(), "9 rows see each other, a step takes at most 8");
  EXPECT_EQ(session->length(0), 0);
  std::fill(ids.begin(), ids.end(), 7); // a prompt without an image is cut
  taken();
  ASSERT_TRUE(append(*session, ids).isOk());
  EXPECT_EQ(taken(), (std::vector<Rows>{{0, 8, false}, {8, 1, false}}));
}

TEST(SessionOfImages, tokensOfAnImageSeeEachOther) {
  SeeingModel seeing(/*prompts=*/false);
  auto session = seeing.session();
  int32_t image = givenTo(*session);
  ASSERT_TRUE(append(*session, {7, image, image + 1, 8}).isOk());
  EXPECT_EQ(taken(), (std::vector<Rows>{{0, 1, false}, {1, 2, true}, {3, 1, false}}));
}

// Of rows that are added in layers the first alone stands in a prompt.
TEST(SessionOfImages, rowsBehindATokenStandInNoPrompt) {
  SeeingModel seeing(/*prompts=*/false, /*deep=*/1);
  auto session = seeing.session();
  int32_t image = givenTo(*session, /*columns=*/2, int64_t(2) * hiddenSize);
  Status status = append(*session, {image + 1});
  EXPECT_EQ(status.message(),
            "token id " + std::to_string(image + 1) + " at position 0 is not the first of a given token's");
}

} // namespace
