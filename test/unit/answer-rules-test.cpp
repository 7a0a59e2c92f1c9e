// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which tokens a generation config lets follow.
#include "runtime/session/AnswerRules.h"
#include "runtime/session/Sampler.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

using namespace heddle;

namespace {

constexpr int64_t vocabSize = 40;

// The tokens that may not follow `ids`.
std::vector<int32_t> forbidden(const AnswerRules &rules, const std::vector<int32_t> &ids, bool isLast = false) {
  std::vector<uint32_t> mask(maskWords(vocabSize), ~uint32_t(0));
  rules.allow({ids.data(), ids.size(), 1, isLast, nullptr}, vocabSize, mask.data());
  std::vector<int32_t> found;
  for (int32_t id = 0; id < vocabSize; ++id)
    if (!(mask[id / 32] >> (id % 32) & 1))
      found.push_back(id);
  return found;
}

TEST(AnswerRules, anythingMayFollow) {
  AnswerRules rules;
  EXPECT_TRUE(rules.isEmpty());
  EXPECT_TRUE(forbidden(rules, {1}, /*isLast=*/true).empty());
}

TEST(AnswerRules, noNgramComesAgain) {
  AnswerRules rules;
  rules.noRepeatNgram = 3;
  EXPECT_TRUE(forbidden(rules, {1, 2}).empty());
  EXPECT_TRUE(forbidden(rules, {1, 2, 3, 2}).empty());
  EXPECT_EQ(forbidden(rules, {1, 2, 3, 1, 2}), (std::vector<int32_t>{3}));
  EXPECT_EQ(forbidden(rules, {1, 2, 3, 1, 2, 35, 1, 2}), (std::vector<int32_t>{3, 35}));
  rules.noRepeatNgram = 1;
  EXPECT_EQ(forbidden(rules, {7, 33}), (std::vector<int32_t>{7, 33}));
  rules.noRepeatNgram = 6;
  EXPECT_TRUE(forbidden(rules, {1, 1, 1, 1, 1}).empty());
}

TEST(AnswerRules, forcedTokens) {
  AnswerRules rules;
  rules.forcedBos = 35;
  rules.forcedEos = 2;
  rules.noRepeatNgram = 1;
  EXPECT_EQ(forbidden(rules, {35}).size(), size_t(vocabSize - 1)); // whatever else is said
  EXPECT_EQ(forbidden(rules, {1, 35}), (std::vector<int32_t>{1, 35}));
  std::vector<int32_t> last = forbidden(rules, {1, 35, 2}, /*isLast=*/true);
  EXPECT_EQ(last.size(), size_t(vocabSize - 1));
  EXPECT_EQ(std::count(last.begin(), last.end(), 2), 0);
}

TEST(AnswerRules, badWords) {
  AnswerRules rules;
  rules.badWords = {{7}, {1, 2, 3}, {2, 35}};
  EXPECT_FALSE(rules.isEmpty());
  EXPECT_EQ(forbidden(rules, {2, 1}), (std::vector<int32_t>{7}));
  EXPECT_EQ(forbidden(rules, {2}), (std::vector<int32_t>{7, 35})); // shorter than a word
  EXPECT_EQ(forbidden(rules, {5, 1, 2}), (std::vector<int32_t>{3, 7, 35}));
}

TEST(AnswerRules, noEndBeforeALength) {
  AnswerRules rules;
  rules.ends = {2, 33};
  rules.minLength = 3;
  EXPECT_EQ(forbidden(rules, {5, 6}), rules.ends);
  EXPECT_TRUE(forbidden(rules, {5, 6, 7}).empty());
  rules.minLength = 0;
  rules.minNewTokens = 3; // behind a prompt of one
  EXPECT_EQ(forbidden(rules, {5, 6, 7}), rules.ends);
  EXPECT_TRUE(forbidden(rules, {5, 6, 7, 8}).empty());
  rules.minLength = 9;
  rules.forcedEos = 2;
  EXPECT_EQ(forbidden(rules, {5, 6}, /*isLast=*/true).size(), size_t(vocabSize - 1)); // an end that is forced comes
}

} // namespace
