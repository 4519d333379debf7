/* data_files.h - for tests of data sets: a tree of files in the folder of files.h, and files of every format.
 */
#ifndef TEST_DATA_FILES_H
#define TEST_DATA_FILES_H

#include "files.h"
#include "test.h"

#include "data/codec.h"
#include "data/source.h"

#include <stdarg.h>
#ifdef BRASA_ZLIB
#include <zlib.h>
#endif
#ifdef BRASA_PNG
#include <spng.h>
#endif

/* A path in the tree; the text holds until the eighth call from here. */
static inline const char *in_tree(const char *format, ...) BRASA_PRINTF(1, 2);
static inline const char *in_tree(const char *format, ...)
{
    static char paths[8][512];
    static int turn;
    make_folder();
    char *path = paths[turn++ % 8];
    const int used = snprintf(path, sizeof paths[0], "%s/", folder);
    va_list args;
    va_start(args, format);
    vsnprintf(path + used, sizeof paths[0] - (size_t)used, format, args);
    va_end(args);
    return path;
}

/* Makes the folders above it, then the file. */
static inline void put_file(const char *path, const void *data, size_t bytes)
{
    char above[512];
    snprintf(above, sizeof above, "%s", path);
    for (char *slash = strchr(above + strlen(folder) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(above, 0777);
        *slash = '/';
    }
    write_file(path, data, bytes);
}

static inline void put_text(const char *path, const char *text)
{
    put_file(path, text, strlen(text));
}

/* The same, packed; false: this build is without zlib. */
static inline bool put_packed(const char *path, const void *data, size_t bytes)
{
#ifdef BRASA_ZLIB
    put_file(path, "", 0);
    gzFile f = gzopen(path, "wb9");
    const bool ok = f && gzwrite(f, data, (unsigned)bytes) == (int)bytes;
    return gzclose(f) == Z_OK && ok;
#else
    (void)path, (void)data, (void)bytes;
    return false;
#endif
}

/* IDX: the head and `bytes` of content, byte i being i % 251. Returns the length. */
static inline size_t make_idx(unsigned char *to, int rank, const int *dim, size_t bytes)
{
    memcpy(to, (unsigned char[]){0, 0, 8, (unsigned char)rank}, 4);
    for (int i = 0; i < rank; i++)
        for (int k = 0; k < 4; k++)
            to[4 + 4 * i + k] = (unsigned char)((unsigned)dim[i] >> (24 - 8 * k));
    for (size_t i = 0; i < bytes; i++)
        to[4 + 4 * (size_t)rank + i] = (unsigned char)(i % 251);
    return 4 + 4 * (size_t)rank + bytes;
}

static inline void put_idx(const char *path, int rank, int a, int b, int c, size_t bytes)
{
    unsigned char data[5000];
    put_file(path, data, make_idx(data, rank, (const int[]){a, b, c}, bytes));
}

/* Labels 0, 1, ... up to `classes`, then again. */
static inline void put_labels(const char *path, int count, int classes)
{
    unsigned char data[5000];
    const size_t length = make_idx(data, 1, &count, (size_t)count);
    for (int i = 0; i < count; i++)
        data[8 + i] = (unsigned char)(i % classes);
    put_file(path, data, length);
}

/* Records of CIFAR: labels[0 .. each - 1] are (i + 1) % classes, pixel k of plane c of record i is i + c + k. */
static inline void put_cifar(const char *path, int count, int each, int classes)
{
    const size_t size = (size_t)each + 3072;
    unsigned char *data = calloc((size_t)count, size);
    for (int i = 0; i < count; i++) {
        unsigned char *record = data + (size_t)i * size;
        for (int k = 0; k < each; k++)
            record[k] = (unsigned char)((i + 1 + k) % classes);
        for (int k = 0; k < 3072; k++)
            record[each + k] = (unsigned char)(i + k / 1024 + k % 1024);
    }
    put_file(path, data, (size_t)count * size);
    free(data);
}

/* A picture whose red goes from left to right and whose green goes from top to bottom. */
static inline void make_picture(brasa_context *ctx, picture *p, int height, int width)
{
    picture_shape(ctx, p, 3, height, width);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            unsigned char *to = p->pixels + 3 * (y * width + x);
            to[0] = (unsigned char)(255 * x / width);
            to[1] = (unsigned char)(255 * y / height);
            to[2] = 90;
        }
}

/* false: this build cannot write JPEG. */
static inline bool put_jpeg(brasa_context *ctx, const char *path, int height, int width)
{
    picture p = {0};
    size_t bytes = 0;
    make_picture(ctx, &p, height, width);
    const bool ok = codec_encode_jpeg(ctx, &p, 92, &bytes) == BRASA_OK;
    if (ok)
        put_file(path, p.file, bytes);
    picture_free(ctx, &p);
    return ok;
}

/* Of the same picture; grey: of its red alone. */
static inline bool put_png(brasa_context *ctx, const char *path, int height, int width, bool grey)
{
#ifdef BRASA_PNG
    picture p = {0};
    size_t bytes = 0;
    int code = 0;
    make_picture(ctx, &p, height, width);
    for (int i = 0; grey && i < height * width; i++)
        p.pixels[i] = p.pixels[3 * i];
    spng_ctx *png = spng_ctx_new(SPNG_CTX_ENCODER);
    struct spng_ihdr head = {.width = (uint32_t)width, .height = (uint32_t)height, .bit_depth = 8};
    head.color_type = grey ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
    spng_set_option(png, SPNG_ENCODE_TO_BUFFER, 1);
    spng_set_ihdr(png, &head);
    code = spng_encode_image(png, p.pixels, (size_t)(height * width * (grey ? 1 : 3)), SPNG_FMT_PNG,
                             SPNG_ENCODE_FINALIZE);
    void *file = spng_get_png_buffer(png, &bytes, &code);
    if (file)
        put_file(path, file, bytes);
    free(file);
    spng_ctx_free(png);
    picture_free(ctx, &p);
    return code == 0;
#else
    (void)ctx, (void)path, (void)height, (void)width, (void)grey;
    return false;
#endif
}

OWNER(dataset, **x, dataset_close(*x))

/* A file or folder of real data, in the folder that BRASA_DATA names. NULL: not there. */
static inline const char *real_data(const char *name)
{
    static char path[512];
    const char *from = getenv("BRASA_DATA");
    snprintf(path, sizeof path, "%s/%s", from ? from : "", name);
    return from && access(path, R_OK) == 0 ? path : NULL;
}

#endif
