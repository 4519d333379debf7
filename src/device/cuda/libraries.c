/* libraries.c - finds NVIDIA's libraries: see libraries.h.
 *
 * In this order: where the user says ($BRASA_CUDNN, $BRASA_CUBLASLT: a file, a folder, or "off" for none); where the
 * system's loader finds them; in CUDA's own folders; and in Python environments, whose packages of NVIDIA bring them
 * for every framework. Python itself is not started: its folders have known names. What cannot be used, an old
 * library of the system's say, is passed over, but for what the user has named. */
#define _GNU_SOURCE
#include "device/cuda/libraries.h"
#include "core/shared.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

typedef struct search {
    const char *file; /* how the name begins */
    library_start start;
    void *user;
    const char **why;
} search;

/* One that will not do stays open, too: it has threads and handlers of its own. */
static bool open_file(const search *s, const char *path)
{
    const char *none = NULL;
    void *opened = shared_open(path, &none);
    const char *why = opened ? s->start(s->user, opened) : NULL;
    if (!*s->why)
        *s->why = why;
    return opened && !why;
}

/* The first file that will do among those of a pattern: `folder`, taken letter by letter, and `rest`, in which a star
 * stands for anything, then the library's name and what follows it. */
static bool open_in(const search *s, const char *folder, const char *rest)
{
    char pattern[PATH_SIZE];
    size_t length = 0;
    for (const char *at = folder; *at; at++) {
        if (length + 2 >= sizeof pattern)
            return false;
        if (strchr("*?[\\", *at))
            pattern[length++] = '\\';
        pattern[length++] = *at;
    }
    const int more = snprintf(pattern + length, sizeof pattern - length, "%s/%s*", rest, s->file);
    if (more < 0 || (size_t)more >= sizeof pattern - length)
        return false;
    glob_t found = {0};
    bool opened = false;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && !opened; i++)
            opened = open_file(s, found.gl_pathv[i]);
    globfree(&found);
    return opened;
}

/* A Python's prefix: its packages, and the libraries that conda puts beside it. */
static bool open_in_python(const search *s, const char *prefix)
{
    if (!prefix || *prefix != '/')
        return false;
    return open_in(s, prefix, "/lib*/python3*/*-packages/nvidia/*/lib") || open_in(s, prefix, "/lib");
}

/* The prefix of a program .../bin/python3. */
static bool open_beside(const search *s, char *program)
{
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(program, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    return open_in_python(s, program);
}

/* The python3 that a shell would start. In a virtual environment it is a link to another one, whose packages may do
 * as well. */
static bool open_by_path(const search *s)
{
    const char *at = getenv("PATH");
    while (at && *at) {
        char program[PATH_SIZE], *target;
        const size_t length = strcspn(at, ":");
        const int all = snprintf(program, sizeof program, "%.*s/python3", (int)length, at);
        at += length + (at[length] == ':');
        if (all < 0 || (size_t)all >= sizeof program || *program != '/' || access(program, X_OK) != 0)
            continue;
        target = realpath(program, NULL);
        const bool opened = open_beside(s, program) || (target && open_beside(s, target));
        free(target);
        return opened;
    }
    return false;
}

static bool open_by_environments(const search *s)
{
    const char *home = getenv("HOME");
    char local[PATH_SIZE];
    snprintf(local, sizeof local, "%s/.local", home ? home : "");
    return open_in_python(s, getenv("VIRTUAL_ENV")) || open_in_python(s, getenv("CONDA_PREFIX")) || open_by_path(s) ||
           (home && open_in_python(s, local)) || open_in_python(s, "/usr/local") || open_in_python(s, "/usr");
}

static bool open_by_toolkit(const search *s)
{
    const char *const folders[] = {getenv("CUDA_PATH"), getenv("CUDA_HOME"), "/usr/local/cuda"};
    bool opened = false;
    for (int i = 0; i < 3 && !opened; i++)
        if (folders[i] && *folders[i] == '/')
            opened = open_in(s, folders[i], "/lib*");
    return opened;
}

/* What the user says of a library, or NULL; *wrong is what to say when that is not one. */
static const char *wish(const char *file, const char **wrong)
{
    static const char *const names[][3] = {
        {"libcudnn", "BRASA_CUDNN", "what BRASA_CUDNN names cannot be opened"},
        {"libcublasLt", "BRASA_CUBLASLT", "what BRASA_CUBLASLT names cannot be opened"}};
    for (int i = 0; i < 2; i++) {
        const char *word = strncmp(file, names[i][0], strlen(names[i][0])) == 0 ? getenv(names[i][1]) : NULL;
        *wrong = names[i][2];
        if (word && *word)
            return word;
    }
    return NULL;
}

/* Reasons are words of the libraries themselves, whose longest are cut: two of them fit. */
void library_missing(device *d, const char *why, const char *none, const char *cost)
{
    char words[240];
    snprintf(words, sizeof words, "%.120s: %.110s", why ? why : none, cost);
    add_words(d->missing, sizeof d->missing, "; ", words);
}

bool library_find(const char *file, library_start start, void *user, const char **why)
{
    const search s = {file, start, user, why};
    const char *wrong = NULL, *named = wish(file, &wrong);
    struct stat st;
    if (named && strcmp(named, "off") == 0)
        return false;
    if (named) {
        const bool folder = stat(named, &st) == 0 && S_ISDIR(st.st_mode);
        const bool opened = folder ? open_in(&s, named, "") : open_file(&s, named);
        if (!opened && !*why)
            *why = wrong;
        return opened;
    }
    return open_file(&s, file) || open_by_toolkit(&s) || open_by_environments(&s);
}
