/* What clients of a key-value store asked and were told, and whether that keeps the promises.
 *
 *    history_t *h = history_create();
 *    size_t op = history_begin(h, t, client, rank, NULL, HIST_COMMIT);
 *    history_ask(h, op, HIST_PUT, "a.b", "7.1", 3);
 *    history_asked(h, op);                                     the request leaves
 *    history_answer(h, op, t, HIST_OK, 0, version, rootref);   its answer is here
 *    history_answered(h, op);
 *    ...
 *    if (history_check(h, &report) == 0 && report.count == 0)  all promises were kept
 *
 * Values are made of tokens: every put and every append writes one that nobody else ever writes, so
 * that a value tells who wrote it.  In the store a token is followed by a semicolon: what was put
 * and then appended to twice is "3.1;5.9;3.2;".  Tildes before the semicolon are padding.
 *
 * Pure: no clock, no messages.  Not thread-safe.  history.c has the format of the log file,
 * histcheck.c the promises and how they are checked.
 */
#ifndef HISTORY_HISTORY_H
#define HISTORY_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "libutil/errmsg.h"

typedef struct history history_t;

enum hist_call {
    HIST_COMMIT,
    HIST_FENCE,   /* `fence` names it, `nprocs` */
    HIST_GET,     /* keys now, all of them at one root, or at `at` */
    HIST_VERSION, /* which one is it */
    HIST_WAIT,    /* for version `want` */
    HIST_WATCH,   /* one result of watching a key: the client's stream number `want` */
};
enum hist_outcome {
    HIST_OPEN,    /* no answer yet */
    HIST_OK,      /* done */
    HIST_FAIL,    /* surely not done */
    HIST_UNKNOWN, /* perhaps done, perhaps later, perhaps never */
};
enum hist_item_kind {
    HIST_PUT,
    HIST_APPEND,
    HIST_UNLINK,
    HIST_GUARD,  /* the key has this value, or is absent */
    HIST_KEY,    /* asked for */
    HIST_RESULT, /* what was there */
};

/* A key with the tokens of its value: `ntokens` from history_token_at(h, tokens). */
struct hist_item {
    enum hist_item_kind kind;
    bool absent; /* GUARD, RESULT: no such key */
    uint32_t key;
    uint32_t tokens, ntokens;
};

#define HIST_NO_VERSION UINT64_MAX
#define HIST_NEVER UINT64_MAX

/* One operation.  Names are numbers (1 ..), see history_name(). */
struct hist_op {
    uint32_t client;
    uint32_t rank;
    uint32_t number; /* of this client's operations */
    uint32_t ns;
    enum hist_call call;
    enum hist_outcome outcome;
    uint64_t invoked, answered; /* no two are equal; HIST_NEVER */
    uint64_t want;
    uint64_t version; /* told in the answer, or HIST_NO_VERSION */
    uint32_t root;    /* told in the answer, or 0 */
    uint32_t at;      /* root to read at, or 0 */
    uint32_t fence;
    uint32_t nprocs;
    uint32_t error;
    uint32_t items, nitems;     /* asked: from history_item_at(h, items) */
    uint32_t results, nresults; /* answered */
};

/* --- recording (history.c) --- */

history_t *history_create(void); /* NULL with ENOMEM */
void history_destroy(history_t *h);

/* Write every operation to `f` as well when it is asked and answered; NULL: no more. */
void history_log(history_t *h, FILE *f);

/* A new operation; `t` is its time, any unit, moved on when it is not later than the last one.
 * `ns` NULL: the primary one.  Its number.  Memory that is out is remembered, and fails the
 * check. */
size_t history_begin(history_t *h, uint64_t t, uint32_t client, uint32_t rank, const char *ns,
                     enum hist_call call);
/* Only for the operation begun last.  PUT, APPEND: `data` is the token; GUARD: the value as it is
 * stored, NULL for absent; others: NULL. */
void history_ask(history_t *h, size_t op, enum hist_item_kind kind, const char *key,
                 const void *data, size_t len);
void history_set_fence(history_t *h, size_t op, const char *name, uint32_t nprocs);
void history_set_want(history_t *h, size_t op, uint64_t version);
void history_set_at(history_t *h, size_t op, const char *rootref);
void history_asked(history_t *h, size_t op);
/* `rootref` may be NULL. */
void history_answer(history_t *h, size_t op, uint64_t t, enum hist_outcome outcome, int errnum,
                    uint64_t version, const char *rootref);
/* Only for the operation answered last.  `data` is the value as it is stored, NULL for absent. */
void history_got(history_t *h, size_t op, const char *key, const void *data, size_t len);
void history_answered(history_t *h, size_t op);

/* A token as it is stored, padded to `size` bytes (at least its length plus one), without a NUL. */
size_t history_encode(char *buf, const char *token, size_t size);

/* Read a log file, added to what is there.  0, or -1 with EPROTO and a sentence that names the
 * line. */
int history_read(history_t *h, FILE *f, const char *name, errmsg_t *err);
/* Write all of it, in order of time.  0, or -1 with errno. */
int history_write(const history_t *h, FILE *f);

/* --- looking --- */

size_t history_count(const history_t *h);
struct hist_op *history_op(const history_t *h, size_t op);
struct hist_item *history_item_at(const history_t *h, size_t i);
uint32_t *history_token_at(const history_t *h, size_t i);
/* Names, by number and the other way round: keys, tokens, roots, and others. */
enum hist_names { HIST_KEYS, HIST_TOKENS, HIST_ROOTS, HIST_OTHERS, HIST_NAMES };
const char *history_name(const history_t *h, enum hist_names table, uint32_t n);
uint32_t history_intern(history_t *h, enum hist_names table, const char *name, size_t len);
uint32_t history_names(const history_t *h, enum hist_names table); /* how many; the last number */
/* A copy of `n` tokens at the end of them; where it is. */
uint32_t history_add_tokens(history_t *h, const uint32_t *tokens, size_t n);
/* One line on it: "client 3 at rank 5: get a b -> ...". */
void history_describe(const history_t *h, size_t op, char *buf, size_t size);
bool history_failed(const history_t *h); /* memory was out */

/* --- checking (histcheck.c) --- */

enum hist_kind {
    HV_MALFORMED,    /* the log itself makes no sense */
    HV_NOWHERE,      /* a value that nobody wrote */
    HV_FUTURE,       /* a value before it was written */
    HV_FAILED,       /* a value of a commit that failed */
    HV_STALE,        /* a value that had been replaced at that version */
    HV_LOST,         /* an acknowledged write that nobody saw, where it should stand */
    HV_TORN,         /* part of a commit without the rest */
    HV_CONTENTS,     /* one version with different contents */
    HV_ROOT,         /* one version with two roots, or one root with two versions */
    HV_OWN_WRITES,   /* older than the client's own commit */
    HV_MONOTONIC,    /* older than what the client had seen, or a stream had brought */
    HV_CAUSAL,       /* older than what the client had waited for */
    HV_BROKER,       /* older than what another client of the same broker had seen */
    HV_MASTER,       /* at the master's rank: older than what anybody had seen */
    HV_FOLLOWS,      /* a commit that is not newer than what its client had seen */
    HV_REALTIME,     /* a commit that is not newer than what somebody had seen before it began */
    HV_WAIT,         /* a wait that ended too early */
    HV_FENCE,        /* a fence over too early, or with two versions */
    HV_WINNERS,      /* two commits passed with the same guard */
    HV_GUARD,        /* a commit passed though its guard was not so */
    HV_APPEND_TWICE, /* one append, twice in a value */
    HV_APPEND_LOST,  /* an acknowledged append that is not in a value */
    HV_APPEND_ORDER, /* appends in another order than their versions, or in two orders */
    HV_KINDS
};
const char *hist_kind_name(enum hist_kind kind);

struct hist_violation {
    enum hist_kind kind;
    char text[1200];
};
#define HIST_REPORT_MAX 20
struct hist_report {
    size_t count;
    size_t of_kind[HV_KINDS];
    struct hist_violation first[HIST_REPORT_MAX];
    /* what there was */
    size_t ops, commits, fences, reads, values, unknown, unknown_seen, failed, guards_passed, roots;
};
struct hist_options {
    bool master_known;
    const char *ns;  /* of this namespace (NULL: the primary one) */
    uint32_t master; /* this rank's reads are never older than any answer */
};
/* 0 (look at report->count), or -1 with ENOMEM.  `o` may be NULL. */
int history_check(const history_t *h, const struct hist_options *o, struct hist_report *report);

#endif
