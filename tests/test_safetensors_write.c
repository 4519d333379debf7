/* test_safetensors_write.c - writing safetensors files under every kind of failure: the old file or the new one is
 * there, whole, and nothing else.
 *
 * write, fsync and rename are defined here, so that the library calls these: they pass on, fail, do half of it, or
 * kill the process, as the test says.
 */
#define _GNU_SOURCE
#include "counted.h"

#include "session/safetensors.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

AROUND_EACH(start, stop)

/* --- the calls of the system that can be made to fail -------------------------------------------------------- */

typedef enum trouble { NONE, FAILS, INTERRUPTED, HALF, KILL_BEFORE, KILL_AFTER } trouble;

static struct {
    trouble what;
    int at, calls; /* the call, of the three together, that it happens in, from 1 */
    int error;
} system_calls;

static trouble next_trouble(void)
{
    trouble t = ++system_calls.calls == system_calls.at ? system_calls.what : NONE;
    if (t == KILL_BEFORE)
        kill(getpid(), SIGKILL);
    if (t == FAILS || t == INTERRUPTED)
        errno = t == FAILS ? system_calls.error : EINTR;
    return t;
}

static void next_function(const char *name, void *function, size_t size)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, size); /* ISO C has no cast from an object's pointer to a function's */
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    static ssize_t (*next)(int, const void *, size_t);
    if (!next)
        next_function("write", &next, sizeof next);
    trouble t = next_trouble();
    if (t == FAILS || t == INTERRUPTED)
        return -1;
    ssize_t result = next(fd, data, t == HALF && bytes > 1 ? bytes / 2 : bytes);
    if (t == KILL_AFTER)
        kill(getpid(), SIGKILL);
    return result;
}

int fsync(int fd)
{
    static int (*next)(int);
    if (!next)
        next_function("fsync", &next, sizeof next);
    trouble t = next_trouble();
    if (t == FAILS || t == INTERRUPTED)
        return -1;
    int result = next(fd);
    if (t == KILL_AFTER)
        kill(getpid(), SIGKILL);
    return result;
}

int rename(const char *from, const char *to)
{
    static int (*next)(const char *, const char *);
    if (!next)
        next_function("rename", &next, sizeof next);
    trouble t = next_trouble();
    if (t == FAILS || t == INTERRUPTED)
        return -1;
    int result = next(from, to);
    if (t == KILL_AFTER)
        kill(getpid(), SIGKILL);
    return result;
}

enum { ELEMENTS = 3 * PIECE + 5 };
static int generation; /* of what is written: the numbers differ */

static void give(void *user, int tensor, int64_t first, int count, number *out)
{
    (void)user;
    for (int i = 0; i < count; i++) {
        if (tensor == 1)
            out[i].whole = generation;
        else
            out[i].real = (double)(first + i) + 0.5 * generation;
    }
}

static brasa_status write_generation(const char *path, int which)
{
    const tensor_entry tensors[] = {
        {.name = "odd \"one\"", .type = tensor_type_of(F32), .shape = shape_1(3)},
        {.name = "steps", .type = tensor_type_of(I64)},
        {.name = "large", .type = tensor_type_of(F32), .shape = shape_2(ELEMENTS, 1)},
        {.name = "double", .type = tensor_type_of(F64), .shape = shape_1(2)},
    };
    static const tensor_note notes[] = {{"epoch", "7"}, {"said", "\"so\"\n"}, {0}};
    generation = which;
    return safetensors_write(ctx, path, tensors, 4, notes, give, NULL, NULL);
}

/* The generation that a whole file holds, or -1. */
static int read_generation(const char *path)
{
    static number n[PIECE];
    safetensors *f = NULL;
    if (safetensors_open(ctx, path, &f) != BRASA_OK)
        return -1;
    const tensor_entry *steps = safetensors_find(f, "steps"), *large = safetensors_find(f, "large");
    const char *said = safetensors_note(f, "said");
    int found = -1;
    if (said && strcmp(said, "\"so\"\n") == 0 && !safetensors_note(f, "unsaid") && steps && large && f->count == 4 &&
        safetensors_read(f, steps, 0, 1, n) == BRASA_OK)
        found = (int)n[0].whole;
    for (int64_t first = 0; large && first < ELEMENTS; first += PIECE) {
        const int part = (int)(ELEMENTS - first < PIECE ? ELEMENTS - first : PIECE);
        if (safetensors_read(f, large, first, part, n) != BRASA_OK)
            found = -1;
        for (int i = 0; i < part; i++)
            if (n[i].real != (double)(first + i) + 0.5 * found)
                found = -1;
    }
    safetensors_close(f);
    return found;
}

TEST(writes)
{
    const char *path = in_folder("w.safetensors");
    CHECK_STATUS(write_generation(path, 1), BRASA_OK);
    CHECK_INT(read_generation(path), 1);
    CHECK_STATUS(write_generation(path, 2), BRASA_OK);
    CHECK_INT(read_generation(path), 2);

    size_t bytes;
    char *file = read_file(path, &bytes);
    REQUIRE(file);
    const size_t length = (size_t)(unsigned char)file[0] | (size_t)(unsigned char)file[1] << 8;
    CHECK(length % 8 == 0 && file[2] == 0 && file[7] == 0);
    file[8 + length] = '\0';
    CHECK_HAS(file + 8, "{\"__metadata__\":{\"format\":\"pt\",\"writer\":\"brasa ");
    static const char rest[] = "\"odd \\\"one\\\"\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[24,36]},"
                               "\"steps\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
                               "\"large\":{\"dtype\":\"F32\",\"shape\":[12293,1],\"data_offsets\":[36,49208]},"
                               "\"double\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[8,24]}}";
    CHECK_HAS(file + 8, rest);
    const char *padding = strrchr(file + 8, '}') + 1;
    CHECK(strlen(padding) < 8 && padding[strspn(padding, " ")] == '\0');
    CHECK_INT(bytes, 8 + length + 49208);
    free(file);

    CASE("in the current folder");
    char *before = getcwd(NULL, 0);
    if (before && chdir(folder) == 0) {
        CHECK_STATUS(write_generation("here.safetensors", 3), BRASA_OK);
        CHECK_INT(read_generation("here.safetensors"), 3);
        CHECK_INT(chdir(before), 0);
    }
    free(before);
    CASE("permissions stay");
    struct stat st = {0};
    CHECK_INT(chmod(path, 0640), 0);
    CHECK_STATUS(write_generation(path, 4), BRASA_OK);
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0640);
}

static void check_unwritable(const char *path, const char *said)
{
    CHECK_STATUS(write_generation(path, 9), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), path);
    CHECK_HAS(brasa_context_error(ctx), said);
}

TEST(refuses_to_write)
{
    const int files = files_there();
    CASE("no such folder");
    check_unwritable(in_folder("none/w.safetensors"), "No such file");
    CASE("a folder");
    check_unwritable(folder, "not a regular file");
    CASE("a pipe");
    const char *pipe_path = in_folder("pipe");
    if (mkfifo(pipe_path, 0600) == 0)
        check_unwritable(pipe_path, "not a regular file");
    remove(pipe_path);
    CASE("a name that nobody could read");
    const tensor_entry bad = {.name = "a\033[1m", .type = tensor_type_of(F32), .shape = shape_1(1)};
    CHECK_STATUS(safetensors_write(ctx, in_folder("x.safetensors"), &bad, 1, NULL, give, NULL, NULL), BRASA_BAD_FILE);
    CHECK_INT(files_there(), files);
}

/* Whatever call fails, the old file is whole and nothing is left beside it. */
TEST(each_call_fails)
{
    static const struct {
        const char *name;
        int error;
    } rows[] = {{"a full disk", ENOSPC}, {"a broken disk", EIO}, {"no more quota", EDQUOT}};
    const char *path = in_folder("old.safetensors");
    CHECK_STATUS(write_generation(path, 1), BRASA_OK);
    const int files = files_there();
    system_calls.calls = 0;
    CHECK_STATUS(write_generation(path, 1), BRASA_OK);
    const int calls = system_calls.calls; /* pieces of the file, fsync, rename, fsync of the folder */
    CHECK(calls >= 8);
    for (int row = 0; row < 3; row++) {
        for (int at = 1; at <= calls; at++) {
            CASE("%s in call %d", rows[row].name, at);
            system_calls.what = FAILS;
            system_calls.error = rows[row].error;
            system_calls.at = at;
            system_calls.calls = 0;
            CHECK_STATUS(write_generation(path, 2 + row), BRASA_BAD_FILE);
            CHECK_HAS(brasa_context_error(ctx), strerror(rows[row].error));
            system_calls.what = NONE;
            CHECK_INT(read_generation(path), at < calls ? 1 : 2 + row); /* the folder's sync comes after the rename */
            CHECK_INT(files_there(), files);
            CHECK_STATUS(write_generation(path, 1), BRASA_OK);
        }
    }
    for (int at = 1; at <= calls; at++) {
        for (trouble t = INTERRUPTED; t <= HALF; t++) {
            CASE("%s in call %d", t == HALF ? "half is written" : "a signal", at);
            if (t == INTERRUPTED && at == calls - 1)
                continue; /* rename is not interrupted by signals */
            system_calls.what = t;
            system_calls.at = at;
            system_calls.calls = 0;
            CHECK_STATUS(write_generation(path, at), BRASA_OK);
            system_calls.what = NONE;
            CHECK_INT(read_generation(path), at);
        }
    }
}

/* Runs the writing in a process of its own; returns how it ended. */
static int write_in_child(const char *path, int which, trouble what, int at, rlim_t most)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        const struct rlimit limit = {most, most};
        if (most != RLIM_INFINITY && setrlimit(RLIMIT_FSIZE, &limit) != 0)
            _exit(9);
        system_calls.what = what;
        system_calls.at = at;
        system_calls.calls = 0;
        _exit((int)write_generation(path, which));
    }
    int how = -1;
    while (waitpid(child, &how, 0) < 0 && errno == EINTR)
        continue;
    return how;
}

/* kill -9 at every point: there is the old file or the new one, never half of one. */
TEST(killed)
{
    const char *path = in_folder("killed.safetensors");
    CHECK_STATUS(write_generation(path, 1), BRASA_OK);
    system_calls.calls = 0;
    CHECK_STATUS(write_generation(path, 1), BRASA_OK);
    const int calls = system_calls.calls;
    for (int at = 1; at <= calls; at++) {
        for (trouble t = KILL_BEFORE; t <= KILL_AFTER; t++) {
            CASE("%s call %d", t == KILL_BEFORE ? "before" : "after", at);
            const int how = write_in_child(path, 2, t, at, RLIM_INFINITY);
            CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
            const bool renamed = at == calls || (at == calls - 1 && t == KILL_AFTER);
            CHECK_INT(read_generation(path), renamed ? 2 : 1);
            CHECK_STATUS(write_generation(path, 1), BRASA_OK); /* what is left behind is not in the way */
            CHECK_INT(read_generation(path), 1);
        }
    }
}

/* --- floats --------------------------------------------------------------------------------------------------- */

static double number_of(int64_t i)
{
    return 1.0 / (double)(i + 3);
}

static void give_numbers(void *user, int tensor, int64_t first, int count, number *out)
{
    (void)user, (void)tensor;
    for (int i = 0; i < count; i++)
        out[i].real = number_of(first + i);
}

static void give_floats(void *user, int tensor, int64_t first, int64_t count, float *out)
{
    CHECK_INT(tensor, 1);
    CHECK(count <= FLOATS);
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)number_of(first + i);
    ++*(int *)user;
}

/* Floats as they lie in memory make the same file, and are read from any type. */
TEST(floats)
{
    const int64_t many = FLOATS + 5;
    const tensor_entry tensors[] = {
        {.name = "double", .type = tensor_type_of(F64), .shape = shape_1(PIECE + 7)},
        {.name = "float", .type = tensor_type_of(F32), .shape = shape_1(many)},
    };
    const char *const paths[] = {in_folder("numbers.safetensors"), in_folder("floats.safetensors")};
    float *read[2] = {0};
    int calls = 0;
    CHECK_STATUS(safetensors_write(ctx, paths[0], tensors, 2, NULL, give_numbers, NULL, NULL), BRASA_OK);
    CHECK_STATUS(safetensors_write(ctx, paths[1], tensors, 2, NULL, give_numbers, give_floats, &calls), BRASA_OK);
    CHECK_INT(calls, 2);
    for (int k = 0; k < 2; k++) {
        safetensors *f = NULL;
        read[k] = malloc((size_t)many * sizeof **read);
        REQUIRE(safetensors_open(ctx, paths[k], &f) == BRASA_OK);
        CHECK_STATUS(safetensors_read_floats(f, safetensors_find(f, "double"), 2, PIECE, read[k]), BRASA_OK);
        CHECK(read[k][0] == (float)number_of(2) && read[k][PIECE - 1] == (float)number_of(PIECE + 1));
        CHECK_STATUS(safetensors_read_floats(f, safetensors_find(f, "float"), 0, many, read[k]), BRASA_OK);
        CHECK(read[k][3] == (float)number_of(3) && read[k][many - 1] == (float)number_of(many - 1));
        safetensors_close(f);
    }
    CHECK(memcmp(read[0], read[1], (size_t)many * sizeof **read) == 0);
    free(read[0]);
    free(read[1]);
}

/* A limit of the file's size, which the kernel watches over as it does over a full disk. */
TEST(no_room)
{
    const char *path = in_folder("room.safetensors");
    CHECK_STATUS(write_generation(path, 1), BRASA_OK);
    const int files = files_there();
    for (rlim_t most = 0; most < 50000; most = most * 2 + 100) {
        CASE("%d bytes", (int)most);
        const int how = write_in_child(path, 2, NONE, 0, most);
        CHECK(WIFEXITED(how) && WEXITSTATUS(how) == BRASA_BAD_FILE);
        CHECK_INT(read_generation(path), 1);
        CHECK_INT(files_there(), files);
    }
    CASE("room enough");
    CHECK_INT(write_in_child(path, 2, NONE, 0, 60000), 0);
    CHECK_INT(read_generation(path), 2);
}
