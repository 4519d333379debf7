/* doctor.c - `brasa doctor`: what this build and this machine have. Every fact is read, none is guessed: what the
 * system does not tell is "unknown" (null in JSON). */
#define _GNU_SOURCE
#include "build_info.h"
#include "tuning.h"

#include "device/device.h"
#include "core/cgroup.h"
#include "core/isa.h"
#include "core/threads.h"
#include "data/codec.h"
#include "graph/tune.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LINE = 8192 }; /* the flags in /proc/cpuinfo are about 2,000 letters */

/* Instruction sets that decide how fast the kernels can be. */
static const char *const features[] = {"sse2", "avx", "fma", "avx2", "avx512f", "asimd"};
enum { FEATURES = sizeof features / sizeof features[0] };

typedef struct machine {
    char cpu[128];
    bool has[FEATURES];
    int cores, affinity, threads;
    double cgroup_cpus;      /* 0: no limit */
    double total, available; /* bytes; 0: unknown */
    double cgroup_memory;    /* bytes; 0: no limit */
    int layers, ops, kernels;
} machine;

static bool has_word(const char *line, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = line; (at = strstr(at, word)); at += length)
        if (at[-1] == ' ' && strchr(" \n", at[length])) /* the line starts with its key, so at > line */
            return true;
    return false;
}

static void read_cpu(machine *m)
{
    char line[MAX_LINE];
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, (int)sizeof line, file)) {
        const char *text = strchr(line, ':');
        if (!text || line[0] == '\n')
            continue;
        text += strspn(text, ": \t");
        if (!m->cpu[0] && strncmp(line, "model name", 10) == 0)
            snprintf(m->cpu, sizeof m->cpu, "%.*s", (int)strcspn(text, "\n"), text);
        if (strncmp(line, "flags", 5) != 0 && strncmp(line, "Features", 8) != 0)
            continue;
        for (int i = 0; i < FEATURES; i++)
            m->has[i] = has_word(line, features[i]);
    }
    if (file)
        fclose(file);
}

static void read_memory(machine *m)
{
    char line[256];
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, (int)sizeof line, file)) {
        if (strncmp(line, "MemTotal:", 9) == 0)
            m->total = strtod(line + 9, NULL) * 1024;
        else if (strncmp(line, "MemAvailable:", 13) == 0)
            m->available = strtod(line + 13, NULL) * 1024;
    }
    if (file)
        fclose(file);
}

static machine examine(void)
{
    machine m = {
        .cores = (int)sysconf(_SC_NPROCESSORS_ONLN),
        .threads = threads_available(),
        .cgroup_cpus = cgroup_cpus(),
        .cgroup_memory = cgroup_memory(),
    };
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        m.affinity = CPU_COUNT(&set);
    read_cpu(&m);
    read_memory(&m);
    for (const op_def *op; (op = op_at(m.ops)); m.ops++) {
        m.layers += op->help != NULL;
        for (dtype real = F32; real <= F64; real++)
            for (const kernel *k = kernel_next(NULL, op, real, NULL); k; k = kernel_next(NULL, op, real, k))
                m.kernels++;
    }
    return m;
}

static void json_bytes(json *j, const char *key, double bytes)
{
    if (bytes > 0)
        json_int(j, key, (int64_t)bytes);
    else
        json_text(j, key, NULL);
}

static void facts_json(json *j, const machine *m)
{
    build_json(j);
    json_text(j, "cpu", m->cpu[0] ? m->cpu : NULL);
    json_open(j, "cpu_features", '[');
    for (int i = 0; i < FEATURES; i++)
        if (m->has[i])
            json_text(j, NULL, features[i]);
    json_close(j, ']');
    json_int(j, "cores", m->cores);
    json_int(j, "affinity", m->affinity);
    if (m->cgroup_cpus > 0)
        json_real(j, "cgroup_cpus", m->cgroup_cpus);
    else
        json_text(j, "cgroup_cpus", NULL);
    json_int(j, "threads", m->threads);
    json_text(j, "isa", isa_name(isa_available()));
    json_text(j, "onednn", library_onednn());
    json_open(j, "data", '{');
    for (int i = 0; codec_at(i); i++)
        json_text(j, codec_at(i)->name, codec_at(i)->version);
    json_close(j, '}');
    json_bytes(j, "memory_bytes", m->total);
    json_bytes(j, "memory_available_bytes", m->available);
    json_bytes(j, "cgroup_memory_bytes", m->cgroup_memory);
}

void machine_json(json *j)
{
    machine m = examine();
    json_open(j, "machine", '{');
    facts_json(j, &m);
    json_close(j, '}');
}

static bool add_text(void *user, const char *text, size_t length)
{
    char *to = user;
    const size_t used = strlen(to);
    if (length >= MACHINE_TEXT - used)
        return false;
    memcpy(to + used, text, length);
    to[used + length] = '\0';
    return true;
}

const char *machine_text(char text[MACHINE_TEXT])
{
    const machine m = examine();
    json j = {.write = add_text, .user = text};
    *text = '\0';
    json_open(&j, NULL, '{');
    facts_json(&j, &m);
    json_close(&j, '}');
    text[strcspn(text, "\n")] = '\0';
    return j.failed ? NULL : text;
}

/* --- the file of kernels' times ------------------------------------------------------------------------------ */

typedef struct times {
    bool locked; /* the file cannot be written */
    bool off;
    char path[CACHE_PATH_SIZE]; /* "": none is kept */
    int choices;                /* for this machine, version and number of threads */
    char note[200];             /* what is wrong with it, or "" */
} times;

static bool take_note(void *user, int64_t done, int64_t total, const char *note)
{
    times *t = user;
    (void)done;
    (void)total;
    if (note)
        snprintf(t->note, sizeof t->note, "%s", note);
    return true;
}

/* A folder that is not there yet is made when it is needed. */
static bool has_folder(char *path)
{
    char *slash = strrchr(path, '/');
    *slash = '\0';
    const bool found = access(path, F_OK) == 0;
    *slash = '/';
    return found;
}

static times read_times(const options *o)
{
    times t = {.off = tuning_off(o)};
    brasa_context *ctx = NULL;
    tuner *all = NULL;
    if (!tuning_cache(t.path, false))
        t.path[0] = '\0';
    const brasa_tuning wish = {
        .size = sizeof wish, .cache = t.path[0] ? t.path : NULL, .watch = take_note, .user = &t};
    if (brasa_context_new(NULL, &ctx) == BRASA_OK) {
        pool p = {.ctx = ctx};
        const char *here = tuner_machine(&p);
        if (here && tuner_new(ctx, here, &wish, &all) == BRASA_OK)
            t.choices = all->count;
        pool_free(&p);
    }
    t.locked = ctx && t.path[0] && has_folder(t.path) && !choices_writable(ctx, t.path);
    tuner_free(all);
    brasa_context_free(ctx);
    return t;
}

static void print_times(const times *t)
{
    if (t->off)
        printf("tuning    off: the first kernel that fits is taken (BRASA_TUNE)\n");
    else if (!t->path[0])
        printf("tuning    on, and nothing is kept (%s)\n",
               getenv("BRASA_CACHE") ? "BRASA_CACHE" : "BRASA_CACHE, XDG_CACHE_HOME and HOME name no folder");
    else
        printf("tuning    %d choice%s for this machine in %s%s\n", t->choices, t->choices == 1 ? "" : "s", t->path,
               t->locked ? ", which cannot be written" : "");
    if (t->note[0])
        printf("          %s\n", t->note);
}

/* --- GPUs ---------------------------------------------------------------------------------------------------- */

enum { MOST_LINES = 16 };

typedef struct gpus {
    char line[MOST_LINES][512]; /* one for each, or what is missing */
    int lines, count;
    char about[160], missing[ERROR_TEXT_SIZE]; /* of the first: the libraries, and those that are not there */
} gpus;

static void take_line(void *user, const char *line)
{
    gpus *g = user;
    if (g->lines < MOST_LINES)
        snprintf(g->line[g->lines++], sizeof g->line[0], "%.511s", line);
}

/* Libraries are looked for when a device is opened. */
static void read_libraries(gpus *g)
{
    brasa_context *ctx = NULL;
    if (brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &ctx) != BRASA_OK)
        return;
    if (brasa_context_use(ctx, "cuda") == BRASA_OK) {
        snprintf(g->about, sizeof g->about, "%s", ctx->device->about);
        snprintf(g->missing, sizeof g->missing, "%s", ctx->device->missing);
    } else {
        snprintf(g->missing, sizeof g->missing, "%s", brasa_context_error(ctx));
    }
    brasa_context_free(ctx);
}

static gpus read_gpus(void)
{
    gpus g = {.lines = 0};
    g.count = backend_list("cuda", take_line, &g);
    if (g.count)
        read_libraries(&g);
    return g;
}

static void gpus_json(json *j, const gpus *g)
{
    json_open(j, "cuda", '{');
    json_open(j, "devices", '[');
    for (int i = 0; g->count && i < g->lines; i++)
        json_text(j, NULL, g->line[i]);
    json_close(j, ']');
    json_text(j, "about", g->about[0] ? g->about : NULL);
    json_text(j, "missing", !g->count ? g->line[0] : g->missing[0] ? g->missing : NULL);
    json_close(j, '}');
}

static void print_gpus(const gpus *g)
{
    const char *const texts[] = {g->about, g->missing};
    for (int i = 0; i < g->lines; i++) {
        printf("%-9s ", i ? "" : "CUDA");
        wrapped(10, 10, g->line[i]);
    }
    for (int i = 0; i < 2; i++)
        if (texts[i][0]) {
            printf("%-9s ", "");
            wrapped(10, 10, texts[i]);
        }
}

static void print_json(const machine *m, const times *t, const gpus *g)
{
    json j = json_stdout();
    json_open(&j, NULL, '{');
    facts_json(&j, m);
    gpus_json(&j, g);
    json_int(&j, "layers", m->layers);
    json_int(&j, "ops", m->ops);
    json_int(&j, "kernels", m->kernels);
    json_open(&j, "tuning", '{');
    json_bool(&j, "on", !t->off);
    json_text(&j, "cache", t->path[0] ? t->path : NULL);
    json_int(&j, "choices", t->choices);
    json_bool(&j, "writable", t->path[0] && !t->locked);
    json_close(&j, '}');
    json_close(&j, '}');
}

static void print_text(const machine *m, const times *t, const gpus *g)
{
    printf("brasa     %s, %s, OpenMP %s\n", brasa_version(), build_compiler(), build_openmp());
    printf("cpu       %s\n", m->cpu[0] ? m->cpu : "unknown");
    printf("features ");
    for (int i = 0; i < FEATURES; i++)
        if (m->has[i])
            printf(" %s", features[i]);
    printf("\n");
    printf("cores     %d online, %d in the affinity mask, ", m->cores, m->affinity);
    if (m->cgroup_cpus > 0)
        printf("%s by the cgroup's quota\n", print_number(m->cgroup_cpus).text);
    else
        printf("no cgroup quota\n");
    printf("threads   %d will be used (--threads N for fewer)%s\n", m->threads,
           threads_granted(MOST_THREADS) < MOST_THREADS ? ", by OMP_THREAD_LIMIT or OMP_MAX_ACTIVE_LEVELS" : "");
    printf("memory    %s, %s available, ", print_bytes(m->total).text, print_bytes(m->available).text);
    if (m->cgroup_memory > 0)
        printf("cgroup limit %s\n", print_bytes(m->cgroup_memory).text);
    else
        printf("no cgroup limit\n");
    printf("kernels   for %s%s (BRASA_ISA=ref, avx2 or avx512 for less)\n", isa_name(isa_available()),
           isa_available() == ISA_ANY ? ", plain C" : "");
    print_times(t);
    if (library_onednn())
        printf("oneDNN    %s\n", library_onednn());
    else
        printf("oneDNN    none: large networks train slowly (Debian: libdnnl-dev, then build again)\n");
    print_gpus(g);
    for (int i = 0; codec_at(i); i++) {
        const codec *c = codec_at(i);
        if (c->version)
            printf("%-9s %s\n", c->name, c->version);
        else
            printf("%-9s none (Debian: %s, then build again)\n", c->name, c->package);
    }
    printf("library   %d layers, %d ops with their gradients and updates, %d kernels\n", m->layers, m->ops,
           m->kernels);
}

int run_doctor(const options *o)
{
    const machine m = examine();
    const times t = read_times(o);
    const gpus g = read_gpus();
    if (o->json)
        print_json(&m, &t, &g);
    else
        print_text(&m, &t, &g);
    return DONE;
}
