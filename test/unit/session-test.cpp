// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/unit/TestModel.h"

#include "bytes/Safetensors.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::reference;

namespace {

TestModel &model() {
  static TestModel opened;
  return opened;
}

struct Goldens {
  SafetensorsFile file;
  Goldens() { EXPECT_TRUE(file.open(HEDDLE_TEST_MODELS "/llama/golden.safetensors").isOk()); }
  std::vector<int32_t> ids(const char *name, size_t begin = 0, size_t count = size_t(-1)) {
    const StoredTensor *tensor = file.find(name);
    const auto *values = reinterpret_cast<const int64_t *>(tensor->data);
    count = std::min<size_t>(count, tensor->size / 8 - begin);
    return {values + begin, values + begin + count};
  }
  const float *floats(const char *name) { return reinterpret_cast<const float *>(file.find(name)->data); }
};

float maxDifference(const float *a, const float *b, size_t count) {
  float worst = 0;
  for (size_t i = 0; i < count; ++i)
    worst = std::max(worst, std::fabs(a[i] - b[i]));
  return worst;
}

// Logits of all tokens of all feeds: [feed] (tokens, vocabSize).
using Rows = std::vector<std::vector<float>>;
Rows forward(Session &session, std::vector<Feed> feeds) {
  Rows rows(feeds.size());
  for (size_t i = 0; i < feeds.size(); ++i) {
    feeds[i].rows = FeedRows::All;
    rows[i].resize(size_t(feeds[i].count) * vocabSize);
  }
  RowSink sink(
      [](void *user, size_t feed, int32_t token, const float *logits, const float *) {
        std::copy_n(logits, vocabSize, (*static_cast<Rows *>(user))[feed].data() + size_t(token) * vocabSize);
      },
      &rows);
  Status status = session.forward(feeds.data(), feeds.size(), sink);
  EXPECT_TRUE(status.isOk()) << status.message();
  return rows;
}

int32_t greedy(const float *logits) {
  return int32_t(std::max_element(logits, logits + vocabSize) - logits);
}

std::vector<int32_t> generate(Session &session, const std::vector<int32_t> &prompt, int count) {
  std::vector<int32_t> answer;
  EXPECT_TRUE(session.append(0, prompt.data(), int32_t(prompt.size())).isOk());
  while (true) {
    answer.push_back(greedy(session.logits(0)));
    if (int(answer.size()) == count)
      return answer;
    EXPECT_TRUE(session.append(0, &answer.back(), 1).isOk());
  }
}

TEST(Session, reproducesGoldens) {
  Goldens goldens;
  auto session = model().session();
  for (const char *name : {"p0", "p1", "p2"}) {
    std::vector<int32_t> ids = goldens.ids((std::string(name) + ".input_ids").c_str());
    session->truncate(0, 0);
    Rows rows = forward(*session, {{0, int32_t(ids.size()), ids.data(), nullptr}}); // p2: 24 tokens in chunks of 8
    EXPECT_LE(maxDifference(rows[0].data(), goldens.floats((std::string(name) + ".logits").c_str()), rows[0].size()),
              1e-4f)
        << name;
    session->truncate(0, 0);
    EXPECT_EQ(generate(*session, ids, 24), goldens.ids((std::string(name) + ".greedy_ids").c_str())) << name;
  }
}

TEST(Session, raggedBatchEqualsSingleSequences) {
  Goldens goldens;
  std::vector<int32_t> first = goldens.ids("p1.input_ids"), second = goldens.ids("p2.input_ids"),
                       third = goldens.ids("p0.input_ids");
  SessionOptions options;
  options.maxSequences = 3;
  auto session = model().session(options);
  Rows rows = forward(*session, {{2, int32_t(first.size()), first.data(), nullptr},
                                 {0, int32_t(second.size()), second.data(), nullptr},
                                 {1, int32_t(third.size()), third.data(), nullptr}});
  EXPECT_LE(maxDifference(rows[0].data(), goldens.floats("p1.logits"), rows[0].size()), 1e-4f);
  EXPECT_LE(maxDifference(rows[1].data(), goldens.floats("p2.logits"), rows[1].size()), 1e-4f);
  EXPECT_LE(maxDifference(rows[2].data(), goldens.floats("p0.logits"), rows[2].size()), 1e-4f);
  EXPECT_EQ(session->length(2), 7);
  // Decoding all three in one step continues each with its own golden answer.
  const char *names[] = {"p1.greedy_ids", "p2.greedy_ids", "p0.greedy_ids"};
  for (int step = 0; step < 4; ++step) {
    int32_t ids[3];
    for (int i = 0; i < 3; ++i)
      ids[i] = goldens.ids(names[i])[step];
    Feed feeds[] = {{2, 1, ids, nullptr}, {0, 1, ids + 1, nullptr}, {1, 1, ids + 2, nullptr}};
    ASSERT_TRUE(session->step(feeds, 3).isOk());
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(greedy(session->logits(i)), goldens.ids(names[i])[step + 1]);
  }
}

TEST(Session, threadsChangeNoBit) {
  Goldens goldens;
  std::vector<int32_t> ids = goldens.ids("p2.input_ids");
  Rows one = forward(*model().session(), {{0, int32_t(ids.size()), ids.data(), nullptr}});
  for (int32_t threads : {2, 3, 5}) {
    std::unique_ptr<ThreadPool> pool; // of more threads than there may be CPUs
    ASSERT_TRUE(ThreadPool::createExactly(threads, pool).isOk());
    SessionOptions options;
    options.pool = pool.get();
    Rows many = forward(*model().session(options), {{0, int32_t(ids.size()), ids.data(), nullptr}});
    EXPECT_EQ(memcmp(one[0].data(), many[0].data(), one[0].size() * sizeof(float)), 0) << threads;
  }
}

TEST(Session, forkSharesPagesUntilOneWrites) {
  Goldens goldens;
  SessionOptions options;
  options.maxSequences = 2;
  auto session = model().session(options);
  std::vector<int32_t> ids = goldens.ids("p2.input_ids"), answer = goldens.ids("p2.greedy_ids");
  ASSERT_TRUE(session->append(0, ids.data(), int32_t(ids.size())).isOk());
  session->fork(0, 1);
  EXPECT_EQ(session->cachePagesInUse(), 1);
  int32_t other = 17;
  ASSERT_TRUE(session->append(1, &other, 1).isOk());
  EXPECT_EQ(session->cachePagesInUse(), 2);
  ASSERT_TRUE(session->append(0, answer.data(), 1).isOk());
  EXPECT_EQ(greedy(session->logits(0)), answer[1]);
  EXPECT_EQ(session->length(1), 25);
  session->truncate(0, 0);
  session->truncate(1, 0);
  EXPECT_EQ(session->cachePagesInUse(), 0);
}

TEST(Session, hiddenStateTimesHeadIsLogits) {
  SessionOptions options;
  options.keepHidden = true;
  auto session = model().session(options);
  int32_t ids[] = {5, 6, 7};
  ASSERT_TRUE(session->append(0, ids, 3).isOk());
  const float *head =
      reinterpret_cast<const float *>(model().weights.data() + model().weights.size()) - size_t(vocabSize) * hiddenSize;
  double sum = 0;
  for (int i = 0; i < hiddenSize; ++i)
    sum += double(head[100 * hiddenSize + i]) * session->hiddenState(0)[i];
  EXPECT_NEAR(sum, session->logits(0)[100], 1e-5);
}

TEST(Session, positionIdsShiftTheSequence) {
  auto session = model().session();
  int32_t ids[] = {5, 6, 7}, positions[] = {10, 11, 12};
  Rows plain = forward(*session, {{0, 3, ids, nullptr}});
  session->truncate(0, 0);
  Rows shifted = forward(*session, {{0, 3, ids, positions}}); // rotary: relative
  EXPECT_LE(maxDifference(plain[0].data(), shifted[0].data(), plain[0].size()), 1e-4f);
  int32_t wrong[] = {0, 1, 128};
  session->truncate(0, 0);
  Feed feed = {0, 3, ids, wrong};
  EXPECT_NE(session->step(&feed, 1).message().find("position id 128 at position 2 is not in [0, 128)"),
            std::string::npos);
}

TEST(SessionErrors, namesBothNumbers) {
  auto session = model().session();
  std::vector<int32_t> tooLong(129, 5);
  Status status = session->append(0, tooLong.data(), 129);
  EXPECT_EQ(status.exitCode(), 2);
  EXPECT_EQ(status.message(), "the prompt has 129 tokens, the context 128");
  int32_t outside[] = {5, 256}, negative = -1;
  EXPECT_EQ(session->append(0, outside, 2).message(), "token id 256 at position 1 is not in [0, 256)");
  EXPECT_EQ(session->append(0, &negative, 1).message(), "token id -1 at position 0 is not in [0, 256)");
  EXPECT_EQ(session->append(1, outside, 1).message(), "sequence 1 is not in [0, 1)");
  EXPECT_EQ(session->length(0), 0);
  ASSERT_TRUE(session->append(0, tooLong.data(), 128).isOk());
  EXPECT_EQ(session->append(0, tooLong.data(), 1).message(),
            "the sequence would have 129 tokens (1 after 128), the context 128");
}

TEST(SessionErrors, logitsThatAreNotFinite) {
  TestModel broken;
  float nan = NAN;
  memcpy(broken.weights.data() + size_t(9) * hiddenSize * sizeof(float), &nan, sizeof nan); // of token 9's embedding
  broken.open();
  auto session = broken.session();
  int32_t ids[] = {5, 9};
  ASSERT_TRUE(session->append(0, ids, 1).isOk());
  Status status = session->append(0, ids + 1, 1);
  EXPECT_EQ(status.exitCode(), 1);
  EXPECT_EQ(status.message(), "step 2: the logits after token 9 at position 1 are not finite");
  EXPECT_EQ(session->length(0), 1);
}

TEST(SessionErrors, feedsWithoutAnAnswer) {
  SessionOptions options;
  options.maxSequences = 3;
  options.keepHidden = true;
  auto session = model().session(options);
  EXPECT_EQ(session->logits(0), nullptr);
  int32_t ids[] = {5, 300};
  Feed feeds[] = {{2, 1, ids, nullptr}, {0, 1, ids, nullptr}};
  ASSERT_TRUE(session->step(feeds, 2).isOk());
  EXPECT_NE(session->logits(1), nullptr);
  EXPECT_NE(session->hiddenState(1), nullptr);
  for (size_t feed : {size_t(2), size_t(1000), SIZE_MAX}) {
    EXPECT_EQ(session->logits(feed), nullptr);
    EXPECT_EQ(session->hiddenState(feed), nullptr);
  }
  EXPECT_FALSE(session->append(0, ids + 1, 1).isOk());
  EXPECT_EQ(session->logits(0), nullptr);
  EXPECT_EQ(session->hiddenState(0), nullptr);
}

TEST(Session, feedsSayWhichRowsTheyWant) {
  Goldens goldens;
  std::vector<int32_t> ids = goldens.ids("p2.input_ids"); // 24 tokens in chunks of 8
  int32_t count = int32_t(ids.size());
  SessionOptions options;
  options.maxSequences = 3;
  auto session = model().session(options);
  Feed feeds[] = {{0, count, ids.data(), nullptr, FeedRows::None},
                  {1, count, ids.data(), nullptr, FeedRows::All},
                  {2, count, ids.data(), nullptr, FeedRows::Last}};
  EXPECT_EQ(session->step(feeds, 3).message(),
            "feed 1 asks for the logits of all its tokens, which a step does not keep");
  std::vector<std::pair<size_t, int32_t>> rows;
  RowSink sink([](void *user, size_t feed, int32_t token, const float *,
                  const float *) { static_cast<decltype(rows) *>(user)->push_back({feed, token}); },
               &rows);
  ASSERT_TRUE(session->forward(feeds, 3, sink).isOk());
  ASSERT_EQ(rows.size(), size_t(count) + 1);
  for (int32_t token = 0; token < count; ++token)
    EXPECT_EQ(rows[token], std::make_pair(size_t(1), token));
  EXPECT_EQ(rows.back(), std::make_pair(size_t(2), count - 1));
  // A step without logits in front of one with them changes nothing about those.
  int32_t next = goldens.ids("p2.greedy_ids")[0];
  Feed more[] = {{0, 1, &next, nullptr, FeedRows::None}, {1, 1, &next, nullptr}};
  ASSERT_TRUE(session->step(more, 2).isOk());
  EXPECT_EQ(session->logits(0), nullptr);
  EXPECT_EQ(greedy(session->logits(1)), goldens.ids("p2.greedy_ids")[1]);
}

// To the reference model, which reads no numbers, virtual tokens are tokens 0 that nobody sees.
TEST(Session, beginsWithVirtualTokensOfItsAdapter) {
  TestModel adapted;
  adapted.metadata.adapters = {"plain", "prompt"};
  adapted.metadata.virtual_tokens = {0, 10}; // more than a chunk
  adapted.open();
  SessionOptions options;
  options.maxSequences = 2;
  options.context = 40;
  auto plain = model().session(), session = adapted.session(options);
  EXPECT_EQ(session->context(), 40);
  std::vector<int32_t> own = {5, 6, 7, 8}, whole(10, 0);
  whole.insert(whole.end(), own.begin(), own.end());
  Rows wanted = forward(*plain, {{0, int32_t(whole.size()), whole.data(), nullptr}});
  wanted[0].erase(wanted[0].begin(), wanted[0].begin() + ptrdiff_t(10) * vocabSize);
  Feed feed = {0, 4, own.data(), nullptr};
  feed.adapter = 2;
  for (int round = 0; round < 2; ++round) { // the second time behind a sequence that was forgotten
    EXPECT_EQ(forward(*session, {feed}), wanted);
    EXPECT_EQ(session->length(0), 4);
    EXPECT_EQ(std::vector<int32_t>(session->history(0), session->history(0) + 4), own);
    session->truncate(0, 0);
    EXPECT_EQ(session->length(0), 0);
  }
  std::vector<int32_t> places = {0, 1, 2, 3};
  feed.positions = places.data(); // count behind them
  EXPECT_EQ(forward(*session, {feed}), wanted);
  session->truncate(0, 2);
  session->fork(0, 1);
  EXPECT_EQ(session->length(1), 2);
  Rows rest = forward(*session, {{1, 2, own.data() + 2, nullptr}});
  EXPECT_TRUE(std::equal(rest[0].begin(), rest[0].end(), wanted[0].begin() + ptrdiff_t(2) * vocabSize));
  // Another adapter, or none, once it has no tokens.
  session->truncate(0, 0);
  feed.positions = nullptr;
  feed.adapter = 1;
  EXPECT_EQ(forward(*session, {feed}), [&] {
    plain->truncate(0, 0);
    return forward(*plain, {{0, 4, own.data(), nullptr}});
  }());
  std::vector<int32_t> most(41, 3);
  session->truncate(0, 0);
  Feed tooLong = {0, 41, most.data(), nullptr};
  EXPECT_EQ(session->step(&tooLong, 1).message(), "the prompt has 41 tokens, the context 40");
}

// A call that was broken off leaves no virtual tokens of an adapter to a sequence that then begins with another.
TEST(Session, forgetsVirtualTokensOfACallThatWasBrokenOff) {
  TestModel adapted;
  adapted.metadata.adapters = {"long", "short"};
  adapted.metadata.virtual_tokens = {10, 3};
  adapted.open();
  auto session = adapted.session(), plain = model().session();
  int chunks = 0;
  session->setProgress({[](void *user, int64_t, int64_t) { return ++*static_cast<int *>(user) != 1; }, &chunks});
  std::vector<int32_t> own = {5, 6, 7, 8}, whole = {0, 0, 0, 5, 6, 7, 8};
  Feed feed = {0, 4, own.data(), nullptr};
  feed.adapter = 1;
  EXPECT_EQ(session->step(&feed, 1).code(), StatusCode::Cancelled);
  EXPECT_EQ(session->length(0), 0);
  feed.adapter = 2;
  Rows wanted = forward(*plain, {{0, 7, whole.data(), nullptr}});
  wanted[0].erase(wanted[0].begin(), wanted[0].begin() + ptrdiff_t(3) * vocabSize);
  EXPECT_EQ(forward(*session, {feed}), wanted);
}

TEST(Session, cancelEndsTheNextChunkAndNothingMore) {
  Goldens goldens;
  std::vector<int32_t> ids = goldens.ids("p2.input_ids");
  auto session = model().session();
  struct Watch {
    Session &session;
    int chunks = 0;
  } watch = {*session};
  session->setProgress({[](void *user, int64_t, int64_t) {
                          auto &watch = *static_cast<Watch *>(user);
                          if (++watch.chunks == 2)
                            watch.session.cancel();
                          return true;
                        },
                        &watch});
  Status status = session->append(0, ids.data(), int32_t(ids.size()));
  EXPECT_EQ(status.code(), StatusCode::Cancelled);
  EXPECT_EQ(watch.chunks, 2);
  EXPECT_EQ(session->length(0), 0);
  ASSERT_TRUE(session->append(0, ids.data(), int32_t(ids.size())).isOk());
  EXPECT_EQ(greedy(session->logits(0)), goldens.ids("p2.greedy_ids")[0]);
}

TEST(SessionErrors, nullPointers) {
  auto session = model().session();
  EXPECT_EQ(session->step(nullptr, 1).message(), "the 1 feeds of a step are a null pointer");
  EXPECT_EQ(session->append(0, nullptr, 1).message(), "the ids of sequence 0 are a null pointer");
}

TEST(SessionErrors, afterFork) {
  auto session = model().session();
  int32_t id = 5;
  ASSERT_TRUE(session->append(0, &id, 1).isOk());
  pid_t child = fork();
  if (child == 0) {
    alarm(20); // a session that waits for its threads
    Status status = session->append(0, &id, 1);
    session.reset();
    _exit(status.exitCode() == 2 && status.message().find("before fork()") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(session->append(0, &id, 1).isOk());
}

TEST(SessionErrors, optionsOutOfRange) {
  std::unique_ptr<Session> session;
  SessionOptions options;
  options.context = 129;
  EXPECT_EQ(Session::create(*model().package, options, session).message(),
            "context is 129, the model was compiled for 1 … 128");
  options.context = 0;
  options.threads = 100000;
  EXPECT_EQ(Session::create(*model().package, options, session).exitCode(), 2);
}

} // namespace
