/* A store with brokers and clients that keeps all its promises, for the checker's own test: makes
 * valid histories, from a seed, and knows what was really in the store.  Not thread-safe. */
#ifndef HISTORY_HISTMODEL_H
#define HISTORY_HISTMODEL_H

#include "history.h"

typedef struct histmodel histmodel_t;

struct histmodel_config {
    uint64_t seed;
    unsigned ops; /* about this many */
    unsigned clients, ranks;
    unsigned keys;  /* plain ones, "k0"...; beside them "a0"... to append to, "g0"... to guard */
    double unknown; /* chance of an outcome to be unknown */
    double refused; /* ... of a commit to be refused */
};

/* Exits when memory is out: it is part of a test. */
histmodel_t *histmodel_run(const struct histmodel_config *cfg);
void histmodel_destroy(histmodel_t *m);
history_t *histmodel_history(histmodel_t *m);

/* What a key held at a version: a result item (absent, or tokens in the history). */
struct hist_item histmodel_value(const histmodel_t *m, uint32_t key, uint64_t version);
/* At which version an operation took effect; 0: never. */
uint64_t histmodel_applied(const histmodel_t *m, size_t op);
uint64_t histmodel_version(const histmodel_t *m);

#endif
