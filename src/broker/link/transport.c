/* transport.c - the transports of this build, and the choice of the one that a broker uses.
 *
 * Purpose: the rest of the broker does not name a transport.  TRANSPORTS (transport.h) lists them
 * in the order of preference.  An address selects the transport that owns it; without an address, a
 * place and the setting link.transport select the transport that composes it.
 *
 * Failure: an address that no transport owns, a name that no transport has, and a place that the
 * named transport cannot serve are errors of the user, EINVAL with an error message.
 */
#include "config.h"
#include "transport.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TRANSPORT_REF(t) &t,
static const struct transport *const transports[] = {TRANSPORTS(TRANSPORT_REF) NULL};

const struct transport *transport_at(const char *uri, errmsg_t *err)
{
    for (const struct transport *const *t = transports; *t; t++) {
        if ((*t)->is_address(uri))
            return *t;
    }
    errmsg_fail(err, EINVAL, "no transport has addresses like %s", uri);
    return NULL;
}

static bool is_auto(const char *name)
{
    return !name || strcmp(name, "auto") == 0;
}

/* Find a transport by its name.  Returns NULL if no transport has this name. */
static const struct transport *find(const char *name)
{
    const struct transport *const *t = transports;

    while (*t && strcmp((*t)->name, name) != 0)
        t++;
    return *t;
}

int transport_check(const char *name, errmsg_t *err)
{
    char names[200] = "auto";
    size_t len = strlen(names);

    if (is_auto(name) || find(name))
        return 0;
    for (const struct transport *const *t = transports; *t && len < sizeof(names); t++)
        len += (size_t)snprintf(names + len, sizeof(names) - len, ", %s", (*t)->name);
    return errmsg_fail(err, EINVAL, "attribute link.transport=%s: expected one of %s", name, names);
}

const struct transport *transport_compose(const char *name, const struct transport_place *place,
                                          char *tree_uri, char *event_uri, errmsg_t *err)
{
    const struct transport *named = is_auto(name) ? NULL : find(name);

    if (transport_check(name, err) < 0)
        return NULL;
    for (const struct transport *const *t = transports; *t; t++) {
        if ((!named || *t == named) && (*t)->compose(place, tree_uri, event_uri))
            return *t;
    }
    errmsg_fail(err, EINVAL,
                "attribute link.transport=%s: it cannot connect the brokers of a session on %s",
                named ? named->name : "auto", place->remote ? "several hosts" : "one host");
    return NULL;
}

bool transport_restarts(const char *name)
{
    const struct transport *t = is_auto(name) ? transports[0] : find(name);

    return !t || t->restarts; /* an unknown name is reported when it is used */
}
