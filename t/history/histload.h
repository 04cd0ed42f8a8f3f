/* Clients that use a key-value store at random, and write down what they asked and were told.
 *
 * The same load runs over real connections and in the simulator: all of it is asynchronous, time
 * and randomness come from outside.
 *
 *    histload_t *l = histload_create(&config, history);
 *    for each client: histload_add(l, handle);
 *    ... run the reactors ...
 *    histload_stop(l);                     no more; each reads everything once
 *    ... run until histload_busy(l) == 0, and a while longer ...
 *    histload_verify(l);                   watchers are to have been told what is there now
 *    ... run until histload_busy(l) == 0, and a while longer ...
 *    if (histload_behind(l, buf, size) > 0) ...
 *    histload_destroy(l);                  before the handles are closed, or after
 *
 * A client whose handle is closed or whose connection is lost ends by itself; the outcome of what
 * it had asked is unknown.  Not thread-safe.
 */
#ifndef HISTORY_HISTLOAD_H
#define HISTORY_HISTLOAD_H

#include "history.h"
#include "libflux/handle.h"

typedef struct histload histload_t;
struct histclient;

struct histload_config {
    uint64_t seed;
    const char *ns;  /* NULL: the primary one */
    const char *dir; /* all keys are in this directory */
    uint32_t first_client;
    unsigned keys, append_keys, guard_keys;
    unsigned fence_max; /* participants; 0: no fences */
    bool watches;
    bool append_watches;  /* some of them only with what was appended */
    bool snapshots;       /* hold roots, and expect them to be kept */
    size_t value_max;     /* bytes of a large value */
    double large;         /* chance of one */
    double pause;         /* seconds between two operations of a client, in the mean; 0: none */
    double fence_timeout; /* seconds until a client leaves a fence that does not end */
    double wait_timeout;  /* seconds to wait for a version */
    double lie;           /* chance of a read to be told as an older one of the same client */
    uint64_t (*now)(void *arg); /* for the history; any unit */
    /* The client ends, by itself: its connection is lost, or it leaves a fence and wants its
     * connection closed.  Its structure is gone after this. */
    void (*ended)(flux_t *h, bool lost, void *arg);
    void *arg;
};

/* NULL with ENOMEM.  `h` is used, not taken over. */
histload_t *histload_create(const struct histload_config *cfg, history_t *h);
void histload_destroy(histload_t *l); /* NULL-safe */

/* A client begins.  `after`: it first waits for this version (0: for none).  -1 with ENOMEM. */
int histload_add(histload_t *l, flux_t *h, uint64_t after);
void histload_stop(histload_t *l);
/* All who watch something read it once more; */
void histload_verify(histload_t *l);
/* then the last result of their watch must be what they have read.  How many differ, with a
 * sentence about the first; `*watching`: how many there are. */
unsigned histload_behind(const histload_t *l, unsigned *watching, char *buf, size_t size);
/* Clients whose root was gone though they held it, and were not told that they do not. */
unsigned histload_unkept(const histload_t *l);
unsigned histload_busy(const histload_t *l);    /* clients that are not at their end */
unsigned histload_clients(const histload_t *l); /* that are there */
uint64_t histload_version(const histload_t *l); /* the newest that anybody was told */
/* Operations that ended with success, with an error, and lies told. */
void histload_stats(const histload_t *l, uint64_t *ok, uint64_t *failed, uint64_t *lies);

#endif
