/* records.h - files of samples of equal size, one after the other: IDX and CIFAR. Plain files stay on the disk and
 * are read a sample at a time; unpacked ones are held in memory. */
#ifndef DATA_RECORDS_H
#define DATA_RECORDS_H

#include "data/source.h"

typedef struct records {
    const char *path;
    int fd;                /* -1: in memory */
    unsigned char *memory; /* in the set's pool, all records */
    int32_t first, count;  /* samples */
    int64_t start, size;   /* bytes before the first one, and of each */
} records;

/* The last of `count` files whose samples begin at or before this one. */
const records *records_of(const records *list, int count, int32_t sample);
/* `bytes` of a sample, from `offset` in its record on. */
brasa_status records_read(const records *r, brasa_context *errors, int32_t sample, int64_t offset, void *to,
                          size_t bytes);
void records_close(records *list, int count);

#endif
