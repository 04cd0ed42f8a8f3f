/* A table of what is being waited for together: barriers, and fences of the store.
 *
 * No rank knows who has entered where: each is asked for its own participants, and what they say is
 * added up by name.  Ranks that cannot be reached, or do not run the module, have none.
 */
#ifndef CMD_WAITLIST_H
#define CMD_WAITLIST_H

#include "cmd.h"

/* What one rank says of one that is not over; borrowed from what was decoded. */
struct waitlist_item {
    const char *space; /* NULL: there are none */
    const char *name;
    uint32_t nprocs;
    uint32_t entered;
    const char *ranks; /* where participants are, as far as somebody said so */
    double age;        /* seconds */
};

struct waitlist_source {
    const char *topic; /* of a streaming request without payload */
    bool spaces;       /* names are apart in namespaces: a column shows these */
    /* The array in a response; NULL with errno and an error message. */
    const json_t *(*list)(flux_future_t *f, errmsg_t *err);
    /* One entry of it.  -1 with errno and an error message. */
    int (*item)(const json_t *o, struct waitlist_item *item, errmsg_t *err);
};

/* Ask all ranks and print the table.  Only those of namespace `space` if it is not NULL.  The exit
 * code, after printing an error message if it is not CMD_OK. */
int waitlist_print(struct cmd *c, const struct waitlist_source *src, const char *space, bool json);

#endif
