/* The choice of the transport between the ends of a stream: shared memory, or TCP.
 *
 * Thread rules: those of the handle, which is asked for attributes of the broker: for programs.
 */
#ifndef STREAM_WAY_H
#define STREAM_WAY_H

#include <stdbool.h>

#include "libflux/handle.h"
#include "libstream/far_addr.h"
#include "libstream/outlet.h"
#include "libstream/share.h"
#include "libstream/stream.h"
#include "libutil/hostmark.h"

struct stream_way {
    char place[HOSTNET_SIZE];
    bool tcp;              /* by TCP, even if the other end is on this host */
    bool ring;             /* through memory, or not at all */
    bool share;            /* go through the relay of this host, */
    struct share_place at; /* which may have to be started */
    double silence;
};

/* Read the options, the environment, or the attributes of the session.  0, or -1 with EINVAL and an
 * error message. */
int stream_way_get(struct stream_way *w, flux_t *h, const struct flux_stream_opts *opts,
                   errmsg_t *err);
/* Are connections between hosts to be encrypted?  `secure` is the option, or NULL.  1, 0, or -1. */
int stream_way_secure(flux_t *h, const char *secure, errmsg_t *err);
/* Writer: listen for readers on other hosts, if there can be any: `text` is the address, or "".  0,
 * or -1. */
int stream_way_listen(const struct stream_way *w, flux_t *h, const char *stream,
                      const struct flux_stream_opts *opts, struct outlet_far_opts *far,
                      char text[FAR_ADDR_MAX], errmsg_t *err);

#endif
