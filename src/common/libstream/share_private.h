/* What processes say to the relay of their host: share_join.c, share_relay.c. */
#ifndef STREAM_SHARE_PRIVATE_H
#define STREAM_SHARE_PRIVATE_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "libstream/far_addr.h"

#define SHARE_MAGIC "FLUXSHAR"

enum share_kind {
    SHARE_REGISTER = 1, /* a writer: answered with the same bytes, but with token and address */
    SHARE_CONNECT = 2,  /* a reader: not answered, and followed by what it says to the writer */
};

struct share_request {
    enum share_kind kind;
    uint64_t token;             /* of the writer */
    char address[FAR_ADDR_MAX]; /* of its relay */
};
#define SHARE_REQUEST_LEN (24 + FAR_ADDR_MAX)

void share_request_encode(const struct share_request *r, unsigned char *buf);
/* 0, or -1 with EPROTO. */
int share_request_decode(const unsigned char *buf, struct share_request *r);
/* The name at which the relay listens. */
socklen_t share_name(struct sockaddr_un *sun);

#endif
