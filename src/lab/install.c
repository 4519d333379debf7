/* install.c - see install.h. */
#define _GNU_SOURCE
#include "lab/install.h"

#include "core/numeric.h"
#include "core/replace.h"
#include "lab/command.h"
#include "lab/lab.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { MAX_LOCK = 1 << 16, MAX_SCRIPT = 1 << 20 };
static const double ask_seconds = 20, reach_seconds = 8, try_seconds = 300;

static brasa_status made(pool *p, const char *text)
{
    return text ? BRASA_OK : fail_memory(p->ctx, 4096);
}

/* --- locks ----------------------------------------------------------------------------------------------------- */

/* The rest of the line "# key: ...", or NULL. */
static const char *lock_says(pool *p, const char *text, const char *key)
{
    char start[32];
    snprintf(start, sizeof start, "# %s:", key);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, start, strlen(start)) == 0) {
            line += strlen(start);
            line += strspn(line, " ");
            return pool_text(p, "%.*s", (int)strcspn(line, "\n"), line);
        }
    return NULL;
}

/* "5.6G", "300M" */
static int64_t read_size(const char *text)
{
    char *end = NULL;
    const numeric_state locale = numeric_enter();
    const double value = text ? strtod(text, &end) : 0;
    numeric_leave(locale);
    return (int64_t)(value * (end && *end == 'G' ? 1e9 : 1e6));
}

static brasa_status read_lock(pool *p, const char *path, char **text)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return fail(p->ctx, BRASA_NOT_FOUND, "%s: %s", path, strerror(errno));
    *text = pool_get(p, MAX_LOCK + 1, 1);
    const size_t got = *text ? fread(*text, 1, MAX_LOCK, file) : 0;
    fclose(file);
    if (*text && !got)
        return fail(p->ctx, BRASA_BAD_FILE, "%s: cannot be read", path);
    return made(p, *text);
}

/* --- what it would do ------------------------------------------------------------------------------------------ */

static bool wants_gpu(const char *device)
{
    if (device)
        return strcmp(device, "cpu") != 0;
    return access("/dev/nvidiactl", F_OK) == 0 || access("/proc/driver/nvidia/version", F_OK) == 0;
}

/* Whether a Python of this version can make environments; `said` tells what it says else. */
static brasa_status try_python(pool *p, const char *python, const char *version, bool *works, command_result *said)
{
    static const char code[] = "import sys, ensurepip, venv; print('%d.%d' % sys.version_info[:2])";
    const char *const argv[] = {python, "-I", "-c", code, NULL};
    const brasa_status status = command_run(p->ctx, &(command){.argv = argv, .seconds = ask_seconds}, said);
    *works = status == BRASA_OK && said->code == 0 && strcmp(said->last, version) == 0;
    return status;
}

/* The first version of the list that there is: python3.11, or a python3 that is one. */
static brasa_status find_python(pool *p, const char *versions, install_plan *out)
{
    char *rest = pool_text(p, "%s", versions);
    const char *bare = NULL; /* a Python of a right version that lacks venv */
    command_result said;
    if (!rest)
        return made(p, rest);
    for (char *version; (version = strsep(&rest, " "));) {
        const char *names[] = {pool_text(p, "python%s", version), "python3"};
        for (int i = 0; i < 2 && *version; i++) {
            bool works = false;
            brasa_status status = made(p, names[i]);
            if (status == BRASA_OK)
                status = try_python(p, names[i], version, &works, &said);
            if (status != BRASA_OK)
                return status;
            if (works) {
                out->python = names[i];
                out->python_version = version;
                return BRASA_OK;
            }
            if (strstr(said.last, "ensurepip") || strstr(said.last, "No module named 'venv'"))
                bare = names[i];
        }
    }
    if (bare)
        return fail(p->ctx, BRASA_NOT_FOUND, "%s: %s cannot make environments: install Debian's %s-venv",
                    out->def->name, bare, bare);
    return fail(p->ctx, BRASA_NOT_FOUND, "%s: its pins work on Python %s, and none of these is in PATH",
                out->def->name, versions);
}

/* The first pin of a lock, as "name==version"; NULL: there is none. */
static char *first_pin(pool *p, const char *text)
{
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (*line != '#' && *line != '\n')
            return pool_text(p, "%.*s", (int)strcspn(line, "\n"), line);
    return NULL;
}

/* Whether the index can be reached, and has that version as a build for the CPU. Soon: most of those that cannot be
 * reached are behind a wall that says nothing. */
static brasa_status index_has(pool *p, const install_plan *n, const char *index, const char *pin, bool *has)
{
    static const char code[] =
        "import sys, urllib.parse, urllib.request\n"
        "name, version = sys.argv[2].split('==')\n"
        "page = urllib.request.urlopen(sys.argv[1].rstrip('/') + '/' + name + '/', timeout=4).read().decode()\n"
        "sys.exit('%s-%s+cpu' % (name, version) not in urllib.parse.unquote(page))";
    const char *const argv[] = {n->python, "-I", "-c", code, index, pin, NULL};
    command_result said;
    const brasa_status status = command_run(p->ctx, &(command){.argv = argv, .seconds = reach_seconds}, &said);
    *has = status == BRASA_OK && said.code == 0 && !said.late;
    return status;
}

/* Builds for the CPU alone, which are smaller, where they are of use and can be had. */
static brasa_status choose_index(pool *p, const char *text, bool gpu, install_plan *out)
{
    const char *other = lock_says(p, text, "cpu-index"), *named = getenv("BRASA_CPU_INDEX"),
               *pin = first_pin(p, text);
    const char *index = named && *named ? named : other;
    bool has = false;
    out->bytes = read_size(lock_says(p, text, "disk"));
    if (!other || !pin || gpu || strcmp(index, "off") == 0)
        return BRASA_OK;
    const brasa_status status = index_has(p, out, index, pin, &has);
    if (has) {
        out->index = index;
        out->bytes = read_size(lock_says(p, text, "cpu-disk"));
    }
    return status;
}

/* Of the folder, or of the first one above it that there is. */
static int64_t room_at(pool *p, const char *folder)
{
    struct statvfs s;
    char *path = pool_text(p, "%s", folder);
    while (path && statvfs(path, &s) != 0) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path)
            return -1;
        *slash = '\0';
    }
    return path ? (int64_t)s.f_bavail * (int64_t)s.f_frsize : -1;
}

static brasa_status set_places(pool *p, bool gpu, install_plan *out)
{
    const char *lab = NULL;
    brasa_status status = peers_folder(p, &out->parent);
    if (status == BRASA_OK)
        status = peers_lab(p, &lab);
    if (status == BRASA_OK)
        status = made(p, out->place = pool_text(p, "%s/%s", out->parent, out->def->name));
    if (status == BRASA_OK)
        status = made(p, out->lock = pool_text(p, "%s/%s.gpu.lock", lab, out->def->name));
    out->gpu = status == BRASA_OK && gpu && access(out->lock, F_OK) == 0;
    if (status == BRASA_OK && !out->gpu)
        status = made(p, out->lock = pool_text(p, "%s/%s.lock", lab, out->def->name));
    return status;
}

brasa_status install_prepare(pool *p, const peer_def *def, const char *device, install_plan *out)
{
    char *text = NULL;
    const bool gpu = wants_gpu(device);
    *out = (install_plan){.def = def};
    if (!def->module)
        return fail(p->ctx, BRASA_BAD_ARGUMENT, "%s is this program", def->name);
    if (def->elsewhere)
        return fail(p->ctx, BRASA_NOT_FOUND, "%s cannot be installed: %s", def->name, def->elsewhere);
    brasa_status status = set_places(p, gpu, out);
    if (status != BRASA_OK || (out->there = access(out->place, F_OK) == 0))
        return status;
    if ((status = read_lock(p, out->lock, &text)) != BRASA_OK)
        return status;
    const char *versions = lock_says(p, text, "python");
    if (!versions)
        return fail(p->ctx, BRASA_BAD_FILE, "%s: has no line '# python: VERSIONS'", out->lock);
    status = find_python(p, versions, out);
    if (status == BRASA_OK)
        status = choose_index(p, text, gpu, out);
    out->available = room_at(p, out->parent);
    if (status == BRASA_OK && out->available >= 0 && out->available < out->bytes)
        status =
            fail(p->ctx, BRASA_BAD_FILE, "%s takes %s, and %s has room for %s", def->name,
                 numeric_bytes((double)out->bytes).text, out->parent, numeric_bytes((double)out->available).text);
    return status;
}

/* --- folders --------------------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st;
    (void)f;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static brasa_status make_folder(brasa_context *ctx, const char *path)
{
    char copy[4096];
    if (snprintf(copy, sizeof copy, "%s/", path) >= (int)sizeof copy)
        return fail(ctx, BRASA_BAD_ARGUMENT, "%.100s...: too long a path", path);
    for (char *slash = copy + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            return fail(ctx, BRASA_BAD_FILE, "%s: %s", copy, strerror(errno));
        *slash = '/';
    }
    return BRASA_OK;
}

/* One of us at a time works in the folder, so what is hidden there was left by one that was killed. */
static brasa_status enter(pool *p, const char *parent, const char *name, int *lock)
{
    brasa_status status = make_folder(p->ctx, parent);
    const char *path = pool_text(p, "%s/.lock", parent), *left = pool_text(p, "%s/.%s-??????", parent, name);
    glob_t found;
    if (status == BRASA_OK && (!path || !left))
        status = made(p, NULL);
    if (status != BRASA_OK)
        return status;
    *lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*lock < 0)
        return fail(p->ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
    if (flock(*lock, LOCK_EX | LOCK_NB) != 0) {
        close(*lock);
        return fail(p->ctx, BRASA_WRONG_STATE, "%s: another `brasa lab install` is at work there", parent);
    }
    if (glob(left, GLOB_PERIOD, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            remove_tree(found.gl_pathv[i]);
        globfree(&found);
    }
    return BRASA_OK;
}

/* --- doing it -------------------------------------------------------------------------------------------------- */

typedef struct job {
    pool *p;
    const install_plan *plan;
    const install_watch *watch;
    const char *doing;
    char *folder; /* the hidden one */
    const char *python, *log_path;
    FILE *log;
} job;

static bool heard(void *user, const char *line)
{
    const job *j = user;
    return !j->watch->heard || j->watch->heard(j->watch->user, j->doing, line);
}

static brasa_status run(job *j, const char *doing, const char *const *argv, double seconds)
{
    command_result said;
    j->doing = doing;
    const command c = {.argv = argv, .seconds = seconds, .log = j->log, .heard = heard, .user = j};
    const brasa_status status = command_run(j->p->ctx, &c, &said);
    if (status != BRASA_OK || (said.code == 0 && !said.stopped && !said.late))
        return status;
    if (said.stopped)
        return fail(j->p->ctx, BRASA_WRONG_STATE, "%s: stopped", j->plan->def->name);
    return fail(j->p->ctx, BRASA_BAD_FILE, "%s: %s: %.300s (all of it: %s)", j->plan->def->name, doing,
                said.late      ? "took too long"
                : said.last[0] ? said.last
                               : "it failed",
                j->log_path);
}

static brasa_status fill(job *j)
{
    const install_plan *n = j->plan;
    const char *const venv[] = {n->python, "-I", "-m", "venv", j->folder, "--prompt", n->def->name, NULL};
    const char *const pip[] = {j->python,    "-I",
                               "-m",         "pip",
                               "install",    "--disable-pip-version-check",
                               "--no-input", "--progress-bar",
                               "off",        "-r",
                               n->lock,      n->index ? "--extra-index-url" : NULL,
                               n->index,     NULL};
    const char *const try[] = {j->python, "-I", "-c", "import sys; __import__(sys.argv[1])", n->def->module, NULL};
    brasa_status status = run(j, "making the environment", venv, try_seconds);
    if (status == BRASA_OK)
        status = run(j, "pip", pip, 0);
    if (status == BRASA_OK)
        status = run(j, "importing it", try, try_seconds);
    return status;
}

/* --- paths in it ----------------------------------------------------------------------------------------------- */

/* A text in which one path stands for another; NULL: out of memory. */
static char *with_path(pool *p, const char *text, const char *from, const char *to, size_t *length)
{
    size_t count = 0, used = 0;
    for (const char *at = text; (at = strstr(at, from)); at += strlen(from))
        count++;
    char *out = pool_get(p, strlen(text) + count * strlen(to) + 1, 1);
    for (const char *at = text; out && *at;) {
        const bool found = strncmp(at, from, strlen(from)) == 0;
        memcpy(out + used, found ? to : at, found ? strlen(to) : 1);
        used += found ? strlen(to) : 1;
        at += found ? strlen(from) : 1;
    }
    *length = used;
    return out;
}

/* Programs that are no text, and links to them, have no path in them. */
static brasa_status move_file(pool *p, const char *path, const char *from, const char *to)
{
    struct stat st;
    char *text = NULL;
    size_t length = 0, bytes = 0;
    replacement r;
    if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > MAX_SCRIPT)
        return BRASA_OK;
    brasa_status status = lab_read_file(p, path, &text, &length);
    if (status != BRASA_OK || memchr(text, '\0', length) || !strstr(text, from))
        return status;
    const char *moved = with_path(p, text, from, to, &bytes);
    if (!moved)
        return made(p, NULL);
    status = replace_begin(&r, p->ctx, path);
    if (status == BRASA_OK)
        status = replace_write(&r, moved, bytes);
    return replace_end(&r, status);
}

/* venv and pip write the folder's name into scripts (bin/pip, bin/activate): they get the one that it will have. */
static brasa_status move_paths(job *j)
{
    static const char *const where[] = {"bin/*", "pyvenv.cfg"};
    brasa_status status = BRASA_OK;
    for (int i = 0; i < 2 && status == BRASA_OK; i++) {
        pool p = {.ctx = j->p->ctx};
        const char *pattern = pool_text(&p, "%s/%s", j->folder, where[i]);
        glob_t found;
        status = made(&p, pattern);
        if (status == BRASA_OK && glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
            for (size_t k = 0; k < found.gl_pathc && status == BRASA_OK; k++)
                status = move_file(&p, found.gl_pathv[k], j->folder, j->plan->place);
            globfree(&found);
        }
        pool_free(&p);
    }
    return status;
}

/* Makes it in the hidden folder, and puts it in place. */
static brasa_status work(job *j)
{
    const install_plan *n = j->plan;
    if (!(j->log = fopen(j->log_path, "we")))
        return fail(j->p->ctx, BRASA_BAD_FILE, "%s: %s", j->log_path, strerror(errno));
    brasa_status status = fill(j);
    fclose(j->log);
    if (status == BRASA_OK)
        status = move_paths(j);
    if (status == BRASA_OK && rename(j->folder, n->place) != 0)
        status = fail(j->p->ctx, BRASA_BAD_FILE, "%s: %s", n->place, strerror(errno));
    if (status == BRASA_OK)
        unlink(j->log_path);
    return status;
}

brasa_status install_run(pool *p, const install_plan *plan, const install_watch *w, peer *out)
{
    job j = {.p = p, .plan = plan, .watch = w};
    int lock = -1;
    brasa_status status = enter(p, plan->parent, plan->def->name, &lock);
    if (status != BRASA_OK)
        return status;
    j.folder = pool_text(p, "%s/.%s-XXXXXX", plan->parent, plan->def->name);
    j.log_path = pool_text(p, "%s/%s.log", plan->parent, plan->def->name);
    if (!j.folder || !j.log_path)
        status = made(p, NULL);
    else if (!mkdtemp(j.folder))
        status = fail(p->ctx, BRASA_BAD_FILE, "%s: %s", j.folder, strerror(errno));
    else if (!(j.python = pool_text(p, "%s/bin/python", j.folder)))
        status = made(p, NULL);
    if (status == BRASA_OK) {
        status = work(&j);
        if (status != BRASA_OK)
            remove_tree(j.folder);
    }
    close(lock);
    *out = (peer){.def = plan->def, .variant = "", .python = pool_text(p, "%s/bin/python", plan->place)};
    return status == BRASA_OK ? peer_ask(p, out) : status;
}

brasa_status install_remove(pool *p, const peer_def *def)
{
    install_plan n = {.def = def};
    int lock = -1;
    brasa_status status = set_places(p, false, &n);
    if (status == BRASA_OK && access(n.place, F_OK) != 0)
        return fail(p->ctx, BRASA_NOT_FOUND, "%s is not installed in %s", def->name, n.parent);
    if (status == BRASA_OK)
        status = enter(p, n.parent, def->name, &lock);
    if (status != BRASA_OK)
        return status;
    char *hidden = pool_text(p, "%s/.%s-XXXXXX", n.parent, def->name);
    if (!hidden)
        status = made(p, NULL);
    else if (!mkdtemp(hidden) || rename(n.place, hidden) != 0) /* over an empty folder */
        status = fail(p->ctx, BRASA_BAD_FILE, "%s: %s", n.place, strerror(errno));
    if (hidden)
        remove_tree(hidden);
    close(lock);
    return status;
}
