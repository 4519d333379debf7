/* options.h - public structs that begin with their size, exchanged with callers compiled against another header. */
#ifndef CORE_OPTIONS_H
#define CORE_OPTIONS_H

#include "brasa.h"

/* A public struct as an expression: SIZED(brasa_context_options, .threads = 1). */
#define SIZED(type, ...) ((type){.size = sizeof(type), __VA_ARGS__})

/* Fills `mine`, `size` bytes, from the caller's struct of type `name`. Members that the caller's header did not have
 * are zero; so are all but the size where `theirs` is NULL. Fails if their size is no size, or if a member that only
 * their header has is set. ctx may be NULL: then no text explains the failure. */
brasa_status options_take(brasa_context *ctx, void *mine, size_t size, const void *theirs, const char *name);

/* Fills the caller's struct with `mine`, as far as it goes; members that only their header has become zero. Fails as
 * options_take does, and if `theirs` is NULL. */
brasa_status options_give(brasa_context *ctx, void *theirs, const void *mine, size_t size, const char *name);

#endif
