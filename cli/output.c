/* output.c - how the program speaks: messages, figures with their units, progress. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include "core/json_scan.h"
#include "core/numeric.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COLUMNS = 80 };

/* One line, whatever a file or an argument holds. */
static char clean(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f ? '?' : c;
}

static void put_line(FILE *to, const char *before, const char *format, va_list args)
{
    char text[1200];
    vsnprintf(text, sizeof text, format, args);
    for (char *c = text; *c; c++)
        *c = clean(*c);
    fprintf(to, "%s%s\n", before, text);
}

int complain(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put_line(stderr, "brasa: ", format, args);
    va_end(args);
    return code;
}

void print_line(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put_line(stdout, "", format, args);
    va_end(args);
}

static bool has_colours(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

void heading(const char *format, ...)
{
    const bool bold = has_colours();
    va_list args;
    va_start(args, format);
    for (; *format == '\n'; format++)
        putchar('\n');
    put_line(stdout, bold ? "\033[1m" : "", format, args);
    fputs(bold ? "\033[0m" : "", stdout);
    va_end(args);
}

void wrapped(int at, int indent, const char *text)
{
    bool first = true;
    while (*(text += strspn(text, " "))) {
        int length = (int)strcspn(text, " ");
        if (!first && at + 1 + length > COLUMNS) {
            printf("\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            putchar(' ');
            at++;
        }
        at += length;
        for (; length > 0; length--, text++)
            putchar(clean(*text));
        first = false;
    }
    putchar('\n');
}

bool write_stdout(void *user, const char *text, size_t length)
{
    (void)user;
    fwrite(text, 1, length, stdout); /* main looks, at the end, whether all of it went well */
    return true;
}

json json_stdout(void)
{
    return (json){.write = write_stdout};
}

figure print_count(int64_t value)
{
    figure f;
    numeric_count(value, f.text);
    return f;
}

/* Three digits and a unit, each unit 1000 times the one before. */
static figure scaled(double value, const char *const *units, int count)
{
    figure f;
    int unit = 0;
    while (unit + 1 < count && fabs(value) >= 999.5) {
        value /= 1000;
        unit++;
    }
    int digits = fabs(value) >= 99.95 || value == 0 ? 0 : fabs(value) >= 9.995 ? 1 : 2;
    snprintf(f.text, sizeof f.text, "%.*f %s", digits, value, units[unit]);
    return f;
}

figure print_bytes(double bytes)
{
    figure f;
    snprintf(f.text, sizeof f.text, "%s", numeric_bytes(bytes).text);
    return f;
}

figure print_seconds(double seconds)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    return scaled(seconds * 1e9, units, 4);
}

figure print_number(double value)
{
    figure f;
    numeric_number(value, f.text);
    return f;
}

figure print_percent(double share)
{
    figure f;
    if (isnan(share))
        snprintf(f.text, sizeof f.text, "-");
    else
        snprintf(f.text, sizeof f.text, "%.1f %%", 100 * share);
    return f;
}

figure print_time(double seconds)
{
    figure f;
    const long s = lround(fmin(fmax(seconds, 0), 1e9));
    if (seconds < 10)
        snprintf(f.text, sizeof f.text, "%.1f s", fmax(seconds, 0));
    else if (s < 60)
        snprintf(f.text, sizeof f.text, "%ld s", s);
    else if (s < 3600)
        snprintf(f.text, sizeof f.text, "%ld min %ld s", s / 60, s % 60);
    else
        snprintf(f.text, sizeof f.text, "%ld h %ld min", s / 3600, s / 60 % 60);
    return f;
}

fitted print_fitted(const char *name, int columns, bool right)
{
    fitted c = {""};
    const char *end = name + strlen(name);
    const int most = (int)(sizeof c.text / 4), width = columns < most ? columns : most;
    char *to = c.text;
    int letters = 0;
    for (int length; name < end && letters < width; name += length, letters++) {
        length = utf8_length(name, end);
        if (length == 0 || (unsigned char)*name < 0x20 || *name == 0x7f)
            *to++ = '?';
        else
            to = (char *)memcpy(to, name, (size_t)length) + length;
        length = length ? length : 1;
    }
    const size_t blanks = (size_t)(width - letters), used = (size_t)(to - c.text);
    if (right)
        memmove(c.text + blanks, c.text, used);
    memset(right ? c.text : to, ' ', blanks);
    c.text[used + blanks] = '\0';
    return c;
}

/* What the locale's variables say: the first that is set decides. */
static bool has_unicode(void)
{
    const char *all = getenv("LC_ALL"), *type = getenv("LC_CTYPE"), *lang = getenv("LANG");
    const char *locale = all && *all ? all : type && *type ? type : lang ? lang : "";
    return strstr(locale, "UTF-8") || strstr(locale, "utf8") || strstr(locale, "UTF8");
}

bar print_bar(double share, int width)
{
    bar b = {""};
    const bool unicode = has_unicode();
    const int most = ((int)sizeof b.text - 1) / 3;
    width = width < most ? width : most;
    const int filled = (int)(fmin(fmax(share, 0), 1) * width + 0.5);
    for (int i = 0; i < width; i++)
        strcat(b.text, i >= filled ? " " : unicode ? "\u2501" : "#");
    return b;
}

double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double process_start;

void clock_start(void)
{
    process_start = clock_seconds() - (double)clock() / CLOCKS_PER_SEC;
}

double clock_since_start(void)
{
    return clock_seconds() - process_start;
}

progress progress_start(bool quiet)
{
    return (progress){.off = quiet || !isatty(STDERR_FILENO), .start = clock_seconds()};
}

void progress_show(progress *p, const char *format, ...)
{
    if (p->off)
        return;
    double now = clock_seconds();
    if (now - p->start < 2 || now - p->last < 0.2)
        return;
    char text[COLUMNS];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "\r%-*s", COLUMNS - 1, text);
    p->shown = true;
    p->last = now;
}

void progress_end(progress *p)
{
    if (p->shown)
        fprintf(stderr, "\r%*s\r", COLUMNS - 1, "");
    p->shown = false;
}
