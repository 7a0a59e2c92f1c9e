// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The page holds each weight w as the byte round(255 sqrt(w)), of which small ones keep more than of round(255 w), and no weight that the mask hides: row
// i of a head has keys [i - window + 1, i], or as its mask says. Bytes are base64. Programs read the exact numbers from a safetensors file.
#include "runtime/cli/AttentionFile.h"

#include "bytes/Json.h"
#include "bytes/Safetensors.h"
#include "bytes/Utf8.h"
#include "bytes/WholeFile.h"
#include "runtime/cli/AttentionPage.h"
#include "runtime/text/tokenizer/TokenDecoder.h"

#include <algorithm>
#include <cmath>

namespace heddle {
namespace {

// Numbers of a page that browsers hold without trouble, and of a file of tensors.
constexpr uint64_t mostOfPage = 48u << 20, mostOfTensors = 256u << 20;

bool isTensors(const std::string &path) {
  constexpr std::string_view suffix = ".safetensors";
  return path.size() > suffix.size() && path.compare(path.size() - suffix.size(), suffix.size(), suffix) == 0;
}

// Keys [first, end) that the mask lets query `position` see of `count`.
std::pair<int64_t, int64_t> seenBy(const package::Attention &attention, int64_t position, int64_t count) {
  int64_t window = attention.window(), chunk = attention.chunk();
  int64_t first = chunk ? position / chunk * chunk : window ? std::max<int64_t>(0, position - window + 1) : 0;
  int64_t end = attention.causal()  ? std::min(count, position + 1)
                : attention.ahead() ? std::min(count, position + int64_t(attention.ahead()))
                                    : count;
  return {std::min(first, end), end};
}

std::string weightsAsText(const AttentionMap &map) {
  std::string bytes;
  for (uint64_t head = 0; head < map.attention->num_heads(); ++head)
    for (int64_t query = 0; query < map.queries; ++query) {
      auto [first, end] = seenBy(*map.attention, query, map.keys);
      const float *row = map.weights.data() + (int64_t(head) * map.queries + query) * map.keys;
      for (int64_t key = first; key < end; ++key)
        bytes += char(uint8_t(std::lround(255 * std::sqrt(std::min(std::max(row[key], 0.0f), 1.0f)))));
    }
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve(bytes.size() / 3 * 4 + 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < count ? uint8_t(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k)
      text += k <= count ? digits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

// What a token reads as: its text, <0xE2> for a byte that is no character alone, its number where the model has no text.
std::string labelOf(const OpenedModel &program, int32_t id) {
  if (!program.tokenizer)
    return std::to_string(id);
  std::string bytes = TokenDecoder::bytesOf(*program.tokenizer, id), label;
  for (size_t i = 0; i < bytes.size();) {
    size_t length = utf8SequenceLength(bytes, i);
    label += length ? bytes.substr(i, length) : format("<0x%02X>", uint8_t(bytes[i]));
    i += length ? length : 1;
  }
  return label.empty() ? format("[%d]", id) : label;
}

// Where a script stands, text that could end its element has another spelling.
std::string inScript(std::string_view text) {
  std::string quoted = jsonString(text, /*ascii=*/true), safe;
  for (char c : quoted)
    safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return safe;
}

std::string tokensAsJson(const OpenedModel &program, const std::vector<int32_t> &ids) {
  std::string text = "[";
  for (size_t i = 0; i < ids.size(); ++i)
    text += (i ? ",[" : "[") + std::to_string(ids[i]) + "," + inScript(labelOf(program, ids[i])) + "]";
  return text + "]";
}

const char *tensorPrefix(const OpenedModel &program, package::AttentionRole role) {
  if (program.metadata().task() != package::Task::Seq2Seq)
    return "attentions.";
  return role == package::AttentionRole::Encoder ? "encoder_attentions."
         : role == package::AttentionRole::Cross ? "cross_attentions."
                                                 : "decoder_attentions.";
}

// One attention of each layer with the same tokens on both axes.
std::string groupAsJson(const OpenedModel &program, package::AttentionRole role,
                        const std::vector<AttentionMap> &maps) {
  bool isPair = program.metadata().task() == package::Task::Seq2Seq;
  const char *name = role == package::AttentionRole::Cross     ? "Cross-attention"
                     : !isPair                                 ? "Self-attention"
                     : role == package::AttentionRole::Encoder ? "Encoder self-attention"
                                                               : "Decoder self-attention";
  bool ofSource = isPair && role == package::AttentionRole::Encoder;
  std::string text =
      format("{\"name\":\"%s\",\"queries\":\"%s\",\"keys\":\"%s\",\"layers\":[", name, ofSource ? "sources" : "tokens",
             ofSource || role == package::AttentionRole::Cross ? "sources" : "tokens");
  bool isFirst = true;
  for (const AttentionMap &map : maps) {
    const package::Attention &attention = *map.attention;
    if (attention.role() != role)
      continue;
    text +=
        format("%s\n{\"heads\":%u,\"kvHeads\":%u,\"causal\":%s,\"window\":%u,\"chunk\":%u,\"ahead\":%u,\"weights\":\"",
               isFirst ? "" : ",", attention.num_heads(), attention.num_kv_heads(),
               attention.causal() ? "true" : "false", attention.window(), attention.chunk(), attention.ahead()) +
        weightsAsText(map) + "\"}";
    isFirst = false;
  }
  return isFirst ? std::string() : text + "]}";
}

Status writePage(const OpenedModel &program, const std::string &path, const AttentionText &text,
                 const std::vector<AttentionMap> &maps) {
  const package::Package &metadata = program.metadata();
  std::string model = metadata.source_name() ? metadata.source_name()->str() : program.name;
  std::string data = "{\"model\":" + inScript(model) + ",\"tokens\":" + tokensAsJson(program, text.tokens) +
                     ",\"sources\":" + tokensAsJson(program, text.sources) +
                     ",\"answer\":" + (text.answer == std::string::npos ? "null" : std::to_string(text.answer)) +
                     ",\"groups\":[";
  bool isFirst = true;
  for (package::AttentionRole role :
       {package::AttentionRole::Decoder, package::AttentionRole::Cross, package::AttentionRole::Encoder})
    if (std::string group = groupAsJson(program, role, maps); !group.empty()) {
      data += (isFirst ? "" : ",") + group;
      isFirst = false;
    }
  data += "]}";
  std::string_view page = heddle_attention_page(), mark = "/*ATTENTION*/";
  size_t at = page.find(mark);
  return writeWholeFile(path, {page.substr(0, at), data, page.substr(at + mark.size())});
}

Status writeTensors(const OpenedModel &program, const std::string &path, const AttentionText &text,
                    const std::vector<AttentionMap> &maps) {
  std::vector<TensorToWrite> tensors;
  int64_t layers[3] = {};
  for (const AttentionMap &map : maps) {
    package::AttentionRole role = map.attention->role();
    tensors.push_back({tensorPrefix(program, role) + std::to_string(layers[size_t(role)]++),
                       "F32",
                       {1, int64_t(map.attention->num_heads()), map.queries, map.keys},
                       map.weights.data(),
                       map.weights.size() * sizeof(float)});
  }
  bool isPair = !text.sources.empty();
  auto addIds = [&](const char *name, const std::vector<int32_t> &ids) {
    tensors.push_back({name, "I32", {1, int64_t(ids.size())}, ids.data(), ids.size() * sizeof(int32_t)});
  };
  addIds("input_ids", isPair ? text.sources : text.tokens);
  if (isPair)
    addIds("decoder_input_ids", text.tokens);
  return writeSafetensors(path, tensors);
}

} // namespace

Status checkAttentionFile(const std::string &path) {
  if (!isTensors(path) && (path.size() < 5 || path.compare(path.size() - 5, 5, ".html") != 0))
    return invalidInput("--attention-map: '" + path + "' ends neither with .html nor with .safetensors");
  return checkOutputFile(path);
}

Status checkAttentionSize(const OpenedModel &program, const std::string &path, size_t tokens, size_t sources) {
  uint64_t count = AttentionRecorder::numbersOf(program.metadata(), tokens, sources);
  uint64_t most = isTensors(path) ? mostOfTensors : mostOfPage;
  if (count <= most)
    return Status();
  return invalidInput(
      format("--attention-map: %zu tokens have %llu million weights, at most %llu million are written: a shorter "
             "text is expected%s",
             tokens + sources, (unsigned long long)(count / 1000000), (unsigned long long)(most / 1000000),
             isTensors(path) || count > mostOfTensors ? "" : ", or FILE.safetensors"));
}

Status writeAttention(const OpenedModel &program, const std::string &path, const AttentionText &text,
                      const std::vector<AttentionMap> &maps) {
  return isTensors(path) ? writeTensors(program, path, text, maps) : writePage(program, path, text, maps);
}

} // namespace heddle
