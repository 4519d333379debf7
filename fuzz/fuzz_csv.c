/* fuzz_csv.c - libFuzzer's target for tables: any bytes, with each way to name the label and to separate cells. */
#define _GNU_SOURCE
#include "data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const specs[] = {"csv:%s/t.csv", "csv:%s/t.csv,label=2", "csv:%s/t.csv,label=a",
                                        "csv:%s/t.csv,header=yes,separator=tab",
                                        "csv:%s/t.csv,header=no,separator=semicolon"};
    start();
    if (size == 0)
        return 0;
    put_file("t.csv", data + 1, size - 1);
    open_and_read(specs[data[0] % 5], size);
    return 0;
}
