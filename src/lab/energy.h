/* energy.h - what the processors of the machine, all of them together, have used: RAPL, where it can be read. It
 * counts for everything that runs, so that it means something for one process only on a machine that does nothing
 * else. */
#ifndef LAB_ENERGY_H
#define LAB_ENERGY_H

#define ENERGY_FOLDER "/sys/class/powercap"

enum { MOST_PACKAGES = 8 };
typedef struct energy {
    int packages; /* 0: it cannot be read */
    int fd[MOST_PACKAGES];
    double last[MOST_PACKAGES], range[MOST_PACKAGES]; /* microjoules; counters start again at 0 from their range on */
    double joules;                                    /* since it was opened */
    char why[160];                                    /* of 0 packages: "not readable: ..." */
} energy;

void energy_open(energy *e, const char *folder);
/* Brings e->joules up to date; at least once for each time round, which takes half an hour or more. */
void energy_read(energy *e);
void energy_close(energy *e);

#endif
