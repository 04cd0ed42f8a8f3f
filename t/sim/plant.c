/* plant.c - faults planted in messages between services, to see whether they are noticed.
 *
 * Each is what an error of the service that sent the message would look like from outside.
 */
#include "config.h"
#include <stdlib.h>
#include <string.h>

#include "libjob/submit.h"
#include "libkvs/kvs_wire.h"
#include "sim.h"

static bool is(const struct sim_ep *e, const flux_msg_t *msg, const char *name,
               enum flux_msg_type type, const char *topic)
{
    return strcmp(e->name, name) == 0 && flux_msg_type(msg) == type &&
           strcmp(flux_msg_topic(msg), topic) == 0;
}

/* --- sched to job, and back --- */

/* It is given what the one before it was given. */
static bool double_alloc(sim_t *s, json_t *m)
{
    json_t *alloc = json_object_get(m, "alloc"), *a;
    bool changed = false;
    size_t i;

    json_array_foreach(alloc, i, a)
    {
        json_t *R = json_incref(json_object_get(a, "R"));

        if (s->planted && rng_chance(&s->rng, 0.3)) {
            json_object_set(a, "R", s->planted);
            changed = true;
        }
        json_decref(s->planted);
        s->planted = R;
    }
    return changed;
}

static bool lost(sim_t *s, json_t *m, const char *what)
{
    return json_object_get(m, what) && rng_chance(&s->rng, 0.2) && json_object_del(m, what) == 0;
}

static bool wrong_id(sim_t *s, json_t *m)
{
    json_t *first = json_object_get(m, "first");

    if (!json_is_integer(first) || !rng_chance(&s->rng, 0.1))
        return false;
    json_integer_set(first, json_integer_value(first) + 1);
    return true;
}

/* --- stream to writers and readers --- */

/* Take one entry out of an array. */
static bool lost_one(sim_t *s, json_t *array)
{
    size_t n = json_array_size(array);

    return n > 0 && rng_chance(&s->rng, 0.2) &&
           json_array_remove(array, rng_below(&s->rng, (uint32_t)n)) == 0;
}

static bool doubled(sim_t *s, json_t *array)
{
    json_t *first = json_array_get(array, 0);

    return first && rng_chance(&s->rng, 0.2) && json_array_append(array, first) == 0;
}

static bool wrong_pause(sim_t *s, json_t *m)
{
    bool paused = json_is_true(json_object_get(m, "paused"));

    return json_object_get(m, "paused") && rng_chance(&s->rng, 0.2) &&
           json_object_set_new(m, "paused", json_boolean(!paused)) == 0;
}

static bool old_step(sim_t *s, json_t *m)
{
    json_t *step = json_object_get(m, "step");

    return json_integer_value(step) > 0 && rng_chance(&s->rng, 0.5) &&
           json_integer_set(step, 0) == 0;
}

static bool wrong_key(sim_t *s, json_t *writers)
{
    json_t *first = json_array_get(writers, 0);
    const char *key = json_string_value(json_object_get(first, "key"));

    if (!key || !rng_chance(&s->rng, 0.2))
        return false;
    return json_object_set_new(first, "key", json_sprintf("%s%.8s", key + 8, key)) == 0;
}

/* Every other epoch is not raised. */
static bool old_epoch(json_t *m)
{
    json_t *epoch = json_object_get(m, "epoch");
    json_int_t n = json_integer_value(epoch);

    return n > 1 && json_integer_set(epoch, (n + 1) / 2) == 0;
}

static bool old_run(json_t *m)
{
    json_t *run = json_object_get(m, "run");

    return json_integer_value(run) > 0 && json_integer_set(run, 0) == 0;
}

static bool of_each(json_t *writers, bool (*change)(json_t *m))
{
    bool changed = false;
    json_t *w;
    size_t i;

    json_array_foreach(writers, i, w)
    {
        changed |= change(w);
    }
    return changed;
}

static bool wrong_number(sim_t *s, json_t *m, const char *name, int by)
{
    json_t *n = json_object_get(m, name);

    return json_integer_value(n) > 0 && rng_chance(&s->rng, 0.2) &&
           json_integer_set(n, json_integer_value(n) + by) == 0;
}

/* The request differs whenever it comes, so nobody who was away is known by it. */
static bool unknown(sim_t *s, json_t *m, const char *name)
{
    return json_object_set_new(m, name, json_integer(rng_below(&s->rng, UINT32_MAX))) == 0;
}

static bool change(const struct sim_ep *e, const flux_msg_t *msg, json_t *m)
{
    sim_t *s = e->broker->sim;
    bool response = e->kind == ENDPOINT_CLIENT && flux_msg_type(msg) == FLUX_MSG_RESPONSE;
    bool read = response && strcmp(flux_msg_topic(msg), "stream.read") == 0;
    bool written = response && strcmp(flux_msg_topic(msg), "stream.write") == 0;

    switch (s->cfg.plant) {
    case PLANT_DOUBLE_ALLOC:
        return is(e, msg, "job", FLUX_MSG_RESPONSE, "sched.attach") && double_alloc(s, m);
    case PLANT_LOST_ALLOC:
        return is(e, msg, "job", FLUX_MSG_RESPONSE, "sched.attach") && lost(s, m, "alloc");
    case PLANT_LOST_FREE:
        return is(e, msg, "sched", FLUX_MSG_REQUEST, "sched.feed") && lost(s, m, "free");
    case PLANT_WRONG_ID:
        return e->kind == ENDPOINT_CLIENT && strcmp(flux_msg_topic(msg), "job.submit") == 0 &&
               wrong_id(s, m);
    case PLANT_LOST_JOIN:
        return read && lost_one(s, json_object_get(m, "writers"));
    case PLANT_DOUBLE_JOIN:
        return read && doubled(s, json_object_get(m, "writers"));
    case PLANT_LOST_LEAVE:
        return read && lost_one(s, json_object_get(m, "gone"));
    case PLANT_WRONG_KEY:
        return read && wrong_key(s, json_object_get(m, "writers"));
    case PLANT_LOST_DEMAND:
        return written && lost_one(s, json_object_get(m, "readers"));
    case PLANT_WRONG_PAUSE:
        return written && wrong_pause(s, m);
    case PLANT_OLD_STEP:
        return written && old_step(s, m);
    case PLANT_OLD_EPOCH:
        return (written && old_epoch(m)) ||
               (read && of_each(json_object_get(m, "writers"), old_epoch));
    case PLANT_OLD_RUN:
        return read && of_each(json_object_get(m, "writers"), old_run);
    case PLANT_WRONG_SIZE:
        return read && wrong_number(s, m, "size", 1);
    case PLANT_DOUBLE_LEAVE:
        return read && doubled(s, json_object_get(m, "gone"));
    case PLANT_WRONG_STAYS:
        return written && wrong_number(s, m, "stays", -1);
    case PLANT_LOST_REMOVAL:
        return (is(e, msg, "stream", FLUX_MSG_REQUEST, "stream.write") && unknown(s, m, "task")) ||
               (is(e, msg, "stream", FLUX_MSG_REQUEST, "stream.read") && unknown(s, m, "job"));
    default:
        return false;
    }
}

/* --- a submission --- */

static bool take_out(json_t *sys, const char *what)
{
    json_t *old = json_object_get(sys, what);

    if (json_is_array(old))
        return json_object_del(sys, what) == 0;
    return json_number_value(old) > 0 && json_object_set_new(sys, what, json_integer(0)) == 0;
}

static bool without(submit_writer_t *w, int env, const struct submit_job *j, const char *what)
{
    json_t *spec = json_loadb(j->jobspec, j->len, 0, NULL);
    json_t *sys = json_object_get(json_object_get(spec, "attributes"), "system");
    bool changed = take_out(sys, what);
    char *text = json_dumps(spec, JSON_COMPACT);

    if (text)
        submit_writer_job(w, env, (int)j->urgency, j->flags, text, strlen(text), NULL);
    free(text);
    json_decref(spec);
    return changed;
}

static flux_msg_t *submission(sim_t *s, flux_msg_t *msg, const char *what)
{
    static const char *const none[] = {NULL};
    submit_writer_t *w = submit_writer_create();
    int env = w ? submit_writer_env(w, none) : -1;
    struct submit_frame f;
    struct submit_job j;
    size_t len;
    const void *data = flux_msg_payload(msg, &len);
    bool changed = false;

    if (env >= 0 && submit_decode(data, len, &f, NULL) == 0) {
        while (submit_job_next(&f, &j))
            changed |= without(w, env, &j, what);
        void *frame = changed ? submit_writer_frame(w, &len) : NULL;
        flux_msg_t *copy = frame ? flux_msg_copy(msg) : NULL;
        if (copy && flux_msg_set_raw(copy, frame, len) == 0) {
            s->broke++;
            flux_msg_destroy(msg);
            msg = copy;
        } else {
            flux_msg_destroy(copy);
        }
        free(frame);
    }
    submit_writer_destroy(w);
    return msg;
}

/* --- a commit --- */

/* One that was sent again arrives at the master as if it were another one. */
static flux_msg_t *commit(struct sim_ep *e, flux_msg_t *msg)
{
    struct kvs_ns_req q;
    size_t len;
    const void *data = flux_msg_payload(msg, &len);
    flux_msg_t *copy = NULL;
    uint8_t *buf;

    if (e->broker->rank != 0 || !is(e, msg, "kvs", FLUX_MSG_REQUEST, "kvs.commit") ||
        kvs_ns_req_decode(data, len, &q, NULL) < 0 || !(q.flags & KVS_NS_AGAIN))
        return msg;
    q.flags &= (uint8_t) ~(KVS_NS_NUMBERED | KVS_NS_AGAIN);
    if ((buf = malloc(kvs_ns_req_size(&q))) && (copy = flux_msg_copy(msg))) {
        kvs_ns_req_encode(&q, buf);
        if (flux_msg_set_raw(copy, buf, kvs_ns_req_size(&q)) == 0) {
            e->broker->sim->broke++;
            flux_msg_destroy(msg);
            msg = copy;
            copy = NULL;
        }
    }
    flux_msg_destroy(copy);
    free(buf);
    return msg;
}

flux_msg_t *plant_message(struct sim_ep *e, flux_msg_t *msg)
{
    sim_t *s = e->broker->sim;
    flux_msg_t *copy = NULL;
    const char *text;
    char *changed = NULL;
    json_t *m;

    if (s->cfg.plant == PLANT_COMMIT_TWICE)
        return commit(e, msg);
    if (s->cfg.plant >= PLANT_EVENT_TWICE)
        return plant_heal_message(e, msg);
    if (s->cfg.plant == PLANT_NO_DEPENDENCY || s->cfg.plant == PLANT_NO_LIMIT)
        return is(e, msg, "job", FLUX_MSG_REQUEST, "job.submit")
                   ? submission(s, msg,
                                s->cfg.plant == PLANT_NO_LIMIT ? "duration" : "dependencies")
                   : msg;
    if (!(text = flux_msg_json(msg)) || !(m = json_loads(text, 0, NULL)))
        return msg;
    if (change(e, msg, m) && (changed = json_dumps(m, JSON_COMPACT)) &&
        (copy = flux_msg_copy(msg)) && flux_msg_set_json(copy, changed) == 0) {
        s->broke++;
        flux_msg_destroy(msg);
        msg = copy;
    } else {
        flux_msg_destroy(copy);
    }
    free(changed);
    json_decref(m);
    return msg;
}
