/* cpu_name.h - what the processor calls itself, and which one of that name it is.
 *
 * A virtual machine's processor may have any name, such as "AMD EPYC": the numbers behind it tell generations apart.
 */
#ifndef CORE_CPU_NAME_H
#define CORE_CPU_NAME_H

#include <stdio.h>

/* "AMD EPYC 9B14 25/17/1" with family, model and stepping; on ARM implementer, variant, part and revision; elsewhere
 * the name alone. Printable, without tabs; "unknown" where nothing is told. By value, to stand in an argument list.
 */
typedef struct cpu_text {
    char text[128];
} cpu_text;
cpu_text cpu_name(void);

/* The same from a text as /proc/cpuinfo has it, of the first processor: for all but x86. */
cpu_text cpu_name_read(FILE *info);

#endif
