/* stream_way.c - shared memory or TCP.
 *
 * Two processes share memory if they are on one host and in one network namespace.  A mark
 * identifies both (hostnet_get()), and the module `stream` compares the mark of the reader with
 * that of the writer.  A writer in a session with one broker has no readers on other hosts, and
 * does not listen for them.
 *
 *    option        environment              values
 *    transport     FLUX_STREAM_TRANSPORT    auto, tcp, ring
 *    secure        FLUX_STREAM_SECURE       yes, no; else as the attribute `curve` of the session
 *                  FLUX_STREAM_SILENCE      seconds after which a host that is silent is gone
 *    share         FLUX_STREAM_SHARE        yes: between hosts, go through their relays (share.h);
 *                                           no; else as the attribute `stream.share`
 *                  FLUX_STREAM_ADDRESS      IP address of this host for readers on others
 *
 * Without FLUX_STREAM_ADDRESS, the address is that of the broker's attributes tcp.address or
 * tcp.interface, else all of the host.
 *
 * Failure: errno and a sentence.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libflux/attr.h"
#include "libstream/far_addr.h"
#include "libstream/share.h"
#include "libstream/stream_way.h"
#include "libutil/duration.h"
#include "libutil/strutil.h"

static int text_copy(char *to, size_t size, const char *what, const char *text, errmsg_t *err)
{
    if (text && (size_t)snprintf(to, size, "%s", text) >= size)
        return errmsg_fail(err, EINVAL, "%s %.40s... is too long", what, text);
    return 0;
}

/* Where processes of other hosts reach this one: the address, or an interface, or neither. */
static int place_get(struct share_place *at, flux_t *h, errmsg_t *err)
{
    const char *own = getenv("FLUX_STREAM_ADDRESS"); /* the broker may be on another host */
    char *address;
    char *interface;
    int rc;

    if (own && !far_addr_is_ip(own))
        return errmsg_fail(err, EINVAL, "FLUX_STREAM_ADDRESS=%.60s is not an IP address", own);
    if (own)
        return text_copy(at->address, sizeof(at->address), "FLUX_STREAM_ADDRESS", own, err);
    address = flux_attr_get(h, "tcp.address", NULL);
    interface = flux_attr_get(h, "tcp.interface", NULL);
    rc = text_copy(at->address, sizeof(at->address), "tcp.address", address, err);
    if (rc == 0)
        rc = text_copy(at->interface, sizeof(at->interface), "tcp.interface", interface, err);
    free(address);
    free(interface);
    return rc;
}

/* Are connections to be shared? */
static int share_get(struct stream_way *w, flux_t *h, const struct flux_stream_opts *opts,
                     errmsg_t *err)
{
    const char *share = opts->share ? opts->share : getenv("FLUX_STREAM_SHARE");
    char *attr = NULL;

    if (share && str2bool(share, &w->share) < 0)
        return errmsg_fail(
            err, EINVAL, "connections of streams are shared or not, yes or no: not '%.40s'", share);
    if (!share && (attr = flux_attr_get(h, "stream.share", NULL)) && str2bool(attr, &w->share) < 0)
        w->share = false;
    free(attr);
    return 0;
}

int stream_way_get(struct stream_way *w, flux_t *h, const struct flux_stream_opts *opts,
                   errmsg_t *err)
{
    const char *transport = opts->transport ? opts->transport : getenv("FLUX_STREAM_TRANSPORT");
    const char *silence = getenv("FLUX_STREAM_SILENCE");

    *w = (struct stream_way){.silence = 0.};
    hostnet_get(w->place);
    w->tcp = transport && strcmp(transport, "tcp") == 0;
    w->ring = transport && strcmp(transport, "ring") == 0;
    if (transport && !w->tcp && !w->ring && strcmp(transport, "auto") != 0)
        return errmsg_fail(
            err, EINVAL, "'%.40s' is not a transport of streams: use auto, tcp or ring", transport);
    if (silence && duration_parse(silence, &w->silence, NULL) < 0)
        return errmsg_fail(err, EINVAL, "FLUX_STREAM_SILENCE=%.40s is not a duration", silence);
    if (w->ring || (!w->tcp && flux_size(h) < 2))
        return 0;
    if (share_get(w, h, opts, err) < 0)
        return -1;
    return w->share ? place_get(&w->at, h, err) : 0;
}

int stream_way_secure(flux_t *h, const char *secure, errmsg_t *err)
{
    char *curve;
    bool yes = true;

    if (secure || (secure = getenv("FLUX_STREAM_SECURE"))) {
        if (str2bool(secure, &yes) < 0)
            return errmsg_fail(err, EINVAL, "a stream is encrypted or not, yes or no: not '%.40s'",
                               secure);
        return yes;
    }
    if ((curve = flux_attr_get(h, "curve", NULL)) && str2bool(curve, &yes) < 0)
        yes = true;
    free(curve);
    return yes;
}

/* Register with the relay of this host, and put the address there before the others, as many of
 * which stay as there is room for. */
static int share(const struct stream_way *w, struct outlet_far_opts *far, char text[FAR_ADDR_MAX],
                 errmsg_t *err)
{
    char all[FAR_ADDR_MAX] = "";
    char one[FAR_ADDR_MAX];
    const char *p = text;
    size_t len;
    int fd = share_register(&w->at, all, err);

    far->place = w->at;
    memcpy(far->shared, all, sizeof(all));
    len = fd < 0 ? 0 : strlen(all);
    while (fd >= 0 && far_addr_next(&p, one) && len + 1 + strlen(one) < sizeof(all)) {
        all[len++] = ',';
        memcpy(all + len, one, strlen(one) + 1);
        len += strlen(one);
    }
    if (fd >= 0)
        memcpy(text, all, len + 1);
    return fd;
}

int stream_way_listen(const struct stream_way *w, flux_t *h, const char *stream,
                      const struct flux_stream_opts *opts, struct outlet_far_opts *far,
                      char text[FAR_ADDR_MAX], errmsg_t *err)
{
    struct share_place at = {"", ""};
    int secure;

    *text = '\0';
    if (w->ring || (!w->tcp && flux_size(h) < 2))
        return 0;
    if ((secure = stream_way_secure(h, opts->secure, err)) < 0 || place_get(&at, h, err) < 0)
        return -1;
    *far = (struct outlet_far_opts){.listen = far_addr_listen(*at.address ? at.address : NULL,
                                                              *at.interface ? at.interface : NULL,
                                                              text, err),
                                    .stream = stream,
                                    .secure = secure,
                                    .silence = w->silence};
    if (far->listen >= 0 && w->share && (far->share = share(w, far, text, err)) < 0) {
        int saved = errno;

        close(far->listen);
        errno = saved;
        return -1;
    }
    return far->listen < 0 ? -1 : 0;
}
