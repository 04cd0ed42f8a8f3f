/* The handshake of a reader and a writer on one host, and the options of a reader's queue.
 *
 * Thread rules: none; every function works only on its arguments.
 */
#ifndef STREAM_KNOCK_H
#define STREAM_KNOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define KNOCK_KEY_LEN 32 /* bytes of a stream's capability */
#define KNOCK_LEN 88
#define KNOCK_GROUP_MAX 63 /* bytes of the name of a group */
#define KNOCK_VAR_MAX 127  /* bytes of the name of a variable */
#define KNOCK_MAX 288      /* bytes of a knock: KNOCK_LEN, or of a member of a group or team this */
#define KNOCK_NAMES_LEN (KNOCK_MAX - KNOCK_LEN - 8)
#define KNOCK_HOLD_MAX 65535
#define KNOCK_TEAM_SIZE_MAX 1024 /* as many readers as a writer has */
#define KNOCK_WELCOME_LEN 40
#define KNOCK_CLAIM_LEN 16 /* bytes of a claim */

/* What happens to a step when the queue of a reader is full. */
enum knock_policy {
    KNOCK_BLOCK = 0,   /* the writer waits */
    KNOCK_DROP_OLDEST, /* the oldest waiting step is taken back */
    KNOCK_DROP_NEWEST, /* the reader does not get the step */
    KNOCK_LATEST,      /* all waiting steps are taken back, whether the queue is full or not */
    KNOCK_SAMPLE,      /* KNOCK_BLOCK, and only each `every`th step is offered */
};

/* A queue is full when it has `depth` steps; or at least 2, and more than `bytes` bytes. */
struct knock_want {
    enum knock_policy policy;
    uint32_t every;
    uint32_t depth; /* 1..LANE_SLOTS */
    uint64_t bytes;
    uint64_t reader; /* number at the module `stream`; 0: none */
    uint64_t seen; /* last complete step that the reader has had of earlier writers, plus 1; or 0 */
    bool off;      /* no steps are offered */
    /* for a member of a group: `depth` is the number of steps that it has at a time; `bytes` is for
     * the queue of the group */
    char group[KNOCK_GROUP_MAX + 1]; /* "": none */
    char key[KNOCK_VAR_MAX + 1];     /* variable; steps with equal values of it are kept in order */
    uint32_t hold;                   /* seconds that the group is given steps without members */
    bool follow;    /* another writer hands out the steps, and members claim them here */
    bool by_record; /* the records of a step are divided among members; `key` is a field of them */
    /* for a member of a team, all members of which are offered the same steps: */
    char team[KNOCK_GROUP_MAX + 1]; /* "": none */
    uint32_t rank;
    uint32_t size; /* of the team; 0: none */
};

/* block, and 2 steps or 64 MiB, whichever is more. */
void knock_want_init(struct knock_want *w);
/* "block", "drop-oldest", "drop-newest", "latest", "sample:K".  0, or -1 with EINVAL and an error
 * message. */
int knock_policy_parse(struct knock_want *w, const char *text, errmsg_t *err);

/* Make the options those of a member of a group that has the same `key` (NULL: none), with `depth`
 * 1.  0, or -1 with an error message and EINVAL (an invalid name, or a policy other than block). */
int knock_group_set(struct knock_want *w, const char *group, const char *key, errmsg_t *err);

/* "step" or "record": what the members of a group share.  0, or -1 with EINVAL and an error
 * message. */
int knock_by_set(struct knock_want *w, const char *by, errmsg_t *err);

/* Make the options those of rank `rank` of `size` processes that read as a team.  0, or -1 with an
 * error message and EINVAL (an invalid name, rank or size). */
int knock_team_set(struct knock_want *w, const char *team, uint32_t rank, uint32_t size,
                   errmsg_t *err);

/* Is each number in its range? */
bool knock_want_ok(const struct knock_want *w);
/* The rank in the team, or the seconds that the group is held. */
uint32_t knock_number(const struct knock_want *w);
/* The bytes of group, or team, and key, which may be "".  Decoding, when the size is set, and
 * `number` is that of knock_number(): 0, or -1 with EPROTO. */
void knock_names_encode(const struct knock_want *w, unsigned char buf[KNOCK_NAMES_LEN]);
int knock_names_decode(const unsigned char buf[KNOCK_NAMES_LEN], uint32_t number,
                       struct knock_want *w);

struct knock {
    unsigned char key[KNOCK_KEY_LEN];
    struct knock_want want;
};
/* Returns the length. */
size_t knock_encode(const struct knock *k, unsigned char buf[KNOCK_MAX]);
/* Say why a writer has refused a reader: the errno of its welcome.  Returns -1. */
int knock_refused(const struct knock_want *w, int errnum, errmsg_t *err);
/* 0, or -1 with EPROTO: not a message of a reader. */
int knock_decode(const unsigned char *buf, size_t len, struct knock *k);
/* What a member says to a writer that follows, once it has joined: it needs step `step`, and all
 * steps before `floor` are done. */
struct knock_claim {
    uint64_t step; /* KNOCK_NO_STEP: none, `floor` is all */
    uint64_t floor;
};
#define KNOCK_NO_STEP UINT64_MAX
void knock_claim_encode(const struct knock_claim *c, unsigned char buf[KNOCK_CLAIM_LEN]);
void knock_claim_decode(const unsigned char buf[KNOCK_CLAIM_LEN], struct knock_claim *c);
/* Compares in constant time. */
bool knock_key_equal(const unsigned char *a, const unsigned char *b);

struct knock_welcome {
    int errnum;    /* 0, or the reason why the reader is not admitted */
    uint64_t size; /* of the memory that holds steps */
};
void knock_welcome_encode(const struct knock_welcome *w, unsigned char buf[KNOCK_WELCOME_LEN]);
int knock_welcome_decode(const unsigned char *buf, size_t len, struct knock_welcome *w);

#endif
