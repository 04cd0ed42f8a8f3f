/* jm_store.c - the jobs' directories in the key-value store: one transaction at a time.
 *
 * Keys, all written here (doc/jobs.rst):
 *    job-next         the next id, so that no id is used twice
 *    job-queue        JSON: whether the queue is stopped, or disabled
 *    job.ID.jobspec   as submitted                 job.ID.R      RFC 20, once it has resources
 *    job.ID.env       NAME=value, NUL after each   job.ID.uri    of the session that the job is
 *    job.ID.eventlog  one JSON object per line
 *
 * Changes during a transaction go into the next one, so a busy module writes few large
 * transactions, and an idle one writes at once.  A log is written as a whole, not appended to: a
 * transaction with unknown outcome can be repeated without duplicates.  An environment that many
 * jobs share is written once and copied by reference.
 *
 * Also with kvs.sync=interval, a job exists and is launched only when that is on disk
 * (flux_kvs_commit_durable()): after a crash no id is used twice, and no job runs twice.  Only
 * records of the past (alloc, ends) may then be lost, and are determined again.
 *
 * Invariants:
 *  1. One transaction is outstanding at a time; a job in it has `sent`.
 *  2. All jobs of a submission are in one transaction, so it is accepted or refused as a whole.
 *  3. A submission is answered, an end or a transition reported, and in a session with a statedir a
 *     job launched, only when it is recorded.
 *
 * Failure (a full disk, no store): the submissions of the transaction are refused with the store's
 * error, and their jobs are destroyed, except for jobs that run already (in a session without a
 * statedir): these are ended, and keep their resources until their tasks are gone.  Jobs that were
 * accepted before stay here, and their changes are sent again after RETRY seconds.
 *
 * A module that is unloaded has no time to wait for responses of the store.  It sends all changes
 * once more.  A request whose transaction was sent is answered with ECONNABORTED: its outcome is
 * unknown.  A submission that was not sent to the store is not answered, so that the module host
 * passes it to the next instance.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY 0.5
/* Changes on which no request waits (alloc, start) are sent with the next transaction, or after
 * this time. */
#define LAZY 0.01
/* The ends of jobs go at once while there are few: after BURST transactions one every GAP
 * seconds. */
#define BURST 20.
#define GAP 0.005
/* Limits of a transaction, except for a single submission. */
#define TXN_JOBS 4000
#define TXN_UNLINKS 4000
#define TXN_BYTES (16u << 20)

/* A request that is answered when the next transaction is recorded. */
struct answer {
    struct list_node node;
    flux_msg_t *req;
    char *json;
};

struct jm_store {
    struct list_node dirty; /* jobs with changes to be recorded */
    struct list_node sent;  /* jobs in the outstanding transaction */
    flux_future_t *f;
    flux_watcher_t *retry;
    flux_watcher_t *lazy;
    double tokens, tokens_at; /* see now_or_later() */
    bool urgent, wanted, due;
    bool waiting;    /* for the retry */
    bool complained; /* the failure was logged, since the last success */
    char *failure;   /* if so: why jobs cannot be recorded; NULL for lack of memory */
    struct jm_ids unlink, unlink_sent;
    bool put_queue;
    struct list_node answers, answers_sent;
    uint64_t next_id, next_id_sent; /* on record */
    uint64_t commits, failed, ops;
};

static void retry_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct jm *jm = arg;

    jm->store->waiting = false;
    jm_module_kick(jm);
}

static void lazy_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct jm *jm = arg;

    jm->store->due = true;
    jm_module_kick(jm);
}

int jm_store_create(struct jm *jm)
{
    struct jm_store *s = calloc(1, sizeof(*s));

    if (!s)
        return -1;
    jm->store = s;
    list_init(&s->dirty);
    list_init(&s->sent);
    list_init(&s->answers);
    list_init(&s->answers_sent);
    s->tokens = BURST;
    s->retry = flux_timer_create(jm->r, retry_cb, jm);
    s->lazy = flux_timer_create(jm->r, lazy_cb, jm);
    return s->retry && s->lazy ? 0 : -1;
}

static void answer_free(struct answer *a)
{
    list_remove(&a->node);
    flux_msg_destroy(a->req);
    free(a->json);
    free(a);
}

void jm_store_destroy(struct jm *jm)
{
    struct jm_store *s = jm->store;
    struct list_node *n;

    if (!s)
        return;
    flux_future_destroy(s->f);
    flux_watcher_destroy(s->retry);
    flux_watcher_destroy(s->lazy);
    jm_ids_clear(&s->unlink);
    jm_ids_clear(&s->unlink_sent);
    free(s->failure);
    while ((n = list_first(&s->answers)) || (n = list_first(&s->answers_sent)))
        answer_free(list_entry(n, struct answer, node));
    free(s);
    jm->store = NULL;
}

void jm_store_job_init(struct jm_job *j)
{
    list_init(&j->store.dirty);
}

void jm_store_job_clear(struct jm_job *j)
{
    free(j->store.past_r);
    list_remove(&j->store.dirty);
}

void jm_store_past_r(struct jm_job *j, char *r_json)
{
    free(j->store.past_r);
    j->store.past_r = j->store.put_r ? r_json : NULL;
    if (!j->store.put_r)
        free(r_json);
}

void jm_store_submission_init(struct jm_submission *sub)
{
    list_init(&sub->store.jobs);
}

void jm_store_job_submitted(struct jm_job *j, struct jm_submission *sub)
{
    j->store.sub = sub;
    sub->store.left++;
    list_append(&sub->store.jobs, &j->store.dirty);
    jm_store_put(j, JM_STORE_SPEC);
}

void jm_store_submission_clear(struct jm_submission *sub)
{
    struct list_node *n;

    while ((n = list_first(&sub->store.jobs)))
        list_remove(n);
}

bool jm_store_submission_open(const struct jm_submission *sub)
{
    return sub->store.left > 0;
}

void jm_store_dirty(struct jm_job *j)
{
    struct jm *jm = j->jm;

    if (jm->durable && jm_exec_launching(j))
        jm->store->urgent = true; /* its launch waits for this */
    else if (j->st.state == JOB_STATE_INACTIVE)
        jm->store->wanted = true;
    if (j->store.sent) {
        j->store.changed = true;
    } else if (list_empty(&j->store.dirty)) {
        list_append(&jm->store->dirty, &j->store.dirty);
    }
    jm_module_kick(jm);
}

void jm_store_put(struct jm_job *j, enum jm_store_part what)
{
    j->store.put_spec |= what == JM_STORE_SPEC;
    j->store.put_r |= what == JM_STORE_R;
    j->store.put_uri |= what == JM_STORE_URI;
}

void jm_store_submission(struct jm *jm, struct jm_submission *sub)
{
    struct list_node *n;

    while ((n = list_first(&sub->store.jobs))) {
        list_remove(n);
        list_append(&jm->store->dirty, n);
    }
    jm->store->urgent = true;
    jm_module_kick(jm);
}

void jm_store_unlink(struct jm *jm, uint64_t id)
{
    if (jm_ids_add(&jm->store->unlink, id) < 0)
        flux_log(jm->h, LOG_ERR, "out of memory: job.%llu stays in the store",
                 (unsigned long long)id);
    jm_module_kick(jm);
}

void jm_store_answer(struct jm *jm, const flux_msg_t *req, char *json)
{
    struct answer *a = json ? calloc(1, sizeof(*a)) : NULL;

    if (!a) {
        free(json);
        flux_respond_error(jm->h, req, ENOMEM, "the job module is out of memory");
        return;
    }
    a->req = flux_msg_incref(req);
    a->json = json;
    list_append(&jm->store->answers, &a->node);
    jm->store->urgent = true;
    jm_module_kick(jm);
}

/* --- a transaction --- */

static int put(flux_kvs_txn_t *txn, uint64_t id, const char *what, const void *data, size_t len,
               size_t *bytes)
{
    char key[64];

    snprintf(key, sizeof(key), "job.%llu.%s", (unsigned long long)id, what);
    *bytes += len;
    return flux_kvs_txn_put_raw(txn, key, data, len, NULL);
}

static int put_env(flux_kvs_txn_t *txn, struct jm_job *j, size_t *bytes)
{
    struct jm_env *env = j->env;
    char from[64], to[64];

    if (!env || env->len == 0)
        return 0;
    if (!jm_env_source(env)) {
        if (put(txn, j->id, "env", env->data, env->len, bytes) < 0)
            return -1;
        jm_env_set_source(j->jm, env, j->id);
        return 0;
    }
    snprintf(from, sizeof(from), "job.%llu.env", (unsigned long long)jm_env_source(env));
    snprintf(to, sizeof(to), "job.%llu.env", (unsigned long long)j->id);
    return flux_kvs_txn_copy(txn, from, to, NULL);
}

static int put_uri(flux_kvs_txn_t *txn, struct jm_job *j, size_t *bytes)
{
    const char *uri = jm_control_uri(j);
    char key[64];

    if (uri)
        return put(txn, j->id, "uri", uri, strlen(uri), bytes);
    snprintf(key, sizeof(key), "job.%llu.uri", (unsigned long long)j->id);
    return flux_kvs_txn_unlink(txn, key, 0, NULL);
}

static int put_job(flux_kvs_txn_t *txn, struct jm_job *j, size_t *bytes)
{
    const char *R = j->r_json ? j->r_json : j->store.past_r;

    if (j->store.put_spec && (put(txn, j->id, "jobspec", j->spec->text, j->spec->len, bytes) < 0 ||
                              put_env(txn, j, bytes) < 0))
        return -1;
    if (j->store.put_r && R && put(txn, j->id, "R", R, strlen(R), bytes) < 0)
        return -1;
    if (j->store.put_uri && put_uri(txn, j, bytes) < 0)
        return -1;
    return put(txn, j->id, "eventlog", strbuf_str(j->log), strbuf_len(j->log), bytes);
}

static int put_rest(struct jm *jm, flux_kvs_txn_t *txn)
{
    struct jm_store *s = jm->store;
    char text[64];
    int rc = 0;

    if (s->next_id != jm_job_next_id(jm)) {
        snprintf(text, sizeof(text), "%llu", (unsigned long long)jm_job_next_id(jm));
        rc = flux_kvs_txn_put(txn, "job-next", text, NULL);
    }
    if (s->put_queue && rc == 0) {
        char *json = jm_queue_encode(jm);

        rc = json ? flux_kvs_txn_put(txn, "job-queue", json, NULL) : -1;
        free(json);
    }
    for (size_t i = 0; i < s->unlink_sent.n && rc == 0; i++) {
        snprintf(text, sizeof(text), "job.%llu", (unsigned long long)s->unlink_sent.ids[i]);
        rc = flux_kvs_txn_unlink(txn, text, FLUX_KVS_RECURSIVE, NULL);
    }
    s->next_id_sent = jm_job_next_id(jm);
    return rc;
}

static void move_all(struct list_node *from, struct list_node *to)
{
    struct list_node *n;

    while ((n = list_first(from))) {
        list_remove(n);
        list_append(to, n);
    }
}

/* The environments in this transaction are not in the store. */
static void forget_source(struct jm_job *j)
{
    if (j->store.put_spec)
        jm_env_drop_source(j->jm, j->id);
}

/* Refuse the submission of the job.  A job that wrexec has stays a job, whose resources are
 * returned when its tasks are gone: it goes to `again`, to be recorded with its end. */
static void refuse(struct jm_job *j, struct list_node *again, int errnum, const char *text)
{
    struct jm *jm = j->jm;
    struct jm_submission *sub = j->store.sub;

    jm_submit_fail(sub, errnum, "the job is not accepted, %s: %s",
                   errnum == FLUX_KVS_UNKNOWN ? "but may be there after a crash: the store failed"
                                              : "since the store refused it",
                   text);
    j->store.sub = NULL;
    if (--sub->store.left == 0)
        jm_submit_done(jm, sub);
    if (jm_exec_launched(j)) {
        list_append(again, &j->store.dirty);
        jm_state_exception(j, "store", JOB_SEVERITY_FATAL,
                           "it was refused, since the store was failing", j->st.userid, true);
        return;
    }
    /* It is not known whether the store has it. */
    jm_store_unlink(jm, j->id);
    jm_sched_remove(j);
    jm_sched_free(j);
    jm_submit_withdrawn(jm);
    jm_depend_ended(j);
    jm_job_destroy(j);
}

static void refuse_answers(struct jm *jm, struct list_node *answers, int errnum, const char *text)
{
    struct list_node *n;

    while ((n = list_first(answers))) {
        struct answer *a = list_entry(n, struct answer, node);

        flux_respond_error(jm->h, a->req, errnum, "the store %s it: %s",
                           errnum == FLUX_KVS_UNKNOWN ? "may or may not have" : "refused", text);
        answer_free(a);
    }
}

/* Undo a transaction that could not be recorded; its submissions are refused.  If it had only
 * changes of accepted jobs, these will be tried again; the submissions behind it would wait until
 * the store has recovered, so they are refused, too. */
static void undo(struct jm *jm, int errnum, const char *text)
{
    struct jm_store *s = jm->store;
    struct list_node *n, again, rest;
    bool old_only = true;

    list_init(&again);
    list_init(&rest);
    if (!s->complained)
        flux_log(jm->h, LOG_ERR, "jobs cannot be put on record: %s", text);
    s->complained = true;
    free(s->failure);
    s->failure = strdup(text);
    s->failed++;
    s->waiting = true;
    flux_timer_start(s->retry, RETRY, 0.);
    for (size_t i = 0; i < s->unlink_sent.n; i++)
        jm_ids_add(&s->unlink, s->unlink_sent.ids[i]);
    s->unlink_sent.n = 0;
    refuse_answers(jm, &s->answers_sent, errnum, text);
    while ((n = list_first(&s->sent))) {
        struct jm_job *j = list_entry(n, struct jm_job, store.dirty);

        list_remove(n);
        j->store.sent = j->store.changed = false;
        forget_source(j);
        if (j->store.sub) {
            old_only = false;
            refuse(j, &again, errnum, text);
        } else {
            list_append(&again, &j->store.dirty);
        }
    }
    if (old_only)
        refuse_answers(jm, &s->answers, errnum, text);
    while ((n = list_first(&s->dirty))) {
        struct jm_job *j = list_entry(n, struct jm_job, store.dirty);

        list_remove(n);
        if (j->store.sub && (old_only || jm_submit_failed(j->store.sub)))
            refuse(j, &rest, errnum, text);
        else
            list_append(&rest, &j->store.dirty);
    }
    s->urgent = true;
    /* These come first: they are older than the changes since then. */
    move_all(&again, &s->dirty);
    move_all(&rest, &s->dirty);
}

static void recorded(struct jm_job *j)
{
    struct jm_submission *sub = j->store.sub;

    j->store.sent = false;
    j->store.put_spec = false;
    if (!j->store.changed) {
        j->store.put_r = j->store.put_uri = false;
        free(j->store.past_r);
        j->store.past_r = NULL;
    } else {
        j->store.changed = false;
        list_append(&j->jm->store->dirty, &j->store.dirty);
    }
    if (sub) {
        j->store.sub = NULL;
        if (--sub->store.left == 0)
            jm_submit_done(j->jm, sub);
    }
    if (jm_exec_launching(j) && list_empty(&j->store.dirty))
        jm_exec_recorded(j);
    if (j->st.state == JOB_STATE_INACTIVE && list_empty(&j->store.dirty))
        jm_job_retire(j);
}

static bool something(const struct jm *jm)
{
    const struct jm_store *s = jm->store;

    return !list_empty(&s->dirty) || s->unlink.n || s->put_queue;
}

static void send_answers(struct jm *jm, struct list_node *answers)
{
    struct list_node *n;

    while ((n = list_first(answers))) {
        struct answer *a = list_entry(n, struct answer, node);

        flux_respond(jm->h, a->req, a->json);
        answer_free(a);
    }
}

static void commit_cb(flux_future_t *f, void *arg)
{
    struct jm *jm = arg;
    struct jm_store *s = jm->store;
    struct list_node *n;
    errmsg_t err;

    s->f = NULL;
    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0) {
        undo(jm, errno, err.text);
    } else {
        HOLD_POINT(&jm->hold, "jobs-recorded");
        if (s->complained)
            flux_log(jm->h, LOG_INFO, "jobs are put on record again");
        s->complained = false;
        free(s->failure);
        s->failure = NULL;
        s->next_id = s->next_id_sent;
        s->unlink_sent.n = 0;
        while ((n = list_first(&s->sent))) {
            list_remove(n);
            recorded(list_entry(n, struct jm_job, store.dirty));
        }
        send_answers(jm, &s->answers_sent);
        jm_watch_recorded(jm);
        jm_wait_flush(jm);
        jm_purge_check(jm);
    }
    flux_future_destroy(f);
    jm_module_kick(jm);
}

/* Are the changes sent now?  If not, a timer is set. */
static bool now_or_later(struct jm *jm)
{
    struct jm_store *s = jm->store;
    double now = flux_reactor_now(jm->r), after = LAZY;

    if (s->urgent || s->put_queue || s->due)
        return true;
    s->tokens += (now - s->tokens_at) / GAP;
    s->tokens_at = now;
    if (s->tokens > BURST)
        s->tokens = BURST;
    if (s->wanted && s->tokens >= 1.) {
        s->tokens -= 1.;
        return true;
    }
    if (s->wanted)
        after = (1. - s->tokens) * GAP;
    if (!flux_watcher_active(s->lazy) || after < LAZY)
        flux_timer_start(s->lazy, after, 0.);
    return false;
}

/* The first of the jobs to be removed; these are all, except after a large request. */
static int take_unlinks(struct jm_store *s)
{
    size_t n = s->unlink.n < TXN_UNLINKS ? s->unlink.n : TXN_UNLINKS;

    for (size_t i = 0; i < n; i++) {
        if (jm_ids_add(&s->unlink_sent, s->unlink.ids[i]) < 0)
            n = i;
    }
    jm_ids_drop_first(&s->unlink, n);
    return s->unlink.n == 0 || n > 0 ? 0 : -1;
}

void jm_store_flush(struct jm *jm)
{
    struct jm_store *s = jm->store;
    flux_kvs_txn_t *txn;
    size_t bytes = 0, njobs = 0;
    struct list_node *n;
    bool durable;
    int rc = 0, saved;

    if (s->f || s->waiting || !jm->ready)
        return;
    if (!something(jm)) {
        /* All changes of these requests are recorded, or will never be. */
        send_answers(jm, &s->answers);
        s->urgent = s->wanted = s->due = false;
        jm_job_trim(jm);
        return;
    }
    if (!now_or_later(jm))
        return;
    durable = s->urgent || s->put_queue || s->next_id != jm_job_next_id(jm);
    s->urgent = s->wanted = s->due = false;
    flux_watcher_stop(s->lazy);
    if (!(txn = flux_kvs_txn_create())) {
        undo(jm, ENOMEM, "out of memory");
        return;
    }
    while ((n = list_first(&s->dirty))) {
        struct jm_job *j = list_entry(n, struct jm_job, store.dirty);
        const struct jm_job *last =
            njobs ? list_entry(s->sent.prev, struct jm_job, store.dirty) : NULL;

        if (njobs > 0 && !(j->store.sub && last->store.sub == j->store.sub) &&
            (njobs >= TXN_JOBS ||
             bytes + (j->store.sub ? jm_submit_bytes(j->store.sub) : 0) > TXN_BYTES))
            break;
        list_remove(n);
        list_append(&s->sent, n);
        j->store.sent = true;
        durable = durable || j->store.sub || jm_exec_launching(j);
        njobs++;
        if ((rc = put_job(txn, j, &bytes)) < 0)
            break;
    }
    /* No job is removed before all changes are recorded: another job may have depended on it. */
    if (list_empty(&s->dirty) && !jm_depend_pending(jm) && rc == 0)
        rc = take_unlinks(s);
    if (list_empty(&s->dirty) && s->unlink.n == 0)
        move_all(&s->answers, &s->answers_sent);
    else
        s->urgent = true; /* the rest comes next; the request is answered then */
    if (rc == 0)
        rc = put_rest(jm, txn);
    saved = errno;
    if (rc == 0 &&
        (s->f = durable ? flux_kvs_commit_durable(jm->h, NULL, txn)
                        : flux_kvs_commit(jm->h, NULL, txn)) &&
        flux_future_then(s->f, -1., commit_cb, jm) < 0) {
        flux_future_destroy(s->f);
        s->f = NULL;
        saved = ENOMEM;
    }
    s->ops += flux_kvs_txn_count(txn);
    flux_kvs_txn_destroy(txn);
    if (!s->f) {
        undo(jm, saved, strerror(saved));
        return;
    }
    s->put_queue = false;
    s->commits++;
    HOLD_POINT(&jm->hold, "jobs-sent");
    jm_watch_sent(jm);
}

/* The module ends while these are being sent to the store, and cannot receive the response. */
static void answer_unknown(struct jm *jm, struct jm_submission *sub)
{
    jm_submit_fail(
        sub, ECONNABORTED,
        "the job module was unloaded while the jobs were being put on record: whether they "
        "were accepted is not known; see flux jobs -a before submitting again");
    jm_submit_done(jm, sub);
}

static void answers_unknown(struct jm *jm, struct list_node *answers)
{
    refuse_answers(jm, answers, ECONNABORTED,
                   "the job module was unloaded before the store answered: whether it is on record "
                   "is not known");
}

/* Destroy a job whose submission was not answered: its part in the store belongs to the next
 * instance. */
static void let_go(struct jm_job *j)
{
    struct jm *jm = j->jm;
    struct jm_submission *sub = j->store.sub;

    j->store.sub = NULL;
    if (--sub->store.left > 0)
        return;
    if (sub->store.unknown)
        answer_unknown(jm, sub);
    else
        jm_submit_drop(jm, sub);
}

static bool last_txn(struct jm *jm)
{
    struct jm_store *s = jm->store;
    struct list_node *n;

    s->urgent = true;
    jm_store_flush(jm);
    flux_future_destroy(s->f);
    s->f = NULL;
    while ((n = list_first(&s->sent))) {
        struct jm_job *j = list_entry(n, struct jm_job, store.dirty);

        list_remove(n);
        j->store.sent = false;
        if (j->store.sub) {
            j->store.sub->store.unknown = true;
            let_go(j);
        }
    }
    answers_unknown(jm, &s->answers_sent);
    return !s->waiting;
}

void jm_store_last(struct jm *jm)
{
    struct jm_store *s = jm->store;
    struct list_node *n, keep;

    if (!s || !jm->ready)
        return;
    while (jm_depend_pending(jm))
        jm_depend_flush(jm);
    flux_future_destroy(s->f);
    s->f = NULL;
    s->waiting = false;
    answers_unknown(jm, &s->answers_sent);
    /* Send accepted jobs once more: repeated puts change nothing. */
    while ((n = s->sent.prev) != &s->sent) {
        struct jm_job *j = list_entry(n, struct jm_job, store.dirty);

        list_remove(n);
        j->store.sent = j->store.changed = false;
        if (j->store.sub) {
            j->store.sub->store.unknown = true;
            if (jm->durable) {
                let_go(j);
                continue;
            }
        }
        list_push(&s->dirty, n);
    }
    /* These were not sent: the next instance gets the request, if there is one. */
    list_init(&keep);
    while ((n = list_first(&s->dirty))) {
        struct jm_job *j = list_entry(n, struct jm_job, store.dirty);

        list_remove(n);
        if (j->store.sub && jm->durable)
            let_go(j);
        else
            list_append(&keep, n);
    }
    move_all(&keep, &s->dirty);
    while (something(jm) && last_txn(jm))
        ;
    answers_unknown(jm, &s->answers);
    while ((n = list_first(&s->dirty))) {
        struct jm_job *j = list_entry(n, struct jm_job, store.dirty);

        list_remove(n);
        if (j->store.sub) {
            j->store.sub->store.unknown = true;
            let_go(j);
        }
    }
}

bool jm_store_busy(const struct jm *jm)
{
    return jm->store->f || !list_empty(&jm->store->dirty);
}

void jm_store_queue(struct jm *jm)
{
    jm->store->put_queue = true;
}

const char *jm_store_failure(const struct jm_job *j)
{
    const struct jm_store *s = j->jm->store;

    if (!s->complained || list_empty(&j->store.dirty))
        return NULL;
    return s->failure ? s->failure : "the store fails";
}

void jm_store_loaded(struct jm *jm)
{
    jm->store->next_id = jm_job_next_id(jm);
}

void jm_store_stats(const struct jm *jm, struct job_stats *st)
{
    st->commits = jm->store->commits;
    st->failed = jm->store->failed;
}
