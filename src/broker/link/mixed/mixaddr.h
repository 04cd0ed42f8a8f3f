/* Addresses of brokers that use UNIX sockets and ZeroMQ: see mixaddr.c.
 *
 * Thread rules: none; every function works only on its arguments.
 */
#ifndef BROKER_LINK_MIXADDR_H
#define BROKER_LINK_MIXADDR_H

#include <stdbool.h>

#include "libutil/errmsg.h"
#include "src/broker/link/transport.h"

struct mixaddr {
    char *remote;
    char *local; /* unix://PATH or unix://@NAME; NULL: absent */
    char *place;
};

/* The functions of the same names of struct transport. */
bool mixaddr_is(const char *uri);
bool mixaddr_compose(const struct transport_place *where, char *tree_uri, char *event_uri);

/* Parse an address, whose parts are copied.  0, or -1 with ENOMEM and an error message.  The caller
 * clears the result in any case. */
int mixaddr_parse(const char *uri, struct mixaddr *a, errmsg_t *err);
void mixaddr_clear(struct mixaddr *a);
/* Does a process listen at this TCP address of this host?  Does not wait. */
bool mixaddr_listens(const char *uri);

#endif
