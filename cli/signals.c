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
}
