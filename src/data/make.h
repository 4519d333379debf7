/* make.h - data sets into files: drawn ones, and published ones from the network. */
#ifndef DATA_MAKE_H
#define DATA_MAKE_H

#include "data/dataset.h"

/* Called now and then with what is done and what there is, of samples or bytes; false stops with BRASA_WRONG_STATE.
 */
typedef bool (*make_progress)(void *user, const char *what, int64_t done, int64_t all);

/* Writes a drawn set in the form of the real one: a folder of pictures, IDX, CIFAR's batches, CSV. The folder must be
 * new or empty. `spec` gets what to open it by. */
brasa_status dataset_make(const dataset *d, const char *folder, make_progress progress, void *user, char *spec,
                          size_t size);

/* Downloads a published set ("mnist") into a folder, checks it against its known hash, and unpacks it. What is there
 * already is not downloaded again; what was cut off goes on where it stopped. from: a URL to take the files from, in
 * place of the public one; may be NULL. */
brasa_status dataset_get(brasa_context *ctx, const char *name, const char *folder, const char *from,
                         make_progress progress, void *user, char *spec, size_t size);
/* The sets that it knows, NULL past the last one. */
const char *dataset_get_at(int index);

/* One file of it: `bytes` long, with this SHA-256 in hexadecimal. */
typedef struct published {
    const char *name, *sha256;
    int64_t bytes;
} published;
brasa_status get_file(brasa_context *ctx, const published *file, const char *url, const char *folder,
                      make_progress progress, void *user);
/* The files in a .tar.gz, by their last names, into the folder. */
brasa_status get_unpack(brasa_context *ctx, const char *archive, const char *folder);

/* What fetches a URL: `take` gets its bytes from number `begin` on, and returns false to stop. *again: the server
 * cannot begin there, and must be asked again from 0. */
typedef struct fetcher {
    brasa_status (*fetch)(brasa_context *ctx, const char *url, int64_t begin,
                          bool (*take)(void *user, const void *data, size_t bytes), void *user, bool *again);
} fetcher;
extern const fetcher curl_fetcher;

#endif
