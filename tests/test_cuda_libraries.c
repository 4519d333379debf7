/* test_cuda_libraries.c - which cuDNN and cuBLASLt are opened of several that are there, and what is said where none
 * will do: in a folder of its own, with libraries that stand in for them (fake/libraries.c). */
#define _GNU_SOURCE
#include "test.h"

#ifdef TEST_CUDA_HOST

#include "cudart.h" /* first: it has words that are types elsewhere */

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/shared.h"

#include "device/cuda/cudnn.h"
#include "device/cuda/libraries.h"

#include "heap.h"

/* --- what is not looked at here -------------------------------------------------------------------------------- */

void cuda_enter(const cuda_queue *q)
{
    (void)q;
}

/* --- places ---------------------------------------------------------------------------------------------------- */

#define PACKAGES "env/lib/python3.11/site-packages/nvidia/"
static const char *const kinds[] = {"good", "newer", "lacks", "older", "refuses", "wordy", "deaf"};
static char ground[40];

/* A path in the folder; the text holds until the fourth call from here. */
static const char *in_ground(const char *name)
{
    static char paths[4][200];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", ground, name);
    return path;
}

/* None of this machine's own is opened; what has no folder in its name is looked for in `system`. */
void *__real_shared_open(const char *path, const char **why);
void *__wrap_shared_open(const char *path, const char **why);
void *__wrap_shared_open(const char *path, const char **why)
{
    char at[200];
    snprintf(at, sizeof at, "%s%s%s", strchr(path, '/') ? "" : ground, strchr(path, '/') ? "" : "/system/", path);
    return strncmp(at, ground, strlen(ground)) == 0 ? __real_shared_open(at, why) : NULL;
}

/* The beginning of a file: less than what is loaded of it. */
static void cut(const char *from, const char *to)
{
    char command[1000];
    snprintf(command, sizeof command, "/usr/bin/head -c 5000 '%s' >'%s'", from, to);
    CHECK_INT(system(command), 0);
}

/* A library of some kind, "cut" off, or NULL for none, in a folder that is made. */
static void place(const char *kind, const char *name)
{
    char at[200], from[300];
    if (!kind)
        return;
    snprintf(at, sizeof at, "%s", in_ground(name));
    for (char *slash = strchr(at + strlen(ground) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(at, 0700);
        *slash = '/';
    }
    const bool part = strcmp(kind, "cut") == 0;
    snprintf(from, sizeof from, "%s/%s.so", TEST_FAKE_LIBRARIES, part ? "good" : kind);
    if (part)
        cut(from, at);
    else
        CHECK(symlink(from, at) == 0);
}

/* An empty folder, and an environment of Python in it. */
static void begin(void)
{
    static const char *const others[] = {"BRASA_CUDNN", "BRASA_CUBLASLT", "CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX"};
    snprintf(ground, sizeof ground, "/tmp/brasa-libraries-XXXXXX");
    if (!CHECK(mkdtemp(ground) != NULL))
        exit(1);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        unsetenv(others[i]);
    setenv("VIRTUAL_ENV", in_ground("env"), 1);
    setenv("HOME", in_ground("home"), 1);
    setenv("PATH", in_ground("bin"), 1);
}

static void end(void)
{
    char command[100];
    setenv("PATH", "/usr/bin:/bin", 1);
    snprintf(command, sizeof command, "rm -rf '%s'", ground);
    CHECK_INT(system(command), 0);
}

/* Handles of the stand-ins that are open. */
static int count_handles(void)
{
    int count = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%s.so", TEST_FAKE_LIBRARIES, kinds[i]);
        void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        const int *handles = file ? dlsym(file, "fake_handles") : NULL;
        if (CHECK(handles != NULL))
            count += *handles;
        if (file)
            dlclose(file);
    }
    return count;
}

/* --- tests ----------------------------------------------------------------------------------------------------- */

typedef struct opening {
    const char *what;
    const char *system, *packages; /* kinds: as the system finds it, and in the environment */
    const char *named;             /* by the user: a kind, or "off" */
    const char *about, *missing;   /* what is said, or "" */
} opening;

static void open_one(const opening *o, const char *system_name, const char *package, const char *variable,
                     void (*opens)(cuda_queue *, device *), void (*closes)(cuda_queue *))
{
    heap memory = {0};
    brasa_context *ctx;
    brasa_context_options options = {
        .size = sizeof options, .threads = 1, .alloc = heap_alloc, .release = heap_release, .user = &memory};
    begin();
    CHECK_STATUS(brasa_context_new(&options, &ctx), BRASA_OK);
    cuda_queue queue = {.ctx = ctx};
    device d = {.name = "cuda:0 NVIDIA GPU", .about = "driver", .missing = "nothing"};
    place(o->system, system_name);
    place(o->packages, package);
    if (o->named && strcmp(o->named, "off") != 0)
        place(o->named, "mine/library.so");
    else
        place("good", "system/off"); /* which is no name */
    if (o->named)
        setenv(variable, strcmp(o->named, "off") == 0 ? "off" : in_ground("mine/library.so"), 1);
    opens(&queue, &d);
    const bool opened = queue.cudnn || queue.cublaslt;
    CHECK(opened == (*o->about != '\0'));
    CHECK_INT(count_handles(), opened);
    CHECK_HAS(d.about, o->about);
    CHECK_HAS(d.missing, o->missing);
    CHECK_TEXT(*o->about ? d.missing : d.about, *o->about ? "nothing" : "driver");
    closes(&queue);
    CHECK(!queue.cudnn && !queue.cublaslt);
    CHECK_INT(count_handles(), 0);
    brasa_context_free(ctx);
    CHECK_INT(memory.live, 0);
    end();
}

/* What will not do is passed over; where nothing will, the reason is that of the first that was there; and what the
 * user names is the only one. */
TEST(cudnn)
{
#define COST ": convolutions are many times slower (pip install nvidia-cudnn-cu"
    static const opening rows[] = {
        {"nothing there", NULL, NULL, NULL, "", "nothing; no cuDNN 9" COST},
        {"the system's", "good", NULL, NULL, "driver, cuDNN 9.14.0", ""},
        {"an environment's", NULL, "newer", NULL, "driver, cuDNN 9.19.0", ""},
        {"both", "good", "newer", NULL, "driver, cuDNN 9.14.0", ""},
        {"functions are missing in one", "lacks", "newer", NULL, "driver, cuDNN 9.19.0", ""},
        {"one is too old", "older", "newer", NULL, "driver, cuDNN 9.19.0", ""},
        {"one does not start", "refuses", "newer", NULL, "driver, cuDNN 9.19.0", ""},
        {"one does not take the stream", "deaf", "newer", NULL, "driver, cuDNN 9.19.0", ""},
        {"none will do", "lacks", "refuses", NULL, "", "nothing; cuDNN is too old" COST},
        {"none will do, for another reason", "older", "lacks", NULL, "", "nothing; cuDNN is older than 9" COST},
        {"none starts", "refuses", "deaf", NULL, "", "nothing; cuDNN refuses" COST},
        {"none takes the stream", "deaf", NULL, NULL, "", "nothing; cuDNN is deaf" COST},
        {"named", "good", NULL, "newer", "driver, cuDNN 9.19.0", ""},
        {"named, and will not do", "good", "good", "lacks", "", "nothing; cuDNN is too old" COST},
        {"named, and is not whole", "good", "good", "cut", "",
         "nothing; what BRASA_CUDNN names cannot be opened" COST},
        {"named \"off\"", "good", "good", "off", "", "nothing; no cuDNN 9" COST},
        {"one is not whole", NULL, "cut", NULL, "", "nothing; no cuDNN 9" COST},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        open_one(&rows[i], "system/libcudnn.so.9", PACKAGES "cudnn/lib/libcudnn.so.9.1", "BRASA_CUDNN", cudnn_open,
                 cudnn_close);
    }
#undef COST
}

/* The same; and 13 comes before 12. */
TEST(cublaslt)
{
#define COST ": dense layers take several times as long"
    static const opening rows[] = {
        {"nothing there", NULL, NULL, NULL, "", "nothing; no cuBLASLt" COST},
        {"the system's", "good", NULL, NULL, "driver, cuBLASLt 13.1", ""},
        {"12", NULL, "older", NULL, "driver, cuBLASLt 12.1", ""},
        {"both", "good", "older", NULL, "driver, cuBLASLt 13.1", ""},
        {"functions are missing in 13", "lacks", "older", NULL, "driver, cuBLASLt 12.1", ""},
        {"13 does not start", "refuses", "older", NULL, "driver, cuBLASLt 12.1", ""},
        {"none will do", "lacks", "refuses", NULL, "", "nothing; cuBLASLt is too old" COST},
        {"none starts", "refuses", "lacks", NULL, "", "nothing; cuBLASLt refuses" COST},
        {"named", "good", NULL, "newer", "driver, cuBLASLt 13.2", ""},
        {"named, and will not do", "good", "good", "refuses", "", "nothing; cuBLASLt refuses" COST},
        {"named \"off\"", "good", "good", "off", "", "nothing; no cuBLASLt" COST},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        open_one(&rows[i], "system/libcublasLt.so.13", PACKAGES "cublas/lib/libcublasLt.so.12", "BRASA_CUBLASLT",
                 cublaslt_open, cublaslt_close);
    }
#undef COST
}

/* Why neither of them is there is told whole, however long their words; what is longer still takes no place from the
 * other. */
TEST(both_reasons)
{
    char name[300];
    begin();
    place("wordy", "system/libcudnn.so.9");
    place("wordy", "system/libcublasLt.so.13");
    brasa_context *ctx = context_of(0);
    cuda_queue queue = {.ctx = ctx};
    device d = {.name = "cuda:0 NVIDIA GPU"}, longer = d;
    cudnn_open(&queue, &d);
    cublaslt_open(&queue, &d);
    char both[400];
    snprintf(
        both, sizeof both,
        "CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING: convolutions are many times slower (pip install "
        "nvidia-cudnn-cu%d); the required functionality is missing on this architecture, or so it says: dense "
        "layers take several times as long",
        CUDART_VERSION / 1000);
    CHECK_TEXT(d.missing, both);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    library_missing(&longer, name, "", name);
    library_missing(&longer, name, "", "it takes long");
    CHECK_HAS(longer.missing, "xxx: xxx");
    CHECK_HAS(longer.missing, "xxx; xxx");
    CHECK_HAS(longer.missing, "xxx: it takes long");
    brasa_context_free(ctx);
    end();
}

/* Of several in a folder, too, the next one is tried. */
TEST(several_in_a_folder)
{
    begin();
    place("lacks", "mine/libcudnn.so.9");
    place("newer", "mine/libcudnn.so.9.19");
    setenv("BRASA_CUDNN", in_ground("mine"), 1);
    brasa_context *ctx = context_of(0);
    cuda_queue queue = {.ctx = ctx};
    device d = {.name = "cuda:0 NVIDIA GPU"};
    cudnn_open(&queue, &d);
    CHECK_TEXT(d.about, "cuDNN 9.19.0");
    if (queue.cudnn)
        CHECK_TEXT(queue.cudnn->machine, "NVIDIA GPU, cuDNN 9.19.0");
    cudnn_close(&queue);
    brasa_context_free(ctx);
    end();
}

/* Without memory of the host a GPU goes without the library. */
TEST(no_memory)
{
    heap memory = {0};
    brasa_context *ctx;
    brasa_context_options options = {
        .size = sizeof options, .threads = 1, .alloc = heap_alloc, .release = heap_release, .user = &memory};
    begin();
    place("good", "system/libcudnn.so.9");
    place("good", "system/libcublasLt.so.13");
    CHECK_STATUS(brasa_context_new(&options, &ctx), BRASA_OK);
    cuda_queue queue = {.ctx = ctx};
    device d = {.name = "cuda:0 NVIDIA GPU"};
    memory.fail_at = memory.calls + 1;
    cudnn_open(&queue, &d);
    memory.fail_at = memory.calls + 1;
    cublaslt_open(&queue, &d);
    CHECK(!queue.cudnn && !queue.cublaslt);
    CHECK_HAS(d.missing, "; no cuBLASLt");
    CHECK_INT(count_handles(), 0);
    brasa_context_free(ctx);
    CHECK_INT(memory.live, 0);
    end();
}

#else

TEST(libraries)
{
    SKIP("the headers of CUDA and cuDNN are not here");
}

#endif
