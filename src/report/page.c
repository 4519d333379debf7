/* page.c - the frame of a page and its blocks of text; see page.h. */
#include "report/page.h"
#include "core/json_scan.h"
#include "core/numeric.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Letters from which on a text is broken into lines: a value beside its name; a row's name and other texts of a
 * table. */
enum { LONG_VALUE = 36, LONG_NAME = 48, LONG_TEXT = 24 };

/* --- writing ------------------------------------------------------------------------------------------------- */

static void put(page *p, const char *text, size_t length)
{
    if (!p->failed && length && !p->write(p->user, text, length))
        p->failed = p->refused = true;
}

void page_raw(page *p, const char *markup)
{
    put(p, markup, strlen(markup));
}

void page_format(page *p, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    const numeric_state locale = numeric_enter();
    int length = vsnprintf(text, sizeof text, format, args);
    numeric_leave(locale);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof text)
        p->failed = true; /* half a tag would be worse */
    else
        put(p, text, (size_t)length);
}

/* What stands for the letter at `at`, or NULL where it may stand for itself. *length: its bytes. */
static const char *escape(const char *at, const char *end, int *length)
{
    *length = 1;
    switch (*at) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    case '\n':
    case '\t':
        return NULL;
    }
    if ((unsigned char)*at < 0x20 || *at == 0x7F)
        return "\uFFFD";
    const int letter = utf8_length(at, end);
    *length = letter ? letter : 1;
    return letter ? NULL : "\uFFFD";
}

void page_escaped(page *p, const char *text)
{
    if (!text)
        return;
    const char *end = text + strlen(text), *from = text; /* from ... at - 1 is still to be written, as it is */
    for (const char *at = text; at < end;) {
        int length;
        const char *instead = escape(at, end, &length);
        if (instead) {
            put(p, from, (size_t)(at - from));
            page_raw(p, instead);
            from = at + length;
        }
        at += length;
    }
    put(p, from, (size_t)(end - from));
}

/* <open>text<close> */
static void put_text(page *p, const char *open, const char *text, const char *close)
{
    page_raw(p, open);
    page_escaped(p, text);
    page_raw(p, close);
}

/* --- the frame ----------------------------------------------------------------------------------------------- */

/* The policy forbids everything but the page's own style; the empty icon keeps browsers from asking for one. */
static const char head[] = "<!doctype html>\n"
                           "<html lang=\"en\">\n"
                           "<head>\n"
                           "<meta charset=\"utf-8\">\n"
                           "<meta http-equiv=\"Content-Security-Policy\" "
                           "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n"
                           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                           "<meta name=\"color-scheme\" content=\"light dark\">\n"
                           "<link rel=\"icon\" href=\"data:,\">\n";

void page_begin(page *p, const char *title, const char *subtitle)
{
    page_raw(p, head);
    put_text(p, "<title>", title, "</title>\n<style>\n");
    for (int i = 0; page_css[i]; i++)
        page_raw(p, page_css[i]);
    put_text(p, "</style>\n</head>\n<body>\n<header>\n<h1>", title, "</h1>\n");
    if (subtitle)
        put_text(p, "<p>", subtitle, "</p>\n");
    page_raw(p, "</header>\n<main>\n");
}

static void close_section(page *p)
{
    if (p->in_section)
        page_raw(p, "</section>\n");
    p->in_section = false;
}

void page_end(page *p)
{
    close_section(p);
    put_text(p, "</main>\n<footer>Written by Brasa ", brasa_version(), "</footer>\n</body>\n</html>\n");
}

void page_section(page *p, const char *heading)
{
    close_section(p);
    put_text(p, "<section>\n<h2>", heading, "</h2>\n");
    p->in_section = true;
}

void page_columns_begin(page *p)
{
    page_raw(p, "<div class=\"columns\">\n");
}

void page_columns_end(page *p)
{
    page_raw(p, "</div>\n");
}

/* --- texts --------------------------------------------------------------------------------------------------- */

void page_text(page *p, const char *text)
{
    put_text(p, "<p>", text, "</p>\n");
}

void page_lead(page *p, const char *text)
{
    put_text(p, "<p class=\"lead\">", text, "</p>\n");
}

void page_remark(page *p, const char *text)
{
    put_text(p, "<p class=\"remark\">", text, "</p>\n");
}

void page_list(page *p, const char *const *texts, int count)
{
    if (count <= 0)
        return;
    page_raw(p, "<ul class=\"list\">\n");
    for (int i = 0; i < count; i++)
        put_text(p, "<li>", texts[i], "</li>\n");
    page_raw(p, "</ul>\n");
}

/* What is long scrolls, by keyboard too. */
void page_output(page *p, const char *title, const char *text)
{
    put_text(p, "<figure class=\"output\">\n<figcaption>", title, "</figcaption>\n");
    put_text(p, "<pre role=\"region\" tabindex=\"0\" aria-label=\"", title, "\">");
    put_text(p, "", text, "</pre>\n</figure>\n");
}

void page_notice(page *p, page_kind kind, const char *text)
{
    static const char *const open[] = {
        [PAGE_GOOD] = "<p class=\"notice good\" role=\"note\"><strong>Good</strong> ",
        [PAGE_WARNING] = "<p class=\"notice warning\" role=\"note\"><strong>Warning</strong> ",
        [PAGE_ALARM] = "<p class=\"notice alarm\" role=\"note\"><strong>Alarm</strong> ",
    };
    put_text(p, open[kind], text, "</p>\n");
}

static void put_facts(page *p, const char *style, const page_fact *facts, int count)
{
    if (count <= 0)
        return;
    put_text(p, "<dl class=\"", style, "\">\n");
    for (int i = 0; i < count; i++) {
        const bool is_long = facts[i].value && strlen(facts[i].value) > LONG_VALUE;
        put_text(p, is_long ? "<div class=\"long\"><dt>" : "<div><dt>", facts[i].name, "</dt>");
        put_text(p, "<dd>", facts[i].value, "</dd></div>\n");
    }
    page_raw(p, "</dl>\n");
}

void page_tiles(page *p, const page_fact *facts, int count)
{
    put_facts(p, "tiles", facts, count);
}

void page_facts(page *p, const page_fact *facts, int count)
{
    put_facts(p, "facts", facts, count);
}

/* --- tables -------------------------------------------------------------------------------------------------- */

/* A wide or long table scrolls in its box, by keyboard too. */
void page_table_begin(page *p, const char *title, const page_column *columns, int count)
{
    p->columns = columns;
    p->column_count = count;
    put_text(p, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"", title, "\">\n<table>");
    put_text(p, "<caption>", title, "</caption>\n<thead><tr>");
    for (int i = 0; i < count; i++)
        put_text(p, columns[i].is_text ? "<th scope=\"col\" class=\"text\">" : "<th scope=\"col\">", columns[i].title,
                 "</th>");
    page_raw(p, "</tr></thead>\n<tbody>\n");
}

void page_table_row(page *p, const page_cell *cells)
{
    static const char *const mark[] = {"", " best", " worst"};
    page_raw(p, "<tr>");
    for (int i = 0; i < p->column_count; i++) {
        const page_cell *c = &cells[i];
        page_raw(p, i ? "<td" : "<th scope=\"row\"");
        const bool is_long = p->columns[i].is_text && c->text && strlen(c->text) > (i ? LONG_TEXT : LONG_NAME);
        if (c->mark || p->columns[i].is_text)
            page_format(p, " class=\"%s%s%s\"", p->columns[i].is_text ? "text" : "", is_long ? " long" : "",
                        mark[c->mark]);
        put_text(p, ">", c->text, "");
        if (c->mark) /* for those who do not see it */
            page_format(p, "<span class=\"unseen\">,%s</span>", mark[c->mark]);
        page_raw(p, i ? "</td>" : "</th>");
    }
    page_raw(p, "</tr>\n");
}

void page_table_end(page *p)
{
    page_raw(p, "</tbody>\n</table>\n</div>\n");
    p->columns = NULL;
}
