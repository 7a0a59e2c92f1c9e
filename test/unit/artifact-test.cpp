// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the runtime looks like from outside: its symbols, what an executable needs, and the C ABI from C.
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>

namespace {

std::string outputOf(const std::string &command, int *status = nullptr) {
  std::string text;
  FILE *pipe = popen(command.c_str(), "r"); // NOLINT(bugprone-command-processor): commands are ours
  for (int c; (c = fgetc(pipe)) != EOF;)
    text += char(c);
  int result = pclose(pipe);
  if (status)
    *status = result;
  return text;
}

// Sanitizers add symbols and libraries of their own.
#if !HEDDLE_SANITIZED
TEST(Artifact, archiveDefinesTheCAbiOnly) {
  std::string symbols = outputOf("'" HEDDLE_NM "' -g --defined-only -j '" HEDDLE_ARCHIVE
                                 "' | grep -v '^heddle_' | grep -v ':$' | grep .");
  EXPECT_EQ(symbols, "");
  EXPECT_NE(outputOf("'" HEDDLE_NM "' -g --defined-only -j '" HEDDLE_ARCHIVE "'").find("heddle_session_step\n"),
            std::string::npos);
}

TEST(Artifact, archiveNeedsNoCxxLibrary) {
  // Mangled names, exceptions, guards and thread exit hooks all come from libstdc++ or libgcc.
  EXPECT_EQ(outputOf("'" HEDDLE_NM "' -u -j '" HEDDLE_ARCHIVE "' | grep -E '^(_Z|__cxa|__gxx|_Unwind)'"), "");
}

TEST(Artifact, executableNeedsLibcAndLibmOnly) {
  std::string needed = outputOf("'" HEDDLE_READELF "' --needed-libs '" HEDDLE_REFERENCE_LLAMA "'");
  for (size_t at = 0; (at = needed.find("lib", at)) != std::string::npos; ++at)
    EXPECT_TRUE(needed.compare(at, 9, "libc.so.6") == 0 || needed.compare(at, 9, "libm.so.6") == 0)
        << needed.substr(at, 20);
  std::string newest = outputOf("'" HEDDLE_READELF "' --dyn-syms '" HEDDLE_REFERENCE_LLAMA
                                "' | grep -o 'GLIBC_[0-9.]*' | sort -V | tail -1");
  EXPECT_LE(strtod(newest.c_str() + 8, nullptr), 34) << newest; // GLIBC_2.34
}
#endif

// Sanitizers reserve address space of their own.
#if !HEDDLE_SANITIZED
TEST(CAbi, memoryThatLacksIsAStatus) {
  int status = 0;
  EXPECT_EQ(outputOf("'" HEDDLE_C_PROGRAM "' memory", &status), "every call returned\n");
  EXPECT_EQ(status, 0);
}
#endif

TEST(CAbi, programInC) {
  int status = 0;
  std::string ids = outputOf("'" HEDDLE_C_PROGRAM "'", &status);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ids, outputOf("'" HEDDLE_REFERENCE_LLAMA "' hello -n 8 --temp 0 --ignore-eos --print-ids"));
}

// Compiled models, under the sanitizers too: ./dev test says where the packages of test/package/c-abi.test are.
TEST(CAbi, everythingOfCompiledModels) {
  const char *packages = getenv("HEDDLE_PACKAGES");
  if (!packages)
    GTEST_SKIP() << "HEDDLE_PACKAGES names no folder of packages";
  int status = 0;
  std::string folder = packages;
  std::string said = outputOf("'" HEDDLE_C_ABI "' '" + folder + "/decoder.so' '" + folder + "/encoder.so' '" + folder +
                                  "/graph.so' '" + folder + "/broken.so' 2>&1",
                              &status);
  EXPECT_EQ(status, 0) << said;
  EXPECT_NE(said.find("memory\n"), std::string::npos) << said;
}

} // namespace
