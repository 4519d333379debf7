/* gzip.c - unpacking .gz files by zlib. */
#include "data/codec.h"

#include <stdio.h>
#include <zlib.h>

const char gzip_version[] = "zlib " ZLIB_VERSION;

static void *open_file(int fd)
{
    gzFile file = gzdopen(fd, "rb");
    if (file)
        gzbuffer(file, 1 << 17);
    return file;
}

/* zlib passes plain bytes through where the magic is missing, and is silent about a file that ends early. */
static int read_file(void *file, void *to, int bytes, const char **why)
{
    int code = 0;
    const int got = gzread(file, to, (unsigned)bytes);
    if (gzdirect(file)) {
        *why = "not a gzip file, though its name ends in .gz";
        return -1;
    }
    const char *text = gzerror(file, &code);
    if (got < 0 || (got == 0 && code == Z_BUF_ERROR)) { /* what came before the end is handed out first */
        *why = code == Z_BUF_ERROR ? "the gzip file ends too early" : code == Z_ERRNO ? "cannot be read" : text;
        return -1;
    }
    return got;
}

static void close_file(void *file)
{
    gzclose(file);
}

const unpacker gzip_unpacker = {open_file, read_file, close_file};
