/* build_info.c - see build_info.h. */
#define _GNU_SOURCE
#include "build_info.h"

#include "brasa.h"
#include "lab/proc.h"

#include <sys/resource.h>
#include <unistd.h>

#define TEXT_(x)        #x
#define TEXT(x)         TEXT_(x)
#define DOTTED(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)

const char *build_compiler(void)
{
#if defined(__clang__)
    return "clang " DOTTED(__clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
    return "gcc " DOTTED(__GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
    return "unknown";
#endif
}

const char *build_openmp(void)
{
#if !defined(_OPENMP)
    return "none";
#elif _OPENMP >= 202111
    return "5.2";
#elif _OPENMP >= 202011
    return "5.1";
#elif _OPENMP >= 201811
    return "5.0";
#elif _OPENMP >= 201511
    return "4.5";
#else
    return "before 4.5";
#endif
}

void build_json(json *j)
{
    json_open(j, "versions", '{');
    json_text(j, "brasa", brasa_version());
    json_text(j, "compiler", build_compiler());
    json_text(j, "openmp", build_openmp());
    json_close(j, '}');
}

double peak_rss_bytes(void)
{
    proc self;
    proc_figures now;
    struct rusage usage;
    const bool told = proc_open(getpid(), &self) && proc_read(&self, &now) && now.most_rss > 0;
    proc_close(&self);
    if (told)
        return (double)now.most_rss;
    /* Linux counts in kB, and with it what the process was before exec: as much as the one that started it. */
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (double)usage.ru_maxrss * 1024 : 0;
}
