/* cpu_name.h - what the processor calls itself. */
#ifndef CORE_CPU_NAME_H
#define CORE_CPU_NAME_H

/* "AMD EPYC 9B14"; printable, without tabs; "unknown" where it does not tell. By value, to stand in an argument list.
 */
typedef struct cpu_text {
    char text[64];
} cpu_text;
cpu_text cpu_name(void);

#endif
