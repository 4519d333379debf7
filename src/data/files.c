/* files.c - files of data, plain or packed, that nobody vouches for. Every error names the file, and where in it. */
#define _POSIX_C_SOURCE   200809L
#define _FILE_OFFSET_BITS 64
#include "data/codec.h"
#include "data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 30 /* at a time: zlib counts in int */, MOST_RATIO = 1032 /* of deflate */ };

static bool is_packed(const char *path)
{
    const size_t length = strlen(path);
    return length > 3 && strcmp(path + length - 3, ".gz") == 0;
}

bool file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Without O_NONBLOCK a pipe would make us wait before we can see what it is. */
brasa_status file_open(brasa_context *ctx, const char *path, data_file *f)
{
    struct stat st;
    *f = (data_file){.ctx = ctx, .path = path, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (f->fd < 0 || fstat(f->fd, &st) != 0) {
        const int code = errno;
        file_close(f);
        return fail(ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(code));
    }
    f->size = st.st_size;
    const unpacker *gzip = is_packed(path) ? codec_gzip() : NULL;
    brasa_status status = BRASA_OK;
    if (!S_ISREG(st.st_mode))
        status = fail(ctx, BRASA_BAD_FILE, "%s: not a regular file", path);
    else if (is_packed(path) && !gzip)
        status = fail(ctx, BRASA_BAD_FILE, "%s: this build cannot unpack .gz (Debian: zlib1g-dev): gunzip it", path);
    else if (gzip && !(f->unpacker = gzip->open(f->fd)))
        status = fail_memory(ctx, 0);
    if (status != BRASA_OK)
        file_close(f);
    return status;
}

void file_close(data_file *f)
{
    if (f->unpacker)
        codec_gzip()->close(f->unpacker); /* and the descriptor with it */
    else if (f->fd >= 0)
        close(f->fd);
    f->unpacker = NULL;
    f->fd = -1;
}

brasa_status file_some(data_file *f, void *to, size_t bytes, size_t *got)
{
    for (*got = 0; *got < bytes;) {
        const size_t left = bytes - *got, piece = left < PIECE ? left : PIECE;
        const char *why = NULL;
        char *at = (char *)to + *got;
        const ssize_t now =
            f->unpacker ? codec_gzip()->read(f->unpacker, at, (int)piece, &why) : read(f->fd, at, piece);
        if (now < 0 && !why && errno == EINTR)
            continue;
        if (now < 0)
            return fail(f->ctx, BRASA_BAD_FILE, "%s: after %lld bytes: %s", f->path, (long long)f->place,
                        why ? why : strerror(errno));
        if (now == 0)
            break;
        *got += (size_t)now;
        f->place += now;
    }
    return BRASA_OK;
}

brasa_status file_exact(data_file *f, void *to, size_t bytes)
{
    size_t got;
    const long long start = f->place;
    brasa_status status = file_some(f, to, bytes, &got);
    if (status == BRASA_OK && got < bytes)
        return fail(f->ctx, BRASA_BAD_FILE, "%s: it ends at byte %lld%s, but %zu more are expected", f->path,
                    (long long)f->place, f->unpacker ? " once unpacked" : "", bytes - (size_t)(f->place - start));
    return status;
}

brasa_status file_ended(data_file *f)
{
    char more;
    size_t got;
    brasa_status status = file_some(f, &more, 1, &got);
    if (status == BRASA_OK && got)
        return fail(f->ctx, BRASA_BAD_FILE, "%s: it should end at byte %lld, but goes on", f->path,
                    (long long)f->place - 1);
    return status;
}

bool file_may_hold(const data_file *f, int64_t bytes)
{
    return f->unpacker ? bytes / MOST_RATIO <= f->size : bytes <= f->size - f->place;
}

brasa_status file_at(brasa_context *errors, const char *path, int fd, int64_t place, void *to, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = pread(fd, (char *)to + done, bytes - done, (off_t)place + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fail(errors, BRASA_BAD_FILE, "%s: at byte %lld: %s", path, (long long)place + (long long)done,
                        got < 0 ? strerror(errno) : "the file has become shorter");
        done += (size_t)got;
    }
    return BRASA_OK;
}
