/* shared.c - see shared.h. */
#define _GNU_SOURCE
#include "core/shared.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool within(uint64_t offset, uint64_t bytes, uint64_t all)
{
    return offset <= all && bytes <= all - offset;
}

/* Whether all that is loaded of a library is in its file. What is no library at all, dlopen tells by itself. */
static bool is_whole(int file, uint64_t bytes)
{
    ElfW(Ehdr) head;
    ElfW(Phdr) part;
    if (pread(file, &head, sizeof head, 0) != (ssize_t)sizeof head || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_phentsize != sizeof part)
        return true;
    if (!within(head.e_phoff, (uint64_t)head.e_phnum * sizeof part, bytes))
        return false;
    for (int i = 0; i < head.e_phnum; i++) {
        const uint64_t at = head.e_phoff + (uint64_t)i * sizeof part;
        if (pread(file, &part, sizeof part, (off_t)at) != (ssize_t)sizeof part)
            return false;
        if (part.p_type == PT_LOAD && !within(part.p_offset, part.p_filesz, bytes))
            return false;
    }
    return true;
}

static bool file_is_whole(const char *path)
{
    struct stat st;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool whole =
        file < 0 || fstat(file, &st) != 0 || !S_ISREG(st.st_mode) || is_whole(file, (uint64_t)st.st_size);
    if (file >= 0)
        close(file);
    return whole;
}

void *shared_open(const char *path, const char **why)
{
    if (strchr(path, '/') && !file_is_whole(path)) {
        *why = "the file is not whole";
        return NULL;
    }
    void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!opened)
        *why = dlerror();
    return opened;
}
