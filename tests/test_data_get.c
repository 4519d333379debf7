/* test_data_get.c - downloading: from a server of our own on loopback that behaves and misbehaves as told. */
#define _GNU_SOURCE
#include "test.h"

#include "core/sha256.h"
#include "data/make.h"
#include "data_files.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

enum { LENGTH = 300000 };

typedef enum manner { GOOD, NO_RANGES, CUT_OFF, TOO_LONG, WRONG, MISSING } manner;

static struct {
    int socket, port;
    pthread_t thread;
    manner manner;
    int requests;
    long begin; /* that the last request asked for */
    unsigned char content[LENGTH];
    char hash[SHA256_TEXT];
} server;

static void say(int to, const char *text)
{
    send(to, text, strlen(text), MSG_NOSIGNAL);
}

static void answer(int to)
{
    char request[4096] = "", head[300];
    size_t used = 0;
    for (ssize_t got; !strstr(request, "\r\n\r\n") && used < sizeof request - 1; used += (size_t)got)
        if ((got = recv(to, request + used, sizeof request - 1 - used, 0)) <= 0)
            return;
    const char *range = strcasestr(request, "Range: bytes=");
    server.requests++;
    server.begin = range ? strtol(range + 13, NULL, 10) : 0;
    if (server.manner == MISSING) {
        say(to, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        return;
    }
    const long begin = server.manner == NO_RANGES ? 0 : server.begin, length = LENGTH - begin;
    const long announced = length + (server.manner == TOO_LONG ? 1000 : 0);
    if (begin)
        snprintf(
            head, sizeof head,
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes %ld-%d/%d\r\nContent-Length: %ld\r\nConnection: "
            "close\r\n\r\n",
            begin, LENGTH - 1, LENGTH, announced);
    else
        snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %ld\r\nConnection: close\r\n\r\n", announced);
    say(to, head);
    long left = server.manner == CUT_OFF ? length / 2 : length;
    for (const unsigned char *from = server.content + begin; left > 0;) {
        const ssize_t sent = send(to, from, (size_t)left, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        from += sent;
        left -= sent;
    }
    if (server.manner == TOO_LONG)
        send(to, server.content, 1000, MSG_NOSIGNAL);
}

static void *serve(void *user)
{
    (void)user;
    for (int to; (to = accept(server.socket, NULL, NULL)) >= 0;) {
        answer(to);
        shutdown(to, SHUT_RDWR);
        close(to);
    }
    return NULL;
}

static bool start_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    sha256 h;
    unsigned char hash[SHA256_BYTES];
    if (server.port)
        return true;
    for (int i = 0; i < LENGTH; i++)
        server.content[i] = (unsigned char)(i * 7 + i / 251);
    sha256_start(&h);
    sha256_add(&h, server.content, LENGTH);
    sha256_end(&h, hash);
    sha256_print(hash, server.hash);
    server.socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server.socket < 0 || bind(server.socket, (struct sockaddr *)(void *)&address, sizeof address) != 0 ||
        listen(server.socket, 8) != 0 || getsockname(server.socket, (struct sockaddr *)(void *)&address, &size) != 0)
        return false;
    server.port = ntohs(address.sin_port);
    setenv("no_proxy", "127.0.0.1", 1);
    return pthread_create(&server.thread, NULL, serve, NULL) == 0;
}

static int64_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : -1;
}

typedef struct download_case {
    const char *name;
    manner manner;
    int there; /* bytes of a .part before */
    bool ok;
    const char *why;
    int requests, begin; /* the last one's */
    int64_t left;        /* size of the .part after */
} download_case;

TEST(downloads)
{
    static const download_case rows[] = {
        {"all of it", GOOD, 0, true, NULL, 1, 0, -1},
        {"the rest", GOOD, 100000, true, NULL, 1, 100000, -1},
        {"nothing is left", GOOD, LENGTH, true, NULL, 0, 0, -1},
        {"a server that cannot go on", NO_RANGES, 100000, true, NULL, 2, 0, -1},
        {"cut off", CUT_OFF, 0, false, "/data.bin: ", 1, 0, LENGTH / 2},
        {"cut off again", CUT_OFF, LENGTH / 2, false, "/data.bin: ", 1, LENGTH / 2, LENGTH / 4 * 3},
        {"too long", TOO_LONG, 0, false, "more than the 300000 bytes", 1, 0, -2},
        {"other bytes", WRONG, 0, false, "SHA-256 is", 1, 0, -1},
        {"not there", MISSING, 0, false, "the server answered 404", 1, 0, 0},
        {"a .part of other bytes", GOOD, -100000, false, "SHA-256 is", 1, 100000, -1},
    };
    brasa_context *ctx = context_of(0);
    if (!codec_fetcher() || !start_server()) {
        brasa_context_free(ctx);
        SKIP("no libcurl, or no loopback");
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const download_case *r = &rows[i];
        char url[100], part[300], path[300], hash[SHA256_TEXT];
        published file = {"data.bin", hash, LENGTH};
        CASE("%s", r->name);
        snprintf(hash, sizeof hash, "%s", server.hash);
        if (r->manner == WRONG)
            hash[5] = hash[5] == '0' ? '1' : '0';
        snprintf(url, sizeof url, "http://127.0.0.1:%d/sets", server.port);
        snprintf(path, sizeof path, "%s", in_tree("got/data.bin"));
        snprintf(part, sizeof part, "%s", in_tree("got/data.bin.part"));
        put_text(part, "");
        remove(part);
        remove(path);
        if (r->there > 0)
            put_file(part, server.content, (size_t)r->there);
        else if (r->there < 0)
            put_file(part, server.content + 7, (size_t)-r->there);
        server.manner = r->manner;
        server.requests = 0;
        const brasa_status status = get_file(ctx, &file, url, in_tree("got"), NULL, NULL);
        CHECK_STATUS(status, r->ok ? BRASA_OK : BRASA_BAD_FILE);
        if (r->why)
            CHECK_HAS(ctx->error, r->why);
        CHECK_INT(server.requests, r->requests);
        if (r->requests)
            CHECK_INT(server.begin, r->begin);
        CHECK_INT(size_of(path), r->ok ? LENGTH : -1);
        if (r->left > -2)
            CHECK_INT(size_of(part), r->left);
    }
    brasa_context_free(ctx);
}

TEST(what_is_there)
{
    OWNED(brasa_context) *ctx = context_of(0);
    const published file = {"there.bin", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", 3};
    put_text(in_tree("there.bin"), "abc"); /* that hash's text: nobody is asked */
    CHECK_STATUS(get_file(ctx, &file, "http://127.0.0.1:1", in_tree("."), NULL, NULL), BRASA_OK);
    put_text(in_tree("there.bin"), "abd");
    CHECK_STATUS(get_file(ctx, &file, "http://127.0.0.1:1", in_tree("."), NULL, NULL), BRASA_BAD_FILE);
    CHECK_HAS(ctx->error, "there.bin: not the published file");
    remove(in_tree("there.bin"));
    put_text(in_tree("there.bin.part"), "a");
    const brasa_status status = get_file(ctx, &file, "http://127.0.0.1:1", in_tree("."), NULL, NULL);
    CHECK_STATUS(status, codec_fetcher() ? BRASA_BAD_FILE : BRASA_NO_KERNEL);
    CHECK_INT(size_of(in_tree("there.bin.part")), 1); /* nobody answered: what was there stays */
}

TEST(names)
{
    OWNED(brasa_context) *ctx = context_of(0);
    char spec[100];
    CHECK_STATUS(dataset_get(ctx, "cifar", in_tree("x"), NULL, NULL, NULL, spec, sizeof spec), BRASA_NOT_FOUND);
    CHECK_HAS(ctx->error, "did you mean 'cifar10'");
    for (int i = 0; dataset_get_at(i); i++)
        CHECK(strstr("mnist cifar10 cifar100 letter", dataset_get_at(i)) != NULL);
}

/* --- archives -------------------------------------------------------------------------------------------------- */

/* A header and its content, padded; returns the length. */
static size_t put_entry(unsigned char *to, const char *name, char kind, const char *content)
{
    const size_t bytes = strlen(content);
    memset(to, 0, 1024);
    snprintf((char *)to, 100, "%s", name);
    snprintf((char *)to + 124, 12, "%011o", (unsigned)bytes);
    to[156] = (unsigned char)kind;
    memcpy(to + 512, content, bytes);
    return bytes ? 1024 : 512;
}

TEST(archives)
{
    unsigned char tar[8192];
    size_t length = 0;
    brasa_context *ctx = context_of(0);
    length += put_entry(tar, "cifar-10-batches-bin/", '5', "");
    length += put_entry(tar + length, "cifar-10-batches-bin/a.bin", '0', "content of a");
    length += put_entry(tar + length, "../../../../escaped.txt", '0', "stays here");
    length += put_entry(tar + length, "x/..", '0', "no name");
    length += put_entry(tar + length, "x/.hidden", '0', "no name either");
    length += put_entry(tar + length, "x/link", '2', "");
    length += put_entry(tar + length, "x/b.txt", '\0', "old way to say file");
    memset(tar + length, 0, 1024);
    const char *archive = in_tree("tar/x.tar.gz"), *place = in_tree("out");
    put_text(in_tree("out/keep"), "");
    if (!put_packed(archive, tar, length + 1024)) {
        brasa_context_free(ctx);
        SKIP("no zlib");
    }
    CHECK_STATUS(get_unpack(ctx, archive, place), BRASA_OK);
    CHECK_INT(size_of(in_tree("out/a.bin")), 12);
    CHECK_INT(size_of(in_tree("out/escaped.txt")), 10);
    CHECK_INT(size_of(in_tree("out/b.txt")), 19);
    CHECK_INT(size_of(in_tree("out/.hidden")), -1);
    CHECK_INT(size_of(in_tree("out/link")), -1);
    CASE("cut off");
    put_packed(archive, tar, 1100);
    CHECK_STATUS(get_unpack(ctx, archive, place), BRASA_BAD_FILE);
    CHECK_HAS(ctx->error, "x.tar.gz");
    CASE("not a tar file");
    memset(tar + 124, '9', 11);
    put_packed(archive, tar, length);
    CHECK_STATUS(get_unpack(ctx, archive, place), BRASA_BAD_FILE);
    CHECK_HAS(ctx->error, "byte 0: not a header");
    brasa_context_free(ctx);
}
