/* signals.h - Ctrl-C, and a kill, as a wish: the first one asks the verb to stop, the second one is the system's. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>

/* The number of the signal that came; 0: none. */
extern volatile sig_atomic_t stop_asked;

/* From here on SIGINT and SIGTERM set it. What waits for a terminal is woken. */
void catch_signals(void);

#endif
