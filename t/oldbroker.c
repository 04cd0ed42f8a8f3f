/* oldbroker.c - to be preloaded: makes a broker of another version of Flux of this one.
 *
 * OLDBROKER says what is older in the messages that it sends by ZeroMQ:
 *
 *    format     the format of all messages
 *    protocol   the protocol by which its hello asks to join
 *
 * A message is changed before ZeroMQ encrypts it, so the broker has the keys of its rank.
 */
#include "config.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define MAGIC 0xf1
#define FIELD "\"version\":"

typedef int (*send_fn)(zmq_msg_t *msg, void *sock, int flags);

static void make_older(unsigned char *data, size_t len)
{
    const char *part = getenv("OLDBROKER");
    unsigned char *version;

    if (!part || len < 2 || data[0] != MAGIC)
        return;
    if (strcmp(part, "format") == 0)
        data[1] = 1;
    else if ((version = memmem(data, len, FIELD, strlen(FIELD))))
        version[strlen(FIELD)] = '0';
}

__attribute__((visibility("default"))) int zmq_msg_send(zmq_msg_t *msg, void *sock, int flags)
{
    send_fn next = (send_fn)dlsym(RTLD_NEXT, "zmq_msg_send");

    make_older(zmq_msg_data(msg), zmq_msg_size(msg));
    return next ? next(msg, sock, flags) : -1;
}
