/* ptx_text.h - the words of PTX: what ptx_module.c and ptx_read.c read a module with. */
#ifndef SOFTGPU_PTX_TEXT_H
#define SOFTGPU_PTX_TEXT_H

#include "ptx.h"

/* A piece of the text: a word, a number or a sign. */
typedef struct token {
    const char *s;
    int n;
} token;

/* Where one reads. The first thing that is wrong stays; what is read after it is nothing. */
typedef struct text {
    const char *at, *end;
    const char *counted; /* up to here lines are counted */
    int line;
    char *why;
    size_t why_size;
    bool failed;
} text;

text text_of(const ptx_module *m, const char *at, char *why, size_t why_size);
/* Up to where it is, which does not go back far. */
int text_line(text *t);
__attribute__((format(printf, 2, 3))) void wrong(text *t, const char *format, ...);
token peek(text *t);
token take(text *t);
void expect(text *t, const char *s);
/* Takes what comes, if it is this. */
bool take_if(text *t, const char *s);
bool is(token t, const char *s);
bool begins(token t, const char *s);
bool same(token a, token b);
/* 12, -3, 0x1F, 0f3F800000 and 0d3FF0000000000000, the latter as their bits. */
bool number(token t, int64_t *to);
/* Of ".b32"; 0 for ".pred", -1: no type. */
int type_bytes(token t);
/* .align 16 .b8 name[40], behind the word that tells the space; *bytes is 0 for name[]. */
token declared(text *t, int64_t *align, int64_t *bytes);
/* A word of an instruction's name: the n-th between the points. */
token part(token t, int n);
bool has_part(token t, const char *word);
/* With its point, as types are written. */
token last_part(token t);

static inline int64_t aligned(int64_t at, int64_t to)
{
    return to > 1 ? (at + to - 1) / to * to : at;
}

#endif
