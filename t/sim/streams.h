/* What the files of the scenario `streams` share. */
#ifndef SIM_STREAMS_H
#define SIM_STREAMS_H

#include "libstream/stream_wire.h"
#include "sim.h"

#define STREAMS 5
#define STREAMS_RANKS 6 /* most writers of a stream */
#define STREAMS_SWITCHES 2
#define STREAMS_AWAY_MAX (61 * SIM_S) /* and a little, of src/modules/stream/away.c */

struct streams;

/* A writer or reader. It is there from its request until that has ended, or its client has. */
struct streams_member {
    struct streams_member *next;
    struct streams *ss;
    struct sim_ep *client;
    flux_future_t *f; /* destroyed with the handle of the client */
    unsigned serial;
    unsigned stream;
    bool writer;
    bool told;     /* a response has come, */
    int64_t heard; /* that one at this time, */
    bool answered; /* ... and one to the request as it was sent last */
    char *request; /* its payload */
    bool away;     /* it has to ask again, and has not done so yet */
    bool closed;   /* it has canceled its request */
    bool over;     /* its request was ended, */
    bool refused;  /* ... by the module, before it was there */
    bool removed;  /* its stream was removed: it has to learn that */
    bool far;      /* it is in another place than most */
    int64_t asked; /* when the request was sent */
    int64_t ended; /* when it was found to be over; 0: not yet */

    /* A writer. */
    uint32_t rank;
    uint32_t size;
    uint64_t job;
    bool launched;
    const char *start;
    bool alone; /* no other writer was there when it joined */
    uint64_t id;
    uint64_t epoch;
    uint64_t run;   /* as the first reader was told that was told of it */
    bool named;     /* there is such a reader */
    uint64_t begin; /* the step that it has begun with */
    uint64_t step;
    uint64_t need;    /* the first that a group needs of it */
    uint64_t counted; /* the step that was counted and answered */
    bool counting;    /* a count is not answered yet */
    uint32_t nstays;  /* readers that stay, as it was told last, */
    uint32_t nshares; /* and of those of them that are members of groups */
    char key[65];
    bool paused;
    double limit;
    hmap_t *demands; /* number of a reader -> struct streams_demand */

    /* A reader. */
    uint64_t number;
    const char *policy; /* that was set last, and is known to the module */
    const char *joined; /* policy when it joined */
    bool stay;          /* it waits for the next writers */
    bool shares;        /* it stays, and is a member of a group */
    uint64_t in_run;    /* of the last writer that joined */
    unsigned onoff;     /* number of its switch, plus 1; 0: none */
    bool off;           /* as it was told last: it is told together with writers */
    uint64_t last;      /* number of the last writer that joined */
    unsigned ntold;     /* how often it was told that a writer has joined */
    hmap_t *seen;       /* serial of a writer -> struct streams_seen */
};

/* What a writer was told of a reader. */
struct streams_demand {
    const char *policy;
    bool off;
};

/* What a reader was told of a writer. */
struct streams_seen {
    struct streams_member *w;
    uint64_t number;
    unsigned told;   /* how many writers the reader was told of, this one included */
    bool off;        /* what the reader says of itself when it connects to the writer */
    uint64_t epoch;  /* of the writer, */
    uint64_t beside; /* and the last of those that have joined while it was there; 0: none has */
    bool gone;
    bool more;  /* it will be told why once more */
    bool again; /* the reader has asked again, and was not told of it since then */
};

struct streams {
    sim_t *s;
    struct sim_ep *controller; /* at the root, which does not die */
    struct streams_member *members;
    unsigned nmembers;
    uint32_t size[STREAMS]; /* writers of the group that writes each stream, or of the next one */
    bool anchored[STREAMS]; /* a reader that never leaves keeps it, */
    bool shared[STREAMS];   /* which is a member of a group, and stays; */
    bool shares[STREAMS];   /* another one has been that */
    unsigned removed[STREAMS];
    bool control[STREAMS]; /* a change is not answered yet */
    bool paused[STREAMS];  /* as was answered */
    double limit[STREAMS];
    bool on[STREAMS_SWITCHES];
    bool turning;
    uint64_t most[STREAMS][STREAMS_RANKS]; /* with which the next writer has to begin at most, if
                                            * the stream is shared, plus 1; 0: with any */
    hmap_t *epochs;                        /* stream, rank and epoch that were given */
    unsigned reloads;
    int64_t reloaded; /* when that was the last time */
    unsigned answers; /* that the controller waits for */
};

/* --- members (streams_member.c) --- */

/* Is it there: told, not over, and its client alive? */
bool streams_in(const struct streams_member *m);
/* Does its client live, at a broker that is connected with the root? */
bool streams_lives(const struct streams_member *m);
/* Time that may pass until the module knows of a loss. */
int64_t streams_grace(const sim_t *s);
/* Send the request; NULL after sim_fail(). */
struct streams_member *streams_write(struct streams *ss, struct sim_ep *client, unsigned stream,
                                     uint32_t rank, const char *start);
struct streams_member *streams_read(struct streams *ss, struct sim_ep *client, unsigned stream);
/* Cancel the request. */
void streams_close(struct streams_member *m);
/* Report progress. */
void streams_count(struct streams_member *m);
/* Note the time at which those were over who are. */
void streams_note(struct streams *ss);
void streams_free(struct streams *ss);
const char *streams_name(unsigned stream);
/* One of the policies that readers have. */
const char *streams_policy(sim_t *s);
/* The run has failed: a member, what is wrong with it, and, if it is not NULL, another one. */
void streams_fail(const struct streams_member *m, const char *what,
                  const struct streams_member *of);

/* --- what must hold in the end (streams_proof.c) --- */

/* Everybody who is there knows what is. */
void streams_check(struct streams *ss);

#endif
