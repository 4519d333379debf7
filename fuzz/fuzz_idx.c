/* fuzz_idx.c - libFuzzer's target for IDX files: any bytes as pictures, plain or packed, or as labels. */
#define _GNU_SOURCE
#include "data.h"

static const unsigned char images[] = "\0\0\x08\x03\0\0\0\x03\0\0\0\x02\0\0\0\x02"
                                      "abcdefghijkl";
static const unsigned char labels[] = "\0\0\x08\x01\0\0\0\x03"
                                      "\0\1\2";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    start();
    if (size == 0)
        return 0;
    const int kind = data[0] % 3;
    drop_file("train-images-idx3-ubyte");
    put_file(kind == 1 ? "train-images-idx3-ubyte.gz" : "train-images-idx3-ubyte", kind == 2 ? images : data + 1,
             kind == 2 ? sizeof images - 1 : size - 1);
    put_file("train-labels-idx1-ubyte", kind == 2 ? data + 1 : labels, kind == 2 ? size - 1 : sizeof labels - 1);
    open_and_read("idx:%s", size);
    return 0;
}
