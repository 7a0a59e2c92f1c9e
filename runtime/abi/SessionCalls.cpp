// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Running sequences of a decoder.
#include "runtime/abi/Calls.h"

#include "runtime/session/BeamSearch.h"
#include "runtime/session/Generator.h"

#include <cmath>

using namespace heddle;
using namespace heddle::abi;

namespace {

Status checkSequence(const heddle_session *session, int32_t sequence) {
  HEDDLE_RETURN_IF_ERROR(checkNotNull({{"session", session}}));
  int32_t maxSequences = session->session->maxSequences();
  if (sequence >= 0 && sequence < maxSequences)
    return Status();
  return invalidInput(format("sequence %d is not in [0, %d)", sequence, maxSequences));
}

// Every call that computes runs here.
template <typename Call> heddle_status computeOrReport(heddle_session *session, const Call &call) {
  Status status = checkNotNull({{"session", session}});
  if (!status.isOk())
    return report(status);
  status = call();
  if (!status.isOk())
    session->session->endFailedCall();
  return report(status);
}

// Copies feeds of any version into the session's. `outFeeds` is null where there are none to copy or too many, which the step refuses.
Status readFeeds(heddle_session &session, const heddle_feed *feeds, size_t count, const Feed *&outFeeds) {
  outFeeds = nullptr;
  if (!feeds || count == 0 || count > session.feeds.size())
    return Status();
  for (size_t i = 0; i < count; ++i) {
    heddle_feed feed;
    HEDDLE_RETURN_IF_ERROR(copyElement("heddle_feed", feeds, i, feed));
    if (feed.rows < HEDDLE_ROWS_LAST || feed.rows > HEDDLE_ROWS_ALL)
      return invalidInput(format("feed %zu: rows is %d, expected a heddle_rows", i, feed.rows));
    session.feeds[i] = {feed.sequence,
                        feed.count,
                        feed.ids,
                        feed.positions,
                        feed.rows == HEDDLE_ROWS_LAST   ? FeedRows::Last
                        : feed.rows == HEDDLE_ROWS_NONE ? FeedRows::None
                                                        : FeedRows::All,
                        feed.adapter};
  }
  outFeeds = session.feeds.data();
  return Status();
}

Status checkResult(const heddle_generate_result *result) {
  return result && result->size < sizeof(size_t) ? invalidInput("the size field of out_result is not set") : Status();
}

Status checkBeams(const Session &session, size_t count, const heddle_beam_options &given) {
  if (given.beams < 1 || given.beams > session.maxSequences())
    return invalidInput(format("beams is %d, the session has %d sequences", given.beams, session.maxSequences()));
  if (given.returned < 0 || given.returned > given.beams)
    return invalidInput(format("returned is %d, expected at most %d, the beams", given.returned, given.beams));
  if (given.max_tokens < 1)
    return invalidInput(format("max_tokens is %lld, expected a number from 1", (long long)given.max_tokens));
  if (!std::isfinite(given.length_penalty))
    return invalidInput(format("length_penalty is %g, expected a finite number", given.length_penalty));
  if (float penalty = given.repetition_penalty; penalty != 0 && !penaltyRange.contains(penalty))
    return invalidInput(format("repetition_penalty is %g, expected a number in [%g, %g]", penalty, penaltyRange.least,
                               penaltyRange.most));
  if (count == 0)
    return invalidInput("the prompt has no tokens");
  int64_t tokens = session.tokensOfPrompt(int64_t(count));
  if (session.context() + 1 - tokens < given.max_tokens)
    return Status(StatusCode::ContextFull,
                  format("%lld tokens and max_tokens %lld, the context is %lld", (long long)tokens,
                         (long long)given.max_tokens, (long long)session.context()));
  return Status();
}

struct GenerateCall {
  heddle_token_callback callback;
  void *user;
  std::unique_ptr<TextStream> stream;
  std::string text;
  int64_t count = 0;
  bool isStopString = false, lacksMemory = false;
  heddle_mask_callback mask;
  void *maskUser;

  // False ends the answer.
  bool take(int32_t id) {
    ++count;
    return advanceBy([&](TextStream &next, std::string &out) { next.append(id, out); }) && hand(id) && !isStopString;
  }
  // What was held back.
  bool finish() {
    return advanceBy([](TextStream &next, std::string &out) { next.finish(out); }) && (text.empty() || hand(-1));
  }

private:
  template <typename Step> bool advanceBy(const Step &step) {
    lacksMemory = !advance(stream, text, step);
    isStopString = !lacksMemory && stream->isStopped();
    return !lacksMemory;
  }
  bool hand(int32_t id) { return !callback || callback(user, id, text.data(), text.size()) == 0; }
};

heddle_end_reason reasonOf(EndReason reason, bool isStopString) {
  switch (reason) {
  case EndReason::EndToken:
    return HEDDLE_END_TOKEN;
  case EndReason::MaxTokens:
    return HEDDLE_END_MAX_TOKENS;
  case EndReason::Context:
    return HEDDLE_END_CONTEXT;
  case EndReason::Stopped:
    break;
  }
  return isStopString ? HEDDLE_END_STOP_STRING : HEDDLE_END_CALLBACK;
}

} // namespace

heddle_status heddle_session_create(heddle_package *package, const heddle_session_options *options,
                                    heddle_session **out_session) {
  heddle_session_options given;
  Status valid = checkNotNull({{"package", package}, {"out_session", out_session}});
  if (valid.isOk())
    valid = copyOptions("heddle_session_options", options, given);
  if (!valid.isOk())
    return report(valid);
  std::unique_ptr<heddle_session> made(new (std::nothrow) heddle_session);
  if (!made)
    return report(outOfMemory());
  // What calls others, or outlives the session, is done before the part that can lack memory anywhere.
  SessionOptions sessionOptions;
  sessionOptions.device = given.device ? given.device : "";
  Device *device = nullptr;
  if (Status status = package->package->openDevice(sessionOptions.device, device); !status.isOk())
    return report(status);
  if (Status status = createPool(*package, device ? nullptr : given.pool, device ? 1 : given.threads, made->pool);
      !status.isOk())
    return report(status);
  sessionOptions.pool = &*made->pool;
  sessionOptions.maxSequences = given.max_sequences ? given.max_sequences : 1;
  sessionOptions.context = given.context;
  sessionOptions.cacheTokens = given.cache_tokens;
  sessionOptions.keepHidden = given.keep_hidden != 0;
  sessionOptions.fixedForms = given.deterministic != 0;
  sessionOptions.adapter = given.adapter;
  std::unique_ptr<Session> session;
  heddle_status status = runInMemoryOrReport([&] {
    std::unique_ptr<Session> created;
    HEDDLE_RETURN_IF_ERROR(Session::create(*package->package, sessionOptions, created));
    std::swap(session, created);
    return Status();
  });
  if (status != HEDDLE_OK)
    return status;
  Status reserved = made->feeds.reserve(session->maxSequences(), "feeds");
  if (reserved.isOk())
    reserved = made->sources.reserve(session->maxSequences(), "sources");
  if (reserved.isOk())
    reserved = made->sequences.reserve(session->maxSequences(), "sequences");
  if (!reserved.isOk())
    return report(reserved);
  made->owner = package;
  made->session = std::move(session);
  *out_session = made.release();
  return HEDDLE_OK;
}

void heddle_session_destroy(heddle_session *session) {
  delete session;
}

heddle_status heddle_session_encode(heddle_session *session, const heddle_feed *feeds, size_t num_feeds) {
  return computeOrReport(session, [&]() -> Status {
    const Feed *own;
    HEDDLE_RETURN_IF_ERROR(readFeeds(*session, feeds, num_feeds, own));
    if (!own)
      return invalidInput(format("%zu feeds, expected 1 … %zu", num_feeds, session->feeds.size()));
    for (size_t i = 0; i < num_feeds; ++i) {
      const Feed &feed = own[i];
      HEDDLE_RETURN_IF_ERROR(checkIds(feed.ids, size_t(feed.count > 0 ? feed.count : 0)));
      session->sources[i] = {feed.count, feed.ids, feed.positions, nullptr};
      session->sequences[i] = feed.sequence;
    }
    return session->session->encode(session->sources.data(), session->sequences.data(), num_feeds);
  });
}

heddle_status heddle_session_step(heddle_session *session, const heddle_feed *feeds, size_t num_feeds) {
  return computeOrReport(session, [&] {
    const Feed *own;
    HEDDLE_RETURN_IF_ERROR(readFeeds(*session, feeds, num_feeds, own));
    return session->session->step(own, num_feeds);
  });
}

heddle_status heddle_session_forward(heddle_session *session, const heddle_feed *feeds, size_t num_feeds,
                                     heddle_row_callback callback, void *user) {
  return computeOrReport(session, [&] {
    HEDDLE_RETURN_IF_ERROR(checkNotNull({{"callback", reinterpret_cast<const void *>(callback)}}));
    const Feed *own;
    HEDDLE_RETURN_IF_ERROR(readFeeds(*session, feeds, num_feeds, own));
    return session->session->forward(own, num_feeds, RowSink(callback, user));
  });
}

heddle_status heddle_session_prefill(heddle_session *session, int32_t sequence, const int32_t *ids, size_t count) {
  return computeOrReport(session, [&] {
    HEDDLE_RETURN_IF_ERROR(checkIds(ids, count));
    return session->session->append(sequence, ids, int32_t(count));
  });
}

heddle_status heddle_session_give(heddle_session *session, const float *rows, int64_t count, int32_t *out_first) {
  Status status = checkNotNull({{"session", session}, {"rows", rows}, {"out_first", out_first}});
  return report(status.isOk() ? session->session->give(rows, count, *out_first) : status);
}

heddle_status heddle_session_decode(heddle_session *session, int32_t sequence, int32_t id) {
  return computeOrReport(session, [&] { return session->session->append(sequence, &id, 1); });
}

const float *heddle_session_logits(const heddle_session *session, size_t feed) {
  return session ? session->session->logits(feed) : nullptr;
}
const float *heddle_session_hidden_state(const heddle_session *session, size_t feed) {
  return session ? session->session->hiddenState(feed) : nullptr;
}
int64_t heddle_session_length(const heddle_session *session, int32_t sequence) {
  return checkSequence(session, sequence).isOk() ? session->session->length(sequence) : 0;
}

heddle_status heddle_session_history(const heddle_session *session, int32_t sequence, int32_t *ids, size_t capacity,
                                     size_t *out_count) {
  Status status = checkSequence(session, sequence);
  if (status.isOk())
    status = checkNotNull({array("ids", ids, capacity), {"out_count", out_count}});
  if (status.isOk())
    copyOut(session->session->history(sequence), size_t(session->session->length(sequence)), ids, capacity, out_count);
  return report(status);
}

heddle_status heddle_session_truncate(heddle_session *session, int32_t sequence, int64_t length) {
  Status status = checkSequence(session, sequence);
  if (status.isOk() && length < 0)
    status = invalidInput(format("length is %lld, expected a number from 0", (long long)length));
  if (status.isOk())
    session->session->truncate(sequence, length);
  return report(status);
}

heddle_status heddle_session_reset(heddle_session *session, int32_t sequence) {
  return heddle_session_truncate(session, sequence, 0);
}

heddle_status heddle_session_fork(heddle_session *session, int32_t source, int32_t target) {
  Status status = checkSequence(session, source);
  if (status.isOk())
    status = checkSequence(session, target);
  if (status.isOk())
    session->session->fork(source, target);
  return report(status);
}

void heddle_session_cancel(heddle_session *session) {
  if (session)
    session->session->cancel();
}

heddle_status heddle_session_set_progress(heddle_session *session, heddle_progress_callback callback, void *user) {
  Status status = checkNotNull({{"session", session}});
  if (!status.isOk())
    return report(status);
  session->progress = callback;
  session->progressUser = user;
  Progress progress;
  if (callback)
    progress = {[](void *self, int64_t done, int64_t total) {
                  auto &session = *static_cast<heddle_session *>(self);
                  return session.progress(session.progressUser, done, total) == 0;
                },
                session};
  session->session->setProgress(progress);
  return report(status);
}

heddle_status heddle_session_generate(heddle_session *session, int32_t sequence, const int32_t *ids, size_t count,
                                      const heddle_generate_options *options, heddle_token_callback callback,
                                      void *user, heddle_generate_result *out_result) {
  return computeOrReport(session, [&]() -> Status {
    heddle_generate_options given;
    GenerateOptions generate;
    HEDDLE_RETURN_IF_ERROR(checkSequence(session, sequence));
    HEDDLE_RETURN_IF_ERROR(copyOptions("heddle_generate_options", options, given));
    if (given.max_tokens < 0 || given.max_tokens > INT64_MAX / 2)
      return invalidInput(format("max_tokens is %lld, expected a number from 0", (long long)given.max_tokens));
    HEDDLE_RETURN_IF_ERROR(readSamplerOptions(given.sampler, generate.sampler));
    HEDDLE_RETURN_IF_ERROR(checkIds(ids, count));
    HEDDLE_RETURN_IF_ERROR(checkResult(out_result));

    GenerateCall call = {callback, user, {}, {}, 0, false, false, given.mask, given.mask_user};
    HEDDLE_RETURN_IF_ERROR(callInMemory([&] {
      std::vector<std::string> stops;
      HEDDLE_RETURN_IF_ERROR(readStops(given.stops, given.num_stops, stops));
      std::vector<int32_t> ends;
      if (!given.ignore_eos)
        ends = endTokensOf(session->owner->package->metadata());
      std::unique_ptr<TextStream> stream(
          new TextStream(session->owner->tokenizer.get(), /*skipSpecial=*/true, std::move(stops)));
      AnswerRules rules = AnswerRules::of(session->owner->package->metadata(), ends);
      std::swap(generate.rules, rules);
      std::swap(generate.eos, ends);
      std::swap(call.stream, stream);
      return Status();
    }));
    generate.maxTokens = given.max_tokens;
    if (given.mask)
      generate.mask = {[](void *self, const int32_t *history, size_t size, uint32_t *mask) {
                         auto &call = *static_cast<GenerateCall *>(self);
                         call.mask(call.maskUser, history, size, mask);
                       },
                       &call};
    EndReason reason = EndReason::Stopped;
    HEDDLE_RETURN_IF_ERROR(generateTokens(
        *session->session, sequence, ids, count, generate,
        [](void *self, int32_t id, const float *) { return static_cast<GenerateCall *>(self)->take(id); }, &call,
        reason));
    bool isStopString = call.isStopString;
    if (!call.lacksMemory)
      call.finish();
    if (call.lacksMemory)
      return outOfMemory();
    return out_result ? writeStruct("out_result", {sizeof *out_result, call.count, reasonOf(reason, isStopString), 0},
                                    out_result)
                      : Status();
  });
}

heddle_status heddle_session_search_beams(heddle_session *session, const int32_t *ids, size_t count,
                                          const heddle_beam_options *options, heddle_beam_callback callback,
                                          void *user) {
  std::vector<BeamResult> results;
  heddle_status status = computeOrReport(session, [&] {
    heddle_beam_options given;
    HEDDLE_RETURN_IF_ERROR(
        checkNotNull({{"options", options}, {"callback", reinterpret_cast<const void *>(callback)}}));
    HEDDLE_RETURN_IF_ERROR(copyOptions("heddle_beam_options", options, given));
    HEDDLE_RETURN_IF_ERROR(checkIds(ids, count));
    HEDDLE_RETURN_IF_ERROR(checkBeams(*session->session, count, given));
    Status searched = callInMemory([&] {
      BeamOptions beams;
      beams.beams = given.beams;
      beams.returned = given.returned ? given.returned : 1;
      beams.maxTokens = given.max_tokens;
      beams.lengthPenalty = given.length_penalty;
      beams.earlyStopping = given.early_stopping ? EarlyStopping::Yes : EarlyStopping::No;
      beams.repetitionPenalty = given.repetition_penalty == 0 ? 1 : given.repetition_penalty;
      if (!given.ignore_eos)
        beams.eos = endTokensOf(session->owner->package->metadata());
      beams.rules = AnswerRules::of(session->owner->package->metadata(), beams.eos);
      std::vector<BeamResult> found;
      HEDDLE_RETURN_IF_ERROR(searchBeams(*session->session, {ids, ids + count}, beams, found));
      std::swap(results, found);
      return Status();
    });
    for (int32_t sequence = 0; sequence < given.beams; ++sequence)
      session->session->truncate(sequence, 0);
    return searched;
  });
  for (const BeamResult &result : results)
    callback(user, result.ids.data(), result.ids.size(), result.score);
  return status;
}
