/* jpeg.c - JPEG by libjpeg-turbo, with scaled decoding: a large photo is decoded at 1/2, 1/4 or 1/8 of its size
 * where more is not needed, which takes a fraction of the time and of the memory.
 *
 * Pictures come out as RGB, grey and CMYK ones too. A file that ends early is refused; what else libjpeg only warns
 * of is let pass, as other readers do. The library reports errors by calling a function that may not return, hence
 * setjmp; what must survive it lies in one struct.
 */
#include "data/codec.h"
#include "data/source.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
const char jpeg_version[] = "libjpeg-turbo " TEXT(LIBJPEG_TURBO_VERSION);

/* Progressive files are kept in memory as a whole before the first row: fewer pixels are allowed, and fewer passes
 * over them, which a small file can ask for by the thousand. */
enum { MOST_PROGRESSIVE = 1 << 25, MOST_SCANS = 200 };

typedef struct trap {
    struct jpeg_error_mgr manager;
    jmp_buf back;
    brasa_context *errors;
    struct jpeg_progress_mgr progress;
} trap;

static void on_error(j_common_ptr info)
{
    trap *t = (trap *)(void *)info->err;
    char text[JMSG_LENGTH_MAX];
    info->err->format_message(info, text);
    fail(t->errors, BRASA_BAD_FILE, "JPEG: %s", text);
    longjmp(t->back, 1);
}

static void on_message(j_common_ptr info, int level)
{
    const int code = info->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER))
        on_error(info);
}

static void on_progress(j_common_ptr info)
{
    trap *t = (trap *)(void *)info->err;
    if (((j_decompress_ptr)info)->input_scan_number > MOST_SCANS) {
        fail(t->errors, BRASA_BAD_FILE, "JPEG: more than %d scans", MOST_SCANS);
        longjmp(t->back, 1);
    }
}

static struct jpeg_error_mgr *set_trap(trap *t, brasa_context *errors)
{
    jpeg_std_error(&t->manager);
    t->errors = errors;
    t->manager.error_exit = on_error;
    t->manager.emit_message = on_message;
    t->progress.progress_monitor = on_progress;
    return &t->manager;
}

/* Adobe's files, the only CMYK ones there are, hold inverted values: ink 0 is 255. */
static void cmyk_to_rgb(const unsigned char *from, unsigned char *to, int width)
{
    for (int x = 0; x < width; x++)
        for (int c = 0; c < 3; c++)
            to[3 * x + c] = (unsigned char)(from[4 * x + c] * from[4 * x + 3] / 255);
}

static void choose_scale(struct jpeg_decompress_struct *d, int least)
{
    const unsigned shorter = d->image_width < d->image_height ? d->image_width : d->image_height;
    d->scale_num = 8;
    d->scale_denom = 8;
    while (least > 0 && d->scale_num > 1 && shorter * (d->scale_num / 2) >= (unsigned)least * 8)
        d->scale_num /= 2;
}

static brasa_status start(brasa_context *errors, struct jpeg_decompress_struct *d, picture *p)
{
    brasa_status status = codec_check_size(errors, d->image_height, d->image_width);
    if (status != BRASA_OK)
        return status;
    if (jpeg_has_multiple_scans(d) && (int64_t)d->image_width * d->image_height > MOST_PROGRESSIVE)
        return fail(errors, BRASA_BAD_FILE, "JPEG: %u x %u pixels: a progressive file may have 33 million",
                    d->image_width, d->image_height);
    d->out_color_space = d->jpeg_color_space == JCS_CMYK || d->jpeg_color_space == JCS_YCCK ? JCS_CMYK : JCS_RGB;
    p->full_height = (int)d->image_height;
    p->full_width = (int)d->image_width;
    if (p->size_only)
        return BRASA_OK;
    choose_scale(d, p->least);
    jpeg_calc_output_dimensions(d);
    status = picture_shape(errors, p, 3, (int)d->output_height, (int)d->output_width);
    p->full_height = (int)d->image_height;
    p->full_width = (int)d->image_width;
    return status;
}

static void read_rows(struct jpeg_decompress_struct *d, picture *p)
{
    const size_t row = 3 * (size_t)p->width;
    JSAMPARRAY ink = NULL;
    if (d->out_color_space == JCS_CMYK)
        ink = d->mem->alloc_sarray((j_common_ptr)d, JPOOL_IMAGE, d->output_width * 4, 1);
    while (d->output_scanline < d->output_height) {
        unsigned char *to = p->pixels + d->output_scanline * row;
        if (!ink) {
            jpeg_read_scanlines(d, &to, 1);
        } else {
            jpeg_read_scanlines(d, ink, 1);
            cmyk_to_rgb(ink[0], to, p->width);
        }
    }
}

brasa_status jpeg_decode(brasa_context *errors, picture *p, size_t bytes)
{
    struct jpeg_decompress_struct d = {0};
    trap t = {0};
    d.err = set_trap(&t, errors);
    if (setjmp(t.back)) {
        jpeg_destroy_decompress(&d);
        return BRASA_BAD_FILE;
    }
    jpeg_create_decompress(&d);
    d.progress = &t.progress;
    jpeg_mem_src(&d, p->file, (unsigned long)bytes);
    jpeg_read_header(&d, TRUE);
    brasa_status status = start(errors, &d, p);
    if (status == BRASA_OK && !p->size_only) {
        jpeg_start_decompress(&d);
        read_rows(&d, p);
        jpeg_finish_decompress(&d);
    }
    jpeg_destroy_decompress(&d);
    return status;
}

/* --- writing ------------------------------------------------------------------------------------------------- */

/* Into p->file, which gets room for the worst case beforehand: drawn pictures are small. */
brasa_status jpeg_encode(brasa_context *errors, picture *p, int quality, size_t *bytes)
{
    struct jpeg_compress_struct c = {0};
    trap t = {0};
    const size_t most = (size_t)p->channels * (size_t)p->height * (size_t)p->width * 2 + 4096;
    brasa_status status = picture_file(errors, p, most);
    if (status != BRASA_OK)
        return status;
    unsigned char *out = p->file;
    unsigned long length = (unsigned long)most;
    c.err = set_trap(&t, errors);
    if (setjmp(t.back)) {
        jpeg_destroy_compress(&c);
        return BRASA_BAD_FILE;
    }
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &length);
    c.image_width = (JDIMENSION)p->width;
    c.image_height = (JDIMENSION)p->height;
    c.input_components = p->channels;
    c.in_color_space = p->channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, quality, TRUE);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < c.image_height) {
        JSAMPROW row = p->pixels + c.next_scanline * (size_t)(p->width * p->channels);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    if (out != p->file) { /* it did not fit after all */
        free(out);
        return fail(errors, BRASA_INTERNAL, "a JPEG file of more bytes than its pixels");
    }
    *bytes = p->file_bytes = length;
    return BRASA_OK;
}
