/* Declarations that the files of the local link share.
 *
 *     ulink.c        start and end, and the operations of its owner
 *     ulink_io.c     connections to neighbors
 *     ulink_gate.c   connections whose peers are not known yet
 *     ulink_wire.c   messages of the link itself
 */
#ifndef ULINK_PRIVATE_H
#define ULINK_PRIVATE_H

#include <sys/socket.h>
#include <sys/un.h>

#include "libflux/framer.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "src/broker/link/linklog.h"
#include "src/broker/link/pulse.h"
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
    enum core_plane plane; /* CORE_TREE, which also carries the events, or CORE_RING */
    uint32_t rank;
    bool outbound; /* this broker connects to it (parent, ring successor) */
    enum ulink_state state;
    int fd; /* -1: not connected */
    framer_t *in;
    outq_t *out;
    flux_watcher_t *w;
    flux_watcher_t *retry;    /* outbound: timer until the next attempt to connect */
    double pause;             /* pause before that attempt */
    struct silence_line line; /* since the connection, or the attempt, began */
    pulse_view_t *view;       /* view of its pulse; NULL: it sends its signs of life */
    bool shown;               /* the pulse of this broker was shown to it ... */
    bool viewed;              /* ... and it has a view of it */
    bool was_full;            /* the core got EAGAIN */
    bool blocked;             /* the socket accepts no more data for now */
    bool deaf;                /* it has closed its end; data before that are still to be read */
    bool closing;             /* it was dropped, and is to be closed */
    bool allowed;             /* it may connect */
    char key[ULINK_KEY_SIZE];
    /* parent: proves that it expects this broker, which is not its neighbor by the shape; "": no
     * proof is needed */
    char ticket[ULINK_KEY_SIZE];
    bool tries;             /* outbound: the core has other parents to try */
    bool adopted;           /* inbound: it is not a neighbor by the shape */
    char *uri;              /* outbound: address of its socket */
    struct list_node dirty; /* in ulink.dirty: it has data to write, or is to be closed */

    struct list_node other; /* in ulink.others */
    bool quiet;             /* it gets no events from this broker */

    struct list_node unread;     /* in ulink.unread: it has more messages than one pass handles */
    struct list_node unreported; /* in ulink.unreported: its loss is to be reported to the core */
    char why[192];
};

/* A connection whose peer is not known yet. */
struct ulink_stranger {
    ulink_t *l;
    struct list_node node;
    int fd;
    size_t bytes; /* bytes that it has sent */
    framer_t *in;
    flux_watcher_t *w;
    flux_watcher_t *limit;
};

struct ulink {
    core_t *core;
    flux_reactor_t *r;
    uint32_t rank;
    char key[ULINK_KEY_SIZE];    /* key of this broker; "": keys are not used */
    char ticket[ULINK_KEY_SIZE]; /* ticket for descendants that have lost their parents */
    struct silence_limits live;
    size_t queue_max;
    struct linklog log;
    bool (*claim)(void *arg, enum core_plane plane, uint32_t rank);
    void *claim_arg;
    bool started;

    int fd;          /* listening socket; -1: none */
    char *uri;       /* unix://PATH or unix://@NAME */
    hmap_t *inbound; /* plane << 32 | rank -> struct ulink_peer */
    struct ulink_peer *parent, *next;
    struct list_node others; /* further parents to which this broker connects (beside()) */
    flux_watcher_t *accept;
    flux_watcher_t *starved; /* timer: accept again, after a lack of descriptors */
    bool starved_logged;     /* the lack was logged; no connection was accepted since */
    size_t peak;             /* maximum of bytes that have waited for one neighbor */
    struct list_node strangers;
    unsigned nstrangers;

    struct list_node dirty, unread, unreported;
    flux_watcher_t *flush; /* defer: handle, write, report, close */
    silence_t *silence;
    pulse_t *pulse; /* NULL: all signs of life are sent ... */
    bool no_pulse;  /* ... for there is no memory for it */
    bool slow;      /* a child does not keep up with its events: tell the core */
    bool skipped;   /* ... and events were not sent to it */
    uint8_t *scratch;
};

/* Expect a neighbor that connects.  Returns NULL with ENOMEM. */
struct ulink_peer *ulink_add_inbound(ulink_t *l, enum core_plane plane, uint32_t rank);
void ulink_peer_free(void *val); /* NULL-safe */
/* Add the neighbor to which this broker connects.  Returns NULL with ENOMEM. */
struct ulink_peer *ulink_add_outbound(ulink_t *l, enum core_plane plane, uint32_t rank);
struct ulink_peer *ulink_inbound(const ulink_t *l, enum core_plane plane, uint32_t rank);
/* Convert "unix://PATH" or "unix://@NAME" to the address of a socket, and its length.  Returns -1
 * with an error message. */
int ulink_address(const char *uri, struct sockaddr_un *sun, socklen_t *len, errmsg_t *err);
/* Check that the process at the other end belongs to this user.  Returns -1 with EPERM and an error
 * message. */
int ulink_check_peer(int fd, errmsg_t *err);
/* Create a message of the link itself, from the structure that belongs to it.  Returns NULL with
 * ENOMEM. */
flux_msg_t *ulink_word_create(enum ulink_word word, const void *in);
/* Returns whether a message is one of the link itself, not of the core. */
bool ulink_is_word(const flux_msg_t *msg);
/* Decode a message that has to be this word into its structure.  Returns the owner of its strings,
 * or NULL with EPROTO and an error message. */
json_t *ulink_word_decode(enum ulink_word word, const flux_msg_t *msg, void *out, errmsg_t *err);
/* Returns whether two keys are equal.  The time does not depend on where they differ. */
bool ulink_same_key(const char *a, const char *b);

/* ulink_io.c */
int ulink_io_start(ulink_t *l); /* -1 with errno */
void ulink_io_stop(ulink_t *l);
/* Connect, now or later. */
void ulink_connect_peer(struct ulink_peer *p);
/* Give an inbound peer its connection.  `fd` and `in` are taken over, even on failure.  Returns -1
 * with errno. */
int ulink_peer_adopt(struct ulink_peer *p, int fd, framer_t *in);
/* Make a peer that is gone NEW.  An inbound peer is reported to the core as back, so this is called
 * from the reactor only.  Returns -1 with ENOMEM. */
int ulink_peer_revive(struct ulink_peer *p);
/* Operations of core_link_ops. */
int ulink_again(void *arg, enum core_plane plane, uint32_t rank, const char *tree);
bool ulink_reached(void *arg, enum core_plane plane, uint32_t rank);
double ulink_heard(void *arg, enum core_plane plane, uint32_t rank);
int ulink_move(void *arg, const struct control_card *card, errmsg_t *err);
void ulink_swap(void *arg, uint32_t rank);
void ulink_quiet(void *arg, uint32_t rank);
/* Handle the loss of a peer: discard the messages that wait for it, and notify the core from the
 * reactor. */
void ulink_peer_fail(struct ulink_peer *p, const char *why);
void ulink_peer_close(struct ulink_peer *p); /* close the connection, if there is one */
int ulink_send(void *arg, enum core_plane plane, uint32_t rank, flux_msg_t *msg, bool force);
int ulink_publish(void *arg, const flux_msg_t *event);
void ulink_drop(void *arg, enum core_plane plane, uint32_t rank);
size_t ulink_peak(void *arg);
/* Write the queued data of all peers, for at most `seconds`. */
void ulink_linger(ulink_t *l, double seconds);

/* ulink_gate.c */
int ulink_gate_start(ulink_t *l); /* -1 with errno */
void ulink_gate_stop(ulink_t *l);

#endif
