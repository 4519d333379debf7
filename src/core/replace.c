/* replace.c - see replace.h. */
#define _POSIX_C_SOURCE   200809L
#define _FILE_OFFSET_BITS 64
#include "core/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_TEMPORARIES = 100 };

static brasa_status refuse(const replacement *r, const char *what)
{
    return fail(r->ctx, BRASA_BAD_FILE, "%s: %s", r->path, what);
}

static brasa_status open_folder(replacement *r)
{
    const char *slash = strrchr(r->path, '/');
    const char *folder = !slash             ? "."
                         : slash == r->path ? "/"
                                            : pool_text(&r->pool, "%.*s", (int)(slash - r->path), r->path);
    if (!folder)
        return fail_memory(r->ctx, strlen(r->path));
    r->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return r->folder < 0 ? refuse(r, strerror(errno)) : BRASA_OK;
}

/* A new file beside the old one, with the old one's permissions. Devices and folders are not for replacing. */
static brasa_status open_temporary(replacement *r)
{
    struct stat old;
    const bool exists = lstat(r->path, &old) == 0;
    if (exists && !S_ISREG(old.st_mode) && !S_ISLNK(old.st_mode))
        return refuse(r, "there is something of this name that is not a regular file");
    for (int n = 0; n < MOST_TEMPORARIES; n++) {
        char *name = pool_text(&r->pool, "%s.%ld-%d.tmp", r->path, (long)getpid(), n);
        if (!name)
            return fail_memory(r->ctx, strlen(r->path));
        r->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (r->fd >= 0) {
            r->temporary = name;
            if (exists && S_ISREG(old.st_mode) && fchmod(r->fd, old.st_mode & 0777) != 0)
                return refuse(r, strerror(errno));
            return BRASA_OK;
        }
        if (errno != EEXIST)
            break;
    }
    return refuse(r, strerror(errno));
}

brasa_status replace_begin(replacement *r, brasa_context *ctx, const char *path)
{
    r->ctx = ctx;
    r->path = path;
    r->pool = (pool){.ctx = ctx};
    r->temporary = NULL;
    r->fd = r->folder = -1;
    r->held = 0;
    brasa_status status = open_folder(r);
    return status == BRASA_OK ? open_temporary(r) : status;
}

static brasa_status write_bytes(const replacement *r, const char *from, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t put = write(r->fd, from + done, bytes - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return refuse(r, put < 0 ? strerror(errno) : "nothing could be written");
        done += (size_t)put;
    }
    return BRASA_OK;
}

static brasa_status flush(replacement *r)
{
    const size_t held = r->held;
    r->held = 0;
    return write_bytes(r, r->buffer, held);
}

brasa_status replace_write(replacement *r, const void *from, size_t bytes)
{
    if (bytes > sizeof r->buffer - r->held) {
        brasa_status status = flush(r);
        if (status != BRASA_OK)
            return status;
    }
    if (bytes > sizeof r->buffer)
        return write_bytes(r, from, bytes);
    memcpy(r->buffer + r->held, from, bytes);
    r->held += bytes;
    return BRASA_OK;
}

static bool write_piece(void *user, const char *text, size_t length)
{
    return replace_write(user, text, length) == BRASA_OK;
}

json replace_json(replacement *r)
{
    return (json){.write = write_piece, .user = r};
}

static int sync_file(int fd)
{
    int result;
    do
        result = fsync(fd);
    while (result != 0 && errno == EINTR);
    return result;
}

/* From here on the new file is the one of that name. */
static brasa_status put_in_place(replacement *r)
{
    brasa_status status = flush(r);
    if (status != BRASA_OK)
        return status;
    if (sync_file(r->fd) != 0)
        return refuse(r, strerror(errno));
    const int closed = close(r->fd);
    r->fd = -1;
    if (closed != 0 || rename(r->temporary, r->path) != 0)
        return refuse(r, strerror(errno));
    r->temporary = NULL;
    if (sync_file(r->folder) != 0 && errno != EINVAL) /* some file systems sync files only */
        return fail(r->ctx, BRASA_BAD_FILE, "%s: it is written, but its folder could not be synced: %s", r->path,
                    strerror(errno));
    return BRASA_OK;
}

brasa_status replace_end(replacement *r, brasa_status status)
{
    if (status == BRASA_OK)
        status = put_in_place(r);
    if (r->fd >= 0)
        close(r->fd);
    if (r->temporary)
        unlink(r->temporary);
    if (r->folder >= 0)
        close(r->folder);
    pool_free(&r->pool);
    return status;
}

brasa_status sync_folder(brasa_context *ctx, const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool done = fd >= 0 && (sync_file(fd) == 0 || errno == EINVAL);
    const int error = errno;
    if (fd >= 0)
        close(fd);
    return done ? BRASA_OK : fail(ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(error));
}
