// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a program over a text.
#include "runtime/text/tokenizer/CutProgram.h"

#include "bytes/Utf8.h"

#include <algorithm>

namespace heddle {
namespace {

// As of the engine: what a pattern that backtracks without end runs into.
constexpr uint64_t stepLimit = 20000000;
// The engine counts from each place where a match could begin anew. All of a text, beyond what is in proportion to it, take seconds at most: a
// pattern may look as far ahead for each match as (?=(\d{3})+(?!\d)) does.
constexpr uint64_t searchLimit = 1000000000, stepsPerByte = 256;
constexpr size_t frameLimit = 100000;
constexpr unsigned nestLimit = 64;

// Where a match goes on when what follows fails. With `least` before `position`, characters of a Repeat are given back one by one, down to there.
struct Frame {
  uint32_t pc;
  size_t position, least;
};

class CutMatcher : public Regex::Matcher {
public:
  explicit CutMatcher(const CutProgram &program) : program(program) {}

  bool find(std::string_view subject, size_t from, size_t &begin, size_t &end, std::string &error) override {
    text = subject;
    for (begin = from;; nextCharacter(text, begin)) {
      steps = 0;
      bool found = run(0, begin, end, 0);
      spent += steps;
      if (steps > stepLimit || spent > searchLimit) {
        error = "the regex pattern gave up after byte " + std::to_string(from) + " of a text of " +
                std::to_string(text.size()) + " bytes: match limit exceeded";
        return false;
      }
      if (!found && begin < text.size())
        continue;
      spent -= std::min(spent, stepsPerByte * ((found ? end : begin) - from));
      return found;
    }
  }

private:
  bool take(uint32_t index, size_t &position) const {
    if (position >= text.size())
      return false;
    size_t next = position;
    auto lead = static_cast<unsigned char>(text[position]);
    if (!program.has(index, lead < 0x80 ? (++next, lead) : nextCharacter(text, next)))
      return false;
    position = next;
    return true;
  }

  // False where there are too few characters.
  bool repeat(const CutInstruction &instruction, uint32_t pc, size_t &position) {
    uint32_t count = 0;
    size_t least = position;
    for (; count < instruction.c && take(instruction.a, position); ++count)
      if (count < instruction.b)
        least = position;
    steps += count / 8;
    if (count < instruction.b)
      return false;
    if (instruction.op == CutOp::Repeat && position > least)
      frames.push_back({pc + 1, position, least});
    return true;
  }

  bool run(uint32_t pc, size_t position, size_t &end, unsigned depth) {
    const size_t base = frames.size();
    for (;; ++steps) {
      if (steps > stepLimit || frames.size() > frameLimit || depth > nestLimit) {
        steps = stepLimit + 1;
        frames.resize(base);
        return false;
      }
      const CutInstruction &instruction = program.at(pc);
      bool holds = true;
      switch (instruction.op) {
      case CutOp::Accept:
        end = position;
        frames.resize(base);
        return true;
      case CutOp::Take:
        holds = take(instruction.a, position);
        ++pc;
        break;
      case CutOp::Repeat:
      case CutOp::Possess:
        holds = repeat(instruction, pc, position);
        ++pc;
        break;
      case CutOp::Either:
        frames.push_back({instruction.a, position, position});
        ++pc;
        break;
      case CutOp::Jump:
        pc = instruction.a;
        break;
      case CutOp::Ahead: {
        size_t ignored = 0;
        holds = run(pc + 1, position, ignored, depth + 1) != bool(instruction.b);
        pc = instruction.a;
        break;
      }
      }
      if (holds)
        continue;
      if (frames.size() == base)
        return false;
      Frame &frame = frames.back();
      if (frame.position > frame.least)
        previousCharacter(text, frame.position);
      pc = frame.pc;
      position = frame.position;
      if (frame.position == frame.least)
        frames.pop_back();
    }
  }

  const CutProgram &program;
  std::string_view text;
  std::vector<Frame> frames;
  uint64_t steps = 0; // of the match that is tried
  uint64_t spent = 0; // of all matches so far, less what the text that they have passed allows
};

} // namespace

std::unique_ptr<Regex::Matcher> CutProgram::matcher() const {
  return std::unique_ptr<Matcher>(new CutMatcher(*this));
}

bool CutProgram::has(uint32_t index, char32_t character) const {
  const Class &set = classes[index];
  if (character < 0x80)
    return set.ascii[character / 64] >> (character % 64) & 1;
  const CharacterRange *range =
      std::partition_point(set.begin, set.end, [&](const CharacterRange &range) { return range.last < character; });
  return range != set.end && range->first <= character;
}

} // namespace heddle
