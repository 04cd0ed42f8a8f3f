/* What the files of the scenario `jobs` share. */
#ifndef SIM_JOBS_H
#define SIM_JOBS_H

#include "libjob/job.h"
#include "libjob/jobspec_build.h"
#include "sim.h"

#define JOBS_CLIENTS_MAX 12
#define JOBS_IDS_MAX 4096
#define JOBS_BATCH_MAX 30

struct jobs;

/* A job as a client has asked for it, and been told that it was accepted. */
struct jobs_rec {
    uint64_t id;
    const char *spec;
    size_t len;
    int urgency;
    unsigned flags;
    size_t ndeps;
    double duration, grace;
    int code;
    char how;
    bool impossible;       /* no node has so much, or the options exclude each other */
    bool requeue, survive; /* what it is to do when it loses a node */
    int result;            /* that was told; -1: none */
    int told_code;
};

/* Somebody who waits for the end of jobs, or watches them. */
struct jobs_stream {
    struct jobs_stream *next;
    struct jobs *jobs;
    struct sim_ep *client;
    bool wait;
    uint64_t known; /* largest id when it was asked for */
    idset_t *left;  /* wait: not told yet */
    hmap_t *states; /* watch: id -> the state it was told last */
    bool over;
};

struct jobs_client {
    struct jobs *jobs;
    struct sim_ep *ep;
    unsigned left;    /* actions */
    const char *asks; /* for what it waits now, or NULL */
    bool done;
};

/* What clients know of a node. */
struct jobs_node {
    double drained;   /* since when for sure; 0: not for sure */
    double undrained; /* when that was answered last */
    unsigned unsure;  /* requests to undrain it that are not answered (and may never be) */
};

/* A node was drained for all of this time. */
struct jobs_window {
    struct jobs_window *next;
    uint32_t rank;
    double from, to;
};

struct jobs {
    sim_t *s;
    bool faults;      /* brokers stop and die */
    bool reloads;     /* modules are unloaded and loaded again */
    bool bad_store;   /* the store fails now and then for the job module */
    unsigned slower;  /* clients wait longer by this factor */
    unsigned longest; /* jobs run for up to 2^(longest-1) milliseconds */
    unsigned batch;   /* jobs that are submitted together at most */
    struct jobs_client clients[JOBS_CLIENTS_MAX];
    unsigned nclients;
    hmap_t *recs; /* id -> struct jobs_rec */
    uint64_t ids[JOBS_IDS_MAX];
    size_t nids;
    uint64_t max_id;
    idset_t *ended, *killed, *purged; /* ids: somebody has asked for it */
    struct jobs_node *nodes;          /* by rank */
    struct jobs_window *windows;
    uint64_t differs; /* this job is on record with another jobspec; 0: none */
    struct jobs_stream *streams;
    struct sim_ep *control; /* at rank 0 */
};

/* --- clients (jobs_client.c) --- */

void jobs_clients_add(struct jobs *j, unsigned n, unsigned actions);
bool jobs_clients_done(sim_t *s, void *arg);
/* Ask for something; the callback ends with jobs_client_done(). */
void jobs_client_ask(struct jobs_client *c, flux_future_t *f, const char *what, flux_future_f cb,
                     void *arg);
/* The answer is there: what is next?  `refusal`: an errno that this request may fail with. */
void jobs_client_done(struct jobs_client *c, flux_future_t *f, int refusal);
/* Is it one of those errors that what happens here may lead to? */
bool jobs_excused(const struct jobs *j, int errnum);

/* --- nodes (jobs_nodes.c) --- */

/* Drain or undrain some. */
void jobs_nodes_act(struct jobs_client *c);
/* Nothing is drained for sure any more. */
void jobs_nodes_over(struct jobs *j);
/* Seconds for which rank 0 has stood still: what it was to do then was late by that. */
double jobs_root_stood(const struct jobs *j);
/* A job was given resources there and then: could it be?  false: the node was drained. */
bool jobs_nodes_allowed(const struct jobs *j, uint32_t rank, double t);

/* --- streams (jobs_stream.c) --- */

/* Wait for these jobs, or watch them; `ids` NULL: those that are active, or all. */
void jobs_stream_add(struct jobs *j, struct sim_ep *client, bool wait, const char *ids);
/* Streams of those that are still there have said all. */
void jobs_streams_check(struct jobs *j);
void jobs_streams_free(struct jobs *j);

/* --- at the end (jobs_proof.c) --- */

/* Wait for the answer; NULL after sim_fail().  To be destroyed. */
flux_future_t *jobs_ask(struct jobs *j, flux_future_t *f, const char *what);
/* Let all jobs come to their end. */
void jobs_finish(struct jobs *j);
/* Read all that is on record, and prove that it is right. */
void jobs_prove(struct jobs *j);

#endif
