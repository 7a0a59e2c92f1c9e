// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/WholeFile.h"

#include "test/unit/TestPackage.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::reference;

namespace {

// A folder of its own for each test.
struct WholeFile : testing::Test {
  std::string folder = scratchFolder() + "/whole", path = folder + "/out";

  void SetUp() override { ASSERT_EQ(mkdir(folder.c_str(), 0700), 0); }
  void TearDown() override {
    for (const std::string &name : names())
      unlink((folder + "/" + name).c_str());
    ASSERT_EQ(rmdir(folder.c_str()), 0);
  }

  std::vector<std::string> names() {
    std::vector<std::string> found;
    DIR *open = opendir(folder.c_str());
    while (dirent *entry = readdir(open))
      if (entry->d_name[0] != '.')
        found.push_back(entry->d_name);
    closedir(open);
    std::sort(found.begin(), found.end());
    return found;
  }
  static std::string contents(const std::string &path) {
    char buffer[100];
    FILE *file = fopen(path.c_str(), "r");
    size_t size = file ? fread(buffer, 1, sizeof buffer, file) : 0;
    if (file)
      fclose(file);
    return {buffer, size};
  }
  void expectRefused(const std::string &what, const std::string &message) {
    EXPECT_EQ(checkOutputFile(what).message(), message);
    EXPECT_EQ(checkOutputFile(what).exitCode(), 2);
    EXPECT_EQ(writeWholeFile(what, {"new"}).message(), message);
  }
};

TEST_F(WholeFile, replacesAFile) {
  ASSERT_TRUE(writeWholeFile(path, {"ol", "", "d"}).isOk());
  EXPECT_EQ(contents(path), "old");
  ASSERT_TRUE(writeWholeFile(path, {"new"}).isOk());
  EXPECT_EQ(contents(path), "new");
  EXPECT_EQ(names(), std::vector<std::string>{"out"});
}

TEST_F(WholeFile, writesWhereALinkLeads) {
  std::string link = folder + "/link";
  ASSERT_TRUE(writeWholeFile(path, {"old"}).isOk());
  ASSERT_EQ(symlink("out", link.c_str()), 0);
  ASSERT_TRUE(writeWholeFile(link, {"new"}).isOk());
  EXPECT_EQ(contents(path), "new");
  struct stat status;
  ASSERT_EQ(lstat(link.c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
}

TEST_F(WholeFile, makesTheFileThatALinkAwaits) {
  std::string first = folder + "/first", second = folder + "/second";
  ASSERT_EQ(symlink("second", first.c_str()), 0);
  ASSERT_EQ(symlink(path.c_str(), second.c_str()), 0);
  EXPECT_TRUE(checkOutputFile(first).isOk());
  ASSERT_TRUE(writeWholeFile(first, {"new"}).isOk());
  EXPECT_EQ(contents(path), "new");
  EXPECT_EQ(names(), (std::vector<std::string>{"first", "out", "second"}));
  struct stat status;
  ASSERT_EQ(lstat(second.c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
}

TEST_F(WholeFile, partNamesCannotBeForeseen) {
  std::string one, other;
  ASSERT_TRUE(choosePartName(path, one).isOk() && choosePartName(path, other).isOk());
  EXPECT_EQ(one.substr(0, path.size() + 5), path + ".part");
  EXPECT_EQ(one.size(), path.size() + 5 + 16);
  EXPECT_NE(one, other);
}

// A link that somebody put where the file is written is not followed, nor is a file of that name taken.
TEST_F(WholeFile, partFilesAreNew) {
  std::string link = folder + "/link";
  ASSERT_EQ(symlink("victim", link.c_str()), 0);
  EXPECT_EQ(createPartFile(link), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(names(), std::vector<std::string>{"link"});
  ASSERT_TRUE(writeWholeFile(path, {"old"}).isOk());
  EXPECT_EQ(createPartFile(path), -1);
  EXPECT_EQ(contents(path), "old");
}

TEST_F(WholeFile, refusesWhatAFileWouldReplace) {
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expectRefused(path, path + ": is no regular file, and would be replaced by one");
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_TRUE(S_ISFIFO(status.st_mode));
  std::string link = folder + "/link";
  ASSERT_EQ(symlink("/dev/null", link.c_str()), 0);
  expectRefused(link, link + ": is no regular file, and would be replaced by one");
  expectRefused(folder, folder + ": is a directory, expected the name of a file to write");
  expectRefused(folder + "/none/out", folder + "/none/out: the folder " + folder + "/none does not exist");
  expectRefused("", "'': the name of a file to write is expected");
  std::string astray = folder + "/astray", circle = folder + "/circle";
  ASSERT_EQ(symlink("none/out", astray.c_str()), 0);
  expectRefused(astray, astray + ": the folder " + folder + "/none does not exist");
  ASSERT_EQ(symlink("circle", circle.c_str()), 0);
  expectRefused(circle, circle + ": Too many levels of symbolic links");
  EXPECT_EQ(names(), (std::vector<std::string>{"astray", "circle", "link", "out"}));
}

// How a process ends that gets `number` while it writes: reading the second part faults, where the handler sends the signal.
int endOfWriter(const std::string &path, int number, bool isIgnored) {
  static int sent;
  sent = number;
  pid_t child = fork();
  if (child == 0) {
    signal(number, isIgnored ? SIG_IGN : SIG_DFL); // whoever started the tests may ignore it
    static char *page = static_cast<char *>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    signal(SIGSEGV, [](int) {
      mprotect(page, 4096, PROT_READ);
      raise(sent);
    });
    _exit(writeWholeFile(path, {"new", {page, 16}}).isOk() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(WholeFile, aSignalLeavesNothingBeside) {
  ASSERT_TRUE(writeWholeFile(path, {"old"}).isOk());
  for (int number : {SIGHUP, SIGINT, SIGTERM}) {
    int status = endOfWriter(path, number, /*isIgnored=*/false);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << number;
    EXPECT_EQ(names(), std::vector<std::string>{"out"}) << number;
    EXPECT_EQ(contents(path), "old");
  }
  EXPECT_EQ(endOfWriter(path, SIGHUP, /*isIgnored=*/true), 0);
  EXPECT_EQ(contents(path).substr(0, 3), "new");
}

TEST_F(WholeFile, handlersAreBackAfterwards) {
  auto previous = signal(SIGTERM, SIG_IGN);
  ASSERT_TRUE(writeWholeFile(path, {"new"}).isOk());
  EXPECT_EQ(signal(SIGTERM, previous), SIG_IGN);
}

} // namespace
