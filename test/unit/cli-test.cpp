// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The command line of a compiled model, on the executable reference-llama.
#include "bytes/Safetensors.h"
#include "test/unit/ReferenceModel.h"
#include "test/unit/TestPackage.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/wait.h>

using namespace heddle;
using namespace heddle::reference;

namespace {

struct Outcome {
  int code;
  std::string out, err;
};

std::string readFile(const std::string &path) {
  std::string text;
  if (FILE *file = fopen(path.c_str(), "rb")) {
    for (int c; (c = fgetc(file)) != EOF;)
      text += char(c);
    fclose(file);
  }
  return text;
}

// `arguments` as a shell would read them.
Outcome run(const std::string &arguments, const std::string &input = "") {
  std::string folder = scratchFolder();
  writeFile("stdin", Bytes(input.begin(), input.end()));
  std::string command = "'" HEDDLE_REFERENCE_LLAMA "' " + arguments + " <" + folder + "/stdin >" + folder +
                        "/stdout 2>" + folder + "/stderr";
  int status = system(command.c_str()); // NOLINT(bugprone-command-processor): commands are ours
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, readFile(folder + "/stdout"), readFile(folder + "/stderr")};
}

void expectRefused(const std::string &arguments, const std::string &message, const std::string &input = "") {
  Outcome outcome = run(arguments, input);
  EXPECT_EQ(outcome.code, 2) << arguments;
  EXPECT_EQ(outcome.err, "reference-llama: error: " + message + "\n");
  EXPECT_EQ(outcome.out, "");
}

std::vector<int64_t> golden(const char *name) {
  SafetensorsFile file;
  EXPECT_TRUE(file.open(HEDDLE_TEST_MODELS "/llama/golden.safetensors").isOk());
  const StoredTensor *tensor = file.find(name);
  const auto *values = reinterpret_cast<const int64_t *>(tensor->data);
  return {values, values + tensor->size / 8};
}

std::string joined(const std::vector<int64_t> &ids) {
  std::string text;
  for (int64_t id : ids)
    text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

TEST(Cli, greedyIdsAreTheGoldens) {
  for (const char *name : {"p0", "p1", "p2"}) {
    std::string ids = joined(golden((std::string(name) + ".input_ids").c_str()));
    Outcome outcome = run("--prompt-ids " + ids + " -n 24 --temp 0 --ignore-eos --print-ids");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, joined(golden((std::string(name) + ".greedy_ids").c_str())) + "\n");
    EXPECT_EQ(run("--prompt-ids " + ids + " -n 24 --ignore-eos --print-ids --deterministic --threads 3").out,
              outcome.out);
  }
}

TEST(Cli, textInTextOut) {
  Outcome argument = run("-n 8 hello"), input = run("-n 8", "hello\n");
  EXPECT_EQ(argument.code, 0) << argument.err;
  EXPECT_EQ(argument.out, input.out);
  EXPECT_GT(argument.out.size(), 1u);
  // The same ids as by hand: BOS, then bytes.
  EXPECT_EQ(run("-n 8 --print-ids hello").out, run("-n 8 --print-ids --prompt-ids 1,104,101,108,108,111").out);
}

TEST(Cli, stopTextEndsTheAnswer) {
  // A printable byte of the greedy answer to a fixed prompt.
  std::string answer = run("-n 40 --ignore-eos hello").out;
  size_t at = 1;
  while (at < answer.size() && (uint8_t(answer[at]) < 'a' || uint8_t(answer[at]) > 'z'))
    ++at;
  ASSERT_LT(at, answer.size());
  size_t first = answer.find(answer[at]);
  EXPECT_EQ(run("-n 40 --ignore-eos hello --stop " + std::string(1, answer[at])).out, answer.substr(0, first) + "\n");
}

TEST(Cli, eosEndsTheAnswer) {
  std::vector<int64_t> ids = golden("p1.greedy_ids");
  std::string prompt = joined(golden("p1.input_ids"));
  Outcome outcome = run("--prompt-ids " + prompt + " -n 24 --temp 0 --print-ids --eos " + std::to_string(ids[3]));
  EXPECT_EQ(outcome.out, joined({ids.begin(), ids.begin() + 4}) + "\n");
}

TEST(Cli, sameSeedSameAnswer) {
  std::string flags = "--prompt-ids 1,50,60 -n 16 --ignore-eos --print-ids --temp 1 --top-k 50 --top-p 0.9 --min-p "
                      "0.01 --repeat-penalty 1.1 --seed ";
  EXPECT_EQ(run(flags + "7").out, run(flags + "7").out);
  EXPECT_NE(run(flags + "7").out, run(flags + "8").out);
}

TEST(Cli, aTinyTemperatureIsGreedy) {
  EXPECT_EQ(run("hello -n 8 --ignore-eos --print-ids --temp 1e-38").out,
            run("hello -n 8 --ignore-eos --print-ids --temp 0").out);
}

TEST(Cli, logprobsAreJsonLines) {
  Outcome outcome = run("--prompt-ids 1,5 -n 3 --logprobs 2 --ignore-eos");
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 3);
  EXPECT_EQ(outcome.out.find("{\"schema\":\"heddle-logprobs-1\",\"id\":"), 0u);
  EXPECT_NE(outcome.out.find("\"top\":[{\"id\":"), std::string::npos);
}

TEST(Cli, chatAnswersEveryLine) {
  Outcome outcome = run("--chat -n 4 --ignore-eos --system be", "hello\nagain\n");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  // What the template makes of the first message, as ids; the answer to it comes first.
  std::string first = "[system]be\n[user]hello\n[assistant]", ids;
  for (char c : first)
    ids += (ids.empty() ? "" : ",") + std::to_string(int(c));
  std::string alone = run("-n 4 --ignore-eos --prompt-ids " + ids).out;
  EXPECT_EQ(outcome.out.substr(0, alone.size()), alone);
  EXPECT_GT(outcome.out.size(), alone.size());
}

// 128 tokens of context, a byte each: the third message makes the first turn go, and what cannot be answered is refused alone.
TEST(Cli, chatGoesOnWhenTheContextIsFull) {
  std::string line(30, 'a'), tooLong(200, 'b');
  Outcome outcome = run("--chat -n 4 --ignore-eos", line + "\n" + line + "\n" + line + "\n" + tooLong + "\nhello\n");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("note: the conversation has outgrown the context of 128 tokens"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("error: the message has 2"), std::string::npos) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2) << outcome.err;
  EXPECT_GE(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 4);
}

TEST(Cli, chatRefusesAMessageAndGoesOn) {
  Outcome good = run("--chat -n 4 --ignore-eos", "hello\n"),
          outcome = run("--chat -n 4 --ignore-eos", "caf\xe9\nhello\n");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, good.out) << "what was refused is no part of the conversation";
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST(Cli, chatCommands) {
  std::string hello = run("--chat -n 4 --ignore-eos --system be", "hello\n").out;
  EXPECT_EQ(run("--chat -n 4 --ignore-eos --system be", "hello\n/reset\nhello\n").out, hello + hello);
  EXPECT_EQ(run("--chat -n 4 --ignore-eos --system be", "hello\n/exit\nhello\n").out, hello);
  EXPECT_EQ(run("--chat -n 4", "/help\n").out.find("A line is a message"), 0u);
  std::string twoLines = run("--chat -n 4 --ignore-eos", "a\\\nb\n").out;
  EXPECT_EQ(std::count(twoLines.begin(), twoLines.end(), '\n'), std::count(hello.begin(), hello.end(), '\n'));
  EXPECT_EQ(run("--chat -n 4 --ignore-eos --system be", "hello\\").out, hello) << "the message ends with the input";
}

TEST(Cli, aFullContextIsSaid) {
  Outcome outcome = run("hello --ignore-eos");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.err.find("note: the answer ends because the context of 128 tokens is full"), std::string::npos);
  EXPECT_EQ(run("hello -n 4 --ignore-eos").err, "");
  EXPECT_NE(run("hello --beam 2 --ignore-eos").err.find("context of 128 tokens is full"), std::string::npos);
  EXPECT_EQ(run("hello --beam 2 -n 4 --ignore-eos").err, "");
}

TEST(Cli, moreThreadsThanCpusAreSaid) {
  EXPECT_NE(run("hello -n 2 --threads 1000").err.find(" of 1000 threads run: this process has "), std::string::npos);
}

TEST(Cli, beamSearchFindsAtLeastTheGreedyScore) {
  Outcome one = run("--prompt-ids 1,5,9 -n 6 --beam 4 --ignore-eos --print-ids");
  Outcome all = run("--prompt-ids 1,5,9 -n 6 --beam 4 --num-return-sequences 3 --ignore-eos --print-ids");
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(std::count(one.out.begin(), one.out.end(), ','), 5);
  EXPECT_EQ(all.out.substr(0, one.out.size()), one.out);
  EXPECT_EQ(std::count(all.out.begin(), all.out.end(), '\n'), 3);
}

TEST(Cli, benchIsOneJsonObject) {
  Outcome outcome = run("--bench --prompt 16 --generate 8 --depth 4 --rounds 1 --threads 2 --json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char *key :
       {"\"prefill\":", "\"decode\":", "\"bytes_per_token\":", "\"read_bandwidth\":", "\"threads\":2"})
    EXPECT_NE(outcome.out.find(key), std::string::npos) << key;
  EXPECT_NE(run("--profile --prompt 8 --generate 2 --rounds 1").out.find("reference_step"), std::string::npos);
  outcome = run("--profile --prompt 16 --generate 8 --rounds 2 --threads 2 --batch 3 --json");
  // Of one round: two chunks of eight tokens of one prompt, and eight steps of all sequences.
  for (const char *part :
       {"\"batch\":3", "\"peaks\":{\"f32\":", "\"other_seconds\":", "\"launches\":2,", "\"launches\":8,"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << outcome.out << outcome.err;
  expectRefused("--bench --batch 0", "--batch: '0' is not an integer in [1, 1024]");
  expectRefused("--batch 2 x", "--batch belongs to --bench");
  expectRefused("--bench --prompt 500", "--bench: 500 tokens (prompt 500, depth 0, generate 64), the context is 128");
}

TEST(Cli, perplexityOfKnownLogits) {
  // The text "ab" is BOS, a, b: two predictions, from the logits that --io gives.
  std::string path = writeFile("text", {'a', 'b'}), in = scratchFolder() + "/in", out = scratchFolder() + "/out";
  int64_t ids[] = {1, 'a', 'b'};
  ASSERT_TRUE(writeSafetensors(in, {{"input_ids", "I64", {1, 3}, ids, sizeof ids}}).isOk());
  ASSERT_EQ(run("--io " + in + " " + out).code, 0);
  SafetensorsFile file;
  ASSERT_TRUE(file.open(out).isOk());
  const float *logits = reinterpret_cast<const float *>(file.find("logits")->data);
  double sum = 0;
  for (int64_t row = 0; row < 2; ++row) {
    double total = 0;
    for (int id = 0; id < vocabSize; ++id)
      total += std::exp(double(logits[row * vocabSize + id]));
    sum -= logits[row * vocabSize + ids[row + 1]] - std::log(total);
  }
  std::string said = run("--perplexity " + path).out, before = "perplexity ";
  ASSERT_EQ(said.compare(0, before.size(), before), 0) << said;
  char *behind = nullptr;
  double found = strtod(said.c_str() + before.size(), &behind);
  EXPECT_EQ(std::string(behind).compare(0, 14, " over 2 tokens"), 0) << said;
  EXPECT_NEAR(found, std::exp(sum / 2), 1e-6 * found);
}

TEST(Cli, informs) {
  Outcome info = run("--info");
  EXPECT_NE(info.out.find("architecture       llama"), std::string::npos) << info.out;
  const std::string greedy = "--temp 0 (greedy), for the model names no defaults of sampling\n";
  EXPECT_NE(info.out.find("sampling           " + greedy), std::string::npos) << info.out;
  EXPECT_EQ(run("--check").out,
            "weights: all hashes match\ncode: it has no hash, which only Heddle's own links have\n");
  std::string licenses = run("--licenses").out;
  for (const char *line : {"BSD-3-Clause                                   PCRE2 (University of Cambridge)\n",
                           "Apache-2.0 WITH LLVM-exception                 the model, as its files state it\n"})
    EXPECT_NE(licenses.find(line), std::string::npos) << licenses;
  EXPECT_EQ(licenses.find("Halide"), std::string::npos) << licenses;
  EXPECT_EQ(run("--version").out.find("heddle runtime "), 0u);
  Outcome help = run("--help");
  EXPECT_EQ(help.code, 0);
  for (const char *option : {"--temp T", "--chat", "--io IN OUT", "up to 128 tokens"})
    EXPECT_NE(help.out.find(option), std::string::npos) << option;
  EXPECT_NE(help.out.find("Without options: " + greedy), std::string::npos) << help.out;
}

TEST(CliErrors, oneLineAndExitCode2) {
  expectRefused("--nothing", "unknown option '--nothing' (--help lists what this model can do)");
  expectRefused("--temp warm x", "--temp: 'warm' is not a number in [0, 1000]");
  expectRefused("-n 0 x", "-n: '0' is not an integer in [1, 2147483647]");
  expectRefused("-n", "-n: expected N");
  expectRefused("--json=1 x", "--json: expected no value");
  expectRefused("--prompt-ids 1,2,x", "--prompt-ids: 'x' is not an integer in [0, 2147483647]");
  expectRefused("--prompt-ids 1,2,", "--prompt-ids: the list ends with a comma");
  expectRefused("--prompt-ids 1,256", "token id 256 at position 1 is not in [0, 256)");
  expectRefused("a b", "two prompts: 'a' and 'b' (quote a prompt with spaces)");
  expectRefused("--prompt-ids 1 text", "a prompt as text and as --prompt-ids: one of them is expected");
  expectRefused("--eos 300 x", "--eos: token id 300 is not in [0, 256)");
  expectRefused("--num-return-sequences 2 x", "--num-return-sequences belongs to --beam with more than one beam");
  expectRefused("--num-return-sequences 3 --beam 2 x", "--num-return-sequences (3) is more than --beam (2)");
  expectRefused("--beam 2 --temp 1 x", "--beam takes no --temp above 0");
  expectRefused("--stop '' x", "--stop: an empty text");
  expectRefused("--stop 'a\xff' x", "--stop: the text is not UTF-8");
  expectRefused("--chat --system 'a\xff'", "--system: the text is not UTF-8");
  expectRefused("--chat -n 4 --system " + std::string(200, 's'),
                "--system: the message has 220 tokens, the context 128", "hello\n");
  expectRefused("-n 1", "the prompt has 201 tokens, the context 128", std::string(200, 'x'));
  EXPECT_EQ(run("-n 2", "bad \xff text").code, 2);
  expectRefused("--temp nan x", "--temp: 'nan' is not a number in [0, 1000]");
  expectRefused("--min-p 1.5 x", "--min-p: '1.5' is not a number in [0, 1]");
  expectRefused("--repeat-penalty 0 x", "--repeat-penalty: '0' is not a number in [0.001, 1000]");
  expectRefused("--top-p 0 x", "--top-p: 0 leaves no token, expected a number above it");
}

// An option that would have no effect is refused, and what two options ask for is not one of both.
TEST(CliErrors, noOptionIsIgnored) {
  for (const char *option : {"--system be", "--plain-lines"})
    expectRefused(std::string(option) + " x", std::string(option, strcspn(option, " ")) + " belongs to --chat");
  expectRefused("--outputs=logits x", "--outputs belongs to --io");
  for (const char *option : {"--json", "--prompt 4", "--generate 4", "--depth 4", "--rounds 4", "--report file"})
    for (const char *command : {"x", "--chat", "--info"})
      expectRefused(std::string(command) + " " + option,
                    std::string(option, strcspn(option, " ")) + " belongs to --bench");
  for (const char *option : {"--length-penalty 2", "--early-stopping", "--num-return-sequences 2"})
    for (const char *command : {"x", "--chat", "--bench"})
      expectRefused(std::string(command) + " " + option,
                    std::string(option, strcspn(option, " ")) + " belongs to --beam with more than one beam");
  for (const char *option : {"--prompt-ids 1,2", "--logprobs 1", "--print-ids"})
    expectRefused(std::string("--chat ") + option, "--chat takes no " + std::string(option, strcspn(option, " ")));
  for (const char *option : {"--top-k 4", "--top-p 0.5", "--min-p 0.5", "--seed 3", "--logprobs 1"})
    expectRefused(std::string("x --beam 2 ") + option, "--beam takes no " + std::string(option, strcspn(option, " ")));
  expectRefused("x --logprobs 2 --print-ids", "--logprobs takes no --print-ids");
  expectRefused("--bench -n 4", "--bench takes no -n");
  expectRefused("--info --temp 1", "--info takes no --temp");
  expectRefused("--bench hello", "'hello': --bench takes no prompt");
  expectRefused("--chat --info", "--chat and --info: one of them is expected");
  expectRefused("--chat --bench --prompt 4", "--chat and --bench: one of them is expected");
  EXPECT_EQ(run("--chat --help").out, run("--help").out);
}

TEST(CliErrors, aTemplateThatFailsIsNamedWithItsFile) {
  Outcome outcome = run("--chat -n 1", "secret\n");
  EXPECT_EQ(outcome.code, 2);
  const std::string wanted = "reference-llama: chat_template line 2: the template refuses: no secrets\n";
  EXPECT_NE(outcome.err.find(wanted), std::string::npos) << outcome.err;
}

TEST(CliErrors, chatRefusesWhatItCannotRead) {
  expectRefused("--chat -n 1", "standard input: a line of more than 16777216 bytes",
                std::string((16 << 20) + 1, 'x') + "\n");
  std::string command =
      "'" HEDDLE_REFERENCE_LLAMA "' --chat -n 1 <" + scratchFolder() + " >/dev/null 2>" + scratchFolder() + "/stderr";
  EXPECT_EQ(WEXITSTATUS(system(command.c_str())), 1); // NOLINT(bugprone-command-processor): commands are ours
  EXPECT_EQ(readFile(scratchFolder() + "/stderr"), "reference-llama: error: standard input: Is a directory\n");
}

TEST(CliErrors, aMessageIsCutBetweenCharacters) {
  const std::string before = "reference-llama: error: ", start = "unknown option '--";
  for (size_t whole : {3998, 3999}) { // bytes of the message before two characters of 2 bytes each
    std::string option(whole - start.size(), 'x');
    std::string expected = before;
    expected.append(start).append(option).append(whole == 3998 ? "\u00e9" : "").append("\n");
    EXPECT_EQ(run("--" + option + "\u00e9\u00e9").err, expected) << whole;
  }
}

TEST(CliErrors, fullDisk) {
  std::string command = "'" HEDDLE_REFERENCE_LLAMA "' --info >/dev/full 2>" + scratchFolder() + "/stderr";
  EXPECT_EQ(WEXITSTATUS(system(command.c_str())), 1); // NOLINT(bugprone-command-processor): commands are ours
  EXPECT_EQ(readFile(scratchFolder() + "/stderr"),
            "reference-llama: error: standard output: No space left on device\n");
}

TEST(CliErrors, interruptEndsBySignal) {
  std::string command = "timeout --preserve-status -s INT 1 '" HEDDLE_REFERENCE_LLAMA
                        "' --bench --rounds 100000 --prompt 100 --generate 20 >/dev/null 2>&1";
  int status = system(command.c_str()); // NOLINT(bugprone-command-processor): commands are ours
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 130);
}

} // namespace
