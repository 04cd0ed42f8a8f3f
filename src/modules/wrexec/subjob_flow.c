/* subjob_flow.c - the flow of data in an instance's part of a job: output up, standard input down.
 *
 * Output moves hop by hop.  The receiver first grants `window` bytes of credit, and later as many
 * bytes as it has passed on.  So an instance holds at most one window for its launcher and one per
 * child, and a reader that stops reading blocks the pipe of every task, however deep the tree is.
 *
 * Input goes to the tasks that read it, and each node reports how much it has taken.  Rank 0
 * acknowledges to the client the amount that the slowest node has taken.  A node whose tasks have
 * ended counts as taking all input.
 */
#include "config.h"
#include "wrexec.h"

#include <stdlib.h>
#include <string.h>

#include "libutil/le.h"

static void source_credit(struct subjob *j, uint32_t src, size_t len)
{
    if (src == JOB_LOCAL) {
        uint32_t n;

        j->owed += len;
        if (j->owed < WIRE_WINDOW / 4 || j->local_done)
            return;
        n = (uint32_t)j->owed;
        launchlink_send(j->ctx->exec, WIRE_CREDIT, j->id, &n, sizeof(n), NULL, 0);
        j->owed = 0;
    } else {
        struct part *p = &j->parts[src];
        uint8_t buf[4];

        p->owed += len;
        if (p->owed < j->window / 4 || p->done)
            return;
        le_put32(buf, (uint32_t)p->owed);
        subjob_send_down(p, WIRE_CREDIT, buf, sizeof(buf), NULL, 0);
        p->owed = 0;
    }
}

/* Pass output on if credit allows it.  Returns false if the output has to wait. */
static bool forward(struct subjob *j, uint32_t src, const void *data, size_t len)
{
    if (j->deaf) {
        /* The output is discarded. */
    } else if (j->rj) {
        if (!coord_job_output(j, data, len))
            return false;
    } else {
        if (j->credit <= 0)
            return false;
        j->credit -= (int64_t)len;
        subjob_send_up(j, WIRE_OUTPUT, NULL, 0, data, len);
    }
    source_credit(j, src, len);
    return true;
}

void subjob_flow_piece_free(struct piece *p)
{
    list_remove(&p->node);
    free(p);
}

void subjob_flow_flush(struct subjob *j)
{
    struct list_node *n;

    while ((n = list_first(&j->pieces))) {
        struct piece *p = list_entry(n, struct piece, node);

        if (!forward(j, p->src, p->data, p->len))
            return;
        subjob_flow_piece_free(p);
    }
    if (j->rj)
        coord_job_flush(j);
    subjob_check(j);
}

int subjob_flow_piece_add(struct subjob *j, uint32_t src, const void *data, size_t len)
{
    struct piece *p = malloc(sizeof(*p) + len);

    if (!p)
        return -1;
    p->src = src;
    p->len = len;
    memcpy(p->data, data, len);
    list_append(&j->pieces, &p->node);
    return 0;
}

/* Handle output from the launcher or a child. */
void subjob_flow_output(struct subjob *j, uint32_t src, const void *data, size_t len)
{
    if (list_empty(&j->pieces) && forward(j, src, data, len))
        return;
    if (subjob_flow_piece_add(j, src, data, len) < 0) {
        /* The job fails, so that the loss is not silent. */
        source_credit(j, src, len);
        subjob_fail(j, 1, "out of memory for output: some of it is lost");
    }
}

/* --- input --- */

void subjob_flow_taken(struct subjob *j, uint32_t node, uint32_t bytes)
{
    uint8_t fixed[8];

    if (j->rj) {
        coord_job_taken(j, node, bytes);
        return;
    }
    le_put32(fixed, node);
    le_put32(fixed + 4, bytes);
    subjob_send_up(j, WIRE_TAKEN, fixed, sizeof(fixed), NULL, 0);
}

static void stdin_local(struct subjob *j, const void *data, size_t len)
{
    uint32_t task = (j->spec->flags & WIRE_F_STDIN_ALL) ? WIRE_ALL : 0;

    if (j->local_done) {
        if (len)
            subjob_flow_taken(j, j->node, (uint32_t)len);
        return;
    }
    launchlink_send(j->ctx->exec, WIRE_STDIN, j->id, &task, sizeof(task), data, len);
}

/* Count all input as taken by the nodes of a part that has ended. */
static void part_taken(struct part *p, uint32_t bytes)
{
    const struct subjob *j = p->job;
    uint32_t node = 0;

    for (uint32_t r = idset_first(j->ranks); r != IDSET_NONE; r = idset_next(j->ranks, r), node++)
        if (idset_test(p->edge->below, r))
            subjob_flow_taken(p->job, node, bytes);
}

void subjob_flow_stdin(struct subjob *j, const void *data, size_t len)
{
    uint32_t first = idset_first(j->ranks);
    uint8_t fixed[4] = {0};

    if (j->spec->flags & WIRE_F_STDIN_NONE)
        return;
    if (j->spec->flags & WIRE_F_STDIN_ALL) {
        for (uint32_t i = 0; i < j->nparts; i++) {
            subjob_send_down(&j->parts[i], WIRE_STDIN, fixed, sizeof(fixed), data, len);
            if (j->parts[i].done && len)
                part_taken(&j->parts[i], (uint32_t)len);
        }
        if (j->node != JOB_LOCAL)
            stdin_local(j, data, len);
        return;
    }
    /* Task 0 is on the first node. */
    if (first == j->ctx->rank) {
        stdin_local(j, data, len);
        return;
    }
    for (uint32_t i = 0; i < j->nparts; i++) {
        if (!idset_test(j->parts[i].edge->below, first))
            continue;
        if (!j->parts[i].done)
            subjob_send_down(&j->parts[i], WIRE_STDIN, fixed, sizeof(fixed), data, len);
        else if (len)
            subjob_flow_taken(j, 0, (uint32_t)len);
    }
}
