// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text to ids and back.
#include "runtime/abi/Calls.h"

#include "bytes/Json.h"
#include "runtime/session/Generator.h"

using namespace heddle;
using namespace heddle::abi;

struct heddle_text_stream {
  std::unique_ptr<TextStream> stream;
  int64_t vocabSize = 0;
  bool isFinished = false;
  std::string text; // of the last call
};

namespace {

Status checkTokenizer(const heddle_package *package) {
  HEDDLE_RETURN_IF_ERROR(checkNotNull({{"package", package}}));
  return package->tokenizer ? Status() : invalidInput("the model was compiled without a tokenizer");
}

Status checkChat(const heddle_package *package, const char *json, size_t size) {
  HEDDLE_RETURN_IF_ERROR(checkTokenizer(package));
  if (!package->chatTemplate)
    return invalidInput("the model was compiled without a chat template");
  return checkNotNull({array("json", json, size)});
}

// A template may read any variable, and nothing fails where it reads one that is not there: a slip would be an empty conversation.
Status checkConversation(std::string_view json) {
  std::string error;
  JsonValue root = JsonValue::parse(json, error);
  if (!error.empty() || (root.is(JsonKind::Object) && !isUnambiguousJson(root, error)))
    return invalidInput("the conversation: " + error);
  JsonValue messages = root.is(JsonKind::Object) ? root.find("messages") : JsonValue();
  return messages && messages.is(JsonKind::Array)
             ? Status()
             : invalidInput("the conversation: expected a JSON object with an array \"messages\"");
}

Status checkStream(const heddle_text_stream *stream) {
  return stream->isFinished ? invalidInput("the stream has been finished, expected no further call") : Status();
}

Status checkId(int32_t id, int64_t vocabSize) {
  return id >= 0 && id < vocabSize ? Status()
                                   : invalidInput(format("token id %d is not in [0, %lld)", id, (long long)vocabSize));
}

template <typename Step> heddle_status advanceOrReport(heddle_text_stream *stream, const Step &step) {
  return report(advance(stream->stream, stream->text, step) ? Status() : outOfMemory());
}

} // namespace

heddle_status heddle_package_encode(const heddle_package *package, const char *text, size_t size, int plain,
                                    int32_t *ids, size_t capacity, size_t *out_count) {
  Status valid = checkNotNull(
      {{"package", package}, array("text", text, size), array("ids", ids, capacity), {"out_count", out_count}});
  if (valid.isOk())
    valid = checkTokenizer(package);
  if (!valid.isOk())
    return report(valid);
  return runInMemoryOrReport([&] {
    EncodeOptions options;
    options.parseSpecial = options.addSpecial = !plain;
    std::vector<int32_t> encoded;
    std::string error;
    if (!package->tokenizer->encode({text, size}, options, encoded, error))
      return invalidInput("the text: " + error);
    copyOut(encoded.data(), encoded.size(), ids, capacity, out_count);
    return Status();
  });
}

heddle_status heddle_package_decode(const heddle_package *package, const int32_t *ids, size_t count, char *text,
                                    size_t capacity, size_t *out_size) {
  Status valid = checkNotNull({{"package", package}, array("text", text, capacity), {"out_size", out_size}});
  if (valid.isOk())
    valid = checkTokenizer(package);
  if (valid.isOk())
    valid = checkIds(ids, count);
  if (!valid.isOk())
    return report(valid);
  return runInMemoryOrReport([&] {
    std::string decoded, error;
    if (!package->tokenizer->decode({ids, ids + count}, /*skipSpecial=*/true, decoded, error))
      return invalidInput(error);
    copyOut(decoded.data(), decoded.size(), text, capacity, out_size);
    return Status();
  });
}

heddle_status heddle_package_token_bytes(const heddle_package *package, int32_t id, char *bytes, size_t capacity,
                                         size_t *out_size) {
  Status valid = checkNotNull({{"package", package}, array("bytes", bytes, capacity), {"out_size", out_size}});
  if (valid.isOk())
    valid = checkTokenizer(package);
  if (valid.isOk())
    valid = checkId(id, heddle_package_vocab_size(package));
  if (!valid.isOk())
    return report(valid);
  return runInMemoryOrReport([&] {
    std::string token = TokenDecoder::bytesOf(*package->tokenizer, id);
    copyOut(token.data(), token.size(), bytes, capacity, out_size);
    return Status();
  });
}

int32_t heddle_package_num_adapters(const heddle_package *package) {
  const auto *adapters = package ? package->package->metadata().adapters() : nullptr;
  return adapters ? int32_t(adapters->size()) : 0;
}

const char *heddle_package_adapter_name(const heddle_package *package, int32_t adapter) {
  bool isThere = adapter > 0 && adapter <= heddle_package_num_adapters(package);
  return isThere ? package->package->metadata().adapters()->Get(unsigned(adapter - 1))->c_str() : nullptr;
}

int32_t heddle_package_special_token(const heddle_package *package, heddle_special_token token) {
  const package::Tokenizer *table = package ? package->package->metadata().tokenizer() : nullptr;
  if (!table)
    return -1;
  switch (token) {
  case HEDDLE_TOKEN_BOS:
    return table->bos();
  case HEDDLE_TOKEN_EOS:
    return table->eos();
  case HEDDLE_TOKEN_UNKNOWN:
    return table->unknown();
  case HEDDLE_TOKEN_PAD:
    return table->pad();
  }
  return -1;
}

heddle_status heddle_package_end_tokens(const heddle_package *package, int32_t *ids, size_t capacity,
                                        size_t *out_count) {
  Status valid = checkNotNull({{"package", package}, array("ids", ids, capacity), {"out_count", out_count}});
  if (!valid.isOk())
    return report(valid);
  return runInMemoryOrReport([&] {
    std::vector<int32_t> ends = endTokensOf(package->package->metadata());
    copyOut(ends.data(), ends.size(), ids, capacity, out_count);
    return Status();
  });
}

heddle_status heddle_package_encode_chat(const heddle_package *package, const char *json, size_t size, int32_t *ids,
                                         size_t capacity, size_t *out_count) {
  Status valid = checkChat(package, json, size);
  if (valid.isOk())
    valid = checkNotNull({array("ids", ids, capacity), {"out_count", out_count}});
  if (!valid.isOk())
    return report(valid);
  return runInMemoryOrReport([&]() -> Status {
    HEDDLE_RETURN_IF_ERROR(checkConversation({json, size}));
    std::vector<int32_t> encoded;
    std::string text, error;
    if (!encodeChat(*package->chatTemplate, *package->tokenizer, {json, size}, /*parseSpecial=*/true, text, encoded,
                    error))
      return invalidInput(error);
    copyOut(encoded.data(), encoded.size(), ids, capacity, out_count);
    return Status();
  });
}

heddle_status heddle_package_render_chat(const heddle_package *package, const char *json, size_t size, char *text,
                                         size_t capacity, size_t *out_size) {
  Status valid = checkChat(package, json, size);
  if (valid.isOk())
    valid = checkNotNull({array("text", text, capacity), {"out_size", out_size}});
  if (!valid.isOk())
    return report(valid);
  return runInMemoryOrReport([&]() -> Status {
    HEDDLE_RETURN_IF_ERROR(checkConversation({json, size}));
    RenderedChat rendered;
    std::string error;
    if (!package->chatTemplate->render({json, size}, specialTokenVariables(*package->tokenizer), rendered, error))
      return invalidInput(error);
    copyOut(rendered.text.data(), rendered.text.size(), text, capacity, out_size);
    return Status();
  });
}

heddle_status heddle_text_stream_create(const heddle_package *package, const heddle_text_stream_options *options,
                                        heddle_text_stream **out_stream) {
  heddle_text_stream_options given;
  Status valid = copyOptions("heddle_text_stream_options", options, given);
  if (valid.isOk())
    valid = checkTokenizer(package);
  if (valid.isOk())
    valid = checkNotNull({{"out_stream", out_stream}});
  if (!valid.isOk())
    return report(valid);
  return runInMemoryOrReport([&]() -> Status {
    std::vector<std::string> stops;
    HEDDLE_RETURN_IF_ERROR(readStops(given.stops, given.num_stops, stops));
    std::unique_ptr<heddle_text_stream> made(new heddle_text_stream);
    made->stream.reset(new TextStream(package->tokenizer.get(), !given.keep_special, std::move(stops)));
    made->vocabSize = heddle_package_vocab_size(package);
    *out_stream = made.release();
    return Status();
  });
}

void heddle_text_stream_destroy(heddle_text_stream *stream) {
  delete stream;
}

heddle_status heddle_text_stream_append(heddle_text_stream *stream, int32_t id, const char **out_text, size_t *out_size,
                                        int *out_stopped) {
  Status valid =
      checkNotNull({{"stream", stream}, {"out_text", out_text}, {"out_size", out_size}, {"out_stopped", out_stopped}});
  if (valid.isOk())
    valid = checkStream(stream);
  if (valid.isOk())
    valid = checkId(id, stream->vocabSize);
  if (!valid.isOk())
    return report(valid);
  heddle_status status = advanceOrReport(stream, [&](TextStream &next, std::string &text) { next.append(id, text); });
  if (status == HEDDLE_OK) {
    *out_text = stream->text.data();
    *out_size = stream->text.size();
    *out_stopped = stream->stream->isStopped();
  }
  return status;
}

heddle_status heddle_text_stream_finish(heddle_text_stream *stream, const char **out_text, size_t *out_size) {
  Status valid = checkNotNull({{"stream", stream}, {"out_text", out_text}, {"out_size", out_size}});
  if (valid.isOk())
    valid = checkStream(stream);
  if (!valid.isOk())
    return report(valid);
  heddle_status status = advanceOrReport(stream, [](TextStream &next, std::string &text) { next.finish(text); });
  if (status == HEDDLE_OK) {
    stream->isFinished = true;
    *out_text = stream->text.data();
    *out_size = stream->text.size();
  }
  return status;
}
