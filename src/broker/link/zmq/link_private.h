/* Declarations that the files of the link share.
 *
 *     link.c           keys, listening, and the public calls
 *     link_sock.c      sockets and their options
 *     link_out.c       connections that this broker opens
 *     link_io.c        the work when a socket is ready
 *     link_claim.c     which broker has connected
 *     link_gate.c      incoming connections, and the monitors
 *     link_patience.c  the limits for incoming connections
 *     link_beat.c      signs of life
 *     link_queue.c     queues of messages
 */
#ifndef BROKER_LINK_PRIVATE_H
#define BROKER_LINK_PRIVATE_H

#include "libutil/hmap.h"
#include "libutil/list.h"
#include "link.h"
#include "../linklog.h"
#include "../silence.h"
#include "link_queue.h"
#include "zap.h"

#define LINK_ID_NAME 5 /* plane and rank */
#define LINK_ID_SIZE (LINK_ID_NAME + sizeof(struct link_attempt))
#define LINK_WORD_MAX 39 /* shorter than a message header: a control word */
#define LINK_WORD_CUT "cut"
#define LINK_WORD_REFUSED "refused: " /* followed by the reason: */
#define LINK_WHY_VERSION "another version of Flux"
#define LINK_WHY_NO_BROKER "it is not a broker"
#define LINK_WHY_NO_NEIGHBOR "not a neighbor"
#define LINK_WHY_KEY "the key is of another rank"
#define LINK_WHY_TAKEN "the rank is connected"
#define LINK_KEY_SIZE (ZAP_KEY_SIZE + 1)

/* One attempt of a broker to connect to a neighbor, which has one or two connections. */
struct link_attempt {
    uint32_t broker; /* random number: a later broker of the same rank has another one */
    uint32_t number; /* the later, the larger; 0: none */
};

/* state       meaning                                       left when (by)
 * LINK_NEW    nothing was received yet                      a frame came (take_frame); it is lost
 *                                                           (link_peer_fail) or dropped (op_drop)
 * LINK_UP     messages pass                                 it is lost (link_peer_fail) or dropped
 *                                                           (op_drop)
 * LINK_GONE   nothing more is sent or accepted              link_peer_renew(): inbound: another
 *                                                           broker of its rank connects; ring
 *                                                           successor: again(); parent: move()
 */
enum link_peer_state { LINK_NEW, LINK_UP, LINK_GONE };

struct link_peer {
    link_t *l;
    enum core_plane plane; /* CORE_TREE or CORE_RING */
    uint32_t rank;
    bool outbound; /* this broker connects to it (parent, ring successor) */
    enum link_peer_state state;
    bool handshaken; /* outbound: the handshake succeeded, so the end of the connection is final */
    bool greeted;    /* inbound: its connection is known to the gate */
    struct silence_line line;
    int fd;         /* descriptor of the connection of the last frame; only for queries */
    uint64_t taken; /* see ask_kernel() in link_beat.c */
    double logged;  /* reactor time of the last log message about its handshakes; 0: none */
    bool event_up;  /* child: its event connection is in place */
    bool connected; /* child: its event connection exists, even after this broker gave it up */
    bool cut_due;   /* given up by this broker; it gets the word "cut" if it stays connected */
    bool was_full;  /* the core got EAGAIN */
    bool blocked;   /* ZeroMQ accepts no more for now */
    struct link_source *source;
    struct link_out *out; /* outbound: its sockets */
    bool quiet;           /* child: it gets its events from another parent */
    bool adopted;         /* inbound: it has lost its parent, and is not a neighbor by the shape */
    bool tries;           /* outbound: the core has other parents to try */
    struct link_attempt attempt; /* present attempt: other connections do not belong to the peer */
    bool named;                  /* inbound: a frame with its key came, on the connection ... */
    uint8_t id[LINK_ID_SIZE];    /* ... with this routing id */
    char key[LINK_KEY_SIZE];     /* "": not allowed to connect */
    struct link_queue queue;
    struct list_node work;       /* in link.dirty or link.blocked */
    struct list_node unreported; /* in link.unreported: to be reported to the core */
    char why[96];
};

/* A ZeroMQ socket that is watched. */
struct link_source {
    link_t *l;
    void *sock;
    flux_watcher_t *w;
    /* Read a bounded part of the frames that have arrived. */
    void (*drain)(struct link_source *src);
    struct link_peer *peer; /* the peer behind an outbound socket or its monitor */
    bool again;             /* frames may be left: read without waiting for the descriptor */
    char *uri;              /* connected or bound to */
};

enum {
    SRC_IN,      /* ROUTER: tree children, ring predecessor */
    SRC_PUB,     /* XPUB: sends events to children, reads their subscriptions */
    SRC_ZAP,     /* authentication */
    SRC_IN_MON,  /* PAIR: monitor of SRC_IN ... */
    SRC_PUB_MON, /* ... and of SRC_PUB */
    SRC_COUNT,
};

/* A connection that this broker opens (link_out.c). */
struct link_out {
    struct list_node node; /* in link.outs */
    struct link_peer *peer;
    struct link_source messages;    /* DEALER */
    struct link_source mon;         /* PAIR: monitor of `messages` */
    struct link_source events;      /* SUB: events of the parent */
    struct silence_line event_line; /* line of these events ... */
    int event_fd;
    uint64_t event_taken;
    bool event_heard; /* ... of which one has arrived */
    bool over;        /* to be closed and freed */
};

struct link {
    core_t *core;
    flux_reactor_t *r;
    void *ctx;
    bool curve;
    char public_key[LINK_KEY_SIZE];
    char secret_key[LINK_KEY_SIZE];
    struct silence_limits live;
    double handshake; /* seconds; 0: the default of link_gate.c */
    size_t queue_max;
    size_t peak; /* maximum of bytes that have waited for one neighbor, or for all as events */
    struct linklog log;
    bool (*claim)(void *arg, enum core_plane plane, uint32_t rank);
    void *claim_arg;
    char *card_tree, *card_event; /* NULL: the addresses at which it listens */
    unsigned monitors;            /* number of sockets ever monitored, for names */
    struct link_attempt attempt;  /* the latest one */
    struct link_attempt refused;  /* the latest one of another broker that was refused */

    uint32_t rank;
    uint32_t nchildren;
    bool started;
    zap_t *zap;
    struct link_source src[SRC_COUNT];
    hmap_t *inbound;                 /* plane << 32 | rank -> struct link_peer */
    struct link_peer *parent, *next; /* NULL: none */
    struct list_node outs;           /* struct link_out: theirs, and those of other parents */

    struct link_queue events;
    unsigned event_up; /* children whose event connection is in place */
    bool event_blocked;
    double event_blocked_since;

    struct list_node dirty;   /* peers with something to send */
    struct list_node blocked; /* peers for which ZeroMQ accepts no more */
    struct list_node unreported;
    flux_watcher_t *flush; /* defer */
    flux_watcher_t *again; /* timer of 0 s: read the sockets that are marked `again` */
    flux_watcher_t *cut;   /* timer: see peer_cut() */
    flux_watcher_t *retry; /* timer, only while something is blocked */
    silence_t *silence;    /* see link_beat.c */
    struct link_gate *gate;
    struct {                           /* for tests */
        uint64_t msgs_out, frames_out; /* messages per frame measure the batching */
        uint64_t malformed;            /* dropped: not a message */
        uint64_t misclaimed;           /* dropped: the peer's rank and key do not match */
        uint64_t outdated;             /* dropped: of an attempt before the latest one */
        uint64_t event_skips; /* times that events were sent without waiting for a slow child */
    } stats;
};

/* link_io.c */
int link_io_start(link_t *l);
int link_io_watch(link_t *l); /* watch the sockets opened since; -1 with errno */
void link_io_stop(link_t *l);
/* Hand ZeroMQ all frames that it accepts. */
void link_io_flush(link_t *l);
void link_drain_in(struct link_source *src);
void link_drain_peer(struct link_source *src);
void link_drain_all_in(link_t *l); /* read all frames that have arrived at SRC_IN */
/* End the reports about this peer, and discard the messages that wait for it. */
void link_peer_leave(struct link_peer *p);
/* Forget the state of an earlier connection: the peer is LINK_NEW. */
void link_peer_renew(struct link_peer *p);
/* Handle the loss of a peer: discard the messages that wait for it, and notify the core from the
 * reactor. */
void link_peer_fail(struct link_peer *p, const char *why);
/* Send a word (which may be empty) past the queue.  It is dropped if it cannot be sent now. */
void link_send_word(struct link_peer *p, const char *word);
/* Notify the core of lost peers.  Called from the reactor only. */
void link_report_lost(link_t *l);
void link_drain_pub(struct link_source *src);
void link_drain_sub(struct link_source *src);
void link_drain_zap(struct link_source *src);

/* link_sock.c */
int link_set_int(void *sock, int option, int value);
int link_set_ipv6(void *sock, const char *uri);
/* Set TCP keepalives.  link_beat.c detects a silent peer; the kernel detects a TCP connection that
 * is broken while other connections of the peer work and carry signs of life for it.  The
 * heartbeats of ZeroMQ would detect it too, but they also count time during which both ends were
 * suspended with their virtual machines, and then end sound connections. */
int link_set_keepalive(const link_t *l, void *sock);
int link_secure_server(const link_t *l, void *sock);
int link_secure_client(const link_t *l, void *sock, const char *server_key);
/* Open a socket with the options that all sockets share.  Returns NULL with errno of ZeroMQ. */
struct link_source *link_source_open(link_t *l, struct link_source *src, int type,
                                     void (*drain)(struct link_source *));
void link_source_close(struct link_source *src);
/* Close a socket, and drop the frames that wait in it. */
void link_source_discard(struct link_source *src);

/* link_out.c: the operations of link_ops that connect, and: */
int link_connect(void *arg, enum core_plane plane, uint32_t rank, const char *tree_uri,
                 const char *event_uri, const char *public_key, errmsg_t *err);
int link_again(void *arg, enum core_plane plane, uint32_t rank, const char *tree);
void link_out_start(link_t *l); /* the link has been started */
int link_move(void *arg, const struct control_card *card, errmsg_t *err);
int link_beside(void *arg, const struct control_card *card, errmsg_t *err);
void link_swap(void *arg, uint32_t rank);
void link_drain_monitor(struct link_source *src);
/* Return the parent, next parent or earlier parent of this rank that is connected, or NULL. */
struct link_peer *link_parent_of_rank(const link_t *l, uint32_t rank);
/* End the connection of a neighbor that is dropped or lost, unless the core may renew it. */
void link_out_done(struct link_peer *p);
/* Free the connections that are over.  Called from the reactor only. */
void link_out_reap(link_t *l);
void link_out_stop(link_t *l);    /* close all sockets */
void link_out_destroy(link_t *l); /* free all peers */

/* link_claim.c */
/* Read a routing id, and a subscription that is a claim.  False: it is neither. */
bool link_parse_id(const void *data, size_t len, enum core_plane *plane, uint32_t *rank,
                   struct link_attempt *at);
bool link_parse_subscription(const void *frame, size_t len, uint32_t *rank,
                             struct link_attempt *at);
/* Return the peer that has sent this frame, or NULL after refusing it. */
struct link_peer *link_identify(link_t *l, zmq_msg_t *id, zmq_msg_t *frame);
/* Return what to do about a broker that is refused for this reason. */
const char *link_refusal_advice(const char *why);
/* Take a subscription: to all events, or to the topic by which a child shows that it gets them. */
void link_take_subscription(link_t *l, zmq_msg_t *frame);

/* link_gate.c */
struct link_gate *link_gate_create(link_t *l);
void link_gate_destroy(struct link_gate *g);
/* Monitor the connections of the bound socket `which` (SRC_IN, SRC_PUB). */
int link_gate_guard(link_t *l, int which);
/* Admit the connection of `frame`, which belongs to neighbor `p`, as its key proves. */
void link_gate_admit(link_t *l, int which, zmq_msg_t *frame, struct link_peer *p);
/* Cut off the connection of `frame`, whose sender is not a neighbor. */
void link_gate_reject(link_t *l, int which, zmq_msg_t *frame);
/* Return "ADDRESS:PORT" of the connection of `frame`. */
const char *link_gate_address(link_t *l, int which, zmq_msg_t *frame);
/* Detach the connections of an earlier attempt from this neighbor. */
void link_gate_forget(link_t *l, struct link_peer *p);
/* Note that a neighbor has proved its key on a connection from this address. */
void link_gate_known(link_t *l, const char *host);
int link_gate_start(link_t *l);
void link_gate_stop(link_t *l);

/* link_beat.c */
int link_beat_start(link_t *l);
void link_beat_stop(link_t *l);

/* link.c: the operations of link_ops that set up and destroy a link. */
int link_bind(void *arg, const char *tree_uri, const char *event_uri, errmsg_t *err);
const char *link_tree_uri(void *arg);
const char *link_event_uri(void *arg);
int link_rebind(void *arg, errmsg_t *err);
int link_allow(void *arg, uint32_t rank, const char *public_key, errmsg_t *err);
int link_card(void *arg, struct control_card *card);
bool link_reached(void *arg, enum core_plane plane, uint32_t rank);
int link_start(void *arg, errmsg_t *err);
void link_destroy(void *arg);

/* Cut off the part after '+', which names the UNIX socket of a broker with mixed links. */
void link_trim(char *uri);
/* Check the public key of a rank.  Returns -1 with EINVAL and an error message. */
int link_check_key(const link_t *l, uint32_t rank, const char *key, errmsg_t *err);
struct link_peer *link_peer_create(link_t *l, enum core_plane plane, uint32_t rank);
void link_peer_free(void *val); /* NULL-safe */
/* Expect a neighbor that connects.  Returns NULL with ENOMEM. */
struct link_peer *link_add_inbound(link_t *l, enum core_plane plane, uint32_t rank);
struct link_peer *link_inbound(const link_t *l, enum core_plane plane, uint32_t rank);

#endif
