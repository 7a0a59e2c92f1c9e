// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many threads are worth starting.
#include "runtime/session/ThreadPool.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace heddle {
namespace {

// The start of a small file of /proc or /sys; empty where there is none.
std::string readSmall(const std::string &path) {
  char buffer[8192];
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return {};
  ssize_t length = ::read(file, buffer, sizeof buffer);
  ::close(file);
  return length > 0 ? std::string(buffer, length) : std::string();
}

// The CPUs of the affinity mask; none where it cannot be read.
class AllowedCpus {
public:
  static constexpr int most = 8192;
  AllowedCpus() {
    if (sched_getaffinity(0, sizeof mask, mask) != 0)
      CPU_ZERO_S(sizeof mask, mask);
  }
  bool has(int cpu) const { return CPU_ISSET_S(cpu, sizeof mask, mask); }
  int count() const { return CPU_COUNT_S(sizeof mask, mask); }

private:
  cpu_set_t mask[most / CPU_SETSIZE] = {};
};

// One per core: hyperthreads share the first number of their siblings list.
int32_t physicalCores() {
  std::vector<int> cores;
  AllowedCpus allowed;
  for (int cpu = 0; cpu < AllowedCpus::most; ++cpu) {
    if (!allowed.has(cpu))
      continue;
    std::string siblings = readSmall(format("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu));
    cores.push_back(siblings.empty() ? cpu : int(strtol(siblings.c_str(), nullptr, 10)));
  }
  std::sort(cores.begin(), cores.end());
  return std::max<int32_t>(1, int32_t(std::unique(cores.begin(), cores.end()) - cores.begin()));
}

// Path of this process in the cgroup hierarchy of `controller` ("" for version 2), "" where there is none.
std::string cgroupPath(std::string_view controller) {
  std::string table = readSmall("/proc/self/cgroup"); // lines "4:cpu,cpuacct:/path"
  for (size_t begin = 0; begin < table.size();) {
    size_t end = std::min(table.find('\n', begin), table.size());
    std::string_view line(table.data() + begin, end - begin);
    begin = end + 1;
    size_t first = line.find(':'), second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos)
      continue;
    std::string_view names = line.substr(first + 1, second - first - 1);
    bool matches = controller.empty() ? names.empty() : false;
    for (size_t at = 0; !controller.empty() && at <= names.size();) {
      size_t comma = std::min(names.find(',', at), names.size());
      matches |= names.substr(at, comma - at) == controller;
      at = comma + 1;
    }
    if (matches)
      return std::string(line.substr(second + 1));
  }
  return {};
}

// The tightest quota, in CPUs, from `path` up to the root of the hierarchy mounted at `mount`; 0: none.
template <typename ReadQuota> double tightestQuota(const char *mount, std::string path, ReadQuota readQuota) {
  double tightest = 0;
  while (true) {
    double quota = readQuota(std::string(mount) + (path == "/" ? "" : path));
    if (quota > 0 && (tightest == 0 || quota < tightest))
      tightest = quota;
    size_t slash = path.rfind('/');
    if (slash == std::string::npos || path == "/" || path.empty())
      return tightest;
    path.resize(slash);
  }
}

double cgroupQuota() {
  double second = tightestQuota("/sys/fs/cgroup", cgroupPath(""), [](const std::string &folder) {
    std::string text = readSmall(folder + "/cpu.max"); // "200000 100000" or "max 100000"
    char *behind = nullptr;
    double quota = strtod(text.c_str(), &behind), period = strtod(behind, nullptr);
    return quota > 0 && period > 0 ? quota / period : 0.0;
  });
  double first = tightestQuota("/sys/fs/cgroup/cpu", cgroupPath("cpu"), [](const std::string &folder) {
    double quota = strtod(readSmall(folder + "/cpu.cfs_quota_us").c_str(), nullptr);
    double period = strtod(readSmall(folder + "/cpu.cfs_period_us").c_str(), nullptr);
    return quota > 0 && period > 0 ? quota / period : 0.0;
  });
  return first > 0 && second > 0 ? std::min(first, second) : std::max(first, second);
}

} // namespace

int32_t availableCpus() {
  return std::max<int32_t>(1, AllowedCpus().count());
}

int32_t defaultThreadCount() {
  int32_t cores = physicalCores();
  double quota = cgroupQuota();
  return quota > 0 ? std::max<int32_t>(1, std::min<int32_t>(cores, int32_t(std::min(quota, 1024.0))))
                   : std::min(cores, 1024);
}

} // namespace heddle
