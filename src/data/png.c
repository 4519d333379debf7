/* png.c - PNG by libspng. Whatever a file holds (grey, palette, 16 bits, transparency) comes out as RGB of 8 bits;
 * transparency is dropped, as if every pixel were opaque. */
#include "data/codec.h"
#include "data/source.h"

#include <spng.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
const char png_version[] =
    "libspng " TEXT(SPNG_VERSION_MAJOR) "." TEXT(SPNG_VERSION_MINOR) "." TEXT(SPNG_VERSION_PATCH);

/* Other chunks than pixels, palettes and the like: nothing that large is needed. */
enum { MOST_CHUNK = 1 << 20, MOST_PNG_PIXELS = 1 << 26 };

/* Whether the chunks lead up to the last one. The library stops at the last pixel, and does not see that a file was
 * cut off behind it. A chunk is its length, four letters, so many bytes, and a sum of four. */
static bool has_end(const unsigned char *file, size_t bytes)
{
    enum { MAGIC = 8, AROUND = 12 };
    for (size_t at = MAGIC; bytes - at >= AROUND;) {
        const unsigned char *c = file + at;
        const size_t length = (size_t)c[0] << 24 | (size_t)c[1] << 16 | (size_t)c[2] << 8 | c[3];
        if (memcmp(c + 4, "IEND", 4) == 0)
            return true;
        if (length > bytes - at - AROUND)
            return false;
        at += AROUND + length;
    }
    return false;
}

static brasa_status decode(brasa_context *errors, spng_ctx *png, picture *p, size_t bytes)
{
    struct spng_ihdr head;
    size_t needed = 0;
    int code = spng_set_image_limits(png, INT32_MAX, INT32_MAX); /* sizes are checked here, to be named */
    if (!code)
        code = spng_set_chunk_limits(png, MOST_CHUNK, 4 * MOST_CHUNK);
    if (!code)
        code = spng_set_png_buffer(png, p->file, bytes);
    if (!code)
        code = spng_get_ihdr(png, &head);
    if (code)
        return fail(errors, BRASA_BAD_FILE, "PNG: %s", spng_strerror(code));
    brasa_status status = codec_check_size(errors, head.height, head.width);
    if (status == BRASA_OK && (int64_t)head.height * head.width > MOST_PNG_PIXELS)
        status =
            fail(errors, BRASA_BAD_FILE, "PNG: %u x %u pixels: at most 67 million are read", head.width, head.height);
    p->full_height = (int)head.height;
    p->full_width = (int)head.width;
    if (status == BRASA_OK && !p->size_only)
        status = picture_shape(errors, p, 3, p->full_height, p->full_width);
    if (status != BRASA_OK || p->size_only)
        return status;
    code = spng_decoded_image_size(png, SPNG_FMT_RGB8, &needed);
    if (!code && needed != 3 * (size_t)p->height * (size_t)p->width)
        return fail(errors, BRASA_INTERNAL, "PNG: libspng wants %zu bytes", needed);
    if (!code)
        code = spng_decode_image(png, p->pixels, needed, SPNG_FMT_RGB8, 0);
    if (code)
        return fail(errors, BRASA_BAD_FILE, "PNG: %s", spng_strerror(code));
    return has_end(p->file, bytes) ? BRASA_OK : fail(errors, BRASA_BAD_FILE, "PNG: cut off: its end is missing");
}

brasa_status png_decode(brasa_context *errors, picture *p, size_t bytes)
{
    spng_ctx *png = spng_ctx_new(0);
    if (!png)
        return fail_memory(errors, 0);
    brasa_status status = decode(errors, png, p, bytes);
    spng_ctx_free(png);
    return status;
}
