/* fuzz_picture.c - libFuzzer's target for JPEG and PNG: any bytes, decoded at full and at reduced size, then resized
 * and cut. The libraries have been fuzzed by others; this is about what we make of them. */
#define _GNU_SOURCE
#include "data.h"

#include "data/codec.h"
#include "data/source.h"
#include "data/transform.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static picture p, spare;
    start();
    it.most = 500000000;
    const transform t = {.resize = 32, .crop = {32, 32}, .channels = size % 2 ? 1 : 3};
    for (p.least = 0; p.least <= 32; p.least += 32) {
        if (picture_file(it.ctx, &p, size) != BRASA_OK)
            abort();
        memcpy(p.file, data, size);
        brasa_status status = codec_decode(it.ctx, &p, size);
        require(status == BRASA_OK || status == BRASA_BAD_FILE, "an unexpected status");
        if (status != BRASA_OK)
            continue;
        require(p.channels == 3 && p.height >= 1 && p.width >= 1, "a strange size");
        status = transform_fixed(it.ctx, &t, &p, &spare);
        require(status == BRASA_OK || status == BRASA_BAD_FILE, "an unexpected status");
        require(status != BRASA_OK || (p.height == 32 && p.width == 32), "not the size that was asked for");
    }
    return 0;
}
