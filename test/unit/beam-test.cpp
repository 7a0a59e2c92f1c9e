// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/unit/TestModel.h"

#include "runtime/session/BeamSearch.h"
#include "runtime/session/Sampler.h"

#include <cmath>

using namespace heddle;
using namespace heddle::reference;

namespace {

const std::vector<int32_t> prompt = {1, 60, 61, 62};

struct Beams {
  TestModel model;
  std::unique_ptr<Session> session;

  explicit Beams(int32_t count) {
    SessionOptions options;
    options.maxSequences = count;
    session = model.session(options);
  }
  std::vector<BeamResult> search(const BeamOptions &options) {
    std::vector<BeamResult> results;
    Status status = searchBeams(*session, prompt, options, results);
    EXPECT_TRUE(status.isOk()) << status.message();
    return results;
  }
  // Log probability of `answer` after the prompt, from one pass over both.
  double score(const std::vector<int32_t> &answer) {
    std::vector<int32_t> whole = prompt;
    whole.insert(whole.end(), answer.begin(), answer.end());
    struct Sum {
      const std::vector<int32_t> &ids;
      double value;
    } sum = {whole, 0};
    RowSink sink(
        [](void *user, size_t, int32_t token, const float *logits, const float *) {
          auto &sum = *static_cast<Sum *>(user);
          float logProbabilities[vocabSize];
          logSoftmax(logits, vocabSize, logProbabilities);
          if (size_t(token) + 1 >= prompt.size() && size_t(token) + 1 < sum.ids.size())
            sum.value += logProbabilities[sum.ids[token + 1]];
        },
        &sum);
    auto fresh = model.session();
    Feed feed = {0, int32_t(whole.size()), whole.data(), nullptr, FeedRows::All};
    EXPECT_TRUE(fresh->forward(&feed, 1, sink).isOk());
    return sum.value;
  }
};

BeamOptions optionsOf(int32_t beams, int64_t maxTokens) {
  BeamOptions options;
  options.beams = options.returned = beams;
  options.maxTokens = maxTokens;
  return options;
}

TEST(BeamSearch, asManyBeamsAsTokensFindTheBestPair) {
  Beams beams(vocabSize);
  std::vector<BeamResult> results = beams.search(optionsOf(vocabSize, 2));
  double best = -INFINITY;
  for (int32_t first = 0; first < vocabSize; ++first) {
    // The best second token follows from the logits after the first.
    auto fresh = beams.model.session();
    float logProbabilities[vocabSize];
    EXPECT_TRUE(fresh->append(0, prompt.data(), int32_t(prompt.size())).isOk());
    logSoftmax(fresh->logits(0), vocabSize, logProbabilities);
    double score = logProbabilities[first];
    EXPECT_TRUE(fresh->append(0, &first, 1).isOk());
    logSoftmax(fresh->logits(0), vocabSize, logProbabilities);
    best = std::max(best, score + *std::max_element(logProbabilities, logProbabilities + vocabSize));
  }
  EXPECT_NEAR(results[0].score, best / 2, 1e-5);
}

TEST(BeamSearch, scoresAreThoseOfTheAnswers) {
  Beams beams(4);
  for (float penalty : {0.0f, 1.0f, 2.0f}) {
    BeamOptions options = optionsOf(4, 7);
    options.lengthPenalty = penalty;
    std::vector<BeamResult> results = beams.search(options);
    ASSERT_EQ(results.size(), 4u);
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_EQ(results[i].ids.size(), 7u);
      EXPECT_NEAR(results[i].score, beams.score(results[i].ids) / std::pow(7.0, penalty), 1e-4);
      if (i)
        EXPECT_LE(results[i].score, results[i - 1].score);
    }
  }
}

TEST(BeamSearch, oneBeamIsGreedy) {
  Beams beams(1);
  std::vector<int32_t> ids = beams.search(optionsOf(1, 6))[0].ids, greedy;
  beams.session->truncate(0, 0);
  ASSERT_TRUE(beams.session->append(0, prompt.data(), int32_t(prompt.size())).isOk());
  for (int i = 0; i < 6; ++i) {
    const float *logits = beams.session->logits(0);
    greedy.push_back(int32_t(std::max_element(logits, logits + vocabSize) - logits));
    ASSERT_TRUE(beams.session->append(0, &greedy.back(), 1).isOk());
  }
  EXPECT_EQ(ids, greedy);
}

TEST(BeamSearch, endTokensEndAnswers) {
  Beams beams(3);
  BeamOptions options = optionsOf(3, 12);
  // Tokens of the unconstrained answers as end tokens: answers end early, at their first one.
  for (const BeamResult &result : beams.search(options))
    options.eos.push_back(result.ids[2]);
  for (EarlyStopping early : {EarlyStopping::No, EarlyStopping::Yes, EarlyStopping::Never}) {
    options.earlyStopping = early;
    for (const BeamResult &result : beams.search(options)) {
      for (size_t i = 0; i + 1 < result.ids.size(); ++i)
        EXPECT_EQ(std::count(options.eos.begin(), options.eos.end(), result.ids[i]), 0);
      EXPECT_NEAR(result.score, beams.score(result.ids) / double(result.ids.size()), 1e-4);
    }
  }
}

// What may not follow leaves its probability to the others.
TEST(BeamSearch, probabilitiesAddUpAgain) {
  Beams beams(1);
  BeamOptions options = optionsOf(1, 1);
  for (int32_t id = 1; id < vocabSize; ++id)
    options.rules.suppressed.push_back(id);
  EXPECT_LT(beams.search(options)[0].score, -1e-3);
  options.rules.renormalizes = true;
  EXPECT_EQ(beams.search(options)[0].score, 0);
  options.rules.suppressed.push_back(0); // nothing may
  EXPECT_TRUE(beams.search(options)[0].ids.empty());
}

TEST(BeamSearch, pagesOfDeadBeamsAreFreed) {
  Beams beams(4);
  beams.search(optionsOf(4, 100));
  EXPECT_LE(beams.session->cachePagesInUse(), 4 * 2);
}

} // namespace
