/* profile.c - see profile.h. */
#include "train/profile.h"
#include "core/replace.h"
#include "train/record.h"
#include "session/session.h"

#include <stdio.h>
#include <string.h>

enum { WARM_UP = 3 }; /* steps: a GPU records its program in the second one */

/* The text of a profile goes to a file, and its first part, by kernel, is kept for the end. */
typedef struct account {
    bool writes; /* else there is no file */
    replacement file;
    brasa_status status;
    char *text;
    size_t used, size;
} account;

static bool write_account(void *user, const char *text, size_t length)
{
    account *a = user;
    if (a->status == BRASA_OK && a->writes)
        a->status = replace_write(&a->file, text, length);
    const size_t fits = length < a->size - a->used ? length : a->size - a->used;
    memcpy(a->text + a->used, text, fits);
    a->used += fits;
    return a->status == BRASA_OK;
}

static brasa_status write_profile(training *t)
{
    enum { MOST_TEXT = 16 << 10 };
    unit *u = &t->unit;
    account a = {.writes = train_writes(t), .size = MOST_TEXT - 1, .text = pool_get(&u->pool, MOST_TEXT, 1)};
    const char *path = a.writes ? run_path(&u->pool, u->folder, PROFILE_FILE) : "";
    brasa_session_profile(u->session, false);
    if (!path || !a.text)
        return fail_memory(t->task.ctx, MOST_TEXT);
    if (a.writes)
        a.status = replace_begin(&a.file, t->task.ctx, path);
    if (a.status == BRASA_OK) {
        const brasa_status status = brasa_session_explain(u->session, BRASA_EXPLAIN_PROFILE, write_account, &a);
        a.status = a.status == BRASA_OK ? status : a.status;
    }
    a.status = a.writes ? replace_end(&a.file, a.status) : a.status;
    char *nodes = strstr(a.text, "\n\n");
    if (nodes)
        nodes[1] = '\0';
    u->profile = a.text;
    return a.status;
}

brasa_status profile_step(training *t)
{
    unit *u = &t->unit;
    const int64_t wanted = t->options.profile;
    if (!wanted || u->profile)
        return BRASA_OK;
    u->profiled++;
    if (u->profiled == WARM_UP)
        brasa_session_profile(u->session, true);
    return u->profiled == WARM_UP + wanted ? write_profile(t) : BRASA_OK;
}

brasa_status profile_end(training *t)
{
    unit *u = &t->unit;
    brasa_status status = BRASA_OK;
    if (!t->options.profile)
        return BRASA_OK;
    if (!u->profile && u->profiled > WARM_UP)
        status = write_profile(t);
    if (status != BRASA_OK)
        return status;
    if (u->profile)
        train_tell(t, BRASA_ON_PROFILE, NULL, u->profile);
    else
        train_say(t, BRASA_ON_NOTE, "--profile: there were too few steps, the first %d warm up", WARM_UP);
    return BRASA_OK;
}
