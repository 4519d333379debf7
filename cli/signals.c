/* signals.c - see signals.h. */
#define _POSIX_C_SOURCE 200809L
#include "signals.h"

#include <stddef.h>

volatile sig_atomic_t stop_asked;

static void ask_to_stop(int number)
{
    stop_asked = number;
}

void catch_signals(void)
{
    struct sigaction action = {.sa_handler = ask_to_stop, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction before;
    action.sa_flags = 0; /* of a terminal that is closed it comes from the kernel and from the shell */
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup's */
        sigaction(SIGHUP, &action, NULL);
}
