/* cmd_session.c - what the session looks like: overlay.status of rank 0, overlay.topology of the
 * local broker. */
#include "config.h"
#include <stdlib.h>
#include <string.h>

#include "cmd_session.h"
#include "libflux/overlay_wire.h"

#define TIMEOUT 60.

topology_t *session_topology(struct cmd *c, flux_t *h, char **spec)
{
    flux_future_t *f = flux_rpc(h, "overlay.topology", NULL, flux_rank(h), 0);
    topology_t *t = NULL;
    struct overlay_shape s;
    errmsg_t err;

    if (cmd_wait_struct(c, f, TIMEOUT, "overlay.topology", &overlay_shape_schema, &s) == 0 &&
        !(t = topology_create_text(s.file, strlen(s.file), s.topology, s.size, &err)))
        cmd_error(c, "the broker describes its tree badly: %s", err.text);
    if (t && spec && !(*spec = strdup(s.topology))) {
        cmd_error(c, "out of memory");
        topology_destroy(t);
        t = NULL;
    }
    flux_future_destroy(f);
    return t;
}

int session_query(struct cmd *c, struct session *s, bool topology)
{
    flux_t *h = cmd_handle(c);
    flux_future_t *f;
    struct overlay_status st;
    errmsg_t err = {"out of memory"};
    int rc = -1;

    memset(s, 0, sizeof(*s));
    if (!h || (topology && !(s->topo = session_topology(c, h, &s->spec))))
        return -1;
    f = flux_rpc(h, "overlay.status", NULL, 0, 0);
    if (cmd_wait_struct(c, f, TIMEOUT, "overlay.status", &overlay_status_schema, &st) == 0) {
        s->size = st.size;
        if (!(s->state = strdup(st.state)) || !(s->up = idset_parse(st.up, &err)) ||
            !(s->lost = idset_parse(st.lost, &err)))
            cmd_error(c, "the status of rank 0 cannot be read: %s", err.text);
        else
            rc = 0;
    }
    flux_future_destroy(f);
    if (rc < 0)
        session_clear(s);
    return rc;
}

void session_clear(struct session *s)
{
    free(s->state);
    free(s->spec);
    topology_destroy(s->topo);
    idset_destroy(s->up);
    idset_destroy(s->lost);
    memset(s, 0, sizeof(*s));
}

const char *session_rank_state(const struct session *s, uint32_t rank)
{
    return idset_test(s->lost, rank) ? "lost" : idset_test(s->up, rank) ? "up" : "absent";
}
