/* peers.c - see peers.h. */
#define _GNU_SOURCE
#include "lab/peers.h"

#include "core/nearest.h"
#include "lab/command.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PEERS = 32, MAX_PATH = 4096, MAX_ENTRY = 2048 };
static const double ask_seconds = 60; /* some take ten to import */

static const peer_def table[] = {
    {.name = "brasa",
     .title = "Brasa",
     .variants = "plain untuned decoding",
     .role = "the program itself, by the same rules"},
    {.name = "pytorch",
     .title = "PyTorch",
     .module = "torch",
     .packages = "torch",
     .variants = "contiguous channels_last compiled compiled_channels_last",
     .role = "PyTorch of the first and the third study"},
    {.name = "tensorflow",
     .title = "TensorFlow",
     .module = "tensorflow",
     .packages = "tensorflow-cpu tensorflow",
     .variants = "function jit",
     .role = "TensorFlow of all three studies, with Keras as in the third"},
    {.name = "paddle",
     .title = "Paddle",
     .module = "paddle",
     .packages = "paddlepaddle paddlepaddle-gpu",
     .variants = "dynamic static",
     .role = "Paddle of the first study"},
    {.name = "mxnet",
     .title = "MXNet",
     .module = "mxnet",
     .packages = "mxnet",
     .variants = "hybridized imperative",
     .role = "MXNet of the first study; 1.9.1 is its last release for Python"},
    {.name = "jax",
     .title = "JAX",
     .module = "jax",
     .packages = "jax",
     .variants = "jit",
     .role = "in no study: what came after them"},
    {.name = "aesara",
     .title = "Aesara (Theano)",
     .module = "aesara",
     .packages = "aesara",
     .variants = "compiled",
     .role = "Theano of the third study, by its successor: 2.7.10, since 2.8.12 and 2.9.4 fail to compile "
             "convolutions, and PyTensor 3, the next one, has none"},
    {.name = "singa",
     .title = "SINGA",
     .module = "singa",
     .packages = "singa",
     .variants = "plain",
     .role = "SINGA of the first study",
     .elsewhere =
         "PyPI has one file of it, 3.0.0.dev1 for Python 3.6, whose tensors take no NumPy arrays "
         "(from_numpy: TypeError); Debian 12 has none. The conda package nusdbsystem::singa (3.2.0) has it, so "
         "has the image apache/singa: --peers singa=PYTHON"},
    {.name = "caffe",
     .title = "Caffe",
     .module = "caffe",
     .packages = "",
     .variants = "plain",
     .role = "Caffe of the second study",
     .elsewhere = "PyPI's package of that name is empty, and Debian 12 has none. Debian 11's python3-caffe (1.0.0, "
                  "Python 3.9) has it, so has an image built from docker/standalone of Caffe's source: --peers "
                  "caffe=PYTHON"},
};
enum { PEERS = sizeof table / sizeof table[0] };

const peer_def *peer_def_at(int index)
{
    return index >= 0 && index < PEERS ? &table[index] : NULL;
}

brasa_status peer_def_find(brasa_context *ctx, const char *name, const peer_def **out)
{
    nearest n = {.word = name};
    for (int i = 0; i < PEERS; i++) {
        *out = &table[i];
        if (strcmp(table[i].name, name) == 0)
            return BRASA_OK;
        nearest_offer(&n, table[i].name);
    }
    return fail(ctx, BRASA_NOT_FOUND, "there is no peer '%.60s'%s", name, nearest_hint(&n).text);
}

/* --- folders --------------------------------------------------------------------------------------------------- */

static brasa_status made(pool *p, const char *text)
{
    return text ? BRASA_OK : fail_memory(p->ctx, MAX_PATH);
}

/* A path from the environment is of use wherever we are. */
static brasa_status absolute(pool *p, const char *path, const char **out)
{
    char here[MAX_PATH];
    if (path[0] != '/' && !getcwd(here, sizeof here))
        return fail(p->ctx, BRASA_BAD_FILE, "%s: the current folder has no name", path);
    return made(p, *out = path[0] == '/' ? pool_text(p, "%s", path) : pool_text(p, "%s/%s", here, path));
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

brasa_status peers_folder(pool *p, const char **out)
{
    const char *own = variable("BRASA_PEERS"), *data = variable("XDG_DATA_HOME"), *home = variable("HOME");
    if (own)
        return absolute(p, own, out);
    if (data && data[0] == '/')
        return made(p, *out = pool_text(p, "%s/brasa/peers", data));
    if (home)
        return made(p, *out = pool_text(p, "%s/.local/share/brasa/peers", home));
    return fail(p->ctx, BRASA_NOT_FOUND, "no folder for the peers: neither BRASA_PEERS nor HOME is set");
}

brasa_status peers_lab(pool *p, const char **out)
{
    char program[MAX_PATH];
    const char *own = variable("BRASA_LAB");
    if (own)
        return absolute(p, own, out);
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    for (int up = 0; length > 0 && up < 2; up++) {
        program[up ? strlen(program) : (size_t)length] = '\0';
        char *slash = strrchr(program, '/');
        if (slash)
            *slash = '\0';
    }
    if (length > 0) {
        brasa_status status = made(p, *out = pool_text(p, "%s/share/brasa/lab/peers", program));
        if (status != BRASA_OK || access(*out, F_OK) == 0)
            return status;
    }
    return made(p, *out = pool_text(p, "%s", BRASA_LAB_FOLDER));
}

/* --- who takes part -------------------------------------------------------------------------------------------- */

static bool has_word(const char *words, const char *word)
{
    size_t n;
    for (const char *at = words; *at; at += n + (at[n] == ' '))
        if ((n = strcspn(at, " ")) == strlen(word) && memcmp(at, word, n) == 0)
            return true;
    return false;
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* A program as a shell would find it: a name alone is looked for along PATH. */
static brasa_status find_program(pool *p, const char *word, const char **out)
{
    const char *at = strchr(word, '/') ? NULL : variable("PATH");
    while (at && *at) {
        const size_t length = strcspn(at, ":");
        char path[MAX_PATH];
        const int all = snprintf(path, sizeof path, "%.*s/%s", (int)length, at, word);
        at += length + (at[length] == ':');
        if (all > 0 && (size_t)all < sizeof path && path[0] == '/' && is_program(path))
            return made(p, *out = pool_text(p, "%s", path));
    }
    return absolute(p, word, out);
}

/* Where it is, or why not. */
static brasa_status locate(pool *p, peer *one, const char *python)
{
    const char *folder, *lab;
    if (!one->def->module)
        return python ? fail(p->ctx, BRASA_BAD_ARGUMENT, "peers: brasa needs no Python") : BRASA_OK;
    brasa_status status = peers_folder(p, &folder);
    if (status == BRASA_OK)
        status = peers_lab(p, &lab);
    if (status == BRASA_OK)
        status = made(p, one->runner = pool_text(p, "%s/%s.py", lab, one->def->name));
    if (status != BRASA_OK)
        return status;
    if (python)
        status = find_program(p, python, &one->python);
    else
        status = made(p, one->python = pool_text(p, "%s/%s/bin/python", folder, one->def->name));
    if (status != BRASA_OK)
        return status;
    if (python && !is_program(one->python))
        return fail(p->ctx, BRASA_BAD_ARGUMENT, "peers: %s: %s is no program", one->def->name, one->python);
    if (!is_program(one->python)) {
        one->python = NULL;
        one->why = one->def->elsewhere ? one->def->elsewhere
                                       : pool_text(p, "not installed (brasa lab install %s)", one->def->name);
        return made(p, one->why);
    }
    if (access(one->runner, R_OK) != 0)
        return made(p, one->why = pool_text(p, "its runner is missing: %s", one->runner));
    return BRASA_OK;
}

/* A peer in a variant stands in the list once; the last word on it counts. */
static brasa_status add(pool *p, peer *list, int *count, const peer *one)
{
    for (int i = 0; i < *count; i++)
        if (list[i].def == one->def && strcmp(list[i].variant, one->variant) == 0) {
            list[i] = *one;
            return BRASA_OK;
        }
    if (*count == MAX_PEERS)
        return fail(p->ctx, BRASA_BAD_ARGUMENT, "peers: more than %d of them", MAX_PEERS);
    list[(*count)++] = *one;
    return BRASA_OK;
}

static brasa_status add_all(pool *p, peer *list, int *count)
{
    brasa_status status = BRASA_OK;
    for (int i = 0; i < PEERS && status == BRASA_OK; i++) {
        peer one = {.def = &table[i], .variant = ""};
        if ((status = locate(p, &one, NULL)) == BRASA_OK)
            status = add(p, list, count, &one);
    }
    return status;
}

/* NAME[:VARIANT][=PYTHON]; the text is cut. */
static brasa_status add_entry(pool *p, char *text, peer *list, int *count)
{
    peer one = {.variant = ""};
    char *python = strchr(text, '=');
    if (python)
        *python++ = '\0';
    char *variant = strchr(text, ':');
    if (variant)
        *variant++ = '\0';
    if (strcmp(text, "all") == 0 && !python && !variant)
        return add_all(p, list, count);
    brasa_status status = peer_def_find(p->ctx, text, &one.def);
    if (status == BRASA_OK && variant && !has_word(one.def->variants, variant))
        status = fail(p->ctx, BRASA_NOT_FOUND, "peers: %s has no variant '%.60s', only: %s", text, variant,
                      one.def->variants);
    if (status == BRASA_OK && variant) /* the plain one has no name in the records */
        one.variant = strncmp(one.def->variants, variant, strlen(variant)) == 0 &&
                              strcspn(one.def->variants, " ") == strlen(variant)
                          ? ""
                          : variant;
    if (status == BRASA_OK)
        status = locate(p, &one, python);
    return status == BRASA_OK ? add(p, list, count, &one) : status;
}

brasa_status peers_choose(pool *p, const char *text, peer **out, int *count)
{
    *count = 0;
    *out = pool_get(p, MAX_PEERS, sizeof **out);
    char *copy = pool_text(p, "%s", text ? text : "all"), *rest = copy;
    if (!*out || !copy)
        return fail_memory(p->ctx, MAX_PEERS * sizeof **out);
    for (char *entry; (entry = strsep(&rest, ","));) {
        entry += strspn(entry, " ");
        entry[strcspn(entry, " ")] = '\0';
        if (!*entry || strlen(entry) > MAX_ENTRY)
            return fail(p->ctx, BRASA_BAD_ARGUMENT,
                        "peers: expected all, or NAME[:VARIANT][=PYTHON] with commas between them, got '%.100s'",
                        text);
        const brasa_status status = add_entry(p, entry, *out, count);
        if (status != BRASA_OK)
            return status;
    }
    return BRASA_OK;
}

/* --- versions -------------------------------------------------------------------------------------------------- */

/* For Python 3.6 and later. Importing a framework may take seconds, so its papers are asked first. */
static const char question[] = "import sys\n"
                               "from importlib.util import find_spec\n"
                               "module, names, found = sys.argv[1], sys.argv[2].split(), None\n"
                               "if find_spec(module) is None:\n"
                               "    sys.exit('it has no module ' + module)\n"
                               "for name in names:\n"
                               "    try:\n"
                               "        from importlib.metadata import version\n"
                               "        found = found or version(name)\n"
                               "    except Exception:\n"
                               "        pass\n"
                               "if not found:\n"
                               "    found = getattr(__import__(module), '__version__', 'unknown')\n"
                               "print('brasa-peer %d.%d.%d %s' % (sys.version_info[:3] + (found,)))\n";

/* "brasa-peer 3.11.7 2.15.0" */
static brasa_status read_answer(pool *p, peer *one, char *answer)
{
    char *python = answer + strlen("brasa-peer "), *version = strchr(python, ' ');
    if (!version)
        return made(p, one->why = pool_text(p, "%s says '%.60s'", one->python, answer));
    *version++ = '\0';
    one->python_version = pool_text(p, "%s", python);
    return made(p, one->version = one->python_version ? pool_text(p, "%.40s", version) : NULL);
}

brasa_status peer_ask(pool *p, peer *one)
{
    if (!one->def->module)
        return made(p, one->version = pool_text(p, "%s", brasa_version()));
    if (!one->python)
        return BRASA_OK;
    const char *const argv[] = {one->python, "-I", "-c", question, one->def->module, one->def->packages, NULL};
    command_result said;
    brasa_status status = command_run(p->ctx, &(command){.argv = argv, .seconds = ask_seconds}, &said);
    if (status != BRASA_OK)
        return status;
    if (said.code == 0 && strncmp(said.last, "brasa-peer ", 11) == 0)
        return read_answer(p, one, said.last);
    one->why = said.late ? pool_text(p, "%s did not answer in %d seconds", one->python, (int)ask_seconds)
                         : pool_text(p, "%s: %.200s", one->python, said.last[0] ? said.last : "it fails");
    return made(p, one->why);
}
