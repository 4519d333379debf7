/* fuzz_cifar.c - libFuzzer's target for CIFAR's binary files: any bytes as labels and lengths of both forms, and as
 * the names of classes. Pixels are only copied, so records are made up around the labels. */
#define _GNU_SOURCE
#include "data.h"

enum { PIXELS = 3072, MOST = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char records[MOST * (PIXELS + 2)];
    start();
    if (size < 4)
        return 0;
    const int form = data[0] % 3, labels = form ? 2 : 1;
    const size_t count = data[1] % (MOST + 1), cut = data[2] < 128 ? 0 : data[2] - 127u;
    for (size_t i = 0; i < count * (size_t)labels && i + 4 < size; i++)
        records[i / (size_t)labels * (PIXELS + (size_t)labels) + i % (size_t)labels] = data[i + 3];
    const size_t whole = count * (PIXELS + (size_t)labels), bytes = whole > cut ? whole - cut : 0;
    const size_t used = 3 + count * (size_t)labels;
    put_file(form ? "train.bin" : "data_batch_1.bin", records, bytes);
    put_file(form == 0   ? "batches.meta.txt"
             : form == 1 ? "fine_label_names.txt"
                         : "coarse_label_names.txt",
             data + (used < size ? used : size), used < size ? size - used : 0);
    open_and_read(form == 0 ? "cifar10:%s" : form == 1 ? "cifar100:%s" : "cifar100:%s,coarse", bytes + size);
    return 0;
}
