/* lab_python.h - for tests of the lab that start the fake peer. */
#ifndef TEST_LAB_PYTHON_H
#define TEST_LAB_PYTHON_H

#include <stdio.h>
#include <string.h>

/* The Python behind the name python3, which may be a script that takes its time to find it; NULL: there is none. */
static inline const char *find_python(void)
{
    static char path[4096];
    FILE *said = path[0] ? NULL : popen("python3 -c 'import sys; print(sys.executable)' 2>/dev/null", "r");
    if (said && !fgets(path, sizeof path, said))
        path[0] = '\0';
    if (said)
        pclose(said);
    path[strcspn(path, "\n")] = '\0';
    return path[0] ? path : NULL;
}

#define PYTHON_OR_SKIP()                                                                                             \
    do                                                                                                               \
        if (!find_python())                                                                                          \
            SKIP("no python3");                                                                                      \
    while (0)

#endif
