// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Small changes to bytes: the same ones for the same seed, on every machine.
#ifndef HEDDLE_TEST_FUZZ_MUTATOR_H
#define HEDDLE_TEST_FUZZ_MUTATOR_H

#include <random>
#include <string>
#include <vector>

namespace heddle::fuzz {

class Mutator {
public:
  // `words` are put where they may mean something.
  Mutator(uint64_t seed, std::vector<std::string> words) : random(seed), words(std::move(words)) {}

  // `bytes` with one to four changes.
  std::string mutate(std::string bytes);

private:
  size_t below(size_t count) { return random() % count; }
  void change(std::string &bytes);
  void changeNumber(std::string &bytes, size_t at);

  std::mt19937_64 random;
  std::vector<std::string> words;
};

} // namespace heddle::fuzz

#endif
