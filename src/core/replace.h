/* replace.h - writing a file so that no reader ever sees half of it.
 *
 * The bytes go to a temporary file in the same folder, which is synced to the disk and then renamed over the old one;
 * then the folder is synced. Whenever something fails before the rename the old file is untouched and the temporary
 * one removed; a process that is killed may leave its `<path>.<process>-<n>.tmp` behind.
 *
 *     replacement r;
 *     brasa_status status = replace_begin(&r, ctx, path);
 *     if (status == BRASA_OK)
 *         status = replace_write(&r, data, bytes);           as often as needed
 *     status = replace_end(&r, status);                      always
 */
#ifndef CORE_REPLACE_H
#define CORE_REPLACE_H

#include "core/json.h"
#include "core/pool.h"

typedef struct replacement {
    brasa_context *ctx;
    const char *path; /* the caller's */
    pool pool;
    char *temporary; /* NULL: not made */
    int fd, folder;
    size_t held; /* bytes that wait in `buffer` */
    char buffer[4096];
} replacement;

brasa_status replace_begin(replacement *r, brasa_context *ctx, const char *path);
brasa_status replace_write(replacement *r, const void *from, size_t bytes);
/* Puts the file in place where `status` is BRASA_OK, else forgets it; returns `status`, or what went wrong here. */
brasa_status replace_end(replacement *r, brasa_status status);

/* A JSON writer to it. What fails shows in j.failed, with the text on the context. */
json replace_json(replacement *r);

/* Syncs a folder, so that files made or removed in it are so after a crash, too. */
brasa_status sync_folder(brasa_context *ctx, const char *path);

#endif
