/* attr.c - the client's side of attributes: requests to the local broker.
 *
 * Failure: ENOENT, EPERM, and the errors of any request.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attr.h"
#include "attr_wire.h"

#define TIMEOUT 60.

/* Attributes belong to a broker, so a request names the sender's own rank. */
flux_future_t *flux_attr_get_async(flux_t *h, const char *name)
{
    struct attr_pair a = {.name = name};

    return flux_rpc_struct(h, "attr.get", &attr_name_schema, &a, flux_rank(h),
                           FLUX_MSGF_IDEMPOTENT);
}

int flux_attr_future_get(flux_future_t *f, const char **value, errmsg_t *err)
{
    struct attr_pair a;

    if (flux_rpc_get_struct(f, &attr_pair_schema, &a, err) < 0)
        return -1;
    *value = a.value;
    return 0;
}

char *flux_attr_get(flux_t *h, const char *name, errmsg_t *err)
{
    flux_future_t *f = flux_attr_get_async(h, name);
    char *value = NULL;
    struct attr_pair a;

    if (!f)
        errmsg_set(err, "cannot ask for attribute '%.64s': %s", name, strerror(errno));
    else if (flux_rpc_wait_struct(f, TIMEOUT, &attr_pair_schema, &a, err) == 0 &&
             !(value = strdup(a.value)))
        errmsg_set(err, "out of memory");
    flux_future_destroy(f);
    return value;
}

flux_future_t *flux_attr_set_async(flux_t *h, const char *name, const char *value)
{
    struct attr_pair a = {name, value};

    return flux_rpc_struct(h, "attr.set", &attr_pair_schema, &a, flux_rank(h), 0);
}
