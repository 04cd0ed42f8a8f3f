/* Declarations that connector.c and connector_client.c share. */
#ifndef BROKER_CONNECTOR_PRIVATE_H
#define BROKER_CONNECTOR_PRIVATE_H

#include "chores.h"
#include "connector.h"
#include "core_private.h"
#include "libflux/framer.h"
#include "libutil/list.h"
#include "listener.h"
#include "turns.h"

#define SCRATCH_SIZE 65536
#define READ_SEVERAL 4096
/* Events and parts of streams that are written at once in one pass; each takes a system call. */
#define WRITE_FEW 4
#define RETRY 0.25

enum client_state { CLIENT_OPEN, CLIENT_CLOSING, CLIENT_DEAD };

struct client {
    connector_t *cn;
    struct list_node node;       /* in connector.clients */
    struct list_node dirty_node; /* in connector.dirty (work after this pass), dead, or full */
    struct list_node held;       /* in connector.held */
    struct turn turn;
    int fd;
    pid_t pid;
    enum client_state state;
    bool paused;
    bool blocked; /* waiting for POLLOUT */
    bool in_input;
    bool urgent;  /* a response is in its output */
    bool put_off; /* in connector.full */
    bool shut;    /* dead, and no more data can be sent to it */
    bool grace;   /* one batch may be read although it has many unanswered requests */
    const char *why;
    endpoint_t *ep;
    framer_t *in;
    outq_t *out;
    size_t counted; /* bytes of `out` that are in connector.waiting */
    flux_watcher_t *io;
    double pass; /* reactor time at which a message was last written at once */
};

struct connector {
    core_t *core;
    flux_reactor_t *r;
    listener_t *listener;  /* NULL: only adopted clients */
    flux_watcher_t *retry; /* retries accept, and wakes paused clients that nothing else wakes */
    flux_watcher_t *sweep;
    chores_t *chores;
    bool knocks; /* a client waits to be accepted */
    struct list_node clients;
    struct list_node dirty;
    struct list_node dead;
    unsigned ndead;
    struct list_node full; /* clients with output that is written as a chore */
    struct list_node held; /* ... clients whose output is written before the loop sleeps, or with
                            * later output */
    flux_watcher_t *later;
    size_t waiting;   /* bytes that wait for all clients that are not dead */
    double pass;      /* reactor time of the pass in which */
    unsigned written; /* this number of events and parts of streams was written at once */
    turns_t *turns;
    uint8_t *scratch;
    flux_msg_t *hello;
    flux_msg_t *poor;    /* for a client for which there is no memory */
    uint64_t life;       /* see local_proto.h */
    bool relief;         /* some client is no longer congested */
    bool starved;        /* no descriptors: accept has stopped */
    bool starved_logged; /* ... which was logged; no client was accepted since */
    bool crowded;        /* the last client was refused for lack of room, which was logged */
    bool short_logged;   /* the first refusal for lack of memory was logged */
    struct connector_limits limits;
    struct connector_stats stats;
};

/* --- connector_client.c --- */

extern const struct endpoint_ops connector_client_ops;
/* Note that there is work for the client after this pass. */
void connector_client_mark(struct client *cl);
/* Watch the socket for the events that the state of the client permits. */
void connector_client_set_events(struct client *cl);
void connector_client_remove_endpoint(struct client *cl);
/* Mark a client as dead.  `why` is a constant.  The core may be working for this client, so its
 * endpoint is removed later. */
void connector_client_kill(struct client *cl, const char *why);
/* The same, and tell the client, for lack of memory; this takes none. */
void connector_client_starve(struct client *cl, const char *why);
/* Tell a client on this connection, to which nothing is partly written. */
void connector_say_poor(const connector_t *cn, int fd);
/* Set the text for a client. */
void connector_no_memory(const connector_t *cn, errmsg_t *why);
/* Pause a client if much output waits for it, or neighbors or modules do not keep up with its
 * requests. */
void connector_client_update_pause(struct client *cl);
void connector_client_flush(struct client *cl);
/* Send an error frame, the last message for this client, and close the connection. */
void connector_client_close(struct client *cl, int errnum, const char *text);
/* Read, and pass on at most `left` messages.  Returns their number. */
unsigned connector_client_read(struct client *cl, unsigned left);
/* Are there messages that were read and may be passed on? */
bool connector_client_has_more(const struct client *cl);
/* Handle new input of a client, or the rest of earlier input. */
void connector_client_take_input(struct client *cl);
void connector_client_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg);
void connector_client_free(struct client *cl);
/* The client's output need not be written before the loop sleeps. */
void connector_client_hold(struct client *cl);

#endif
