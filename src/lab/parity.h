/* parity.h - the gate before any timing: is it the same experiment?
 *
 * Brasa's runner and a peer's have learned the same few batches from the same weights, with dropout off, and told
 * what every layer gave, the losses, and the parameters after the updates (mode "check"). Here the two accounts are
 * compared in the order in which things happen, so that the first difference is the cause and not what follows from
 * it.
 */
#ifndef LAB_PARITY_H
#define LAB_PARITY_H

#include "core/context.h"

typedef enum parity_status {
    PARITY_SAME,
    PARITY_DIFFERENT, /* not the same experiment */
    PARITY_REFUSED,   /* the peer says that it cannot do it */
    PARITY_FAILED,    /* it failed, or its account is not complete */
} parity_status;

typedef struct parity {
    parity_status status;
    double worst; /* the largest relative difference of an output (of its rms) or a loss; NAN: none was compared */
    char detail[700]; /* one sentence */
} parity;

/* "same", "different", "refused" or "failed". */
const char *parity_word(parity_status status);

/* In the detail of one that is the same: from the semicolon on what was allowed beyond the usual, and what could not
 * be compared; NULL: there is nothing of that. */
const char *parity_notes(const char *detail);

typedef struct parity_account {
    const char *text; /* the lines that a runner printed */
    size_t length;
} parity_account;

/* What both were given: the files of exchange.h, and the precision, "f32", ... */
typedef struct parity_terms {
    const char *graph, *weights, *precision;
} parity_terms;

/* An error is one of Brasa's account or of the files: whatever is wrong with the peer's is told in *out. */
brasa_status parity_compare(brasa_context *ctx, const parity_terms *terms, const parity_account *brasa,
                            const parity_account *peer, parity *out);

#endif
