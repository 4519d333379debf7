/* signals.h - Ctrl-C, a kill, and a terminal that is closed, as a wish: the first one asks the verb to stop, a second
 * Ctrl-C or kill is the system's. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>

/* The number of the signal that came; 0: none. */
extern volatile sig_atomic_t stop_asked;

/* From here on SIGINT, SIGTERM and, unless nohup is at work, SIGHUP set it. What waits for a terminal is woken. */
void catch_signals(void);

#endif
