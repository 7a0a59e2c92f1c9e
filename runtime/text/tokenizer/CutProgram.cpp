// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the words of a program, and refuses what its matcher would run beyond.
#include "runtime/text/tokenizer/CutProgram.h"

namespace heddle {

// The last instruction leads elsewhere or ends, so that no match runs beyond it.
bool CutProgram::checkCode(std::string &error) const {
  for (uint32_t pc = 0; pc < numInstructions; ++pc) {
    const CutInstruction &instruction = code[pc];
    bool takes = instruction.op >= CutOp::Take && instruction.op <= CutOp::Possess,
         leads = instruction.op >= CutOp::Either && instruction.op <= CutOp::Ahead;
    if (instruction.op > CutOp::Ahead || (takes && instruction.a >= classes.size()) ||
        (leads && instruction.a >= numInstructions) ||
        (pc + 1 == numInstructions && instruction.op != CutOp::Accept && instruction.op != CutOp::Jump)) {
      error = "instruction " + std::to_string(pc) + " of the program of a pattern is not valid";
      return false;
    }
  }
  return true;
}

std::unique_ptr<Regex> CutProgram::create(const uint32_t *words, size_t count, std::string &error) {
  std::unique_ptr<CutProgram> program(new CutProgram);
  uint64_t numClasses = count < headerWords ? 0 : words[1], numRanges = count < headerWords ? 0 : words[2];
  uint64_t expected = count < headerWords ? 0 : headerWords + 4 * uint64_t(words[0]) + numClasses + 2 * numRanges;
  if (count < headerWords || !words[0] || expected != count) {
    error = "the program of a pattern has " + std::to_string(count) + " words, expected " + std::to_string(expected);
    return nullptr;
  }
  program->numInstructions = words[0];
  program->code = reinterpret_cast<const CutInstruction *>(words + headerWords);
  const uint32_t *ends = words + headerWords + 4 * size_t(words[0]);
  auto *ranges = reinterpret_cast<const CharacterRange *>(ends + numClasses);
  uint32_t begin = 0;
  for (uint32_t index = 0; index < numClasses; begin = ends[index++]) {
    if (ends[index] < begin || ends[index] > numRanges) {
      error = "class " + std::to_string(index) + " of the program of a pattern ends at range " +
              std::to_string(ends[index]) + ", expected one in [" + std::to_string(begin) + ", " +
              std::to_string(numRanges) + "]";
      return nullptr;
    }
    Class set = {{0, 0}, ranges + begin, ranges + ends[index]};
    for (char32_t character = 0; character < 0x80; ++character)
      for (const CharacterRange *range = set.begin; range != set.end && range->first <= character; ++range)
        if (character <= range->last)
          set.ascii[character / 64] |= uint64_t(1) << (character % 64);
    program->classes.push_back(set);
  }
  return program->checkCode(error) ? std::move(program) : nullptr;
}

} // namespace heddle
