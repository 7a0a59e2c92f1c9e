// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BIN --audio FILE: writes what is said in sound, window after window. With times, the next window begins where the last thing that was wholly
// heard ends, else where the window ends. Sound that is longer than a window is heard with times whether they are asked for or not: cut at
// its windows' ends it would lose words.
#include "runtime/audio/LogMel.h"
#include "runtime/audio/WavFile.h"
#include "runtime/cli/Cli.h"
#include "runtime/session/TokenBatch.h"
#include "runtime/text/tokenizer/TextStream.h"

#include <algorithm>
#include <cmath>

namespace heddle {
namespace {

struct Segment {
  double start, end; // seconds
  std::vector<int32_t> ids;
};

class Transcription {
public:
  explicit Transcription(OpenedModel &program)
      : program(program), options(program.options), encoder(*program.metadata().encoder()), audio(*encoder.audio()),
        speech(*encoder.speech()), asIds(options.printIds || !program.tokenizer) {}

  Status run() {
    Sound sound;
    HEDDLE_RETURN_IF_ERROR(readWavFile(options.audioFile, sound));
    if (sound.rate != audio.sampling_rate())
      return invalidInput(format("%s: has %u samples per second, this model hears %u: convert it, as with "
                                 "'ffmpeg -i IN -ar %u OUT.wav'",
                                 options.audioFile.c_str(), sound.rate, audio.sampling_rate(), audio.sampling_rate()));
    hasTimes = options.timestamps || (isLong(sound) && speech.no_timestamps() >= 0);
    HEDDLE_RETURN_IF_ERROR(readPrompt());
    HEDDLE_RETURN_IF_ERROR(
        Session::create(*program.package, program.sessionOptions(std::max(1, options.beams)), session));
    computeSpectrogram(sound);
    int64_t window = 2 * int64_t(encoder.context());
    std::vector<float> features(size_t(audio.mel_bins()) * size_t(window));
    for (int64_t at = 0; at < heardFrames;) {
      copyWindow(at, window, features.data());
      HEDDLE_RETURN_IF_ERROR(hear(features));
      int64_t heard = std::min(heardFrames - at, window);
      HEDDLE_RETURN_IF_ERROR(write(at, heard));
      at += hasTimes ? advance(heard) : window;
    }
    return finish();
  }

private:
  bool isLong(const Sound &sound) const { return sound.samples.size() > audio.window_samples(); }

  // Of the whole sound, whose loudest part counts for all windows; what is shorter than one is followed by silence. As the reference has them, the
  // last window of long sound ends in zeros.
  void computeSpectrogram(const Sound &sound) {
    LogMelOptions of;
    of.bins = audio.mel_bins();
    of.samplingRate = audio.sampling_rate();
    of.fftSize = audio.n_fft();
    of.hop = audio.hop_length();
    int64_t count = int64_t(sound.samples.size()), length = isLong(sound) ? count : audio.window_samples();
    frames = length / of.hop;
    heardFrames = isLong(sound) ? frames : (count + of.hop - 1) / of.hop;
    spectrogram.resize(size_t(of.bins * frames));
    LogMel(of).compute(sound.samples.data(), count, length, spectrogram.data());
  }

  // Frames from `at` on. `out`: (bins, window).
  void copyWindow(int64_t at, int64_t window, float *out) const {
    int64_t copied = std::min(frames - at, window);
    for (int64_t bin = 0; bin < audio.mel_bins(); ++bin, out += window) {
      const float *from = &spectrogram[size_t(bin * frames + at)];
      std::fill(std::copy(from, from + copied, out), out + window, 0.0f);
    }
  }

  // What the decoder begins with, by what is asked for, else by what the model's files say.
  Status readPrompt() {
    prompt = {program.metadata().generation()->decoder_start()};
    std::string language = options.language, task = options.task;
    if (language.empty() && speech.language())
      language = speech.language()->str();
    if (task.empty() && speech.task())
      task = speech.task()->str();
    if (language.empty() && task.empty() && speech.forced())
      prompt.insert(prompt.end(), speech.forced()->begin(), speech.forced()->end());
    if (!language.empty()) {
      int32_t id = -1;
      HEDDLE_RETURN_IF_ERROR(idOf("--language", speech.languages(), language, id));
      prompt.resize(std::max<size_t>(prompt.size(), 2));
      prompt[1] = id;
    } else if (prompt.size() == 1 && speech.languages() && speech.languages()->size()) {
      prompt.push_back(heard);
    }
    if (task.empty() && !language.empty() && speech.tasks() && speech.tasks()->size())
      task = "transcribe";
    if (!task.empty()) {
      int32_t id = -1;
      HEDDLE_RETURN_IF_ERROR(idOf("--task", speech.tasks(), task, id));
      prompt.push_back(id);
    }
    int32_t without = speech.no_timestamps();
    if (hasTimes && prompt.back() == without)
      prompt.pop_back();
    else if (!hasTimes && without >= 0 && prompt.back() != without)
      prompt.push_back(without);
    int64_t context = program.metadata().context();
    return int64_t(prompt.size()) < context
               ? Status()
               : invalidInput(format("the decoder begins with %zu tokens, the context is %lld", prompt.size(),
                                     (long long)context));
  }

  using Tokens = flatbuffers::Vector<flatbuffers::Offset<package::SpeechToken>>;

  static Status idOf(const char *option, const Tokens *known, const std::string &name, int32_t &id) {
    std::string list;
    for (unsigned i = 0; known && i < known->size(); ++i) {
      const package::SpeechToken &token = *known->Get(i);
      if (token.name()->string_view() == name) {
        id = token.id();
        return Status();
      }
      list += (i ? ", " : "") + token.name()->str();
    }
    return invalidInput(std::string(option) + ": '" + name.substr(0, 64) + "' is none of " + list);
  }

  // The answer to one window.
  Status hear(const std::vector<float> &features) {
    TokenBatch tokens;
    tokens.addSound(features.data(), encoder);
    HEDDLE_RETURN_IF_ERROR(tokens.completeRows(options.audioFile, program.metadata()));
    std::vector<EncoderInput> inputs = tokens.encoderInputs();
    const int32_t sequence = 0;
    HEDDLE_RETURN_IF_ERROR(session->encode(inputs.data(), &sequence, 1));
    auto unknown = std::find(prompt.begin(), prompt.end(), heard);
    if (unknown != prompt.end())
      HEDDLE_RETURN_IF_ERROR(hearLanguage(*unknown));
    ids.clear();
    HEDDLE_RETURN_IF_ERROR(options.beams > 1 ? search() : generate());
    std::vector<int32_t> ends = program.endTokens();
    if (!ids.empty() && std::find(ends.begin(), ends.end(), ids.back()) != ends.end())
      ids.pop_back();
    return wasInterrupted() ? Status(StatusCode::Cancelled, "interrupted") : Status();
  }

  // The most probable language behind the decoder's start; that of the first window counts.
  Status hearLanguage(int32_t &id) {
    HEDDLE_RETURN_IF_ERROR(session->append(0, prompt.data(), 1));
    const float *logits = session->logits(0);
    id = speech.languages()->Get(0)->id();
    for (const package::SpeechToken *language : *speech.languages())
      if (logits[language->id()] > logits[id])
        id = language->id();
    session->truncate(0, 0);
    return Status();
  }

  AnswerRules rules() const {
    std::vector<int32_t> ends = program.endTokens();
    AnswerRules rules = AnswerRules::of(program.metadata(), ends);
    if (hasTimes)
      rules.timestamps = {speech.no_timestamps() + 1, ends.empty() ? speech.no_timestamps() : ends.front(),
                          speech.max_initial_timestamp(), speech.no_timestamps()};
    return rules;
  }

  // The longest answer to a window; 0: as the context has room. As the reference: max_length does not count what the decoder begins with, as far
  // as that is less than half the context, and what the model's files say ends with the context.
  int64_t longestAnswer() const {
    int64_t context = session->context(), begun = int64_t(prompt.size());
    int64_t counted = std::max<int64_t>(0, begun - std::max<int64_t>(0, context / 2 - 1));
    int64_t longest = program.longestAnswer(counted);
    return longest && !options.hasMaxTokens ? std::min(longest, context - begun) : longest;
  }

  Status search() {
    int64_t longest = longestAnswer(),
            room = session->context() - int64_t(prompt.size()) + 1; // the last is not fed back
    BeamOptions beam = program.beamOptions(longest ? std::min(longest, room) : room);
    beam.hasSource = true;
    beam.rules = rules();
    std::vector<BeamResult> results;
    HEDDLE_RETURN_IF_ERROR(searchBeams(*session, prompt, beam, results));
    ids = std::move(results.front().ids);
    return Status();
  }

  Status generate() {
    GenerateOptions generate = program.generateOptions(int64_t(prompt.size()));
    generate.maxTokens = longestAnswer();
    generate.hasSource = true;
    generate.rules = rules();
    EndReason reason;
    auto sink = [](void *user, int32_t id, const float *) {
      static_cast<std::vector<int32_t> *>(user)->push_back(id);
      return !wasInterrupted();
    };
    HEDDLE_RETURN_IF_ERROR(generateTokens(*session, 0, prompt.data(), prompt.size(), generate, sink, &ids, reason));
    program.noteEnd(reason);
    return Status();
  }

  bool isTime(int32_t id) const { return hasTimes && id > speech.no_timestamps(); }
  int64_t framesAt(int32_t id) const { return 2 * int64_t(id - speech.no_timestamps() - 1); } // a token is two frames
  double secondsOf(int64_t frames) const { return double(frames * audio.hop_length()) / audio.sampling_rate(); }

  // Where the window's last pair of times ends; 0: it has none.
  size_t lastPair() const {
    for (size_t i = ids.size(); i-- > 1;)
      if (isTime(ids[i]) && isTime(ids[i - 1]))
        return i + 1;
    return 0;
  }

  // One time before the end: nothing more is said in the window.
  bool endsWithTime() const { return ids.size() >= 2 && isTime(ids.back()) && !isTime(ids[ids.size() - 2]); }

  // Frames until the next window begins.
  int64_t advance(int64_t windowFrames) const {
    size_t pair = lastPair();
    int64_t heardUntil = pair && !endsWithTime() ? framesAt(ids[pair - 2]) : windowFrames;
    return heardUntil > 0 ? heardUntil : windowFrames;
  }

  // What is said between two times, each whole one of the window; all of it where there is no pair of them, or no times at all.
  std::vector<Segment> segments(int64_t at, int64_t windowFrames) const {
    std::vector<Segment> found;
    size_t begin = 0, end = lastPair() && !endsWithTime() ? lastPair() - 1 : ids.size();
    for (size_t i = 1; i <= end; ++i) {
      bool isCut = i == end || (isTime(ids[i]) && isTime(ids[i - 1]));
      if (!isCut)
        continue;
      Segment segment = {0, double(windowFrames), {}};
      int64_t until = windowFrames;
      if (isTime(ids[i - 1]) && i - 1 > begin)
        until = framesAt(ids[i - 1]);
      segment.start = secondsOf(at + (isTime(ids[begin]) ? framesAt(ids[begin]) : 0));
      segment.end = secondsOf(at + until);
      for (size_t token = begin; token < i; ++token)
        if (!isTime(ids[token]))
          segment.ids.push_back(ids[token]);
      found.push_back(std::move(segment));
      begin = i;
    }
    return found;
  }

  std::string textOf(const std::vector<int32_t> &tokens) const {
    TextStream stream(program.tokenizer.get(), /*skipSpecial=*/true, {});
    std::string text;
    for (int32_t id : tokens)
      stream.append(id, text);
    stream.finish(text);
    return text;
  }

  static std::string clock(double seconds) {
    int64_t hundredths = std::llround(seconds * 100);
    return format("%02lld:%02lld:%02lld.%02lld", (long long)(hundredths / 360000), (long long)(hundredths / 6000 % 60),
                  (long long)(hundredths / 100 % 60), (long long)(hundredths % 100));
  }

  static std::string trimmed(const std::string &text) {
    size_t begin = text.find_first_not_of(' ');
    return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
  }

  static std::string joined(const std::vector<int32_t> &tokens) {
    std::string text;
    for (size_t i = 0; i < tokens.size(); ++i)
      text.append(i ? "," : "").append(std::to_string(tokens[i]));
    return text;
  }

  // `at`, `windowFrames`: where the window begins, and what of it is sound.
  Status write(int64_t at, int64_t windowFrames) {
    std::vector<Segment> found = segments(at, windowFrames);
    if (!options.timestamps) {
      std::vector<int32_t> said;
      for (const Segment &segment : found)
        said.insert(said.end(), segment.ids.begin(), segment.ids.end());
      if (asIds) {
        all.insert(all.end(), said.begin(), said.end());
        return Status();
      }
      std::string text = textOf(said);
      if (!hasWritten)
        text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
      hasWritten |= !text.empty();
      return writeOut(text);
    }
    std::string lines;
    for (const Segment &segment : found)
      lines += "[" + clock(segment.start) + " --> " + clock(segment.end) + "] " +
               (asIds ? joined(segment.ids) : trimmed(textOf(segment.ids))) + "\n";
    return writeOut(lines);
  }

  Status finish() {
    if (options.timestamps)
      return Status();
    return writeOut((asIds ? joined(all) : "") + "\n");
  }

  static constexpr int32_t heard = -1; // in a prompt: the language, which is heard

  OpenedModel &program;
  const CliOptions &options;
  const package::Encoder &encoder;
  const package::AudioInput &audio;
  const package::Speech &speech;
  const bool asIds;
  bool hasTimes = false;               // among what the model says
  std::vector<float> spectrogram;      // (mel bins, frames)
  int64_t frames = 0, heardFrames = 0; // of the sound, with silence behind it and without
  std::unique_ptr<Session> session;
  std::vector<int32_t> prompt, ids, all; // ids: of the window; all: of all windows
  bool hasWritten = false;
};

} // namespace

Status runTranscribe(OpenedModel &program) {
  return Transcription(program).run();
}

} // namespace heddle
