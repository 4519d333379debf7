/* files.h - for tests that write files: a folder of their own, removed at the end, and whole files in and out. */
#ifndef TEST_FILES_H
#define TEST_FILES_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[200];

static void remove_folder(void)
{
    char path[500];
    DIR *list = opendir(folder);
    for (struct dirent *e; list && (e = readdir(list));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        remove(path);
    }
    if (list)
        closedir(list);
    rmdir(folder);
}

/* The path of a file in the folder; the text holds until the fourth call from here. */
static inline const char *in_folder(const char *name)
{
    static char paths[4][300];
    static int turn;
    if (!folder[0]) {
        const char *parent = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%.150s/brasa-test-XXXXXX", parent ? parent : "/tmp");
        if (!mkdtemp(folder))
            perror(folder);
        atexit(remove_folder);
    }
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Files in the folder. */
static inline int files_there(void)
{
    int count = 0;
    DIR *list = opendir(folder);
    for (struct dirent *e; list && (e = readdir(list));)
        count += e->d_name[0] != '.';
    if (list)
        closedir(list);
    return count;
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
