/* What processes say to the relay of their host: share_join.c, share_relay.c; and what the files of
 * the relay share: share_relay.c (the processes of its host), share_link.c (other relays). */
#ifndef STREAM_SHARE_PRIVATE_H
#define STREAM_SHARE_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "libstream/share.h"
#include "libutil/hmap.h"
#include "libutil/list.h"

#define SHARE_MAGIC "FLUXSHAR"

enum share_kind {
    SHARE_REGISTER = 1, /* a writer */
    SHARE_CONNECT = 2,  /* a reader; what it says to the writer follows the answer */
};

/* A request to the relay of this host, or the answer. */
struct share_request {
    enum share_kind kind;
    uint64_t token;      /* of the writer; 0: it gets one */
    struct share_id to;  /* reader: the relay of the writer; "" in an answer */
    struct share_id own; /* as which the relay was known before, or ""; in an answer, as which it is
                          * known now */
};
#define SHARE_ID_LEN (SHARE_KEY_LEN + FAR_ADDR_MAX)
#define SHARE_REQUEST_LEN (24 + 2 * SHARE_ID_LEN)

void share_request_encode(const struct share_request *r, unsigned char *buf);
/* 0, or -1 with EPROTO. */
int share_request_decode(const unsigned char *buf, struct share_request *r);
/* The name at which the relay listens. */
socklen_t share_name(struct sockaddr_un *sun);

/* --- the relay --- */

#define SHARE_HEAD_LEN 24
#define SHARE_GREETING_LEN (24 + FAR_ADDR_MAX)
#define SHARE_DATA_MAX 65536
#define SHARE_OUT ((size_t)512 << 10)
#define SHARE_LOCALS_MAX 8192 /* processes of this host that are connected */
#define SHARE_SILENCE 20.

/* What epoll reports on. */
struct share_end {
    enum {
        SHARE_STOP,
        SHARE_LISTEN_LOCAL,
        SHARE_LISTEN_FAR,
        SHARE_LOCAL,
        SHARE_WRITER,
        SHARE_PEER,
        SHARE_CHANNEL
    } kind;
    int fd; /* -1: none */
    uint32_t events;
    struct list_node node; /* in a list of its kind */
};

/* A process of this host that has not sent its request; or a writer that is registered. */
struct share_local {
    struct share_end end;
    uint64_t token;
    unsigned char request[SHARE_REQUEST_LEN];
    size_t got;
};

/* A connection to another relay. */
struct share_peer {
    struct share_end end;
    bool out; /* this relay has connected; else the other one has */
    struct share_id
        id; /* the other relay; if that has connected, its address is what it claims, and
                         * the key what it has to prove; address "": not known */
    enum { SHARE_CLAIMED, SHARE_ASKED, SHARE_PROVED } claim;
    uint64_t nonce; /* of the challenge, or of that of the other relay */
    double asked;   /* time of the challenge */
    bool say;       /* a challenge, or a proof, was not sent yet */
    bool dead;      /* it has ended, and remains for channels that have */
    bool connecting;
    bool greeted;  /* it has said that it is a relay, or is one that was connected to */
    hmap_t *by_id; /* channels */
    struct list_node channels;
    struct list_node turns;
    uint32_t last;  /* channel of this relay, */
    uint32_t other; /* and of the other one */
    unsigned char head[SHARE_GREETING_LEN];
    size_t got;               /* bytes of the head, or of what greets */
    struct share_channel *to; /* of the DATA that arrives; NULL: it has gone */
    uint32_t left;            /* bytes of it */
    size_t at, len;           /* of `out_buf` */
    unsigned char out_buf[SHARE_OUT];
};

struct share_channel {
    struct share_end end; /* a process of this host; node: in peer.channels */
    struct share_peer *p;
    struct list_node turn; /* in peer.turns */
    uint32_t id;
    uint64_t token;
    struct share_id writer; /* the relay of it, if this one opens the channel */
    bool open;              /* OPEN was not sent yet */
    bool gone;              /* its process has: CLOSE was not sent yet */
    bool ended;             /* CLOSE has come, */
    bool shut;              /* and the process was told */
    size_t credit;          /* bytes that may be sent */
    size_t owed;            /* bytes that were passed on, of which the other relay does not know */
    size_t at, len;
    unsigned char *buf;
};

struct share_relay {
    int epoll_fd;
    struct share_end stop, listen_local, listen_far;
    struct share_id own;
    bool used;               /* a process has come */
    struct list_node locals; /* those that are registered, too */
    unsigned nlocals;
    hmap_t *writers; /* by token */
    struct list_node peers;
    bool done;
    unsigned char in[SHARE_DATA_MAX * 4];
};

/* Wait for an event, at most `ms` milliseconds, and handle it.  false: there was none. */
bool share_relay_turn(struct share_relay *r, int ms);
/* Let epoll report on an end, or on other events of it. */
int share_end_add(struct share_relay *r, struct share_end *e, int kind, int fd, uint32_t events);
void share_end_watch(struct share_relay *r, struct share_end *e, uint32_t events);
void share_end_close(struct share_end *e);

/* A connection to another relay: to this one, or NULL: that one has connected.  Takes over the
 * descriptor; NULL: out of memory or descriptors. */
struct share_peer *share_link_create(struct share_relay *r, const struct share_id *to, int fd);
void share_link_free(struct share_relay *r, struct share_peer *p);
/* To be called now and then: give a connection up whose other end is silent, or does not prove what
 * it is.  true: it was, and any connection may be gone. */
bool share_link_look(struct share_relay *r, struct share_peer *p, double now);
/* Connect a process (`fd`, taken over) to the writer of its request. */
void share_link_open(struct share_relay *r, const struct share_request *q, int fd);
/* epoll has reported on it, which may free it. */
void share_link_ready(struct share_relay *r, struct share_peer *p, uint32_t events);
void share_link_channel_ready(struct share_relay *r, struct share_channel *c, uint32_t events);

#endif
