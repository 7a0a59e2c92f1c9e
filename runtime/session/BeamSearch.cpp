// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/BeamSearch.h"

#include "runtime/session/Sampler.h"

#include <algorithm>
#include <cmath>

namespace heddle {
namespace {

constexpr double never = -1e9; // the reference's score of what does not exist

struct Beam {
  std::vector<int32_t> ids; // new tokens
  double score;             // sum of log probabilities
};

struct Continuation {
  int32_t beam, id;
  double score;
};

class Search {
public:
  Search(Session &session, const BeamOptions &options)
      : session(session), options(options), vocabSize(session.package().metadata().vocab_size()) {}

  Status run(const std::vector<int32_t> &ids, std::vector<BeamResult> &results) {
    for (int32_t i = 0; i < options.beams; ++i)
      session.truncate(i, 0);
    HEDDLE_RETURN_IF_ERROR(options.hasSource ? session.append(0, ids.data(), int32_t(ids.size()))
                                             : session.beginAnswer(0, ids.data(), int32_t(ids.size())));
    prompt.assign(session.history(0), session.history(0) + session.length(0));
    running.assign(options.beams, {{}, never});
    running[0].score = 0; // all start from the same prompt: only the first one counts
    for (int32_t i = 1; i < options.beams; ++i)
      session.fork(0, i);
    finished.assign(options.beams, {{}, never});
    while (true) {
      rank();
      bool allEnd = advance();
      if (allEnd || isFinished())
        break;
      HEDDLE_RETURN_IF_ERROR(step());
    }
    results.assign(finished.begin(), finished.begin() + options.returned);
    return Status();
  }

private:
  bool ends(int32_t id) const { return std::find(options.eos.begin(), options.eos.end(), id) != options.eos.end(); }

  // best = the (at least 2) x beams best continuations of the running beams, in order.
  void rank() {
    std::vector<float> logits(vocabSize), logProbabilities(vocabSize);
    std::vector<Continuation> all;
    size_t keep = std::min<size_t>(std::max<size_t>(2, 1 + options.eos.size()) * options.beams,
                                   size_t(vocabSize) * options.beams);
    auto precedes = [](const Continuation &a, const Continuation &b) {
      return a.score != b.score ? a.score > b.score : a.beam != b.beam ? a.beam < b.beam : a.id < b.id;
    };
    for (int32_t beam = 0; beam < options.beams; ++beam) {
      // Before the first step every beam sees the logits of the prompt.
      const float *row = session.logits(length == 0 ? 0 : beam);
      logSoftmax(row, vocabSize, logProbabilities.data());
      penalize(beam, logProbabilities.data());
      forbid(beam, logProbabilities.data());
      bool isPossible = *std::max_element(logProbabilities.begin(), logProbabilities.end()) > -INFINITY;
      if (options.rules.renormalizes && isPossible)
        logSoftmax(logProbabilities.data(), vocabSize, logProbabilities.data());
      size_t first = all.size();
      for (int32_t id = 0; id < vocabSize; ++id)
        all.push_back({beam, id, running[beam].score + logProbabilities[id]});
      size_t mine = std::min(keep, size_t(vocabSize));
      std::partial_sort(all.begin() + first, all.begin() + first + mine, all.end(), precedes);
      all.resize(first + mine);
    }
    std::partial_sort(all.begin(), all.begin() + keep, all.end(), precedes);
    best.assign(all.begin(), all.begin() + keep);
  }

  // The reference applies the penalty to log probabilities, of prompt and answer.
  void penalize(int32_t beam, float *scores) const {
    if (options.repetitionPenalty == 1)
      return;
    std::vector<uint8_t> seen(vocabSize);
    for (int32_t id : prompt)
      seen[id] = 1;
    for (int32_t id : running[beam].ids)
      seen[id] = 1;
    for (int32_t id = 0; id < vocabSize; ++id)
      if (seen[id])
        scores[id] = scores[id] > 0 ? scores[id] / options.repetitionPenalty : scores[id] * options.repetitionPenalty;
  }

  // What may not come has no probability; what is forced has all of it.
  void forbid(int32_t beam, float *scores) const {
    if (options.rules.isEmpty())
      return;
    std::vector<int32_t> ids = prompt;
    ids.insert(ids.end(), running[beam].ids.begin(), running[beam].ids.end());
    std::vector<uint32_t> mask(maskWords(vocabSize), ~uint32_t(0));
    bool isLast = length + 1 == options.maxTokens;
    bool isForced =
        options.rules.allow({ids.data(), ids.size(), prompt.size(), isLast, scores}, vocabSize, mask.data());
    for (int32_t id = 0; id < vocabSize; ++id)
      if (!(mask[id / 32] >> (id % 32) & 1))
        scores[id] = -INFINITY;
      else if (isForced)
        scores[id] = 0;
  }

  // Divides the continuations into finished answers and the next running beams. True if every one of them ends.
  bool advance() {
    bool isLast = length + 1 == options.maxTokens, allEnd = true;
    bool isFull =
        options.earlyStopping == EarlyStopping::Yes &&
        std::all_of(finished.begin(), finished.end(), [](const BeamResult &r) { return r.score > never / 2; });
    std::vector<Beam> next;
    parents.clear();
    for (size_t i = 0; i < best.size(); ++i) {
      const Continuation &c = best[i];
      bool end = isLast || ends(c.id);
      allEnd &= end;
      // Only the first `beams` may end: those behind would not have been kept.
      bool countsAsEnded = end && i < size_t(options.beams) && !isFull && canImprove && c.score > never / 2;
      if (!countsAsEnded && (end || next.size() == size_t(options.beams)))
        continue;
      std::vector<int32_t> ids = running[c.beam].ids;
      ids.push_back(c.id);
      if (countsAsEnded) {
        keepFinished({std::move(ids), c.score / std::pow(double(length + 1), double(options.lengthPenalty))});
      } else {
        parents.push_back(c.beam);
        next.push_back({std::move(ids), c.score});
      }
    }
    ++length;
    if (!allEnd)
      continueWith(std::move(next));
    return allEnd;
  }

  // Inserts behind those that are as good, and drops the worst.
  void keepFinished(BeamResult result) {
    auto place = std::find_if(finished.begin(), finished.end(),
                              [&](const BeamResult &other) { return other.score < result.score; });
    if (place == finished.end())
      return;
    finished.insert(place, std::move(result));
    finished.pop_back();
  }

  // Gives every next beam the cache of its parent. A parent's first child keeps its sequence, others are forked into
  // sequences that no child keeps.
  void continueWith(std::vector<Beam> next) {
    while (next.size() < size_t(options.beams)) {
      next.push_back({next[0].ids, never});
      parents.push_back(parents[0]);
    }
    running.assign(options.beams, {});
    std::vector<int32_t> waiting, freeSlots;
    std::vector<uint8_t> kept(options.beams);
    for (int32_t i = 0; i < options.beams; ++i) {
      if (kept[parents[i]]) {
        waiting.push_back(i);
        continue;
      }
      kept[parents[i]] = 1;
      running[parents[i]] = std::move(next[i]);
    }
    for (int32_t slot = 0; slot < options.beams; ++slot)
      if (!kept[slot])
        freeSlots.push_back(slot);
    for (size_t i = 0; i < waiting.size(); ++i) {
      session.fork(parents[waiting[i]], freeSlots[i]);
      running[freeSlots[i]] = std::move(next[waiting[i]]);
    }
  }

  // Whether a running beam may still become better than the worst finished one, and there is room for it.
  bool isFinished() {
    double worst = finished.back().score;
    bool isFull = worst > never / 2;
    double bestRunning = never;
    for (const Beam &beam : running)
      bestRunning = std::max(bestRunning, beam.score);
    bool mayGrow = options.earlyStopping == EarlyStopping::Never && options.lengthPenalty > 0;
    double hopedLength = double(mayGrow ? options.maxTokens : length);
    canImprove =
        canImprove && bestRunning / std::pow(hopedLength, double(options.lengthPenalty)) > (isFull ? worst : never);
    return !canImprove || (isFull && options.earlyStopping == EarlyStopping::Yes);
  }

  Status step() {
    std::vector<Feed> feeds;
    feeds.reserve(options.beams);
    for (int32_t beam = 0; beam < options.beams; ++beam)
      feeds.push_back({beam, 1, &running[beam].ids.back(), nullptr});
    return session.step(feeds.data(), feeds.size());
  }

  Session &session;
  const BeamOptions &options;
  std::vector<int32_t> prompt; // of the sequence that decodes
  const int32_t vocabSize;
  int64_t length = 0;               // new tokens of the running beams
  std::vector<Beam> running;        // (beams): beam i lies in sequence i
  std::vector<BeamResult> finished; // (beams), best first
  std::vector<Continuation> best;
  std::vector<int32_t> parents; // of the next beams
  bool canImprove = true;
};

} // namespace

Status searchBeams(Session &session, const std::vector<int32_t> &prompt, const BeamOptions &options,
                   std::vector<BeamResult> &outResults) {
  return Search(session, options).run(prompt, outResults);
}

} // namespace heddle
