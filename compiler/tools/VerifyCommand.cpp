// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `heddle verify`.

#include "compiler/tools/CompileArguments.h"
#include "compiler/verify/VerifyModel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace heddle;
using llvm::StringRef;

static const char *const verifyUsage = R"(heddle verify MODEL [options]

Evaluates the model on a sequence of tokens with a reference interpreter (plain loops, 64-bit accumulation, the model's own
weights) after every stage of the compiler: at once, and in steps of a batch that go on behind cached tokens. Then runs the
binary: on these tokens, on up to 600 if the model is small, as a batch, generating behind several prompts, and with two beams.
Does it once more for a small model with its matrices scaled by 1/64: what is added to small numbers shows. Names the first
stage whose result moved beyond rounding, the op where the first new value appears, and the error. Where the binary is wrong or
dies, each of its kernels is run by itself, in the binary and on the interpreter's inputs, and the first wrong one is named.
Takes minutes for models of a billion weights.

  --each-pass                   evaluate after every pass, and name the pass
  --each-kernel                 run each kernel of the binary by itself although the whole is right, and list them
  --tokens=N                    length of the sequence (default 8, or 3 more than the smallest sliding window of at most 128)
  --ids=1,2,3                   the sequence itself (default: random, by --seed)
  --entry=NAME                  which of a file's graphs (default: the first)
  --inputs=FILE                 a graph's inputs, a safetensors file (default: random, by --seed, dynamic dimensions of size 5)
  --seed=N                      seed of what is random (default 1)
  --limit=X                     largest normalised mean square error (default: 1e-11, of a binary 3e-11 or, if large, 1e-9;
                                5e-5 where the cache is 16-bit)

Options of 'heddle compile' that say how to compile are taken as well; --precise is the default.

Example:
  heddle verify model.gguf --each-pass --share-kv=off

Exit code: 0 every result is the same, 1 a result moved, 2 the input or the command line is at fault.
)";

static bool parseIds(StringRef list, std::vector<int64_t> &ids) {
  llvm::SmallVector<StringRef> words;
  list.split(words, ',');
  for (StringRef word : words)
    if (word.trim().getAsInteger(10, ids.emplace_back()))
      return false;
  return true;
}

// Takes the words of verify out of `words`; the rest is for compile.
static bool takeOwnFlag(StringRef word, VerifyOptions &options, std::string &error) {
  auto [key, value] = word.split('=');
  bool isBad = false;
  if (word == "--each-pass")
    return options.eachPass = true;
  if (word == "--each-kernel")
    return options.eachKernel = true;
  if (key == "--entry")
    return options.entry = value.str(), true;
  if (key == "--inputs")
    return options.inputs = value.str(), true;
  if (key == "--tokens")
    isBad = value.getAsInteger(10, options.tokens) || options.tokens < 1;
  else if (key == "--seed")
    isBad = value.getAsInteger(10, options.seed);
  else if (key == "--limit")
    isBad = value.getAsDouble(options.limit) || !(options.limit > 0 && std::isfinite(options.limit));
  else if (key == "--ids")
    isBad = !parseIds(value, options.ids);
  else
    return false;
  if (isBad)
    error = (key + ": '" + value + "' is no " + (key == "--ids" ? "list of token ids" : "positive number")).str();
  return true;
}

int heddle::runVerifyCommand(int argc, char **argv) {
  VerifyOptions options;
  options.compile.precision = Precision::Precise;
  std::string error;
  std::vector<char *> rest;
  for (char *word : llvm::ArrayRef(argv, argc))
    if (!takeOwnFlag(word, options, error))
      rest.push_back(word);
  CompileArguments arguments(options.compile);
  if (!error.empty() || !arguments.parse(rest.size(), rest.data()))
    return refuseCommand(error.empty() ? arguments.error : error, options.compile.jsonDiagnostics);
  if (arguments.help) {
    llvm::outs() << verifyUsage;
    return 0;
  }
  if (options.compile.printCacheKey)
    return refuseCommand("--print-cache-key: verify makes no output that it could name",
                         options.compile.jsonDiagnostics);
  setDeathAsJson(options.compile.jsonDiagnostics);
  Status status = verifyModel(options);
  return status.isOk() ? 0 : failCommand(status, options.compile.jsonDiagnostics);
}
