/* flux-pmibridge - PMI-1 for a broker that a launcher with PMIx alone started (Open MPI's mpirun).
 *
 *    flux-pmibridge        socket to the broker: descriptor 3
 *
 * Purpose: libpmix has threads, and functions of an event library whose names clash with those of
 * the broker's.  A broker therefore does not load it, but starts this program while it boots
 * (boot_pmix.c), and speaks PMI-1 with it as with any launcher (boot_pmi.c).
 *
 * Format: the socket first carries, from here, a line "RANK SIZE", or "!" and an error message;
 * then the PMI-1 dialog, served by libpmi.  It uses PMIx as follows:
 *
 *    PMI-1                    PMIx
 *    (start)                  init, job size
 *    PMI_process_mapping      present if all processes of the job are on this node (local size)
 *    barrier                  put the broker's pairs since the last barrier, as one value under the
 *                             key "flux.pmi.N"; commit; fence with data; get the values of all
 *                             ranks
 *    get                      answered from those values
 *    abort                    abort
 *    finalize                 finalize; then the answer: the broker may now kill this program
 *
 * Invariants:
 *  1. There is one client, which waits for each answer, so all calls of PMIx may block.
 *  2. A broker that closes the socket without finalize has failed.  This program then ends without
 *     PMIx's finalize, and the launcher notices.
 *
 * Failure: if a PMIx call fails, so does the PMI-1 call, with an error message.
 */
#include "config.h"

#include <errno.h>
#include <pmix.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libpmi/pmi_server.h"
#include "libutil/buf.h"
#include "libutil/fdutil.h"

#define BROKER_FD 3
#define READ_SIZE 65536

struct bridge {
    pmix_proc_t me;
    uint32_t size;
    struct pmi_server *server;
    buf_t *out; /* responses, sent when the calls that they report are complete */
    buf_t *put; /* data for the current barrier */
    bool barrier;
    bool left; /* PMIx's finalize is done */
    unsigned nbarriers;
};

/* --- PMIx --- */

static int failed(errmsg_t *err, const char *what, pmix_status_t rc)
{
    return errmsg_fail(err, EREMOTEIO, "the launcher's PMIx failed to %s: %s", what,
                       PMIx_Error_string(rc));
}

static int job_number(struct bridge *b, const char *key, uint32_t *n)
{
    pmix_value_t *v = NULL;
    pmix_status_t rc;
    pmix_proc_t job;

    PMIX_LOAD_PROCID(&job, b->me.nspace, PMIX_RANK_WILDCARD);
    rc = PMIx_Get(&job, key, NULL, 0, &v);
    if (rc == PMIX_SUCCESS)
        PMIX_VALUE_GET_NUMBER(rc, v, *n, uint32_t);
    if (v)
        PMIX_VALUE_RELEASE(v);
    return rc;
}

static int put_all(struct bridge *b, const char *key, errmsg_t *err)
{
    pmix_value_t v = {.type = PMIX_BYTE_OBJECT};
    bool yes = true;
    pmix_info_t collect;
    pmix_proc_t job;
    pmix_status_t rc;

    v.data.bo.bytes = (char *)buf_data(b->put);
    v.data.bo.size = buf_len(b->put);
    if ((rc = PMIx_Put(PMIX_GLOBAL, key, &v)) != PMIX_SUCCESS ||
        (rc = PMIx_Commit()) != PMIX_SUCCESS)
        return failed(err, "store this broker's address", rc);
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    PMIX_LOAD_PROCID(&job, b->me.nspace, PMIX_RANK_WILDCARD);
    rc = PMIx_Fence(&job, 1, &collect, 1);
    PMIX_INFO_DESTRUCT(&collect);
    return rc == PMIX_SUCCESS ? 0 : failed(err, "pass the barrier", rc);
}

static int get_one(struct bridge *b, const char *key, uint32_t rank, errmsg_t *err)
{
    pmix_value_t *v = NULL;
    pmix_status_t rc;
    pmix_proc_t p;
    int saved = 0;

    PMIX_LOAD_PROCID(&p, b->me.nspace, rank);
    rc = PMIx_Get(&p, key, NULL, 0, &v);
    if (rc == PMIX_SUCCESS && v->type != PMIX_BYTE_OBJECT)
        rc = PMIX_ERR_TYPE_MISMATCH;
    if (rc == PMIX_SUCCESS && pmi_server_merge(b->server, v->data.bo.bytes, v->data.bo.size) < 0)
        saved = errno;
    if (v)
        PMIX_VALUE_RELEASE(v);
    if (saved)
        return errmsg_fail(err, saved, "the data of rank %u cannot be stored: %s", rank,
                           strerror(saved));
    return rc == PMIX_SUCCESS ? 0 : failed(err, "return the address of another broker", rc);
}

static void do_barrier(struct bridge *b)
{
    errmsg_t err = {""};
    char key[32];
    int rc;

    b->barrier = false;
    snprintf(key, sizeof(key), "flux.pmi.%u", b->nbarriers++);
    rc = put_all(b, key, &err);
    for (uint32_t rank = 0; rc == 0 && rank < b->size; rank++)
        if (rank != b->me.rank)
            rc = get_one(b, key, rank, &err);
    pmi_server_barrier_done(b->server, rc, rc < 0 ? err.text : NULL);
}

/* --- PMI-1 --- */

static int op_send(void *arg, size_t idx, const void *data, size_t len)
{
    struct bridge *b = arg;

    return buf_append(b->out, data, len);
}

static void op_barrier(void *arg, const void *blob, size_t len, size_t npairs)
{
    struct bridge *b = arg;

    buf_consume(b->put, buf_len(b->put));
    if (buf_append(b->put, blob, len) < 0)
        pmi_server_barrier_done(b->server, -1, "out of memory");
    else
        b->barrier = true;
}

static void op_abort(void *arg, size_t idx, int exitcode, const char *msg)
{
    PMIx_Abort(exitcode, msg && msg[0] ? msg : "a broker failed", NULL, 0);
}

static const struct pmi_server_ops ops = {
    .send = op_send, .barrier = op_barrier, .abort = op_abort};

static int begin(struct bridge *b, errmsg_t *err)
{
    char mapping[64];
    uint32_t local = 0;
    struct pmi_server_params p = {.nlocal = 1};
    pmix_status_t rc = PMIx_Init(&b->me, NULL, 0);

    if (rc != PMIX_SUCCESS)
        return failed(err, "start", rc);
    if ((rc = job_number(b, PMIX_JOB_SIZE, &b->size)) != PMIX_SUCCESS)
        return failed(err, "report the number of brokers", rc);
    if (b->me.rank >= b->size)
        return errmsg_fail(err, EPROTO, "the launcher's PMIx says rank %u of %u", b->me.rank,
                           b->size);
    p.kvsname = "pmix";
    p.size = b->size;
    p.ranks = &b->me.rank;
    if (!(b->out = buf_create(0)) || !(b->put = buf_create(0)))
        return errmsg_fail(err, ENOMEM, "out of memory");
    if (!(b->server = pmi_server_create(&ops, b, &p, err)))
        return -1;
    snprintf(mapping, sizeof(mapping), "(vector,(0,1,%u))", b->size);
    if (job_number(b, PMIX_LOCAL_SIZE, &local) == PMIX_SUCCESS && local == b->size &&
        pmi_server_preset(b->server, "PMI_process_mapping", mapping) < 0)
        return errmsg_fail(err, errno, "out of memory");
    return 0;
}

/* Handle one piece of the dialog.  1: continue; 0: it has ended; -1: it was broken off. */
static int step(struct bridge *b)
{
    char data[READ_SIZE];
    ssize_t n = read(BROKER_FD, data, sizeof(data));

    if (n < 0 && errno == EINTR)
        return 1;
    if (n <= 0)
        return b->left ? 0 : -1;
    if (pmi_server_input(b->server, 0, data, (size_t)n) < 0)
        return -1;
    if (b->barrier)
        do_barrier(b);
    if (pmi_server_finalized(b->server, 0) && !b->left) {
        b->left = true;
        PMIx_Finalize(NULL, 0);
    }
    if (fd_write_all(BROKER_FD, buf_data(b->out), buf_len(b->out)) < 0)
        return -1;
    buf_consume(b->out, buf_len(b->out));
    return 1;
}

int main(void)
{
    struct bridge b = {.size = 0};
    errmsg_t err = {""};
    char line[sizeof(err.text) + 8];
    int rc, n;

    signal(SIGPIPE, SIG_IGN);
    rc = begin(&b, &err);
    n = rc == 0 ? snprintf(line, sizeof(line), "%u %u\n", b.me.rank, b.size)
                : snprintf(line, sizeof(line), "!%s\n", err.text);
    if (fd_write_all(BROKER_FD, line, (size_t)n) < 0)
        rc = -1;
    while (rc == 0 && (n = step(&b)) > 0)
        ;
    /* Do not wait for the library's threads. */
    _exit(rc == 0 && n == 0 ? 0 : 1);
}
