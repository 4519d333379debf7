/* curl.c - downloading by libcurl, which is opened when it is needed: a program that downloads nothing starts without
 * it and its many libraries. Certificates are checked as libcurl does by default; only http and https are followed.
 */
#include "data/codec.h"
#include "data/make.h"

#include <dlfcn.h>
#include <string.h>

#include <curl/curl.h>

enum { CONNECT_SECONDS = 30, SILENT_SECONDS = 60 };

const char curl_version_text[] = "libcurl " LIBCURL_VERSION;

/* The functions of the library that are called; the pointers have the types of its header. */
typedef struct curl_library {
    void *handle;
    CURL *(*init)(void);
    CURLcode (*setopt)(CURL *curl, CURLoption option, ...);
    CURLcode (*perform)(CURL *curl);
    CURLcode (*getinfo)(CURL *curl, CURLINFO info, ...);
    const char *(*error)(CURLcode code);
    void (*cleanup)(CURL *curl);
} curl_library;

/* ISO C has no cast from an object's pointer to a function's. */
static bool find(const curl_library *c, const char *name, void *function)
{
    void *found = dlsym(c->handle, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static brasa_status open_library(brasa_context *ctx, curl_library *c)
{
    c->handle = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (c->handle && find(c, "curl_easy_init", &c->init) && find(c, "curl_easy_setopt", &c->setopt) &&
        find(c, "curl_easy_perform", &c->perform) && find(c, "curl_easy_getinfo", &c->getinfo) &&
        find(c, "curl_easy_strerror", &c->error) && find(c, "curl_easy_cleanup", &c->cleanup))
        return BRASA_OK;
    return fail(ctx, BRASA_NO_KERNEL, "libcurl.so.4 is not there (Debian: libcurl4): needed for downloading");
}

typedef struct transfer {
    bool (*take)(void *user, const void *data, size_t bytes);
    void *user;
} transfer;

static size_t on_data(char *data, size_t size, size_t count, void *user)
{
    const transfer *t = user;
    return t->take(t->user, data, size * count) ? size * count : 0;
}

static brasa_status perform(brasa_context *ctx, const curl_library *c, CURL *curl, const char *url, int64_t begin,
                            transfer *t, bool *again)
{
    long code = 0;
    c->setopt(curl, CURLOPT_URL, url);
    c->setopt(curl, CURLOPT_USERAGENT, "brasa/" BRASA_VERSION);
#if LIBCURL_VERSION_NUM >= 0x075500
    c->setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    c->setopt(curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    c->setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    c->setopt(curl, CURLOPT_FAILONERROR, 1L);
    c->setopt(curl, CURLOPT_NOSIGNAL, 1L);
    c->setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    c->setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    c->setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)SILENT_SECONDS);
    c->setopt(curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)begin);
    c->setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    c->setopt(curl, CURLOPT_WRITEDATA, t);
    const CURLcode result = c->perform(curl);
    c->getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
    *again = begin > 0 && (code == 200 || code == 416); /* no ranges, or none that begins there */
    if (result == CURLE_OK)
        return BRASA_OK;
    if (result == CURLE_HTTP_RETURNED_ERROR)
        return fail(ctx, BRASA_BAD_FILE, "%s: the server answered %ld", url, code);
    return fail(ctx, BRASA_BAD_FILE, "%s: %s", url, c->error(result));
}

static brasa_status fetch(brasa_context *ctx, const char *url, int64_t begin,
                          bool (*take)(void *user, const void *data, size_t bytes), void *user, bool *again)
{
    curl_library c = {0};
    transfer t = {take, user};
    *again = false;
    brasa_status status = open_library(ctx, &c);
    CURL *curl = status == BRASA_OK ? c.init() : NULL;
    if (curl) {
        status = perform(ctx, &c, curl, url, begin, &t, again);
        c.cleanup(curl);
    } else if (status == BRASA_OK) {
        status = fail_memory(ctx, 0);
    }
    /* It stays open: some of the libraries that it brings cannot be closed and opened again. */
    return status;
}

const fetcher curl_fetcher = {fetch};
