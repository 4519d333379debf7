/* build_info.h - what this program was made of, for doctor and for the account of a measurement. */
#ifndef CLI_BUILD_INFO_H
#define CLI_BUILD_INFO_H

#include "core/json.h"

/* "gcc 12.2.0". Static. */
const char *build_compiler(void);
/* "4.5", or "none". Static. */
const char *build_openmp(void);
/* The member "versions": brasa, compiler, openmp. */
void build_json(json *j);

#endif
