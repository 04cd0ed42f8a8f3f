/* What the tests of the link on ZeroMQ share, besides link/test/bed.h. */
#ifndef LINK_TEST_BED_H
#define LINK_TEST_BED_H

#define TRANSPORT transport_zmq
#define LOCAL "ipc://"

#include "broker/link/test/bed.h"
#include "broker/link/zmq/link.h"
#include "broker/link/zmq/link_patience.h"
#include "broker/link/zmq/link_private.h"

static inline const link_t *link_of(uint32_t rank)
{
    return node[rank].link;
}

/* Connect with CURVE to the ROUTER of rank 0, as `id`. */
static inline void intrude(void *s, const char *pub, const char *sec, const void *id, size_t idlen)
{
    int zero = 0;

    ck_assert_ptr_nonnull(s);
    zmq_setsockopt(s, ZMQ_LINGER, &zero, sizeof(zero));
    if (idlen)
        zmq_setsockopt(s, ZMQ_ROUTING_ID, id, idlen);
    zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, node[0].key.pub, 40);
    zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, pub, 40);
    zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, sec, 40);
    ck_assert_int_eq(zmq_connect(s, transport->ops->tree_uri(node[0].link)), 0);
}

/* A stranger's connection. */
static inline void *intruder(void *ctx, const char *pub, const char *sec, const void *id,
                             size_t idlen)
{
    void *s = zmq_socket(ctx, ZMQ_DEALER);

    intrude(s, pub, sec, id, idlen);
    return s;
}

static inline void two_of_three(void)
{
    errmsg_t err = {""};

    /* Rank 2 stays away; rank 1's key is in the hands of the test. */
    for (uint32_t i = 0; i < 3; i++)
        create(i, 3, "flat", true);
    bind_node(0, true);
    bind_node(1, true);
    allow_all(0);
    connect_node(0);
    ck_assert_int_eq(link_start(node[0].link, &err), 0);
}

#endif
