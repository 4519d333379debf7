/* sort.c - see sort.h. */
#include "core/sort.h"

/* Moves an item down the heap of `count` until nothing below it is larger. */
static void sift(void *user, int64_t root, int64_t count, int (*compare)(void *, int64_t, int64_t),
                 void (*swap)(void *, int64_t, int64_t))
{
    for (int64_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && compare(user, child + 1, child) > 0)
            child++;
        if (compare(user, child, root) <= 0)
            return;
        swap(user, child, root);
    }
}

void sort_items(void *user, int64_t count, int (*compare)(void *user, int64_t a, int64_t b),
                void (*swap)(void *user, int64_t a, int64_t b))
{
    for (int64_t root = count / 2 - 1; root >= 0; root--)
        sift(user, root, count, compare, swap);
    for (int64_t last = count - 1; last > 0; last--) {
        swap(user, 0, last);
        sift(user, 0, last, compare, swap);
    }
}
