/* build_info.h - what this program was made of and runs on, for doctor and for the account of a measurement. */
#ifndef CLI_BUILD_INFO_H
#define CLI_BUILD_INFO_H

#include "core/json.h"

/* "gcc 12.2.0". Static. */
const char *build_compiler(void);
/* "4.5", or "none". Static. */
const char *build_openmp(void);
/* The member "versions": brasa, compiler, openmp. */
void build_json(json *j);
/* The most memory that the process had so far; 0: unknown. */
double peak_rss_bytes(void);
/* doctor.c: the member "machine": versions, processor, cores, threads, memory. */
void machine_json(json *j);
/* The object of that member alone, for a run's record. */
enum { MACHINE_TEXT = 8192 };
const char *machine_text(char text[MACHINE_TEXT]);

#endif
