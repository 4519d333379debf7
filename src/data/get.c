/* get.c - published sets from the network.
 *
 * A file is downloaded as <name>.part, which goes on where it was cut off; it gets its name when it is whole and its
 * SHA-256 is the one in the table. So a file of the right name is the right file. The hashes of MNIST and Letter were
 * computed from files whose published checksums or counts agree, those of CIFAR are the ones that TensorFlow Datasets
 * lists for the same addresses.
 */
#define _POSIX_C_SOURCE   200809L
#define _FILE_OFFSET_BITS 64
#include "core/nearest.h"
#include "core/sha256.h"
#include "data/codec.h"
#include "data/make.h"
#include "data/source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 16, TAR_BLOCK = 512, TAR_NAME = 100, MOST_FILES = 4 };

typedef struct published_set {
    const char *name, *url;
    const char *spec; /* with %s for the folder */
    bool archive;     /* a .tar.gz, to be unpacked */
    published file[MOST_FILES];
} published_set;

static const published_set sets[] = {
    {"mnist",
     "https://ossci-datasets.s3.amazonaws.com/mnist",
     "idx:%s",
     false,
     {{"train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9912422},
      {"train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28881},
      {"t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1648877},
      {"t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4542}}},
    {"cifar10",
     "https://www.cs.toronto.edu/~kriz",
     "cifar10:%s",
     true,
     {{"cifar-10-binary.tar.gz", "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", 170052171}}},
    {"cifar100",
     "https://www.cs.toronto.edu/~kriz",
     "cifar100:%s",
     true,
     {{"cifar-100-binary.tar.gz", "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec", 168513733}}},
    {"letter",
     "https://archive.ics.uci.edu/ml/machine-learning-databases/letter-recognition",
     "csv:%s/letter-recognition.data",
     false,
     {{"letter-recognition.data", "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2", 712565}}},
};
enum { SETS = sizeof sets / sizeof sets[0] };

const char *dataset_get_at(int index)
{
    return index >= 0 && index < SETS ? sets[index].name : NULL;
}

/* --- a file ---------------------------------------------------------------------------------------------------- */

typedef struct download {
    brasa_context *ctx;
    const published *file;
    make_progress progress;
    void *user;
    FILE *f;
    int64_t done;
    bool too_long, stopped;
} download;

static bool take(void *user, const void *data, size_t bytes)
{
    download *d = user;
    d->too_long = d->done + (int64_t)bytes > d->file->bytes;
    if (d->too_long || fwrite(data, 1, bytes, d->f) != bytes)
        return false;
    d->done += (int64_t)bytes;
    d->stopped = d->progress && !d->progress(d->user, d->file->name, d->done, d->file->bytes);
    return !d->stopped;
}

static brasa_status hash_file(brasa_context *ctx, const char *path, char text[SHA256_TEXT])
{
    unsigned char piece[PIECE], hash[SHA256_BYTES];
    size_t got;
    sha256 h;
    FILE *f = fopen(path, "rbe");
    if (!f)
        return fail(ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
    sha256_start(&h);
    while ((got = fread(piece, 1, sizeof piece, f)) > 0)
        sha256_add(&h, piece, got);
    const bool bad = ferror(f) != 0;
    fclose(f);
    sha256_end(&h, hash);
    sha256_print(hash, text);
    return bad ? fail(ctx, BRASA_BAD_FILE, "%s: cannot be read", path) : BRASA_OK;
}

static brasa_status fetch_rest(download *d, const char *url, const char *part)
{
    const fetcher *by = codec_fetcher();
    if (!by)
        return fail(d->ctx, BRASA_NO_KERNEL, "this build cannot download (Debian: libcurl4-openssl-dev)");
    brasa_status status = BRASA_OK;
    bool again = true;
    for (int attempt = 0; attempt < 2 && again; attempt++) {
        again = false;
        if (!(d->f = fopen(part, attempt ? "wbe" : "abe")) || fseeko(d->f, 0, SEEK_END) != 0)
            return fail(d->ctx, BRASA_BAD_FILE, "%s: %s", part, strerror(errno));
        d->done = ftello(d->f);
        if (d->done < d->file->bytes)
            status = by->fetch(d->ctx, url, d->done, take, d, &again);
        const bool bad = ferror(d->f) != 0;
        if (fclose(d->f) != 0 || bad)
            return fail(d->ctx, BRASA_BAD_FILE, "%s: could not be written", part);
    }
    if (d->stopped)
        return fail(d->ctx, BRASA_WRONG_STATE, "stopped");
    if (d->too_long)
        return fail(d->ctx, BRASA_BAD_FILE, "%s: it has more than the %lld bytes expected", url,
                    (long long)d->file->bytes);
    return status;
}

brasa_status get_file(brasa_context *ctx, const published *file, const char *url, const char *folder,
                      make_progress progress, void *user)
{
    char path[4096], part[4096], whole[4096], hash[SHA256_TEXT] = "";
    struct stat st;
    if (snprintf(path, sizeof path, "%s/%s", folder, file->name) >= 4000 ||
        snprintf(whole, sizeof whole, "%s/%s", url, file->name) >= 4000)
        return fail(ctx, BRASA_BAD_ARGUMENT, "a path that is too long");
    snprintf(part, sizeof part, "%.4000s.part", path);
    if (stat(path, &st) == 0) {
        brasa_status status = hash_file(ctx, path, hash);
        if (status == BRASA_OK && strcmp(hash, file->sha256) != 0)
            status = fail(ctx, BRASA_BAD_FILE, "%s: not the published file (SHA-256 %s): move it away", path, hash);
        return status;
    }
    download d = {.ctx = ctx, .file = file, .progress = progress, .user = user};
    brasa_status status = fetch_rest(&d, whole, part);
    if (status == BRASA_OK && d.done < file->bytes)
        return fail(ctx, BRASA_BAD_FILE, "%s: ended after %lld of %lld bytes: try again to go on from there", whole,
                    (long long)d.done, (long long)file->bytes);
    if (status == BRASA_OK)
        status = hash_file(ctx, part, hash);
    if (status != BRASA_OK)
        return status;
    if (strcmp(hash, file->sha256) != 0) {
        remove(part);
        return fail(ctx, BRASA_BAD_FILE, "%s: SHA-256 is %s, expected %s: not kept", whole, hash, file->sha256);
    }
    return rename(part, path) == 0 ? BRASA_OK : fail(ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
}

/* --- archives -------------------------------------------------------------------------------------------------- */

/* The last name in a header's path, where it is one to be written: letters, digits, and -_. within. */
static const char *tar_name(const char *header, char name[TAR_NAME + 1])
{
    snprintf(name, TAR_NAME + 1, "%.*s", TAR_NAME, header);
    const char *last = strrchr(name, '/');
    last = last ? last + 1 : name;
    const char *allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return last[0] && last[0] != '.' && strspn(last, allowed) == strlen(last) ? last : NULL;
}

/* The number of 11 octal digits at byte 124, -1 where it is none. */
static int64_t tar_size(const char *header)
{
    int64_t size = 0;
    for (int i = 124; i < 135; i++) {
        if (header[i] < '0' || header[i] > '7')
            return -1;
        size = size * 8 + (header[i] - '0');
    }
    return size;
}

/* Copies an entry's content, up to the end of its last block, to `to`, which may be NULL. */
static brasa_status tar_copy(data_file *f, int64_t size, FILE *to)
{
    char piece[TAR_BLOCK];
    brasa_status status = BRASA_OK;
    for (int64_t left = size; left > 0 && status == BRASA_OK; left -= TAR_BLOCK) {
        status = file_exact(f, piece, TAR_BLOCK);
        if (status == BRASA_OK && to)
            fwrite(piece, 1, left < TAR_BLOCK ? (size_t)left : TAR_BLOCK, to);
    }
    return status;
}

static brasa_status tar_entry(brasa_context *ctx, data_file *f, const char *header, const char *folder)
{
    char name[TAR_NAME + 1], path[4096];
    const int64_t size = tar_size(header);
    const char *last = tar_name(header, name);
    const bool wanted = last && (header[156] == '0' || !header[156]); /* a regular file */
    if (size < 0)
        return fail(ctx, BRASA_BAD_FILE, "%s: byte %lld: not a header of a tar file", f->path,
                    (long long)f->place - TAR_BLOCK);
    if (!wanted)
        return tar_copy(f, size, NULL);
    snprintf(path, sizeof path, "%.3900s/%s", folder, last);
    FILE *to = fopen(path, "wbe");
    if (!to)
        return fail(ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
    brasa_status status = tar_copy(f, size, to);
    const bool bad = ferror(to) != 0;
    if ((fclose(to) != 0 || bad) && status == BRASA_OK)
        status = fail(ctx, BRASA_BAD_FILE, "%s: could not be written", path);
    return status;
}

brasa_status get_unpack(brasa_context *ctx, const char *archive, const char *folder)
{
    char header[TAR_BLOCK];
    data_file f;
    size_t got = 0;
    brasa_status status = file_open(ctx, archive, &f);
    if (status != BRASA_OK)
        return status;
    while ((status = file_some(&f, header, TAR_BLOCK, &got)) == BRASA_OK && got == TAR_BLOCK && header[0])
        if ((status = tar_entry(ctx, &f, header, folder)) != BRASA_OK)
            break;
    if (status == BRASA_OK && got > 0 && got < TAR_BLOCK)
        status = fail(ctx, BRASA_BAD_FILE, "%s: it ends within a header", archive);
    file_close(&f);
    return status;
}

/* --- sets ------------------------------------------------------------------------------------------------------ */

static brasa_status find_set(brasa_context *ctx, const char *name, const published_set **out)
{
    nearest n = {.word = name};
    for (int i = 0; i < SETS; i++) {
        if (strcmp(sets[i].name, name) == 0) {
            *out = &sets[i];
            return BRASA_OK;
        }
        nearest_offer(&n, sets[i].name);
    }
    return fail(ctx, BRASA_NOT_FOUND, "there is no published set '%s'%s (mnist, cifar10, cifar100, letter)", name,
                nearest_hint(&n).text);
}

brasa_status dataset_get(brasa_context *ctx, const char *name, const char *folder, const char *from,
                         make_progress progress, void *user, char *out, size_t size)
{
    const published_set *set = NULL;
    char archive[4096];
    brasa_status status = find_set(ctx, name, &set);
    if (status != BRASA_OK)
        return status;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return fail(ctx, BRASA_BAD_FILE, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < MOST_FILES && set->file[i].name && status == BRASA_OK; i++)
        status = get_file(ctx, &set->file[i], from ? from : set->url, folder, progress, user);
    if (status == BRASA_OK && set->archive) {
        snprintf(archive, sizeof archive, "%s/%s", folder, set->file[0].name);
        status = get_unpack(ctx, archive, folder);
    }
    const char *percent = strstr(set->spec, "%s");
    snprintf(out, size, "%.*s%s%s", (int)(percent - set->spec), set->spec, folder, percent + 2);
    return status;
}
