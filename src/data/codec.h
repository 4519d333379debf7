/* codec.h - what libraries do for data: JPEG, PNG, gzip, downloads. Each is one file that is only built where its
 * library is installed; codecs.c knows which are there. */
#ifndef DATA_CODEC_H
#define DATA_CODEC_H

#include "data/dataset.h"

typedef struct codec {
    const char *name;    /* "JPEG" */
    const char *package; /* Debian's, that has it */
    const char *magic;   /* the first bytes of such a file */
    size_t magic_bytes;
    const char *version; /* of the library, NULL: this build is without it */
    /* Decodes p->file, of `bytes` bytes, into p's pixels; knows p->least. Its own errors, without the file's name. */
    brasa_status (*decode)(brasa_context *errors, picture *p, size_t bytes);
} codec;

/* NULL past the last one. */
const codec *codec_at(int index);
/* By what the file begins with. */
brasa_status codec_decode(brasa_context *errors, picture *p, size_t bytes);

extern const char jpeg_version[], png_version[], gzip_version[], curl_version_text[];
brasa_status jpeg_decode(brasa_context *errors, picture *p, size_t bytes);
brasa_status png_decode(brasa_context *errors, picture *p, size_t bytes);

/* Sides, and pixels in all, that a picture may have. The message names what it has. */
brasa_status codec_check_size(brasa_context *errors, int64_t height, int64_t width);

/* The pixels as a JPEG file, in p->file; *bytes gets its length. Where there is no libjpeg: BRASA_NO_KERNEL. */
brasa_status codec_encode_jpeg(brasa_context *errors, picture *p, int quality, size_t *bytes);
brasa_status jpeg_encode(brasa_context *errors, picture *p, int quality, size_t *bytes);

/* gzip: opens the file behind fd, which it then owns; reads up to `bytes`, -1 where it is broken. */
typedef struct unpacker {
    void *(*open)(int fd);
    int (*read)(void *file, void *to, int bytes, const char **why);
    void (*close)(void *file);
} unpacker;
/* NULL: this build is without zlib. */
const unpacker *codec_gzip(void);
extern const unpacker gzip_unpacker;

/* What downloads; NULL: this build is without libcurl. */
const struct fetcher *codec_fetcher(void);

#endif
