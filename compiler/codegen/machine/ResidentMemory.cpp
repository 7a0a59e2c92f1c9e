// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/machine/ResidentMemory.h"

#include <cstdint>
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

void heddle::releaseUnusedMemory() {
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr) &segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W))
            continue;
          uintptr_t page = getpagesize(), begin = (info->dlpi_addr + segment.p_vaddr + page - 1) / page * page;
          uintptr_t end = (info->dlpi_addr + segment.p_vaddr + segment.p_memsz) / page * page;
          if (begin < end)
            madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED); // NOLINT(performance-no-int-to-ptr)
        }
        return 0;
      },
      nullptr);
  malloc_trim(0);
}
