/* jobclient.c - what the tests of jobs do that the command line cannot.
 *
 *    jobclient shapes          submit a jobspec with each of its members in each wrong shape, and
 *                              without it; print how many were refused and how many accepted
 *    jobclient noise SEED N    N requests of random or damaged bytes to all of the service
 *    jobclient torn            die in the middle of sending a large submission
 *    jobclient held N          submit N jobs in one frame and die before the answer can come
 *
 * Exit code 1 and a sentence when the service does not do as it should: a refusal that does not say
 * where, an answer that is not one, a connection that is lost.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libflux/flux.h"
#include "libjob/job.h"
#include "libjob/jobspec_build.h"

static const char *const empty_env[] = {NULL};

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "jobclient: %s: %s\n", what, why);
    return 1;
}

/* One that any session accepts. */
static json_t *example(void)
{
    static const char *const argv[] = {"/bin/true", "-x", NULL};
    static const struct job_rlimit limits[] = {{0, "nofile", 1024}};
    struct jobspec_parts p;
    errmsg_t err;

    jobspec_parts_init(&p);
    p.argv = argv;
    p.nnodes = 1;
    p.memory = 1;
    p.exclusive = true;
    p.duration = 1;
    p.begin = 1;
    p.cwd = "/";
    p.name = "shape";
    p.ranks = "0";
    p.options.label = true;
    p.options.nested = false;
    p.options.mpi = JOB_MPI_NONE;
    p.options.grace = 1;
    p.options.rlimits = limits;
    p.options.nrlimits = 1;
    p.options.output = "/dev/null";
    return jobspec_build(&p, &err);
}

/* --- shapes --- */

struct shapes {
    submit_writer_t *w;
    json_t *spec; /* the whole, changed for a moment */
    size_t refused, accepted;
    flux_t *h;
    int rc;
};

static void send_all(struct shapes *s)
{
    flux_future_t *f;
    struct job_submitted out;
    uint64_t number;
    const char *text;
    int errnum;
    errmsg_t err;

    if (!submit_writer_count(s->w))
        return;
    if (!(f = flux_job_submit_batch(s->h, s->w)) || flux_future_wait(f, 30) < 0)
        s->rc = fail("no answer", strerror(errno));
    else if (flux_job_submit_batch_get(f, &out, &err) < 0)
        s->rc = fail("a submission", err.text);
    else {
        for (size_t i = 0; job_error_at(out.errors, i, &number, &errnum, &text) == 0; i++)
            if (!strchr(text, ' '))
                s->rc = fail("a refusal says nothing", text);
        s->refused += json_array_size(out.errors);
        s->accepted += out.count;
        if (json_array_size(out.errors) + out.count != submit_writer_count(s->w))
            s->rc = fail("an answer", "does not have all jobs");
    }
    flux_future_destroy(f);
    submit_writer_clear(s->w);
}

static void add(struct shapes *s)
{
    size_t len;
    char *text = jobspec_encode(s->spec, &len);
    errmsg_t err;

    if (!text || submit_writer_job(s->w, 0, JOB_URGENCY_HOLD, 0, text, len, &err) < 0)
        s->rc = fail("a jobspec cannot be sent", text ? err.text : "out of memory");
    if (submit_writer_count(s->w) >= 500)
        send_all(s);
    free(text);
}

static json_t *shape(int i)
{
    static const char *const texts[] = {
        "null",        "true",        "-1", "0",    "1.5",   "1e300", "9223372036854775807",
        "\"\"",        "\"\\u0001\"", "[]", "[[]]", "[1,2]", "{}",    "{\"\":{}}",
        "\"../../x\"", "4294967296",
    };
    return i < (int)(sizeof(texts) / sizeof(texts[0])) ? json_loads(texts[i], JSON_DECODE_ANY, NULL)
                                                       : NULL;
}

static void walk(struct shapes *s, json_t *v)
{
    json_t *other, *was, *member;
    const char *key;
    size_t at;

    json_object_foreach(v, key, member)
    {
        was = json_incref(member);
        for (int i = 0; (other = shape(i)); i++) {
            json_object_set_new(v, key, other);
            add(s);
        }
        json_object_set(v, key, was); /* the iterator's key stays */
        walk(s, was);
        json_decref(was);
    }
    json_array_foreach(v, at, member)
    {
        was = json_incref(member);
        for (int i = 0; (other = shape(i)); i++) {
            json_array_set_new(v, at, other);
            add(s);
        }
        json_array_set(v, at, was);
        walk(s, was);
        json_decref(was);
    }
    if (json_is_object(v)) {
        json_object_set_new(v, "bogus", json_true());
        add(s);
        json_object_del(v, "bogus");
    }
}

static int shapes(flux_t *h)
{
    struct shapes s = {.h = h, .w = submit_writer_create(), .spec = example()};

    if (!s.w || !s.spec || submit_writer_env(s.w, empty_env) < 0)
        return fail("setting up", strerror(errno));
    walk(&s, s.spec);
    send_all(&s);
    printf("%zu refused, %zu accepted\n", s.refused, s.accepted);
    submit_writer_destroy(s.w);
    json_decref(s.spec);
    return s.rc;
}

/* --- noise --- */

static uint64_t rnd(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* A good submission, damaged, or random bytes, or JSON of the wrong kind. */
static size_t noise_fill(uint64_t *state, const uint8_t *good, size_t good_len, uint8_t *buf,
                         size_t size)
{
    static const char *const jsons[] = {"{}",
                                        "[]",
                                        "{\"ids\":\"1-\"}",
                                        "{\"ids\":7}",
                                        "{\"ids\":\"1-2147483647\"}",
                                        "{\"op\":\"\"}",
                                        "{\"id\":0,\"uri\":\"\"}",
                                        "{\"ids\":\"1\",\"signum\":-1}",
                                        "{\"ids\":\"99999999999\",\"urgency\":99}",
                                        "{\"ids\":\"1\",\"type\":\"\",\"severity\":-1}",
                                        "{\"states\":4294967295,\"max\":4294967295}",
                                        "null"};
    size_t len = good_len < size ? good_len : size;

    switch (rnd(state) % 3) {
    case 0:
        memcpy(buf, good, len);
        for (uint64_t i = rnd(state) % 8; i < 8; i++)
            buf[rnd(state) % len] = (uint8_t)rnd(state);
        return rnd(state) % 4 ? len : rnd(state) % len;
    case 1:
        len = rnd(state) % 300;
        for (size_t i = 0; i < len; i++)
            buf[i] = (uint8_t)rnd(state);
        return len;
    default: {
        const char *text = jsons[rnd(state) % (sizeof(jsons) / sizeof(jsons[0]))];
        memcpy(buf, text, strlen(text));
        return strlen(text);
    }
    }
}

static int noise(flux_t *h, uint64_t seed, size_t n)
{
    static const char *const topics[] = {
        "job.submit", "job.submit", "job.submit",  "job.list",  "job.cancel",
        "job.raise",  "job.kill",   "job.urgency", "job.wait",  "job.watch",
        "job.purge",  "job.memo",   "job.queue",   "job.stats", "job.nothing",
    };
    submit_writer_t *w = submit_writer_create();
    json_t *spec = example();
    size_t spec_len, good_len = 0, answered = 0;
    char *text = spec ? jobspec_encode(spec, &spec_len) : NULL;
    uint8_t buf[4096], *good = NULL;
    uint64_t state = seed * 2 + 1;
    int rc = 0;

    if (w && text && submit_writer_env(w, (const char *const[]){"A=1", NULL}) == 0 &&
        submit_writer_job(w, 0, 0, 0, text, spec_len, NULL) == 0)
        good = submit_writer_frame(w, &good_len);
    for (size_t i = 0; good && rc == 0 && i < n; i++) {
        const char *topic = topics[rnd(&state) % (sizeof(topics) / sizeof(topics[0]))];
        size_t len = noise_fill(&state, good, good_len, buf, sizeof(buf));
        /* Streams that would not end by themselves are given up. */
        bool stream = strstr(topic, "wait") || strstr(topic, "watch") || strstr(topic, "queue");
        flux_future_t *f = flux_rpc_raw(h, topic, buf, len, FLUX_NODEID_ANY,
                                        rnd(&state) % 2 ? FLUX_MSGF_STREAMING : 0);

        if (!f || (flux_future_wait(f, stream ? 0.02 : 30) < 0 && !(stream && errno == ETIMEDOUT)))
            rc = fail(topic, strerror(errno));
        else
            answered++;
        flux_future_destroy(f);
    }
    if (!good)
        rc = fail("setting up", "out of memory");
    else if (rc == 0)
        printf("%zu answered\n", answered);
    free(good);
    free(text);
    json_decref(spec);
    submit_writer_destroy(w);
    return rc;
}

/* --- death --- */

static int die_sending(flux_t *h, size_t njobs, size_t pad, double after)
{
    static const char *const argv[] = {"/bin/true", NULL};
    submit_writer_t *w = submit_writer_create();
    struct jobspec_parts p;
    size_t len;
    errmsg_t err;
    json_t *spec;
    char *text, *value = calloc(1, pad + 3);
    const char *env[] = {value, NULL};

    jobspec_parts_init(&p);
    p.argv = argv;
    if (!w || !value || !(spec = jobspec_build(&p, &err)) || !(text = jobspec_encode(spec, &len)))
        return fail("setting up", "out of memory");
    memset(value, 'A', pad + 2);
    value[1] = '=';
    if (submit_writer_env(w, env) < 0)
        return fail("setting up", strerror(errno));
    for (size_t i = 0; i < njobs; i++)
        if (submit_writer_job(w, 0, 16, 0, text, len, &err) < 0)
            return fail("setting up", err.text);
    flux_future_t *f = flux_job_submit_batch(h, w);
    if (after > 0)
        flux_future_wait(f, after);
    raise(SIGKILL);
    return 1;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    errmsg_t err;
    flux_t *h = flux_open(NULL, NULL, &err);
    int rc = 1;

    if (!h)
        return fail("cannot connect", err.text);
    if (!strcmp(mode, "shapes"))
        rc = shapes(h);
    else if (!strcmp(mode, "noise") && argc == 4)
        rc = noise(h, strtoull(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
    else if (!strcmp(mode, "torn"))
        rc = die_sending(h, 1000, 30000000, 0.005);
    else if (!strcmp(mode, "held") && argc == 3)
        rc = die_sending(h, strtoul(argv[2], NULL, 10), 10, 0.001);
    else
        fail("usage", "jobclient shapes | noise SEED N | torn | held N");
    flux_close(h);
    return rc;
}
