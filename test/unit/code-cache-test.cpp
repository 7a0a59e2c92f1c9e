// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/CodeCache.h"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/stat.h>
#include <vector>

using namespace heddle;
namespace fs = std::filesystem;

namespace {

struct CodeCacheTest : testing::Test {
  void SetUp() override {
    char name[] = "/tmp/heddle-code-cache-XXXXXX";
    ASSERT_TRUE(mkdtemp(name));
    top = name;
    folder = top / "a" / "b";
    cache.open(folder.string(), CodeCache::defaultLimit);
  }
  void TearDown() override { fs::remove_all(top); }

  static Sha256Digest keyOf(const std::string &text) { return sha256(text.data(), text.size()); }
  static void store(const CodeCache &into, const std::string &key, const std::string &bytes) {
    CachedCode binary;
    ASSERT_TRUE(binary.allocate(bytes.size()).isOk());
    memcpy(binary.data(), bytes.data(), bytes.size());
    into.store(keyOf(key), binary);
  }
  static std::string find(const CodeCache &in, const std::string &key) {
    CachedCode binary;
    EXPECT_TRUE(in.find(keyOf(key), binary).isOk());
    return {reinterpret_cast<const char *>(binary.data()), binary.size()};
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto &entry : fs::directory_iterator(folder))
      found.push_back(entry.path());
    return found;
  }
  static std::string contents(const fs::path &path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  static void write(const fs::path &path, const std::string &text) { std::ofstream(path, std::ios::binary) << text; }
  static void age(const fs::path &path, time_t seconds) {
    timespec times[2] = {{time(nullptr) - seconds, 0}, {time(nullptr) - seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }

  fs::path top, folder;
  CodeCache cache;
};

TEST_F(CodeCacheTest, whatIsStoredIsFound) {
  EXPECT_EQ(find(cache, "one"), "");
  EXPECT_FALSE(fs::exists(folder)) << "looking makes no folder";
  store(cache, "one", "first");
  store(cache, "two", "second");
  EXPECT_EQ(find(cache, "one"), "first");
  EXPECT_EQ(find(cache, "two"), "second");
  store(cache, "one", "again");
  EXPECT_EQ(find(cache, "one"), "again");
  EXPECT_EQ(files().size(), 2u) << "no part is left";
  for (const fs::path &of : {folder, folder.parent_path()})
    EXPECT_EQ(fs::status(of).permissions(), fs::perms::owner_all) << of;
}

TEST_F(CodeCacheTest, whatIsDamagedIsNotThere) {
  store(cache, "one", "a program");
  fs::path entry = files().at(0);
  std::string whole = contents(entry);
  for (size_t size = 0; size < whole.size(); ++size) {
    write(entry, whole.substr(0, size));
    EXPECT_EQ(find(cache, "one"), "") << "cut after " << size;
  }
  write(entry, whole + "x");
  EXPECT_EQ(find(cache, "one"), "");
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string other = whole;
    other[at] ^= 0x40;
    write(entry, other);
    EXPECT_EQ(find(cache, "one"), "") << "byte " << at;
  }
  write(entry, whole);
  EXPECT_EQ(find(cache, "one"), "a program");
  store(cache, "two", "another program");
  for (const fs::path &other : files())
    if (other != entry)
      fs::rename(other, entry);
  EXPECT_EQ(find(cache, "one"), "") << "an entry of another key";
}

TEST_F(CodeCacheTest, anEntryThatIsNoFileIsNotThere) {
  store(cache, "one", "a program");
  fs::path entry = files().at(0), elsewhere = top / "elsewhere";
  fs::rename(entry, elsewhere);
  fs::create_symlink(elsewhere, entry);
  EXPECT_EQ(find(cache, "one"), "");
  fs::remove(entry);
  fs::create_directory(entry);
  EXPECT_EQ(find(cache, "one"), "");
  store(cache, "one", "a program");
  EXPECT_EQ(files().size(), 1u) << "no part is left";
  fs::remove(entry);
  ASSERT_EQ(mkfifo(entry.c_str(), 0600), 0);
  EXPECT_EQ(find(cache, "one"), "") << "and nobody waits for it";
}

TEST_F(CodeCacheTest, aFolderThatCannotBeUsedIsNoError) {
  write(top / "file", "");
  for (const char *name : {"/dev/null/x", "/proc/x/y"}) {
    CodeCache nowhere;
    nowhere.open(name, CodeCache::defaultLimit);
    store(nowhere, "one", "a program");
    EXPECT_EQ(find(nowhere, "one"), "") << name;
  }
  CodeCache inFile;
  inFile.open((top / "file").string(), CodeCache::defaultLimit);
  store(inFile, "one", "a program");
  EXPECT_EQ(find(inFile, "one"), "");
  CodeCache longest;
  longest.open(top.string() + "/" + std::string(5000, 'x'), CodeCache::defaultLimit);
  store(longest, "one", "a program");
  EXPECT_EQ(find(longest, "one"), "");
}

// Binaries are code: what others could have written is not run.
TEST_F(CodeCacheTest, aFolderThatOthersWriteIsNotRead) {
  store(cache, "one", "a program");
  ASSERT_EQ(chmod(folder.c_str(), 0770), 0);
  EXPECT_EQ(find(cache, "one"), "");
  store(cache, "two", "another");
  EXPECT_EQ(files().size(), 1u);
  ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  EXPECT_EQ(find(cache, "one"), "a program");
}

TEST_F(CodeCacheTest, whatIsUnusedGoesWhenThereIsTooMuch) {
  constexpr size_t bytes = 920; // an entry has a header of 80
  CodeCache small;
  small.open(folder.string(), 8000);
  for (int i = 0; i < 8; ++i) {
    store(small, std::to_string(i), std::string(bytes, char('a' + i)));
    for (const fs::path &path : files())
      if (contents(path).back() == 'a' + i)
        age(path, time_t(3) * 24 * 3600 - i);
  }
  EXPECT_EQ(files().size(), 8u);
  EXPECT_EQ(find(small, "0").size(), bytes) << "which is its use";
  small.trim();
  EXPECT_EQ(files().size(), 8u) << "as much as there may be";
  store(small, "8", std::string(bytes, 'i'));
  EXPECT_EQ(files().size(), 9u) << "nobody has looked yet";
  small.trim();
  EXPECT_EQ(files().size(), 6u);
  for (const char *kept : {"0", "4", "5", "6", "7", "8"})
    EXPECT_EQ(find(small, kept).size(), bytes) << kept;
  store(small, "large", std::string(2001, 'x'));
  EXPECT_EQ(find(small, "large"), "") << "one entry may take a quarter";
}

TEST_F(CodeCacheTest, partsOfEndedProcessesGo) {
  store(cache, "one", "a program");
  write(folder / "0123456789abcdef.part", "half");
  write(folder / "fedcba9876543210.part", "half");
  write(folder / "notes", "of somebody");
  age(folder / "0123456789abcdef.part", time_t(2) * 3600);
  age(folder / "notes", 1000000);
  cache.trim();
  EXPECT_FALSE(fs::exists(folder / "0123456789abcdef.part"));
  EXPECT_TRUE(fs::exists(folder / "fedcba9876543210.part")) << "its process may write it still";
  EXPECT_TRUE(fs::exists(folder / "notes"));
}

TEST(CodeCache, theEnvironmentSaysWhere) {
  char name[] = "/tmp/heddle-code-cache-XXXXXX";
  ASSERT_TRUE(mkdtemp(name));
  fs::path top = name;
  const char *names[] = {"HEDDLE_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "HEDDLE_NO_CACHE"};
  std::vector<std::pair<const char *, std::string>> before;
  for (const char *of : names)
    if (const char *value = getenv(of))
      before.push_back({of, value});
  auto stores = [&](const char *path) {
    CodeCache cache;
    cache.open(CodeKind::OpenCl);
    CachedCode binary;
    EXPECT_TRUE(binary.allocate(1).isOk());
    *binary.data() = 1;
    cache.store({}, binary);
    bool isThere = fs::exists(top / path) && !fs::is_empty(top / path);
    fs::remove_all(top / path);
    return isThere;
  };
  for (const char *of : names)
    unsetenv(of);
  setenv("HOME", name, 1);
  EXPECT_TRUE(stores(".cache/heddle/opencl"));
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_TRUE(stores(".cache/heddle/opencl")) << "a relative one is ignored";
  setenv("XDG_CACHE_HOME", (top / "xdg").c_str(), 1);
  EXPECT_TRUE(stores("xdg/heddle/opencl"));
  setenv("HEDDLE_CACHE_DIR", (top / "own").c_str(), 1);
  EXPECT_TRUE(stores("own/opencl"));
  setenv("HEDDLE_NO_CACHE", "1", 1);
  EXPECT_FALSE(stores("own/opencl"));
  setenv("HEDDLE_NO_CACHE", "opencl", 1);
  EXPECT_FALSE(stores("own/opencl"));
  setenv("HEDDLE_NO_CACHE", "kernels", 1);
  EXPECT_TRUE(stores("own/opencl")) << "another kind is named";
  for (const char *of : names)
    unsetenv(of);
  EXPECT_FALSE(stores(".cache/heddle/opencl")) << "nobody's home";
  for (const auto &[of, value] : before)
    setenv(of, value.c_str(), 1);
  fs::remove_all(top);
}

} // namespace
