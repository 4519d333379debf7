/* main.c - the program `brasa`: a table of verbs, and the way to one of them.
 *
 * Exit codes: 0 done, 1 failed, 2 misused (an unknown verb or option, a number out of range), 130 a training that
 * Ctrl-C stopped.
 */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"
#include "environment.h"

#include "core/nearest.h"
#include "core/threads.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const verb verbs[] = {
    {
        .name = "models",
        .run = run_models,
        .summary = "the networks that come with brasa",
        .words = "",
        .options = "json",
        .details = "Parameters are counted at the default number of classes, layers are those with "
                   "weights: convolutions and dense layers. `brasa help models` tells how to write a "
                   "network of your own.",
        .examples = "brasa models\nbrasa models --json",
    },
    {
        .name = "train",
        .run = run_train,
        .summary = "learns from data, and keeps an account of it",
        .words = "MODEL|FILE.net",
        .max_words = 1,
        .options = "batch class-weights clip-norm data deterministic device dialect epochs fold folds freeze json "
                   "keep mem no-augment no-shuffle no-stratify no-tune optimizer out patience precision preset "
                   "profile quiet "
                   "resume save-every schedule seed skip-bad split threads transform weights",
        .details =
            "Settings, figures of every epoch, checkpoints, weights and a report go into the run's folder. "
            "Ctrl-C stops after the step; --resume goes on from there, with the same result as if nothing "
            "had been. Without --split a set's own test part tests, and where there is none, all samples "
            "train. Without --optimizer it is " TRAIN_OPTIMIZER ". Pictures that do not have the "
            "network's size are resized, cropped and mirrored as the first study did, unless --transform "
            "says otherwise. --weights may be of another number of classes: the last layer then starts "
            "anew. With --mem, fewer decoded pictures are kept, and a batch that does not fit is computed in "
            "micro-batches, with the same result; batch norm does not allow that, and the training is refused. "
            "On a GPU --mem is of its memory; without it, it is all that is free there. A run may go on "
            "elsewhere: --resume RUN --device cpu. --profile tells at the end where the time of some steps "
            "went, by kernel, "
            "and profile.txt in the run's folder by node too.",
        .examples = "brasa train mnist_cnn --data synth:digits --epochs 3\n"
                    "brasa train --preset mnist --data idx:DIR\n"
                    "brasa train resnet18 --data images:DIR --split 70/30 --weights FILE\n"
                    "brasa train letter_mlp --data csv:FILE,label=1 --folds 10 --json\n"
                    "brasa train resnet50 --data images:DIR --device cuda --precision bf16\n"
                    "brasa train --resume RUN",
    },
    {
        .name = "eval",
        .run = run_eval,
        .summary = "how well a run's weights do",
        .words = "RUN",
        .min_words = 1,
        .max_words = 1,
        .options = "batch data device fold json mem precision split threads",
        .details = "On the samples that the run tested on, which is refused where its data have changed, or on "
                   "those of --data: its test part, all of it, or what --split leaves to test on. A run with folds "
                   "needs --fold. With --mem, batches are as small "
                   "as it takes to fit. In place of RUN, a weights file is enough with --data: it holds network, "
                   "classes and transform.",
        .examples = "brasa eval RUN\nbrasa eval RUN --data images:DIR --split all --json\n"
                    "brasa eval weights.safetensors --data images:DIR",
    },
    {
        .name = "predict",
        .run = run_predict,
        .summary = "what a run's weights see in pictures",
        .words = "RUN IMAGE...",
        .min_words = 2,
        .max_words = MAX_WORDS,
        .options = "device fold json precision threads top",
        .details = "In place of RUN, a run's weights file is enough: it holds network, classes and transform.",
        .examples = "brasa predict RUN photo.jpg\nbrasa predict RUN *.png --top 5 --json\n"
                    "brasa predict weights.safetensors photo.jpg",
    },
    {
        .name = "runs",
        .run = run_runs,
        .summary = "the runs there are, and what came of them",
        .words = "[DIR]",
        .max_words = 1,
        .options = "json",
        .details = "Of the folder given, or of runs.",
        .examples = "brasa runs\nbrasa runs elsewhere --json",
    },
    {
        .name = "explain",
        .run = run_explain,
        .summary = "every step of a network: kernel, memory, time",
        .words = "MODEL|FILE.net",
        .min_words = 1,
        .max_words = 1,
        .options = "batch classes device dialect eval json no-fusion no-tune optimizer precision profile quiet seed "
                   "threads tuned",
        .details = "Shows the program that a training step runs: forward, gradients and updates. "
                   "Where several kernels can do a node, those are shown that were the fastest when a "
                   "training, a benchmark or --tuned timed them here; --tuned lists what each took. On a GPU it "
                   "lists what cuDNN and cuBLASLt were asked for, how many engines they had for it, alone and with "
                   "what follows fused, and which one won. "
                   "A dialect line in a file wins over --dialect.",
        .examples = "brasa explain mnist_cnn --batch 64\n"
                    "brasa explain my.net --batch 64 --profile 20\n"
                    "brasa explain resnet50 --batch 32 --tuned\n"
                    "brasa explain resnet50 --batch 100 --device cuda --precision bf16 --tuned\n"
                    "brasa explain letter_mlp --eval --json",
    },
    {
        .name = "plan",
        .run = run_plan,
        .summary = "what a training needs, and which batch fits",
        .words = "MODEL|FILE.net",
        .min_words = 1,
        .max_words = 1,
        .options = "batch class-weights classes clip-norm data deterministic device dialect fold folds freeze json "
                   "mem no-augment no-tune optimizer precision schedule skip-bad split threads transform",
        .details =
            "Memory is planned before the first step, so it is known to the byte: one "
            "allocation that holds all of it, the last 64 bytes for alignment. Activations, "
            "gradients and workspace share memory as they come and go; they are shown as "
            "they are at the fullest step. Kernels are those that were timed here before, or the first "
            "ones that fit: nothing is timed for a plan. A network without batch norm can train on a large "
            "batch in micro-batches, one after the other, with the result of the whole batch. With --data the "
            "answer is what `brasa train` will take with the same options; kept are decoded pictures, which "
            "give way where memory is short. Without it the loader is that for samples of the network's size "
            "in files, a batch that trains and one that tests. With --device the answer is for a GPU's memory: "
            "--mem, or what is free there.",
        .examples = "brasa plan resnet50 --batch 32\n"
                    "brasa plan resnet50 --data images:DIR --split 70/30 --mem 4G\n"
                    "brasa plan vgg16 --batch 100 --mem 2G --optimizer \"sgd momentum=0.9\"\n"
                    "brasa plan my.net --batch 64 --mem 500M --json",
    },
    {
        .name = "bench step",
        .run = run_bench_step,
        .summary = "time of a training step",
        .words = "MODEL|FILE.net",
        .min_words = 1,
        .max_words = 1,
        .options = "batch classes device dialect json kernels no-tune precision quiet seconds seed steps threads",
        .details =
            "Kernels are timed and chosen first. One step copies a batch of made-up data in, computes loss "
            "and gradients, and "
            "updates the weights with SGD, rate 0.001, momentum 0.9; all of it is timed. The "
            "first two steps are not counted; then at least 3 are, and as many as fit --seconds "
            "(5). Start is from that of the process to the end of the first step. The spread is that of the "
            "middle half: third quartile minus first. On a GPU the batch lies in its memory, and five steps at "
            "a time are waited for where batches are below 32, unless --steps is given. GFLOP/s counts the "
            "operations of the layers' formulas, whatever the kernels do to save some.",
        .examples = "brasa bench step mnist_cnn --batch 64\n"
                    "brasa bench step my.net --batch 8 --threads 1 --steps 50 --json",
    },
    {
        .name = "bench ops",
        .run = run_bench_ops,
        .summary = "time of every kernel over the cases of its op",
        .words = "[OP [INPUTS SETTINGS]]",
        .max_words = 3,
        .options = "batch classes device dialect json kernels no-tune precision quiet seconds seed steps sum threads",
        .details = "Median of at least 5 runs of a node in a row, 3 of a long one, and as many as fit --seconds "
                   "(0.03). GB/s counts "
                   "what must be read and written once. The cases are those that the tests prove, or the "
                   "one that is given, as shapes and as settings, without the reference kernels, and with gradients "
                   "and updates that are one node in a training timed apart, too; with --kernels, on kernels of that "
                   "name alone. "
                   "With --sum each node of that network's training step is run several times in a row "
                   "(--steps, 5) on the step's own data; the sum of the medians is what the step would take if "
                   "the kernels did not get in each other's way, and the step itself stands beside it. With "
                   "--kernels a node that has several of that name counts with the fastest of them. On a GPU the "
                   "floor of the step is told, too: its convolutions and dense layers alone, by the fastest of our "
                   "and the libraries' kernels, and what the other nodes read and write once, at the bandwidth of a "
                   "copy.",
        .examples = "brasa bench ops\nbrasa bench ops dense --threads 1\n"
                    "brasa bench ops conv2d 32x64x56x56 \"64 3x3 pad=1\"\n"
                    "brasa bench ops --sum resnet50 --batch 32\n"
                    "brasa bench ops --sum resnet50 --batch 32 --kernels onednn\n"
                    "brasa bench ops --sum resnet50 --batch 100 --device cuda --precision bf16",
    },
    {
        .name = "bench peak",
        .run = run_bench_peak,
        .summary = "the most that this machine can compute",
        .words = "",
        .options = "json seconds threads",
        .details = "Multiply-adds on registers in all threads, for --seconds (0.5): what no kernel can "
                   "exceed, and what a measurement beside it can be compared with.",
        .examples = "brasa bench peak\nbrasa bench peak --threads 1 --json",
    },
    {
        .name = "data info",
        .run = run_data_info,
        .summary = "what a data set holds, and what is wrong with it",
        .words = "DATA",
        .min_words = 1,
        .max_words = 1,
        .options = "json quiet",
        .details = "Reads every sample: counts, classes, sizes, a hash that names the data, and "
                   "warnings: files that cannot be read, classes out of balance, duplicates. "
                   "`brasa help data` tells how to write DATA.",
        .examples = "brasa data info images:photos\nbrasa data info synth:fire --json",
    },
    {
        .name = "data make",
        .run = run_data_make,
        .summary = "write a drawn data set as files",
        .words = "DATA DIR",
        .min_words = 2,
        .max_words = 2,
        .options = "quiet",
        .details = "DATA is a drawn set (synth:...). The folder must be new or empty; the files "
                   "are of the real set's format. Prints what to open it by.",
        .examples = "brasa data make synth:fire,n=6003 photos\nbrasa data make synth:digits digits",
    },
    {
        .name = "data get",
        .run = run_data_get,
        .summary = "download mnist, cifar10, cifar100 or letter",
        .words = "NAME DIR",
        .min_words = 2,
        .max_words = 2,
        .options = "from quiet",
        .details = "Files are checked against their known SHA-256. What is there is not "
                   "downloaded again, what was cut off goes on where it stopped. Prints what to "
                   "open it by.",
        .examples = "brasa data get mnist mnist",
    },
    {
        .name = "lab peers",
        .run = run_lab_peers,
        .summary = "frameworks to compare: which are here, and the rest",
        .words = "",
        .options = "json peers",
        .details = "Each is looked for in its folder below $BRASA_PEERS (~/.local/share/brasa/peers), where "
                   "`brasa lab install` puts it; --peers NAME=PYTHON names another Python that has it.",
        .examples = "brasa lab peers\nbrasa lab peers --peers pytorch=/opt/torch/bin/python --json",
    },
    {
        .name = "lab install",
        .run = run_lab_install,
        .summary = "an environment of its own for a framework",
        .words = "NAME...",
        .min_words = 1,
        .max_words = 16,
        .options = "device quiet remove yes",
        .means = {{"device", "NAME", "what the build is for: cpu or cuda (cuda where there is a GPU)"}},
        .details =
            "From PyPI, in the versions of NAME.lock or, where there is a GPU, of NAME.gpu.lock; --device cpu or "
            "cuda chooses. The environment is made beside its "
            "place, tried, and only then put there: what fails leaves nothing but a log. pip's own settings "
            "count, such as PIP_INDEX_URL.",
        .examples = "brasa lab install pytorch tensorflow\nbrasa lab install jax --yes\n"
                    "brasa lab install mxnet --remove",
    },
    {
        .name = "lab run",
        .run = run_lab_run,
        .summary = "one experiment on every framework that is here",
        .words = "PRESET|FILE",
        .max_words = 1,
        .options = "data out peers price-per-hour quiet resume retry scale store",
        .means = {{"data", "SETS", "in place of the experiment's: \"mnist=idx:DIR letter=csv:FILE,label=1\""},
                  {"out", "FILE", "where the page goes (beside the store)"},
                  {"resume", "CAMPAIGN", "go on with one that was stopped: a number or name of `brasa lab list`"}},
        .details =
            "First every peer learns three given batches: who does not do the same as Brasa is not timed, and its "
            "row says why. Then all cells, each peer in a process of its own, watched from outside, in an order "
            "that is drawn anew for each repeat. Ends with the verdict and a page. What is stopped goes on with "
            "--resume, on the same data and with the same peers, unless --peers names others; `brasa help "
            "experiments` "
            "tells of presets and files. The exit code is 1 where nobody got through.",
        .examples = "brasa lab run quick\nbrasa lab run study1-cpu --scale small --peers brasa,pytorch\n"
                    "brasa lab run --resume study1-cpu",
    },
    {
        .name = "lab report",
        .run = run_lab_report,
        .summary = "what a campaign of the lab came to, as a page",
        .words = "[CAMPAIGN]",
        .max_words = 1,
        .options = "csv json markdown out price-per-hour store",
        .means = {{"out", "FILE", "where the page goes (beside the store)"}},
        .details = "CAMPAIGN is a number or a name from `brasa lab list`: of several with a name the newest, without "
                   "one the newest of all. Prints the verdict and the path of the page, which is written beside the "
                   "store unless --out names a file. With --csv, --json or --markdown no page is written. "
                   "--price-per-hour takes the place of the price that the campaign was run with.",
        .examples = "brasa lab report\nbrasa lab report study1-cpu --out study1.html\nbrasa lab report 3 --csv",
    },
    {
        .name = "lab list",
        .run = run_lab_list,
        .summary = "the campaigns that the lab has run",
        .words = "",
        .options = "json store",
        .examples = "brasa lab list\nbrasa lab list --store results.db --json",
    },
    {
        .name = "lab reference",
        .run = run_lab_reference,
        .summary = "what the studies published, and what is wrong with it",
        .words = "[study1|study2|study3]",
        .max_words = 1,
        .options = "json markdown",
        .details = "study1: MXNet, Paddle, PyTorch, SINGA and TensorFlow on photos of fire. study2: Caffe and "
                   "TensorFlow over batch sizes. study3: TensorFlow, Theano and PyTorch on MNIST, CIFAR and Letter. "
                   "The alarms are those that the lab raises over a user's own numbers.",
        .examples = "brasa lab reference study1\nbrasa lab reference --json",
    },
    {
        .name = "lab runner",
        .run = run_lab_runner,
        .summary = "one run of the lab, as any framework's runner does it",
        .words = "EXPERIMENT.json",
        .min_words = 1,
        .max_words = 1,
        .options = "no-tune",
        .details = "For the lab, which writes the file and reads what is printed: one JSON object a line, up to "
                   "\"done\", \"refused\" or \"failed\". Brasa is asked in the same way as all others.",
        .examples = "brasa lab runner experiment.json",
    },
    {
        .name = "dialects",
        .run = run_dialects,
        .summary = "what frameworks disagree on, and whom to follow",
        .words = "",
        .options = "json markdown",
        .examples = "brasa dialects",
    },
    {
        .name = "doctor",
        .run = run_doctor,
        .summary = "what this build and this machine have",
        .words = "",
        .options = "json",
        .examples = "brasa doctor",
    },
    {
        .name = "help",
        .run = run_help,
        .summary = "on a verb, or on a topic such as layers or environment",
        .words = "[VERB|TOPIC]",
        .max_words = 2,
        .options = "",
        .details = "Topics: layers, optimizers, models and data are what networks are made of and learn from; "
                   "experiments are the lab's; environment lists the variables that are read.",
        .examples = "brasa help layers\nbrasa help bench step",
    },
};
enum { VERBS = sizeof verbs / sizeof verbs[0] };

const verb *verb_at(int index)
{
    return index >= 0 && index < VERBS ? &verbs[index] : NULL;
}

/* The verb that argv begins with; *words gets how many of them are its name. */
static const verb *find_verb(int argc, char **argv, int *words)
{
    for (int i = 0; i < VERBS; i++) {
        const char *blank = strchr(verbs[i].name, ' ');
        size_t length = blank ? (size_t)(blank - verbs[i].name) : strlen(verbs[i].name);
        if (strlen(argv[0]) != length || memcmp(argv[0], verbs[i].name, length) != 0)
            continue;
        *words = blank ? 2 : 1;
        if (!blank || (argc > 1 && strcmp(argv[1], blank + 1) == 0))
            return &verbs[i];
    }
    return NULL;
}

/* Word `argv[0]`, or a first word that wants a second one. */
static int refuse_verb(int argc, char **argv, bool wants_second)
{
    char words[64];
    if (wants_second && argc < 2)
        return complain(MISUSED, "%s: one more word is missing, see `brasa help %s`", argv[0], argv[0]);
    snprintf(words, sizeof words, wants_second ? "%s %s" : "%s", argv[0], wants_second ? argv[1] : "");
    nearest n = {.word = words};
    for (int i = 0; i < VERBS; i++)
        nearest_offer(&n, verbs[i].name);
    if (!wants_second && argv[0][0] == '-') {
        nearest_offer(&n, "--help");
        nearest_offer(&n, "--version");
    }
    const nearest_text hint = nearest_hint(&n);
    return complain(MISUSED, "unknown %s '%s'%s", argv[0][0] == '-' ? "option" : "verb", words,
                    hint.text[0] ? hint.text : ", see `brasa --help`");
}

/* Reads the options of a verb; NULL: it is not to run, and *code is the exit code. */
static const verb *read_options(const verb *v, int argc, char **argv, options *o, int *code)
{
    char error[OPTIONS_ERROR_SIZE];
    *code = DONE;
    if (!options_parse(o, v->options, argc, argv, error))
        *code = complain(MISUSED, "%s", error);
    else if (o->help)
        help_verb(v);
    else if (o->words < v->min_words)
        *code = complain(MISUSED, "%s: %s is missing", v->name, v->words);
    else if (o->words > v->max_words)
        *code = complain(MISUSED, "%s: unexpected '%s'", v->name, o->word[v->max_words]);
    if (*code != DONE || o->help)
        return NULL;
    environment_check();
    if (threads_granted((int)o->threads) < o->threads)
        complain(DONE, "note: --threads %d: OpenMP grants %d (OMP_THREAD_LIMIT, OMP_MAX_ACTIVE_LEVELS)",
                 (int)o->threads, threads_granted((int)o->threads));
    return v;
}

/* Finds the verb that is to run, with its options; NULL: there is none, and *code is the exit code. */
static const verb *read_arguments(int argc, char **argv, options *o, int *code)
{
    int words = 0;
    const verb *v = argc < 1 ? NULL : find_verb(argc, argv, &words);
    *code = DONE;
    if (v)
        return read_options(v, argc - words, argv + words, o, code);
    if (argc < 1) {
        help_short(stderr);
        *code = MISUSED;
    } else if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
        help_short(stdout);
    } else if (strcmp(argv[0], "--version") == 0) {
        printf("brasa %s\n", brasa_version());
    } else if (words == 2 && argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        *code = run_help(&(options){.word = {argv[0]}, .words = 1});
    } else {
        *code = refuse_verb(argc, argv, words == 2);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    options o;
    int code;
    clock_start();
    /* A reader that goes away (`| head`) is a failed write like any other, only that nobody needs to be told. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* so is a file that may not grow further */
    const verb *v = read_arguments(argc - 1, argv + 1, &o, &code);
    if (v)
        code = v->run(&o);
    bool bad = ferror(stdout) != 0;
    errno = 0;
    if ((fclose(stdout) != 0 || bad) && code == DONE)
        return errno == EPIPE
                   ? FAILED
                   : complain(FAILED, "standard output: %s", errno ? strerror(errno) : "could not be written");
    return code;
}
