/* nearest.h - the known word closest to an unknown one, for hints in error messages. */
#ifndef CORE_NEAREST_H
#define CORE_NEAREST_H

typedef struct nearest {
    const char *word; /* the unknown one */
    const char *best; /* borrowed from the candidates */
    int distance;
} nearest;

/* Looks at one candidate; call it for all of them. */
void nearest_offer(nearest *n, const char *candidate);
/* The best candidate where it is close enough to be meant, else NULL. */
const char *nearest_found(const nearest *n);

/* ", did you mean 'conv'?" for an error's end, or "". By value, to stand in an argument list. */
typedef struct nearest_text {
    char text[96];
} nearest_text;
nearest_text nearest_hint(const nearest *n);

#endif
