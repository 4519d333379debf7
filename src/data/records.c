/* records.c - see records.h. */
#define _POSIX_C_SOURCE 200809L
#include "data/records.h"

#include <string.h>
#include <unistd.h>

const records *records_of(const records *list, int count, int32_t sample)
{
    int i = count - 1;
    while (i > 0 && list[i].first > sample)
        i--;
    return &list[i];
}

brasa_status records_read(const records *r, brasa_context *errors, int32_t sample, int64_t offset, void *to,
                          size_t bytes)
{
    const int64_t place = (int64_t)(sample - r->first) * r->size + offset;
    if (r->fd >= 0)
        return file_at(errors, r->path, r->fd, r->start + place, to, bytes);
    memcpy(to, r->memory + place, bytes);
    return BRASA_OK;
}

void records_close(records *list, int count)
{
    for (int i = 0; i < count; i++)
        if (list[i].path && list[i].fd >= 0)
            close(list[i].fd);
}
