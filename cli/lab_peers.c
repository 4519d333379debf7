/* lab_peers.c - `brasa lab peers`: the frameworks that the lab compares, which of them are here, and how to get the
 * rest. */
#include "cli.h"

#include "lab/peers.h"

enum { NAME_COLUMNS = 11, VERSION_COLUMNS = 14 };

static void print_json(json *j, const peer *one)
{
    json_open(j, NULL, '{');
    json_text(j, "name", one->def->name);
    json_text(j, "title", one->def->title);
    json_text(j, "stands_for", one->def->role);
    json_text(j, "variants", one->def->variants);
    json_bool(j, "there", !one->why);
    json_text(j, "version", one->version);
    json_text(j, "python", one->python);
    json_text(j, "python_version", one->python_version);
    json_text(j, "runner", one->runner);
    json_text(j, "why", one->why);
    json_close(j, '}');
}

static void print_row(const peer *one)
{
    const int at = NAME_COLUMNS + 1 + VERSION_COLUMNS + 1;
    printf("%s %s ", print_fitted(one->def->name, NAME_COLUMNS, false).text,
           print_fitted(one->why ? "-" : one->version, VERSION_COLUMNS, false).text);
    wrapped(at, at, one->why ? one->why : one->python ? one->python : "this program");
}

static brasa_status show(pool *p, const options *o)
{
    peer *list;
    int count;
    json j = json_stdout();
    brasa_status status = peers_choose(p, o->peers, &list, &count);
    if (status != BRASA_OK)
        return status;
    if (o->json)
        json_open(&j, NULL, '[');
    else
        heading("%-*s %-*s where, or why not", NAME_COLUMNS, "peer", VERSION_COLUMNS, "version");
    for (int i = 0; i < count && status == BRASA_OK; i++) {
        status = list[i].why ? BRASA_OK : peer_ask(p, &list[i]);
        if (status == BRASA_OK && o->json)
            print_json(&j, &list[i]);
        else if (status == BRASA_OK)
            print_row(&list[i]);
    }
    if (o->json)
        json_close(&j, ']');
    return status;
}

int run_lab_peers(const options *o)
{
    brasa_context *ctx = NULL;
    if (brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &ctx) != BRASA_OK)
        return complain(FAILED, "out of memory");
    pool p = {.ctx = ctx};
    const brasa_status status = show(&p, o);
    int code = DONE;
    if (status != BRASA_OK)
        code = complain(status == BRASA_BAD_ARGUMENT || status == BRASA_NOT_FOUND ? MISUSED : FAILED, "%s",
                        brasa_context_error(ctx));
    pool_free(&p);
    brasa_context_free(ctx);
    return code;
}
