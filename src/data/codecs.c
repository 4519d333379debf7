/* codecs.c - which formats this build reads. The one place where it is asked what was installed. */
#include "data/codec.h"
#include "data/make.h"

#include <string.h>

#ifdef BRASA_JPEG
#define JPEG jpeg_version, jpeg_decode
#else
#define JPEG NULL, NULL
#endif
#ifdef BRASA_PNG
#define PNG png_version, png_decode
#else
#define PNG NULL, NULL
#endif
#ifdef BRASA_ZLIB
#define GZIP gzip_version, NULL /* unpacks whole files: see codec_gzip */
#else
#define GZIP NULL, NULL
#endif
#ifdef BRASA_CURL
#define CURL curl_version_text, NULL /* downloads: see codec_fetcher */
#else
#define CURL NULL, NULL
#endif

static const codec codecs[] = {
    {"JPEG", "libjpeg62-turbo-dev", "\xFF\xD8\xFF", 3, JPEG},
    {"PNG", "libspng-dev", "\x89PNG\r\n\x1A\n", 8, PNG},
    {"gzip", "zlib1g-dev", "\x1F\x8B", 2, GZIP},
    {"http", "libcurl4-openssl-dev", NULL, 0, CURL},
};
enum { CODECS = sizeof codecs / sizeof codecs[0], MOST_PIXELS = 1 << 27 };

const codec *codec_at(int index)
{
    return index >= 0 && index < CODECS ? &codecs[index] : NULL;
}

const unpacker *codec_gzip(void)
{
#ifdef BRASA_ZLIB
    return &gzip_unpacker;
#else
    return NULL;
#endif
}

const fetcher *codec_fetcher(void)
{
#ifdef BRASA_CURL
    return &curl_fetcher;
#else
    return NULL;
#endif
}

brasa_status codec_encode_jpeg(brasa_context *errors, picture *p, int quality, size_t *bytes)
{
#ifdef BRASA_JPEG
    return jpeg_encode(errors, p, quality, bytes);
#else
    (void)p, (void)quality, (void)bytes;
    return fail(errors, BRASA_NO_KERNEL, "this build cannot write JPEG (Debian: libjpeg62-turbo-dev)");
#endif
}

brasa_status codec_decode(brasa_context *errors, picture *p, size_t bytes)
{
    if (bytes == 0)
        return fail(errors, BRASA_BAD_FILE, "the file is empty");
    for (int i = 0; i < CODECS; i++) {
        const codec *c = &codecs[i];
        if (!c->magic || bytes < c->magic_bytes || memcmp(p->file, c->magic, c->magic_bytes) != 0)
            continue;
        if (c->decode)
            return c->decode(errors, p, bytes);
        if (!c->version)
            return fail(errors, BRASA_BAD_FILE, "this build cannot read %s (Debian: %s)", c->name, c->package);
    }
    return fail(errors, BRASA_BAD_FILE, "neither JPEG nor PNG: it begins with other bytes");
}

brasa_status codec_check_size(brasa_context *errors, int64_t height, int64_t width)
{
    if (height < MIN_SIDE || width < MIN_SIDE)
        return fail(errors, BRASA_BAD_FILE, "%lld x %lld pixels: smaller than %d x %d", (long long)width,
                    (long long)height, MIN_SIDE, MIN_SIDE);
    if (height > MAX_SIDE || width > MAX_SIDE || height * width > MOST_PIXELS)
        return fail(errors, BRASA_BAD_FILE, "%lld x %lld pixels: at most %d a side and 134 million in all are read",
                    (long long)width, (long long)height, MAX_SIDE);
    return BRASA_OK;
}
