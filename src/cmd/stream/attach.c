/* attach.c - flux stream transform --at: attach transforms to programs that run.
 *
 * Programs are named in one of these ways:
 *
 *    writer           all writers, those that come later too
 *    readers          all readers, those that come later too
 *    N,N...           readers by number: as `flux stream readers` prints them, like what follows
 *    job:ID,ID...     readers that are tasks of these jobs
 *    rank:RANKS       readers at brokers of these ranks (0-3,7)
 *    host:HOSTS       readers on these hosts (node[0-3])
 *    pid:PID,PID...   readers by process
 *
 * The module knows the first two, and single readers: others are looked up in its list first.
 *
 * Failure: exit code 1 and a sentence if no reader fits, or one of a number is not there.  A reader
 * that fits, and leaves meanwhile, is passed over.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "attach.h"
#include "libflux/future.h"
#include "libidset/hostlist.h"
#include "libidset/idset.h"
#include "libstream/stream_wire.h"
#include "libutil/strutil.h"

#define ATTACH_SECONDS 60.

struct choice {
    struct cmd *c;
    const char *list; /* what is behind the colon */
    idset_t *ranks;
    const struct stream_reader *r;
};

/* Send the request.  0; or -1 with errno, after an error message unless `errnum` was the reason. */
static int attach(struct cmd *c, const struct stream_attach *in, int errnum)
{
    flux_t *h = cmd_handle(c);
    flux_future_t *f;
    errmsg_t err;
    int rc;

    if (!h)
        return -1;
    f = flux_rpc_struct(h, "stream.attach", &stream_attach_schema, in, FLUX_NODEID_ANY, 0);
    if (!f)
        rc = errmsg_fail(&err, errno, "stream.attach cannot be sent: %s", strerror(errno));
    else
        rc = flux_rpc_wait_struct(f, ATTACH_SECONDS, NULL, NULL, &err);
    if (rc < 0 && errno != errnum) {
        int saved = errno;

        cmd_error(c, "%s", err.text);
        errno = saved;
    }
    flux_future_destroy(f);
    return rc;
}

/* --- which readers --- */

static bool number_in(const char *list, uint64_t n)
{
    char *end;

    for (const char *at = list; *at; at = *end ? end + 1 : end)
        if (strtoull(at, &end, 10) == n)
            return true;
    return false;
}

static bool by_number(const struct choice *x)
{
    return number_in(x->list, x->r->reader);
}

static bool by_job(const struct choice *x)
{
    return x->r->job > 0 && number_in(x->list, x->r->job);
}

static bool by_pid(const struct choice *x)
{
    return number_in(x->list, x->r->pid);
}

static bool by_rank(const struct choice *x)
{
    return idset_test(x->ranks, x->r->rank);
}

static int host_is(const char *name, void *arg)
{
    errno = EEXIST;
    return strcmp(name, arg) == 0 ? -1 : 0;
}

static bool by_host(const struct choice *x)
{
    return hostlist_walk(x->list, host_is, (void *)x->r->host, NULL) < 0 && errno == EEXIST;
}

/* Numbers that are separated by commas. */
static int numbers_check(struct choice *x, errmsg_t *err)
{
    size_t len = strlen(x->list);

    if (len == 0 || strspn(x->list, "0123456789,") < len || strstr(x->list, ",,") ||
        x->list[0] == ',' || x->list[len - 1] == ',')
        return errmsg_fail(err, EINVAL, "'%.80s' is not a number, or several: N,N", x->list);
    return 0;
}

static int ranks_check(struct choice *x, errmsg_t *err)
{
    if (!*x->list)
        return errmsg_fail(err, EINVAL, "no rank is given");
    return (x->ranks = idset_parse(x->list, err)) ? 0 : -1;
}

static int hosts_check(struct choice *x, errmsg_t *err)
{
    size_t n;

    if (!*x->list)
        return errmsg_fail(err, EINVAL, "no host is given");
    return hostlist_check(x->list, &n, err);
}

static const struct way {
    const char *lead;
    int (*check)(struct choice *x, errmsg_t *err);
    bool (*fits)(const struct choice *x);
} ways[] = {
    {"job:", numbers_check, by_job}, {"rank:", ranks_check, by_rank},
    {"host:", hosts_check, by_host}, {"pid:", numbers_check, by_pid},
    {"", numbers_check, by_number}, /* the last one */
};

/* Attach to those readers of the list that fit.  An exit code. */
static int attach_some(struct choice *x, const struct way *way, const char *at,
                       const struct stream_attach *in, const json_t *list)
{
    struct stream_attach one = *in;
    struct stream_reader r;
    errmsg_t err;
    json_t *item;
    unsigned n = 0;
    size_t i;

    x->r = &r;
    json_array_foreach(list, i, item)
    {
        r = (struct stream_reader){.job = 0};
        if (flux_schema_decode_json(&stream_reader_schema, item, &r, &err) < 0)
            return cmd_error(x->c, "stream.readers: %s", err.text);
        if (!way->fits(x))
            continue;
        one.reader = r.reader;
        if (attach(x->c, &one, ENOENT) == 0)
            n++;
        else if (errno != ENOENT)
            return CMD_FAIL;
    }
    if (n == 0)
        return cmd_error(x->c, "stream '%s' has no reader %s: 'flux stream readers %s' lists them",
                         in->name, at, in->name);
    return CMD_OK;
}

static int attach_listed(struct choice *x, const struct way *way, const char *at,
                         const struct stream_attach *in)
{
    const struct stream_name name = {in->name};
    struct stream_readers list;
    flux_t *h = cmd_handle(x->c);
    flux_future_t *f;
    int rc = CMD_FAIL;

    if (!h)
        return CMD_FAIL;
    f = flux_rpc_struct(h, "stream.readers", &stream_name_schema, &name, FLUX_NODEID_ANY,
                        FLUX_MSGF_IDEMPOTENT);
    if (cmd_wait_struct(x->c, f, ATTACH_SECONDS, "stream.readers", &stream_readers_schema, &list) >=
        0)
        rc = attach_some(x, way, at, in, list.readers);
    flux_future_destroy(f);
    return rc;
}

int attach_transforms(struct cmd *c, const char *name, const char *at, const char *transforms)
{
    struct stream_attach in = {.name = name, .transforms = transforms};
    const struct way *way = ways;
    struct choice x = {.c = c};
    errmsg_t err;
    int rc;

    in.readers = strcmp(at, "readers") == 0;
    if (in.readers || strcmp(at, "writer") == 0)
        return attach(c, &in, 0) < 0 ? CMD_FAIL : CMD_OK;
    while (!str_starts(at, way->lead))
        way++;
    x.list = at + strlen(way->lead);
    if (way->check(&x, &err) < 0)
        rc = cmd_usage_error(c, "--at: %s", err.text);
    else
        rc = attach_listed(&x, way, at, &in);
    idset_destroy(x.ranks);
    return rc;
}
