/* other.c - the backend of a build whose headers were others: a program must not use it. */
#include "device/device.h"

extern const backend brasa_backend;
const backend brasa_backend = {.version = BACKEND_VERSION, .sizes = BACKEND_SIZES};
