/* What the files of the local link share.  ulink.c: life and the operations of its owner.
 * ulink_io.c: connections to neighbors.  ulink_gate.c: connections whose peers are not known yet.
 */
#ifndef ULINK_PRIVATE_H
#define ULINK_PRIVATE_H

#include <sys/socket.h>
#include <sys/un.h>

#include "libflux/framer.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "src/broker/link/linklog.h"
#include "src/broker/link/silence.h"
#include "src/broker/link/transport.h"
#include "ulink_wire.h"

#define ULINK_KEY_SIZE 41
#define ULINK_SCRATCH (128 * 1024)

typedef struct ulink ulink_t;

/* state        meaning                                          left when (by)
 * ULINK_NEW    outbound: connecting, or not accepted yet;       it was accepted (accepted); it is
 *              inbound: has not connected yet                   lost (ulink_peer_fail) or dropped
 *                                                               (ulink_drop); its hello was
 *                                                               accepted (ulink_peer_adopt)
 * ULINK_UP     messages pass                                    it is lost (ulink_peer_fail) or
 *                                                               dropped (ulink_drop)
 * ULINK_GONE   nothing more is sent or accepted                 ulink_peer_revive(): inbound:
 *                                                               another broker of its rank
 *                                                               connects; ring successor: again();
 *                                                               parent: move(); one beside the
 *                                                               parent is forgotten
 */
enum ulink_state { ULINK_NEW, ULINK_UP, ULINK_GONE };

struct ulink_peer {
    ulink_t *l;
    enum core_plane plane; /* CORE_TREE, which carries the events too, or CORE_RING */
    uint32_t rank;
    bool outbound; /* we connect to it (parent, ring successor) */
    enum ulink_state state;
    int fd; /* -1: not connected */
    framer_t *in;
    outq_t *out;
    flux_watcher_t *w;
    flux_watcher_t *retry;    /* outbound: timer until the next attempt to connect */
    double pause;             /* its time */
    struct silence_line line; /* since the connection, or the attempt, began */
    bool was_full;            /* the core got EAGAIN */
    bool blocked;             /* the socket accepts no more for now */
    bool deaf;                /* it has closed its end: what it had sent is still to be read */
    bool closing;             /* dropped: to be closed */
    bool allowed;             /* may connect */
    char key[ULINK_KEY_SIZE];
    char ticket
        [ULINK_KEY_SIZE];   /* parent: proves that it expects us, who are not its neighbor by the
                                    shape; "": it does */
    char *uri;              /* outbound: connected to */
    struct list_node dirty; /* in ulink.dirty: something to write, or to close */

    struct list_node other; /* in ulink.others */
    bool quiet;             /* it gets no events */

    struct list_node unread; /* in ulink.unread: more messages are there than one pass handles */
    struct list_node unreported; /* in ulink.unreported: its loss is to be reported to the core */
    char why[128];
};

/* A connection whose peer has not said who it is. */
struct ulink_stranger {
    ulink_t *l;
    struct list_node node;
    int fd;
    size_t bytes; /* that it has sent */
    framer_t *in;
    flux_watcher_t *w;
    flux_watcher_t *limit;
};

struct ulink {
    core_t *core;
    flux_reactor_t *r;
    uint32_t rank;
    char key[ULINK_KEY_SIZE];    /* "": none are used */
    char ticket[ULINK_KEY_SIZE]; /* for descendants whose parents are lost */
    struct silence_limits live;
    size_t queue_max;
    struct linklog log;
    bool (*claim)(void *arg, enum core_plane plane, uint32_t rank);
    void *claim_arg;
    bool started;

    int fd;          /* listens; -1: does not */
    char *uri;       /* unix://PATH or unix://@NAME */
    hmap_t *inbound; /* plane << 32 | rank -> struct ulink_peer */
    struct ulink_peer *parent, *next;
    struct list_node others; /* further brokers to which we connect as a child (beside()) */
    flux_watcher_t *accept;
    flux_watcher_t *starved; /* timer: accept again, after a lack of descriptors */
    bool starved_logged;     /* which was logged; nobody was accepted since */
    size_t peak;             /* most bytes that have waited for one neighbor */
    struct list_node strangers;
    unsigned nstrangers;

    struct list_node dirty, unread, unreported;
    flux_watcher_t *flush; /* defer: go on with messages, write, report, close */
    silence_t *silence;
    bool slow;    /* a child does not keep up with its events: tell the core */
    bool skipped; /* ... and events were not sent to it */
    uint8_t *scratch;
};

/* Expect a neighbor that connects.  NULL with ENOMEM. */
struct ulink_peer *ulink_add_inbound(ulink_t *l, enum core_plane plane, uint32_t rank);
void ulink_peer_free(void *val); /* NULL-safe */
/* Add the neighbor to which this broker connects.  NULL with ENOMEM. */
struct ulink_peer *ulink_add_outbound(ulink_t *l, enum core_plane plane, uint32_t rank);
struct ulink_peer *ulink_inbound(const ulink_t *l, enum core_plane plane, uint32_t rank);
/* The address of a "unix://PATH" or "unix://@NAME", and its length.  -1 with an error message. */
int ulink_address(const char *uri, struct sockaddr_un *sun, socklen_t *len, errmsg_t *err);
/* Is the process at the other end one of this user?  -1 with EPERM and an error message. */
int ulink_check_peer(int fd, errmsg_t *err);
/* One of the link's own messages, NULL with ENOMEM; `in` is of the struct that belongs to it. */
flux_msg_t *ulink_word_create(enum ulink_word word, const void *in);
/* Is it one, and not a message of the core? */
bool ulink_is_word(const flux_msg_t *msg);
/* Decode a message that has to be this word: the struct, and its owner.  NULL with EPROTO and an
 * error message. */
json_t *ulink_word_decode(enum ulink_word word, const flux_msg_t *msg, void *out, errmsg_t *err);
/* Are two keys the same?  The time does not depend on where they differ. */
bool ulink_same_key(const char *a, const char *b);

/* ulink_io.c */
int ulink_io_start(ulink_t *l); /* -1 with errno */
void ulink_io_stop(ulink_t *l);
/* Connect, now or later. */
void ulink_connect_peer(struct ulink_peer *p);
/* An inbound peer has connected; `fd` and `in` are taken over, even on failure.  -1 with ENOMEM. */
int ulink_peer_adopt(struct ulink_peer *p, int fd, framer_t *in);
/* A peer that is gone becomes NEW.  An inbound one: it is reported to the core as back; so from the
 * reactor only.  -1 with ENOMEM. */
int ulink_peer_revive(struct ulink_peer *p);
/* The operations of core_link_ops. */
int ulink_again(void *arg, enum core_plane plane, uint32_t rank);
int ulink_move(void *arg, const struct control_card *card, errmsg_t *err);
void ulink_swap(void *arg, uint32_t rank);
void ulink_quiet(void *arg, uint32_t rank);
/* The peer is lost: discard what waits for it, and tell the core from the reactor. */
void ulink_peer_fail(struct ulink_peer *p, const char *why);
void ulink_peer_close(struct ulink_peer *p); /* close the connection, if there is one */
int ulink_send(void *arg, enum core_plane plane, uint32_t rank, flux_msg_t *msg, bool force);
int ulink_publish(void *arg, const flux_msg_t *event);
void ulink_drop(void *arg, enum core_plane plane, uint32_t rank);
size_t ulink_peak(void *arg);
/* Write what waits for all peers, for at most `seconds`. */
void ulink_linger(ulink_t *l, double seconds);

/* ulink_gate.c */
int ulink_gate_start(ulink_t *l); /* -1 with errno */
void ulink_gate_stop(ulink_t *l);

#endif
