/* files.h - for tests that write files: a folder of their own, removed at the end, and whole files in and out. */
#ifndef TEST_FILES_H
#define TEST_FILES_H

#include <dirent.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[200];

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st, (void)type, (void)f;
    return remove(path);
}

static inline void remove_folder(void)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void make_folder(void)
{
    const char *parent = getenv("TMPDIR");
    if (folder[0])
        return;
    snprintf(folder, sizeof folder, "%.150s/brasa-test-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(folder))
        perror(folder);
    atexit(remove_folder);
}

/* The path of a file in the folder; the text holds until the fourth call from here. */
static inline const char *in_folder(const char *name)
{
    static char paths[4][300];
    static int turn;
    make_folder();
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Files in a folder, and in the test's. */
static inline int files_in(const char *place)
{
    int count = 0;
    DIR *list = opendir(place);
    for (struct dirent *e; list && (e = readdir(list));)
        count += e->d_name[0] != '.';
    if (list)
        closedir(list);
    return count;
}

static inline int files_there(void)
{
    return files_in(folder);
}

static inline void write_file(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0)
        perror(path);
}

/* The whole file, to be freed; NULL where there is none. */
static inline char *read_file(const char *path, size_t *bytes)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &st) != 0)
        return NULL;
    *bytes = (size_t)st.st_size;
    char *data = malloc(*bytes + 1);
    if (data && fread(data, 1, *bytes, f) == *bytes)
        data[*bytes] = '\0';
    fclose(f);
    return data;
}

/* A safetensors file: the length, the header, the data. */
static inline void write_tensors(const char *path, const char *header, size_t length, const void *data, size_t bytes)
{
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (unsigned char)((uint64_t)length >> 8 * i);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(prefix, 1, 8, f) != 8 || fwrite(header, 1, length, f) != length ||
        fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0)
        perror(path);
}

#endif
