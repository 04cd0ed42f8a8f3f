/* subjob_flow.c - what flows through an instance's part of a job: output and messages up, standard
 * input and signals down.
 *
 * Output moves hop by hop.  The receiver first grants `window` bytes of credit, and later as many
 * bytes as it has passed on.  So an instance holds at most one window for its launcher and one per
 * child, and a reader that stops reading blocks the pipe of every task, however deep the tree is.
 *
 * Numbers: the instance of the node where output arises numbers it, and keeps it until rank 0 has
 * it (retain.c); only then does the launcher get its credit back.  Rank 0 takes the number that
 * comes next from each rank and drops all others.  It acknowledges once in ACK_BYTES of output, so
 * that the launcher's window never runs dry.  Failures and other messages have numbers of their
 * own, and need no credit: they must not wait behind output that nobody reads.
 *
 * Input goes to the tasks that read it, and each node reports how much it has taken in all.  Rank 0
 * acknowledges to the client the amount that the slowest node has taken.  A node whose tasks have
 * ended counts as taking all input.  Each instance that has children keeps the input that some node
 * may lack, at most the window of the client; the frames say how much all nodes have taken.
 *
 * Signals have numbers, too, and a node takes each once.  An instance that has children keeps the
 * last SIGNALS_KEPT signals, for a child that may lack some of them; of those before, it keeps the
 * last number of each kind: two signals of one kind that wait that long are one.
 *
 * Failure: without memory for output the job fails, and its further output is discarded.
 */
#include "config.h"
#include "wrexec.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/buf.h"
#include "libutil/le.h"

#define ACK_BYTES (WIRE_WINDOW / 4)
#define ACK_OTHER 16         /* messages */
#define OTHER_MAX (1u << 20) /* bytes of messages that are kept */
#define SIGNAL_KINDS ((size_t)_NSIG)
#define SIGNALS_KEPT 1024

/* --- output --- */

static void source_credit(struct subjob *j, struct part *p, size_t len)
{
    if (!p) {
        uint32_t n;

        j->owed += len;
        if (j->owed < WIRE_WINDOW / 4 || j->local_done)
            return;
        n = (uint32_t)j->owed;
        launchlink_send(j->ctx->exec, WIRE_CREDIT, j->id, &n, sizeof(n), NULL, 0);
        j->owed = 0;
    } else {
        uint8_t buf[4];

        p->owed += len;
        if (p->owed < j->window / 4 || p->done)
            return;
        le_put32(buf, (uint32_t)p->owed);
        subjob_send_down(p, WIRE_CREDIT, buf, sizeof(buf), NULL, 0);
        p->owed = 0;
    }
}

static void send_numbered(struct subjob *j, uint32_t rank, uint64_t number, enum wire_type type,
                          const void *data, size_t len)
{
    const struct wire_numbered n = {
        .round = j->round, .rank = rank, .number = number, .f = {.type = type}};
    uint8_t head[WIRE_NUMBERED_HEAD];
    struct iovec iov[2] = {{head, sizeof(head)}, {(void *)data, len}};

    exec_wire_numbered_put(head, &n);
    uplink_send(j->up, WIRE_NUMBERED, j->id, iov, 2);
}

/* Send what this rank has numbered: output as far as there is credit. */
static void send_retained(struct subjob *j, enum stream stream)
{
    struct retained f;

    while (j->retain[stream] && (stream != STREAM_OUTPUT || j->credit > 0) &&
           retain_next(j->retain[stream], &f)) {
        send_numbered(j, j->ctx->rank, f.number, f.type, f.data, f.len);
        if (stream == STREAM_OUTPUT)
            j->credit -= (int64_t)f.len;
        retain_sent(j->retain[stream]);
    }
}

static int retained_add(struct subjob *j, enum stream stream, enum wire_type type, const void *data,
                        size_t len)
{
    if (!j->retain[stream] && !(j->retain[stream] = retain_create()))
        return -1;
    return retain_add(j->retain[stream], type, data, len);
}

void subjob_flow_piece_free(struct piece *p)
{
    list_remove(&p->node);
    free(p);
}

int subjob_flow_piece_add(struct subjob *j, struct part *part, uint32_t rank, uint64_t number,
                          const void *data, size_t len)
{
    struct piece *p = malloc(sizeof(*p) + len);

    if (!p)
        return -1;
    p->part = part;
    p->lone = false;
    p->rank = rank;
    p->number = number;
    p->len = len;
    memcpy(p->data, data, len);
    list_append(&j->pieces, &p->node);
    return 0;
}

static void discard(struct subjob *j)
{
    struct list_node *n;

    if (j->retain[STREAM_OUTPUT])
        source_credit(j, NULL, retain_ack(j->retain[STREAM_OUTPUT], UINT64_MAX));
    while ((n = list_first(&j->pieces))) {
        struct piece *p = list_entry(n, struct piece, node);

        if (!p->lone)
            source_credit(j, p->part, p->len);
        subjob_flow_piece_free(p);
    }
}

/* Without memory for output: the job fails, so that the loss is not silent. */
static void no_memory(struct subjob *j, struct part *p, size_t len)
{
    source_credit(j, p, len);
    j->deaf = true;
    discard(j);
    subjob_fail(j, 1, "out of memory for output: some of it is lost");
}

static bool pass_on(struct subjob *j, const struct piece *p)
{
    if (j->rj)
        return coord_job_output(j, p->data, p->len);
    if (j->credit <= 0)
        return false;
    j->credit -= (int64_t)p->len;
    send_numbered(j, p->rank, p->number, WIRE_OUTPUT, p->data, p->len);
    return true;
}

void subjob_flow_flush(struct subjob *j)
{
    struct list_node *n;

    if (j->deaf)
        discard(j);
    if (!j->rj && !j->up) {
        subjob_check(j);
        return;
    }
    send_retained(j, STREAM_OTHER);
    send_retained(j, STREAM_OUTPUT);
    while ((n = list_first(&j->pieces))) {
        struct piece *p = list_entry(n, struct piece, node);

        if (!pass_on(j, p))
            return;
        if (!p->lone)
            source_credit(j, p->part, p->len);
        subjob_flow_piece_free(p);
    }
    if (j->rj)
        coord_job_flush(j);
    subjob_check(j);
}

bool subjob_flow_waits(const struct subjob *j)
{
    struct retained f;

    for (int i = 0; i < STREAMS; i++)
        if (j->retain[i] && !j->deaf && retain_next(j->retain[i], &f))
            return true;
    return !list_empty(&j->pieces);
}

void subjob_flow_drop(struct subjob *j)
{
    struct list_node *n;

    while ((n = list_first(&j->pieces)))
        subjob_flow_piece_free(list_entry(n, struct piece, node));
}

/* At rank 0. */
static void take_output(struct subjob *j, struct part *p, const void *data, size_t len)
{
    if (j->deaf || (list_empty(&j->pieces) && coord_job_output(j, data, len)))
        source_credit(j, p, len);
    else if (subjob_flow_piece_add(j, p, 0, 0, data, len) < 0)
        no_memory(j, p, len);
}

void subjob_flow_output(struct subjob *j, const void *data, size_t len)
{
    if (j->rj) {
        take_output(j, NULL, data, len);
    } else if (j->deaf) {
        source_credit(j, NULL, len);
    } else if (retained_add(j, STREAM_OUTPUT, WIRE_OUTPUT, data, len) < 0) {
        no_memory(j, NULL, len);
    } else if (j->up) {
        send_retained(j, STREAM_OUTPUT);
    }
}

void subjob_flow_tell(struct subjob *j, enum wire_type type, const void *data, size_t len)
{
    const struct wire_frame f = {
        .type = type, .said = type, .job = j->id, .len = (uint32_t)len, .payload = data};

    if (j->rj) {
        subjob_told(j, &f);
        return;
    }
    /* A flood of notes does not grow without bound while rank 0 cannot be reached. */
    if (type != WIRE_FAIL && j->retain[STREAM_OTHER] &&
        retain_bytes(j->retain[STREAM_OTHER]) > OTHER_MAX)
        return;
    if (retained_add(j, STREAM_OTHER, type, data, len) < 0)
        send_numbered(j, j->ctx->rank, 0, type, data, len);
    else if (j->up)
        send_retained(j, STREAM_OTHER);
}

/* --- numbered frames from children --- */

static void acknowledge(struct part *p, uint32_t rank, enum stream stream, uint64_t number)
{
    uint8_t fixed[16];

    le_put32(fixed, rank);
    le_put32(fixed + 4, stream);
    le_put64(fixed + 8, number);
    subjob_send_down(p, WIRE_ACK, fixed, sizeof(fixed), NULL, 0);
}

static struct origin *origin_of(struct subjob *j, uint32_t rank)
{
    struct origin *o;

    if (!j->origins && !(j->origins = hmap_create_u64(free)))
        return NULL;
    if ((o = hmap_get_u64(j->origins, rank)))
        return o;
    if (!(o = calloc(1, sizeof(*o))) || hmap_put_u64(j->origins, rank, o) < 0) {
        free(o);
        return NULL;
    }
    return o;
}

/* Returns whether rank 0 takes this frame: its number comes next. */
static bool comes_next(struct subjob *j, struct part *p, const struct wire_numbered *n)
{
    enum stream stream = n->f.type == WIRE_OUTPUT ? STREAM_OUTPUT : STREAM_OTHER;
    struct origin *o;
    bool next;

    if (n->number == 0)
        return true;
    if (!(o = origin_of(j, n->rank))) {
        no_memory(j, p, 0);
        return false;
    }
    if ((next = n->number == o->seen[stream] + 1))
        o->seen[stream]++;
    o->unacked[stream] += stream == STREAM_OUTPUT ? n->f.len : 1;
    if (o->unacked[stream] >= (stream == STREAM_OUTPUT ? ACK_BYTES : ACK_OTHER)) {
        o->unacked[stream] = 0;
        acknowledge(p, n->rank, stream, o->seen[stream]);
    }
    return next;
}

void subjob_flow_numbered(struct subjob *j, struct part *p, const struct wire_numbered *n)
{
    bool output = n->f.type == WIRE_OUTPUT;

    if (j->rj) {
        bool next = comes_next(j, p, n);

        if (next && output)
            take_output(j, p, n->f.payload, n->f.len);
        else if (next)
            subjob_told(j, &n->f);
        else if (output)
            source_credit(j, p, n->f.len);
    } else if (!output) {
        send_numbered(j, n->rank, n->number, n->f.type, n->f.payload, n->f.len);
    } else if (j->deaf) {
        source_credit(j, p, n->f.len);
    } else if (j->up && j->credit > 0 && list_empty(&j->pieces)) {
        j->credit -= (int64_t)n->f.len;
        send_numbered(j, n->rank, n->number, WIRE_OUTPUT, n->f.payload, n->f.len);
        source_credit(j, p, n->f.len);
    } else if (subjob_flow_piece_add(j, p, n->rank, n->number, n->f.payload, n->f.len) < 0) {
        no_memory(j, p, n->f.len);
    }
}

void subjob_flow_ack(struct subjob *j, const struct wire_frame *f)
{
    uint32_t rank = le_get32(f->payload), stream = le_get32(f->payload + 4);
    struct part *p;

    if (rank != j->ctx->rank) {
        if ((p = subjob_part_of(j, rank)))
            subjob_send_down(p, WIRE_ACK, f->payload, f->len, NULL, 0);
    } else if (stream < STREAMS && j->retain[stream]) {
        size_t bytes = retain_ack(j->retain[stream], le_get64(f->payload + 8));

        if (stream == STREAM_OUTPUT)
            source_credit(j, NULL, bytes);
    }
}

/* --- input --- */

void subjob_flow_taken(struct subjob *j, uint32_t node, uint64_t bytes)
{
    uint8_t fixed[12];

    if (j->rj) {
        coord_job_taken(j, node, bytes);
        return;
    }
    le_put32(fixed, node);
    le_put64(fixed + 4, bytes);
    subjob_send_up(j, WIRE_TAKEN, fixed, sizeof(fixed), NULL, 0);
}

static void stdin_local(struct subjob *j, const void *data, size_t len)
{
    uint32_t task = (j->spec->flags & WIRE_F_STDIN_ALL) ? WIRE_ALL : 0;

    if (!j->local_done) {
        launchlink_send(j->ctx->exec, WIRE_STDIN, j->id, &task, sizeof(task), data, len);
    } else if (len) {
        j->taken = j->input_end;
        subjob_flow_taken(j, j->node, j->taken);
    }
}

/* Count all input as taken by the nodes of a part that has ended. */
static void part_taken(const struct part *p)
{
    struct subjob *j = p->job;
    uint32_t node = 0;

    for (uint32_t r = idset_first(j->ranks); r != IDSET_NONE; r = idset_next(j->ranks, r), node++)
        if (idset_test(p->ranks, r))
            subjob_flow_taken(j, node, j->input_end);
}

/* Does a part have nodes that read input?  Task 0 is on the first node. */
static bool part_reads(const struct part *p)
{
    const struct subjob *j = p->job;

    return (j->spec->flags & WIRE_F_STDIN_ALL) || idset_test(p->ranks, idset_first(j->ranks));
}

static void send_input(struct part *p, uint64_t pos, const void *data, size_t len)
{
    uint8_t fixed[16];

    le_put64(fixed, pos);
    le_put64(fixed + 8, p->job->input_taken);
    subjob_send_down(p, WIRE_INPUT, fixed, sizeof(fixed), data, len);
}

/* Keep the input that children may lack. */
static void keep_input(struct subjob *j, const void *data, size_t len)
{
    uint64_t first;

    if (len > 0 && j->nparts > 0 &&
        ((!j->input && !(j->input = buf_create(0))) || buf_append(j->input, data, len) < 0)) {
        subjob_fail(j, 1, "out of memory for standard input");
        return;
    }
    j->input_end += len;
    first = j->input_end - (j->input ? buf_len(j->input) : 0);
    if (j->input && j->input_taken > first)
        buf_consume(j->input, (size_t)(j->input_taken - first));
}

void subjob_flow_input(struct subjob *j, uint64_t pos, uint64_t taken, const void *data, size_t len)
{
    bool eof = (len == 0);

    if (taken > j->input_taken)
        j->input_taken = taken;
    if (pos > j->input_end) { /* all nodes here and below had ended meanwhile */
        if (j->input)
            buf_consume(j->input, buf_len(j->input));
        j->input_end = pos;
    }
    if (eof ? j->input_eof : pos + len <= j->input_end)
        return; /* repeated */
    if (eof) {
        j->input_eof = true;
    } else {
        size_t had = (size_t)(j->input_end - pos);

        data = (const uint8_t *)data + had;
        len -= had;
        pos += had;
        keep_input(j, data, len);
    }
    for (uint32_t i = 0; i < j->nparts; i++) {
        struct part *p = j->parts[i];

        if (!part_reads(p))
            continue;
        send_input(p, pos, data, len);
        if (p->done && len)
            part_taken(p);
    }
    if (j->node != JOB_LOCAL &&
        ((j->spec->flags & WIRE_F_STDIN_ALL) || idset_first(j->ranks) == j->ctx->rank))
        stdin_local(j, data, len);
}

int subjob_flow_stdin(struct subjob *j, uint64_t pos, const void *data, size_t len)
{
    if (j->spec->flags & WIRE_F_STDIN_NONE)
        return 0;
    if (pos > j->input_end)
        return -1;
    subjob_flow_input(j, pos, j->input_taken, data, len);
    return 0;
}

/* --- signals --- */

/* Tell the launcher and the children to kill all processes. */
static void kill_all(struct subjob *j)
{
    j->kill_sent = true;
    for (uint32_t i = 0; i < j->nparts; i++)
        subjob_send_down(j->parts[i], WIRE_KILL, NULL, 0, NULL, 0);
    if (!j->local_done)
        launchlink_send(j->ctx->exec, WIRE_KILL, j->id, NULL, 0, NULL, 0);
}

static void send_signal(struct part *p, uint32_t number, int signum)
{
    uint8_t fixed[8];

    le_put32(fixed, number);
    le_put32(fixed + 4, (uint32_t)signum);
    subjob_send_down(p, WIRE_NTH_SIGNAL, fixed, sizeof(fixed), NULL, 0);
}

/* Keep a signal for children that lack it.  Without memory, it counts as one of those before. */
static void keep_signal(struct subjob *j, uint32_t number, int signum)
{
    struct nth_signal *v;

    if (!j->signal_of && !(j->signal_of = calloc(SIGNAL_KINDS, sizeof(*j->signal_of))))
        return;
    j->signal_of[signum] = number;
    if (j->nkept == SIGNALS_KEPT) {
        memmove(j->signals, j->signals + SIGNALS_KEPT / 2, SIGNALS_KEPT / 2 * sizeof(*j->signals));
        j->nkept = SIGNALS_KEPT / 2;
    } else if ((j->nkept & (j->nkept - 1)) == 0) { /* room for 1, 2, 4, 8... */
        if (!(v = realloc(j->signals, (j->nkept ? 2 * j->nkept : 1) * sizeof(*v)))) {
            j->nkept = 0;
            return;
        }
        j->signals = v;
    }
    j->signals[j->nkept++] = (struct nth_signal){number, (uint32_t)signum};
}

void subjob_flow_signal(struct subjob *j, uint32_t number, int signum)
{
    int32_t num = signum;

    if (number <= j->nsignals || signum <= 0 || (size_t)signum >= SIGNAL_KINDS)
        return;
    j->nsignals = number;
    if (j->nparts > 0)
        keep_signal(j, number, signum);
    for (uint32_t i = 0; i < j->nparts; i++)
        send_signal(j->parts[i], number, signum);
    if (!j->local_done)
        launchlink_send(j->ctx->exec, WIRE_SIGNAL, j->id, &num, sizeof(num), NULL, 0);
}

void subjob_signal(struct subjob *j, int signum)
{
    if (signum == SIGKILL)
        kill_all(j);
    else
        subjob_flow_signal(j, j->nsignals + 1, signum);
}

/* --- a child that may lack something --- */

static void repeat_signals(struct part *p)
{
    const struct subjob *j = p->job;
    const uint32_t *of = j->signal_of;
    uint32_t past = 0, kept = j->nkept ? j->signals[0].number : UINT32_MAX;

    for (;;) { /* by their numbers */
        size_t next = 0;

        for (size_t i = 1; of && i < SIGNAL_KINDS; i++)
            if (of[i] > past && of[i] < kept && (!next || of[i] < of[next]))
                next = i;
        if (!next)
            break;
        past = of[next];
        send_signal(p, past, (int)next);
    }
    for (uint32_t i = 0; i < j->nkept; i++)
        send_signal(p, j->signals[i].number, (int)j->signals[i].signum);
}

void subjob_flow_catch_up(struct part *p)
{
    struct subjob *j = p->job;
    size_t len = j->input ? buf_len(j->input) : 0;
    const uint8_t *data = len ? buf_data(j->input) : NULL;
    uint64_t pos = j->input_end - len;

    repeat_signals(p);
    if (j->kill_sent)
        subjob_send_down(p, WIRE_KILL, NULL, 0, NULL, 0);
    if (!part_reads(p))
        return;
    while (len > 0) {
        size_t n = len < WIRE_STDIN_WINDOW ? len : WIRE_STDIN_WINDOW;

        send_input(p, pos, data, n);
        pos += n;
        data += n;
        len -= n;
    }
    if (j->input_eof)
        send_input(p, pos, NULL, 0);
}

/* --- end, reload --- */

void subjob_flow_free(struct subjob *j)
{
    subjob_flow_drop(j);
    for (int i = 0; i < STREAMS; i++)
        retain_destroy(j->retain[i]);
    hmap_destroy(j->origins);
    free(j->signal_of);
    free(j->signals);
    buf_destroy(j->input);
}

static void save_origins(const struct subjob *j, flux_handover_t *o)
{
    size_t pos = 0;
    uint64_t rank;
    void *val;

    while (j->origins && hmap_next(j->origins, &pos, NULL, &rank, &val)) {
        const struct origin *origin = val;

        flux_handover_put(o, 1);
        flux_handover_put(o, rank);
        for (int i = 0; i < STREAMS; i++) {
            flux_handover_put(o, origin->seen[i]);
            flux_handover_put(o, origin->unacked[i]);
        }
    }
    flux_handover_put(o, 0);
}

static void load_origins(struct subjob *j, flux_handover_t *o)
{
    while (flux_handover_get(o, 1) == 1) {
        struct origin *origin = origin_of(j, (uint32_t)flux_handover_get(o, UINT32_MAX));

        if (!origin) {
            flux_handover_fail(o, ENOMEM);
            return;
        }
        for (int i = 0; i < STREAMS; i++) {
            origin->seen[i] = flux_handover_get(o, UINT64_MAX);
            origin->unacked[i] = flux_handover_get(o, SIZE_MAX);
        }
    }
}

void subjob_flow_save(const struct subjob *j, flux_handover_t *o)
{
    LIST_FOREACH(it, &j->pieces)
    {
        const struct piece *p = list_entry(it, struct piece, node);
        bool known = p->part && p->part->ranks; /* else its credit has no receiver */

        flux_handover_put(o, 1);
        flux_handover_put(o, known ? 1 : p->part ? 2 : 0);
        flux_handover_put(o, known ? p->part->edge->rank : 0);
        flux_handover_put(o, p->rank);
        flux_handover_put(o, p->number);
        flux_handover_put_data(o, p->data, p->len);
    }
    flux_handover_put(o, 0);
    for (int i = 0; i < STREAMS; i++) {
        flux_handover_put(o, j->retain[i] != NULL);
        if (j->retain[i])
            retain_save(j->retain[i], o);
    }
    save_origins(j, o);
    flux_handover_put(o, j->nsignals);
    flux_handover_put_data(o, j->signal_of,
                           j->signal_of ? SIGNAL_KINDS * sizeof(*j->signal_of) : 0);
    flux_handover_put_data(o, j->signals, j->nkept * sizeof(*j->signals));
    flux_handover_put(o, j->kill_sent);
    flux_handover_put_data(o, j->input ? buf_data(j->input) : NULL,
                           j->input ? buf_len(j->input) : 0);
    flux_handover_put(o, j->input_end);
    flux_handover_put(o, j->input_eof);
    flux_handover_put(o, j->input_taken);
    flux_handover_put(o, j->taken);
}

static void load_piece(struct subjob *j, flux_handover_t *o)
{
    uint64_t kind = flux_handover_get(o, 2);
    uint32_t at = (uint32_t)flux_handover_get(o, UINT32_MAX);
    uint32_t rank = (uint32_t)flux_handover_get(o, UINT32_MAX);
    uint64_t number = flux_handover_get(o, UINT64_MAX);
    struct edge *e = kind == 1 ? edges_known(j->ctx->edges, at) : NULL;
    struct part *p = e ? subjob_part_at(j, e) : NULL;
    size_t len;
    const void *data = flux_handover_get_data(o, &len);

    if (kind == 1 && !p)
        flux_handover_fail(o, EPROTO);
    else if (subjob_flow_piece_add(j, p, rank, number, data, len) < 0)
        flux_handover_fail(o, ENOMEM);
    else
        list_entry(j->pieces.prev, struct piece, node)->lone = (kind == 2);
}

static void load_signals(struct subjob *j, flux_handover_t *o)
{
    size_t len, want = SIGNAL_KINDS * sizeof(*j->signal_of);
    const void *data = flux_handover_get_data(o, &len);
    const struct nth_signal *kept;

    if (len > 0 && (len != want || !(j->signal_of = malloc(want))))
        flux_handover_fail(o, len != want ? EPROTO : ENOMEM);
    else if (len > 0)
        memcpy(j->signal_of, data, want);
    kept = flux_handover_get_data(o, &len);
    if (len % sizeof(*kept) != 0 || len > SIGNALS_KEPT * sizeof(*kept) ||
        (len > 0 && !j->signal_of)) {
        flux_handover_fail(o, EPROTO);
        return;
    }
    for (size_t i = 0; i < len / sizeof(*kept); i++) {
        struct nth_signal one;

        memcpy(&one, kept + i, sizeof(one));
        if (one.signum >= SIGNAL_KINDS) {
            flux_handover_fail(o, EPROTO);
            return;
        }
        keep_signal(j, one.number, (int)one.signum);
    }
}

void subjob_flow_load(struct subjob *j, flux_handover_t *o)
{
    const void *data;
    size_t len;

    while (flux_handover_get(o, 1) == 1)
        load_piece(j, o);
    for (int i = 0; i < STREAMS && flux_handover_ok(o); i++) {
        if (!flux_handover_get(o, 1))
            continue;
        if ((j->retain[i] = retain_create()))
            retain_load(j->retain[i], o);
        else
            flux_handover_fail(o, ENOMEM);
    }
    load_origins(j, o);
    j->nsignals = (uint32_t)flux_handover_get(o, UINT32_MAX);
    load_signals(j, o);
    j->kill_sent = flux_handover_get(o, 1);
    data = flux_handover_get_data(o, &len);
    if (len > 0 && (!(j->input = buf_create(0)) || buf_append(j->input, data, len) < 0))
        flux_handover_fail(o, ENOMEM);
    j->input_end = flux_handover_get(o, UINT64_MAX);
    j->input_eof = flux_handover_get(o, 1);
    j->input_taken = flux_handover_get(o, UINT64_MAX);
    j->taken = flux_handover_get(o, UINT64_MAX);
}
