// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Entries are found and stored while a step launches, where a container has nobody to tell that memory lacks: paths are
// relative to the open folder, names lie on the stack.
#include "bytes/CodeCache.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace heddle {
namespace {

constexpr char magic[8] = {'h', 'e', 'd', 'd', 'l', 'e', 'p', '1'};
constexpr time_t usedAgain = time_t(24) * 3600; // an entry's time of use is written again after this
constexpr time_t abandonedPart = 3600;          // a part of this age is nobody's any more
constexpr char partEnding[] = ".part";          // behind random digits
constexpr char entryEnding[] = ".program";
constexpr std::string_view kindNames[] = {"opencl", "kernels"}; // by CodeKind

struct Header {
  char magic[8];
  uint64_t size; // of the binary behind the header
  Sha256Digest key;
  Sha256Digest checksum; // of the binary
};
static_assert(sizeof(Header) == 80, "as it lies in the file");

class Descriptor {
public:
  explicit Descriptor(int number) : number(number) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() { close(); }
  bool isOpen() const { return number >= 0; }
  operator int() const { return number; }
  // False where what was written did not reach the file.
  bool close() {
    int closing = number;
    number = -1;
    return closing < 0 || ::close(closing) == 0;
  }

private:
  int number;
};

struct Name {
  char text[2 * sizeof(Sha256Digest) + sizeof entryEnding];
};

void writeDigits(char *out, const uint8_t *bytes, size_t count) {
  for (size_t i = 0; i < count; ++i)
    snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

Name entryName(const Sha256Digest &key) {
  Name name;
  writeDigits(name.text, key.data(), key.size());
  strcpy(name.text + 2 * key.size(), entryEnding);
  return name;
}

bool endsWith(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
}

// Makes the folders on the way to `path` as well, for this user alone.
void makeFolders(const std::string &path) {
  char part[4096];
  for (size_t end = 0; end < path.size() && end < sizeof part - 1;) {
    end = std::min(path.find('/', end + 1), path.size());
    if (end >= sizeof part)
      return;
    memcpy(part, path.data(), end);
    part[end] = '\0';
    mkdir(part, 0700);
  }
}

// -1 also where another user could have put an entry there.
int openFolder(const std::string &path) {
  int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat found;
  if (folder >= 0 && fstat(folder, &found) == 0 && found.st_uid == geteuid() && !(found.st_mode & 022))
    return folder;
  if (folder >= 0)
    close(folder);
  return -1;
}

bool readAll(int file, void *to, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t count = read(file, static_cast<uint8_t *>(to) + done, size - done);
    if (count == 0 || (count < 0 && errno != EINTR))
      return false;
    done += size_t(std::max<ssize_t>(count, 0));
  }
  return true;
}

bool writeAll(int file, const void *from, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t count = write(file, static_cast<const uint8_t *>(from) + done, size - done);
    if (count == 0 || (count < 0 && errno != EINTR))
      return false;
    done += size_t(std::max<ssize_t>(count, 0));
  }
  return true;
}

// The header of an entry whose size is what it says.
bool readHeader(int file, const Sha256Digest &key, Header &header) {
  struct stat found;
  return fstat(file, &found) == 0 && S_ISREG(found.st_mode) && readAll(file, &header, sizeof header) &&
         memcmp(header.magic, magic, sizeof magic) == 0 && header.key == key && header.size > 0 &&
         header.size <= CodeCache::largestBinary && uint64_t(found.st_size) == sizeof header + header.size;
}

// A file that nobody else writes; its name into `outName`.
int createPart(int folder, char (&outName)[32]) {
  uint8_t random[8];
  if (syscall(SYS_getrandom, random, sizeof random, 0) != long(sizeof random))
    return -1;
  writeDigits(outName, random, sizeof random);
  strcpy(outName + 2 * sizeof random, partEnding);
  return openat(folder, outName, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

// Calls `visit(name, status)` for each regular file of the folder.
template <typename Visit> void visitFiles(int folder, Visit visit) {
  int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *directory = copy < 0 ? nullptr : fdopendir(copy);
  if (!directory) {
    if (copy >= 0)
      close(copy);
    return;
  }
  struct stat found;
  while (const dirent *entry = readdir(directory))
    if (fstatat(folder, entry->d_name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(found.st_mode))
      visit(entry->d_name, found);
  closedir(directory);
}

struct Entry {
  time_t used;
  uint64_t size;
  Name name;
};

// Removes the entries that were not used for the longest time until the others take three quarters of the limit: the
// next ones fit without another look at all of them. And parts whose process ended before they were whole.
void trimFolder(int folder, uint64_t limit) {
  uint64_t total = 0;
  size_t count = 0;
  time_t now = time(nullptr);
  visitFiles(folder, [&](const char *name, const struct stat &found) {
    if (endsWith(name, partEnding) && now - found.st_mtime > abandonedPart)
      unlinkat(folder, name, 0);
    if (!endsWith(name, entryEnding))
      return;
    total += uint64_t(found.st_size);
    ++count;
  });
  if (total <= limit)
    return;
  auto *entries = static_cast<Entry *>(allocateMemory(count * sizeof(Entry), alignof(Entry)));
  if (!entries)
    return; // the next one looks again
  size_t listed = 0;
  visitFiles(folder, [&](const char *name, const struct stat &found) {
    if (listed == count || !endsWith(name, entryEnding) || strlen(name) >= sizeof(Name::text))
      return;
    Entry &entry = entries[listed++];
    entry.used = found.st_mtime;
    entry.size = uint64_t(found.st_size);
    strcpy(entry.name.text, name);
  });
  std::sort(entries, entries + listed, [](const Entry &a, const Entry &b) { return a.used < b.used; });
  for (size_t i = 0; i < listed && total > limit / 4 * 3; ++i) {
    unlinkat(folder, entries[i].name.text, 0);
    total -= std::min(total, entries[i].size);
  }
  releaseMemory(entries);
}

} // namespace

Status CachedCode::allocate(size_t newSize) {
  releaseMemory(bytes);
  length = 0;
  bytes = static_cast<uint8_t *>(allocateMemory(newSize, alignof(std::max_align_t)));
  if (!bytes)
    return outOfMemory();
  length = newSize;
  return Status();
}

// True where `without`, the value of $HEDDLE_NO_CACHE, names this kind or no kind at all.
static bool isTurnedOff(std::string_view without, std::string_view kind) {
  bool namesKind = std::find(std::begin(kindNames), std::end(kindNames), without) != std::end(kindNames);
  return namesKind ? without == kind : !without.empty();
}

void CodeCache::open(CodeKind kind) {
  auto valueOf = [](const char *name) {
    const char *value = secure_getenv(name);
    return std::string(value ? value : "");
  };
  std::string name(kindNames[size_t(kind)]);
  if (isTurnedOff(valueOf("HEDDLE_NO_CACHE"), name))
    return;
  std::string own = valueOf("HEDDLE_CACHE_DIR"), ofUser = valueOf("XDG_CACHE_HOME"), home = valueOf("HOME");
  if (!own.empty())
    open(own + "/" + name, defaultLimit);
  else if (ofUser[0] == '/') // another one is to be ignored (XDG Base Directory Specification)
    open(ofUser + "/heddle/" + name, defaultLimit);
  else if (home[0] == '/')
    open(home + "/.cache/heddle/" + name, defaultLimit);
}

void CodeCache::open(const std::string &newFolder, uint64_t newLimit) {
  folder = newFolder;
  limit = newLimit;
}

Status CodeCache::find(const Sha256Digest &key, CachedCode &outBinary) const {
  Descriptor opened(folder.empty() ? -1 : openFolder(folder));
  if (!opened.isOpen())
    return Status();
  Name name = entryName(key);
  Descriptor file(openat(opened, name.text, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  Header header;
  if (!file.isOpen() || !readHeader(file, key, header))
    return Status();
  CachedCode binary;
  HEDDLE_RETURN_IF_ERROR(binary.allocate(header.size));
  if (!readAll(file, binary.data(), binary.size()) || sha256(binary.data(), binary.size()) != header.checksum)
    return Status();
  struct stat found;
  if (fstat(file, &found) == 0 && time(nullptr) - found.st_mtime > usedAgain)
    futimens(file, nullptr);
  outBinary.swap(binary);
  return Status();
}

void CodeCache::store(const Sha256Digest &key, const CachedCode &binary) const {
  if (folder.empty() || binary.size() == 0 || binary.size() > limit / 4)
    return;
  makeFolders(folder);
  Descriptor opened(openFolder(folder));
  if (!opened.isOpen())
    return;
  char part[32];
  Descriptor file(createPart(opened, part));
  if (!file.isOpen())
    return;
  Header header = {};
  memcpy(header.magic, magic, sizeof magic);
  header.size = binary.size();
  header.key = key;
  header.checksum = sha256(binary.data(), binary.size());
  bool isWhole = writeAll(file, &header, sizeof header) && writeAll(file, binary.data(), binary.size());
  isWhole &= file.close();
  if (!isWhole || renameat(opened, part, opened, entryName(key).text) != 0)
    unlinkat(opened, part, 0);
}

void CodeCache::trim() const {
  Descriptor opened(folder.empty() ? -1 : openFolder(folder));
  if (opened.isOpen())
    trimFolder(opened, limit);
}

} // namespace heddle
