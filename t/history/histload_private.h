/* What the files of the load share.  See histload.c for how they work together. */
#ifndef HISTORY_HISTLOAD_PRIVATE_H
#define HISTORY_HISTLOAD_PRIVATE_H

#include "../sim/rng.h"
#include "histload.h"
#include "libflux/future.h"
#include "libkvs/kvs.h"
#include "libutil/list.h"

#define ASK_MAX 6   /* requests at a time */
#define POOL 32     /* roots passed between clients */
#define KEYS_MAX 64 /* in all */

enum what {
    DO_COMMIT,
    DO_FENCE,
    DO_GET,
    DO_GET_AT,
    DO_LIST,
    DO_VERSION,
    DO_SNAPSHOT,
    DO_WAIT,
    DO_LAST_WAIT,
    DO_LAST_LIST,
    DO_VERIFY
};

/* A value that a client has read, to lie with or to compare with. */
struct memory {
    char *data; /* NULL: was absent */
    size_t len;
    uint64_t version;
    char tag[FLUX_KVS_TAG_MAX];
    bool known;
};

struct hook;
struct histclient {
    struct list_node node;
    struct hook *hook;
    histload_t *l;
    flux_t *h;
    uint32_t id;
    flux_watcher_t *timer; /* pause, or time of a fence */
    bool in_fence;
    unsigned fence; /* which one */
    bool done;
    bool ended;     /* it was done once */
    uint64_t after; /* version to wait for first */
    unsigned tokens;
    /* what was asked */
    bool busy;
    enum what what;
    size_t op;
    flux_future_t *f[ASK_MAX];
    unsigned key[ASK_MAX];
    unsigned n, ready;
    bool next_guard; /* compare and set a key that has been read */
    unsigned guard_key;
    bool bad; /* a transaction could not be made */
    flux_future_t *snapshot;
    char root[96]; /* of it */
    char asked_root[96];
    unsigned snapshot_uses;
    bool unkept; /* the root was gone nevertheless, unless an end of the snapshot is on its way */
    struct memory *memory; /* by key */
    struct watch {
        flux_future_t *f;
        unsigned key, number;
        int flags;
        bool any, absent; /* there was a result; it was ENOENT */
        char *data;
        size_t len;
        uint64_t version;
    } watch;
    bool verified;        /* what is watched was read at the end: */
    struct memory actual; /* this */
};

/* Hangs on the handle: when that is closed the client ends. */
struct hook {
    struct histclient *c;
};

struct histload {
    struct histload_config cfg;
    history_t *h;
    struct rng rng;
    struct list_node clients;
    unsigned nclients;
    uint32_t next_id;
    unsigned nkeys;
    char name[KEYS_MAX][40]; /* whole key */
    bool stopped;
    uint64_t version;
    char pool[POOL][96];
    uint64_t pool_version[POOL];
    unsigned npool;
    struct {
        char name[40];
        unsigned size, called, number;
    } fence;
    uint64_t ok, failed, lies;
};

/* --- histload.c --- */

/* Do something, unless it is at its end. */
void hl_next(struct histclient *c);
/* The client ends before its handle, which may be closed soon after. */
void hl_leave(struct histclient *c, bool lost);
/* One of those who called the fence at hand does so no more: nobody else should. */
void hl_fence_left(struct histclient *c);

/* --- histask.c: each asks one thing; when all answers are there, hl_finish() --- */

void hl_ask_commit(struct histclient *c);
void hl_ask_fence(struct histclient *c);
void hl_ask_get(struct histclient *c, enum what what, unsigned key, int flags);
void hl_ask_get_at(struct histclient *c, const char *root);
void hl_ask_list(struct histclient *c, enum what what);
void hl_ask_version(struct histclient *c, enum what what);
void hl_ask_wait(struct histclient *c, enum what what, uint64_t version);
void hl_drop_snapshot(struct histclient *c);
bool hl_fence_open(const histload_t *l);

/* --- histanswer.c --- */

void hl_finish(struct histclient *c);
void hl_watch_begin(struct histclient *c);
void hl_watch_end(struct histclient *c);

#endif
