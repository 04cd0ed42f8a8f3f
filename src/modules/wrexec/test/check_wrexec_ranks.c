/* check_wrexec_ranks.c - the module at other ranks than 0, with a launcher of the test: each
 * allocation of a job's life fails once, at a rank inside the tree, which has tasks and a child,
 * and at a leaf.  Meanwhile the parent dies, and another takes over.  Whatever fails, the parent
 * learns how the job has ended, or that this rank cannot tell, and the module serves on. */
#include "config.h"
#include "bed_memory.h"
#include "bed_launcher.h"

#define JOB READS
#define FIRST 9 /* the parent, as a client of the bed, and the one that takes over */
#define SECOND 10
#define ASKS 20 /* clients that ask how a task ended, from this one on */

/* --- the launcher --- */

/* A frame about the job, if its task runs. */
static void from_launcher(enum wire_type type, const void *data, size_t len)
{
    const struct wire_frame f = {type, type, JOB, (uint32_t)len, data};

    if (!launcher.runs)
        return;
    launcher.runs = type != WIRE_DONE;
    sparing--;
    launcher.cbs->frame(launcher.arg, &f);
    sparing++;
}

/* --- the parent --- */

static struct {
    bool over; /* it has the result, or knows that there will be none */
    uint32_t round;
    uint8_t launch[4096];
    size_t len;
} parent;

static void take_up(const flux_msg_t *msg)
{
    size_t len;
    const uint8_t *p = flux_msg_payload(msg, &len);
    struct wire_frame f;
    ptrdiff_t used;
    errmsg_t err;

    while (len > 0) {
        ck_assert_int_gt(used = exec_wire_parse(p, len, &f, &err), 0);
        ck_assert_int_ne(f.type, WIRE_BAD);
        /* A launch is refused only where nothing runs. */
        ck_assert(f.type != WIRE_RESULT || f.len > WIRE_ROUND || !launcher.runs);
        if (f.type == WIRE_RESULT)
            parent.over |= le_get32(f.payload) == parent.round;
        p += used;
        len -= (size_t)used;
    }
}

static void parent_takes(struct fake *f, flux_msg_t *msg)
{
    bool response = flux_msg_type(msg) == FLUX_MSG_RESPONSE;

    sparing++;
    if (response && strcmp(flux_msg_topic(msg), "wrexec.tree") == 0 && flux_msg_errnum(msg) == 0)
        take_up(msg);
    else if (response && (strcmp(flux_msg_topic(msg), "wrexec.tree") == 0 ||
                          strcmp(flux_msg_topic(msg), "wrexec.down") == 0))
        parent.over |= flux_msg_errnum(msg) != 0;
    sparing--;
    sent_sparing(f, msg);
}

/* Have the launch from rank 0 in parent.launch. */
static void keep_launch(struct fake *f, flux_msg_t *msg)
{
    if (flux_msg_type(msg) == FLUX_MSG_REQUEST && strcmp(flux_msg_topic(msg), "wrexec.down") == 0) {
        const void *data = flux_msg_payload(msg, &parent.len);

        ck_assert_uint_le(parent.len, sizeof(parent.launch));
        memcpy(parent.launch, data, parent.len);
    }
    sent(f, msg);
}

static void make_launch(const char *ranks)
{
    struct bed *b = bed_create_sized(3);

    parent.len = 0;
    b->f.hook = keep_launch;
    answer(b);
    launch_on(b, JOB, ranks, NULL);
    turn(b);
    ck_assert_uint_gt(parent.len, 0);
    bed_free(b);
}

/* A parent opens its stream, and sends the launch. */
static void parent_begins(struct bed *b, uint32_t client, uint32_t round)
{
    parent.over = false;
    parent.round = round;
    le_put32(parent.launch + WIRE_HEADER, round);
    say(b, "wrexec.tree", client, FLUX_MSGF_STREAMING, NULL);
    say_raw(b, "wrexec.down", client, parent.launch, parent.len);
    turn(b);
}

static void parent_sends(struct bed *b, uint32_t client, enum wire_type type, const void *data,
                         size_t len)
{
    uint8_t buf[WIRE_HEADER + 100];

    ck_assert_uint_le(WIRE_HEADER + len, sizeof(buf));
    exec_wire_header(buf, type, JOB, (uint32_t)len);
    memcpy(buf + WIRE_HEADER, data, len);
    say_raw(b, "wrexec.down", client, buf, WIRE_HEADER + len);
    turn(b);
}

/* --- a job --- */

/* Output from both sides, a signal and input from above, and a question. */
static void life(struct bed *b, uint64_t number)
{
    uint8_t rec[WIRE_RECORD + 100] = {0}, sig[8], in[16 + 5] = {0};

    exec_wire_record_header(rec, 0, 1, 100);
    from_launcher(WIRE_OUTPUT, rec, sizeof(rec));
    if (b->opened)
        up_numbered(b, WIRE_OUTPUT, JOB, b->round[JOB], number, rec, sizeof(rec));
    turn(b);
    le_put32(sig, (uint32_t)number);
    le_put32(sig + 4, SIGUSR1);
    parent_sends(b, number == 1 ? FIRST : SECOND, WIRE_NTH_SIGNAL, sig, sizeof(sig));
    le_put64(in, (number - 1) * 5);
    parent_sends(b, number == 1 ? FIRST : SECOND, WIRE_INPUT, in, sizeof(in));
    say(b, "wrexec.end", ASKS + (uint32_t)number, FLUX_MSGF_STREAMING, "{\"id\":9,\"task\":0}");
}

/* The tasks here and below end. */
static void ends(struct bed *b)
{
    uint8_t done[WIRE_TIMES + 4] = {0};

    from_launcher(WIRE_DONE, done, sizeof(done));
    if (b->opened && b->tree)
        end_job(b, JOB);
    turn(b);
}

/* Run a job at this rank while allocation k fails.  Returns whether there was one. */
static bool without_memory(uint32_t rank, unsigned k)
{
    struct bed *b = bed_create_at(3, rank, false);
    unsigned left;

    b->f.hook = parent_takes;
    answer(b);
    fail_at = k;
    parent_begins(b, FIRST, 1);
    life(b, 1);
    say(b, "wrexec.disconnect", FIRST, FLUX_MSGF_NORESPONSE | FLUX_MSGF_IDEMPOTENT, NULL);
    parent_begins(b, SECOND, 2);
    life(b, 2);
    left = stop_failing();
    for (int i = 0; i < 500 && !parent.over; i++)
        ends(b);
    ck_assert_msg(parent.over, "rank %u, allocation %u: the job does not end", rank, k);
    ends(b);
    b->errnum = -1;
    say(b, "wrexec.remains", 1, 0, "{}");
    answer(b);
    ck_assert_msg(b->errnum == 0, "rank %u, allocation %u: error %d", rank, k, b->errnum);
    ck_assert_msg(b->ends == 2, "rank %u, allocation %u: %zu questions were answered", rank, k,
                  b->ends);
    bed_free(b);
    return left == 0;
}

START_TEST(no_memory)
{
    unsigned k = 1;

    make_launch(_i == 1 ? "1-2" : "2");
    while (without_memory((uint32_t)_i, k))
        k++;
    ck_assert_uint_gt(k, 30); /* that many are made */
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("wrexec ranks");

    sparing = 1; /* the test itself */
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, no_memory, 1, 3);
    return run_case("wrexec ranks", tc);
}
