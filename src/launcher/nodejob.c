/* nodejob.c - the jobs of a launcher: start, signals, end.
 *
 * Start: the directory of the job is made and filled, its prolog, plugins and PMIx server (if any)
 * are run, and its tasks are started (task.c).  These operations may hang, so starters perform them
 * (starter.c), and likewise the epilog and the removal of the directory.  A job waits for a hanging
 * operation until the job is killed, and then for GIVE_UP.
 *
 * End: after the last task was reaped, the remaining processes of the job are killed (hunt.c); one
 * system call tells whether there are any (orphan.c).  DONE is sent only when no process is left,
 * the pipes are drained and the epilog has ended.  So when a job is over, none of its processes
 * runs, except a process that cannot be killed and was given up.
 *
 * Invariants:
 *  1. The state (launcher.h) changes by the transitions of the table `moves` only, and never back.
 */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libsubprocess/proctree.h"
#include "libsubprocess/spawn.h"
#include "libutil/clock.h"
#include "libutil/invariant.h"

#define GIVE_UP 2000000 /* microseconds */
#define CUT_AGAIN 10000

static void cut(struct nodejob *j);

static const struct transition moves[] = {
    {JOB_NEW, JOB_PROLOG, "nodejob_prolog_runs"},
    {JOB_NEW, JOB_STARTING, "job_go"},
    {JOB_PROLOG, JOB_STARTING, "job_go"},
    {JOB_STARTING, JOB_SPAWNING, "nodejob_start"},
    {JOB_SPAWNING, JOB_RUNNING, "spawned"},
    {JOB_NEW, JOB_ENDING, "nodejob_ending"},
    {JOB_PROLOG, JOB_ENDING, "nodejob_ending"},
    {JOB_STARTING, JOB_ENDING, "nodejob_ending"},
    {JOB_SPAWNING, JOB_ENDING, "nodejob_ending"},
    {JOB_RUNNING, JOB_ENDING, "nodejob_ending"},
    {JOB_ENDING, JOB_OVER, "nodejob_destroy"},
    /* the launcher ends, and has killed all its processes */
    {JOB_NEW, JOB_OVER, "nodejob_destroy"},
    {JOB_PROLOG, JOB_OVER, "nodejob_destroy"},
    {JOB_STARTING, JOB_OVER, "nodejob_destroy"},
    {JOB_SPAWNING, JOB_OVER, "nodejob_destroy"},
    {JOB_RUNNING, JOB_OVER, "nodejob_destroy"},
    TRANSITION_END,
};

static void set_state(struct nodejob *j, enum job_state state)
{
    TRANSITION(1, moves, j->state, state);
    j->state = state;
}

/* Begin the end of a job. */
static void nodejob_ending(struct nodejob *j)
{
    if (j->state == JOB_ENDING)
        return;
    set_state(j, JOB_ENDING);
    list_append(&j->l->ending, &j->ending);
    if (j->killed)
        cut(j);
}

static const char *next_string(const char **p)
{
    const char *s = *p;

    *p += strlen(s) + 1;
    return s;
}

/* Split the words of each command.  Returns the place after the last word. */
static char **split_commands(struct nodejob *j, char **v, const char **p)
{
    uint32_t first = 0;

    if (!(j->commands = calloc(j->run.ncommands, sizeof(*j->commands))))
        return NULL;
    for (uint32_t i = 0; i < j->run.ncommands; i++) {
        struct command *c = &j->commands[i];
        struct wire_command wc;

        memcpy(&wc, (const uint8_t *)j->run.commands + i * sizeof(wc), sizeof(wc));
        c->first = first;
        first += wc.ntasks;
        c->dir = next_string(p);
        c->search = next_string(p);
        c->argv = v;
        for (uint32_t k = WIRE_COMMAND_ARGV; k < wc.argc; k++)
            *v++ = (char *)next_string(p);
        c->changes = ++v; /* after a NULL */
        for (uint32_t k = 0; k < wc.envc; k++)
            *v++ = (char *)next_string(p);
        v++;
    }
    return v;
}

/* Split the strings of the request into vectors. */
static int split(struct nodejob *j)
{
    const char *p = j->run.strings, *cores, *gpus;
    size_t n = 2ull * j->run.nfiles + j->run.argc + j->run.envc + 2 + 2ull * j->run.ncommands;
    char **v = calloc(n, sizeof(*v));

    if (!v)
        return -1;
    j->files = v;
    j->name = next_string(&p);
    j->node = next_string(&p);
    cores = next_string(&p);
    gpus = next_string(&p);
    j->hosts = next_string(&p);
    for (int i = 0; i < WIRE_STRINGS; i++)
        j->fixed[i] = next_string(&p);
    for (uint32_t i = 0; i < 2 * j->run.nfiles; i++)
        *v++ = (char *)next_string(&p);
    j->argv = v;
    for (uint32_t i = 0; !j->run.ncommands && i < j->run.argc; i++)
        *v++ = (char *)next_string(&p);
    if (j->run.ncommands && !(v = split_commands(j, v, &p)))
        return -1;
    j->env = ++v;
    for (uint32_t i = 0; i < j->run.envc; i++)
        *v++ = (char *)next_string(&p);
    if (!j->name[0]) {
        const char *slash = strrchr(j->argv[0], '/');

        j->name = slash ? slash + 1 : j->argv[0];
    }
    if (cores[0] && !(j->cores = idset_parse(cores, NULL)))
        return -1;
    if (gpus[0] && !(j->gpus = idset_parse(gpus, NULL)))
        return -1;
    return 0;
}

const char *nodejob_node_name(const struct nodejob *j)
{
    return j->node[0] ? j->node : j->l->hostname;
}

/* Report that the tasks from number i on were not started, with the reason. */
static void not_started(struct nodejob *j, uint32_t i, int code, const char *why)
{
    launcher_send_fail(j, code, (int32_t)j->tasks[i].rank, j->ntasks - i, "%s", why);
    for (; i < j->ntasks; i++)
        j->tasks[i].status = code << 8;
    nodejob_kill(j);
}

static void job_signal_now(struct nodejob *j, int signum);

/* --- works --- */

void nodejob_work(struct nodejob *j, struct batch *b, struct work *w)
{
    w->job = j;
    j->asked++;
    j->asked_first += (b == &j->first);
    if (b != &j->first)
        j->give_up = clock_now_us() + GIVE_UP;
    starter_batch_add(j->l, b, w);
}

void nodejob_drop(struct nodejob *j, struct batch *b)
{
    unsigned n = starter_batch_drop(j->l, b);

    j->asked -= n;
    if (b == &j->first)
        j->asked_first -= n;
}

static void ghost_free(struct nodejob *j);

void nodejob_worked(struct work *w)
{
    struct nodejob *j = w->job;

    j->asked--;
    j->asked_first -= (w->batch == &j->first);
    j->give_up = clock_now_us() + GIVE_UP;
    w->done(w);
    if (j->ghost && !j->asked)
        ghost_free(j);
    else if (j->cut && !j->asked_first && (j->state == JOB_NEW || j->state == JOB_STARTING))
        nodejob_ending(j);
}

/* --- start --- */

/* End the start of tasks: all tasks have been started, or those from number nspawned on could not
 * be. */
static void spawned(struct nodejob *j, int code, const char *why)
{
    nodejob_drop(j, &j->first);
    tasks_forget(j);
    list_remove(&j->spawning);
    list_remove(&j->cutting);
    set_state(j, JOB_RUNNING);
    if (j->nspawned)
        j->times.started = j->times.exited = clock_wall_us();
    stream_stdin_release(j);
    if (j->run.parent && !code && j->nspawned == j->ntasks)
        launcher_send_frame(j->l, WIRE_STARTED, j->id, NULL, 0, NULL, 0);
    if (code)
        not_started(j, j->nspawned, code, why);
    for (int sig = 1; j->early && sig < _NSIG; sig++)
        if (j->early & (1ull << (sig - 1)))
            job_signal_now(j, sig);
    if (j->running == 0)
        nodejob_ending(j);
}

/* Check whether the starts of all tasks have come back. */
static void check_spawned(struct nodejob *j)
{
    errmsg_t why;
    int code;

    if (j->cut && j->asked_first == 0)
        spawned(j, 0, NULL);
    else if (!j->cut && tasks_all(j, &code, &why))
        spawned(j, code, why.text);
}

static void spawn_more(struct nodejob *j)
{
    if (!tasks_more(j)) {
        list_remove(&j->spawning);
        check_spawned(j);
    } else if (list_empty(&j->spawning)) {
        list_append(&j->l->spawning, &j->spawning);
    }
}

void nodejob_start(struct nodejob *j)
{
    errmsg_t err;
    int code;

    set_state(j, JOB_SPAWNING);
    if ((code = tasks_prepare(j, &err)))
        spawned(j, code, err.text);
    else
        spawn_more(j);
}

void nodejobs_spawn(struct launcher *l)
{
    struct list_node round, *n;

    /* A job that starts its tasks may remove any other job from the list. */
    list_init(&round);
    list_splice(&round, &l->spawning);
    while ((n = list_first(&round))) {
        list_remove(n);
        list_append(&l->spawning, n);
        spawn_more(list_entry(n, struct nodejob, spawning));
    }
}

/* --- works that hang --- */

/* Handle the start of a task that comes back after its job was given up. */
static void come_back(struct nodejob *j, const struct request *r)
{
    if (r->w.pid > 0 && !r->w.reaped)
        kill(r->w.pid, SIGKILL);
    fprintf(stderr, "flux-launcher: job %" PRIu64 ": the hung start of task %u has returned\n",
            j->id, r->task->rank);
}

static void task_ended(struct task *t, int status);

void nodejob_started(struct work *w)
{
    struct request *r = (struct request *)w;
    struct task *t = r->task;
    struct nodejob *j = t->job;
    errmsg_t err;
    int code;

    lua_notes_send(j, &r->notes);
    if (j->state != JOB_SPAWNING) {
        come_back(j, r);
        task_request_free(r);
        return;
    }
    code = tasks_started(r, &err);
    if (!code && w->reaped)
        task_ended(t, w->status);
    else if (!code && j->cut)
        kill(-t->pid, SIGKILL);
    if (code && !j->cut)
        spawned(j, code, err.text);
    else if (!j->cut && list_empty(&j->spawning) && j->asked_first <= BATCH_MAX / 2)
        spawn_more(j);
    else
        check_spawned(j);
    task_request_free(r);
}

/* Limit the wait of a killed job for the works that starters perform for it. */
static void cut(struct nodejob *j)
{
    list_remove(&j->spawning);
    if (j->state < JOB_ENDING)
        starter_batch_kill(j->l, &j->first);
    if (j->cut && !list_empty(&j->cutting))
        return;
    j->cut = true;
    j->give_up = clock_now_us() + GIVE_UP;
    list_append(&j->l->cutting, &j->cutting);
}

static void give_up(struct nodejob *j)
{
    pid_t pid = starter_batch_kill(j->l, &j->first);

    list_remove(&j->cutting);
    if (j->state == JOB_SPAWNING) {
        const struct task *t = &j->tasks[j->nspawned];

        if (pid > 0) {
            fprintf(stderr,
                    "flux-launcher: job %" PRIu64
                    ": process %d, which was to become task %u, hangs and "
                    "cannot be killed: it is left behind\n",
                    j->id, (int)pid, t->rank);
            launcher_send_note(
                j,
                "process %d, which was to become task %u on %s, hangs in the kernel and is left "
                "behind: a file system may not be responding",
                (int)pid, t->rank, nodejob_node_name(j));
        } else {
            fprintf(stderr,
                    "flux-launcher: job %" PRIu64
                    ": the preparation of task %u hangs and is left behind\n",
                    j->id, t->rank);
            launcher_send_note(j,
                               "the preparation of task %u on %s hangs and is left behind: "
                               "check the plugins, and the file systems of the node",
                               t->rank, nodejob_node_name(j));
        }
        spawned(j, 0, NULL);
        return;
    }
    fprintf(stderr, "flux-launcher: job %" PRIu64 ": its %s hangs and is left behind\n", j->id,
            j->state == JOB_ENDING ? "end" : "start");
    launcher_send_note(
        j, "the %s of the job hangs on %s and is left behind: a file system may not be responding",
        j->state == JOB_ENDING ? "end" : "start", nodejob_node_name(j));
    if (j->state == JOB_ENDING)
        j->given_up = true;
    else
        nodejob_ending(j);
}

/* Kill again, since the child may not have existed at the previous attempt. */
static void cut_step(struct launcher *l)
{
    uint64_t now = list_empty(&l->cutting) ? 0 : clock_now_us();

    LIST_FOREACH_SAFE(it, tmp, &l->cutting)
    {
        struct nodejob *j = list_entry(it, struct nodejob, cutting);

        if (j->state == JOB_ENDING ? j->asked == j->asked_first : !j->asked_first)
            continue;
        if (j->state < JOB_ENDING)
            starter_batch_kill(l, &j->first);
        if (l->wake > CUT_AGAIN)
            l->wake = CUT_AGAIN;
        if (now >= j->give_up)
            give_up(j);
    }
}

static void job_refuse(struct nodejob *j, const char *why)
{
    not_started(j, 0, 126, why);
    nodejob_ending(j);
}

/* Start the tasks, at once or when the PMIx server is ready. */
static void job_start(struct nodejob *j)
{
    errmsg_t err;
    int waits;

    record_changes(j);
    waits = pmix_begin(j, &err);
    if (waits == 0) {
        nodejob_start(j);
    } else if (waits < 0) {
        job_refuse(j, err.text);
    }
}

/* Call the plugins, and then start the tasks. */
static void job_go(struct nodejob *j)
{
    errmsg_t err;
    int waits;

    set_state(j, JOB_STARTING);
    if ((waits = lua_init(j, &err)) < 0)
        job_refuse(j, err.text);
    else if (waits == 0)
        job_start(j);
}

void nodejob_plugins_done(struct nodejob *j, const char *why)
{
    if (j->state != JOB_STARTING || j->killed_early)
        return; /* the job ends, or will when all its works have come back */
    if (why)
        job_refuse(j, why);
    else
        job_start(j);
}

void nodejob_file_failed(struct nodejob *j, const char *why)
{
    if (j->state == JOB_SPAWNING && !j->cut)
        spawned(j, 126, why);
    else if (j->state == JOB_SPAWNING)
        check_spawned(j);
}

void nodejob_prolog_runs(struct nodejob *j)
{
    set_state(j, JOB_PROLOG);
}

void nodejob_server_failed(struct nodejob *j, const char *why)
{
    if (!j->killed_early)
        job_refuse(j, why);
}

void nodejob_prolog_done(struct nodejob *j, const char *why)
{
    if (why && !j->killed_early)
        job_refuse(j, why);
    else if (j->killed_early)
        nodejob_ending(j);
    else
        job_go(j);
}

/* Join the job that spawned these tasks, while it is on this node: they share its directory, cgroup
 * and hooks. */
static bool join_host(struct nodejob *j)
{
    struct nodejob *host = j->run.parent ? hmap_get_u64(j->l->jobs, j->run.parent) : NULL;

    if (!host || host->closing || host->heir || host->state == JOB_OVER ||
        (host->dir && !(j->dir = strdup(host->dir))))
        return false;
    j->shared_dir = (j->dir != NULL);
    j->host = host;
    list_append(&host->guests, &j->guest);
    return true;
}

/* Separate a guest or a host that has ended. */
static void leave_host(struct nodejob *j)
{
    list_remove(&j->guest);
    j->host = NULL;
    j->l->again = true;
}

/* Begin the steps before the tasks, of which the directory is the first. */
static void job_begin(struct nodejob *j)
{
    errmsg_t err;

    if (join_host(j))
        job_go(j);
    else if (j->run.flags & WIRE_F_EXEC)
        nodejob_dir_made(j, NULL);
    else if (backing_make(j, &err) < 0)
        job_refuse(j, err.text);
}

void nodejob_dir_made(struct nodejob *j, const char *why)
{
    errmsg_t err;
    int waits;

    if (j->heir) {
        nodejob_ending(j);
        return;
    }
    if (j->killed_early)
        return;
    record_write(j);
    cgroup_make(j);
    if (why)
        job_refuse(j, why);
    else if ((waits = hook_prolog(j, &err)) < 0)
        job_refuse(j, err.text);
    else if (waits == 0)
        job_go(j);
}

static void job_free(struct nodejob *j)
{
    if (!j)
        return;
    tag_release(j);
    env_changes_clear(&j->changes);
    idset_destroy(j->cores);
    idset_destroy(j->gpus);
    exec_layout_destroy(j->layout);
    hmap_destroy(j->opened);
    free(j->files);
    free(j->commands);
    free(j->dir);
    free(j->record);
    free(j->tasks);
    free(j->body);
    free(j);
}

static struct nodejob *job_create(struct launcher *l, uint64_t id, const void *payload, size_t len)
{
    struct nodejob *j = calloc(1, sizeof(*j));
    errmsg_t err;

    if (!j || !(j->body = malloc(len)))
        goto fail;
    j->l = l;
    j->id = id;
    list_init(&j->guest);
    list_init(&j->guests);
    list_init(&j->ending);
    list_init(&j->spawning);
    list_init(&j->cutting);
    starter_batch_init(&j->first, true);
    starter_batch_init(&j->last, false);
    memcpy(j->body, payload, len);
    j->len = len;
    if (exec_wire_run_get(j->body, len, &j->run, &err) < 0) {
        fprintf(stderr, "flux-launcher: job %" PRIu64 ": %s\n", id, err.text);
        goto fail;
    }
    if (!(j->layout = exec_wire_run_layout(&j->run, &err)) || split(j) < 0)
        goto fail;
    j->ntasks = exec_layout_count(j->layout, j->run.node);
    j->credit = j->run.window;
    snprintf(j->mark, sizeof(j->mark), LAUNCHER_MARK "%s=%" PRIu64, l->token, id);
    if (!(j->tasks = calloc(j->ntasks, sizeof(*j->tasks))))
        goto fail;
    for (uint32_t i = 0; i < j->ntasks; i++) {
        struct task *t = &j->tasks[i];

        t->job = j;
        t->rank = exec_layout_task(j->layout, j->run.node, i);
        t->in.fd = t->pmi.fd = t->out[0].src.fd = t->out[1].src.fd = -1;
    }
    tag_take(j);
    clock_gettime(CLOCK_BOOTTIME, &j->began);
    if (hmap_put_u64(l->jobs, id, j) == 0)
        return j;
fail:
    job_free(j);
    return NULL;
}

void nodejob_run(struct launcher *l, uint64_t id, const void *payload, size_t len)
{
    static const uint8_t never[WIRE_TIMES];
    static const int32_t refused = 126 << 8;
    struct nodejob *j = hmap_get_u64(l->jobs, id);

    if (j && !j->heir)
        return;
    if (!j && (j = job_create(l, id, payload, len))) {
        job_begin(j);
    } else { /* One status stands for all tasks: the module knows their number. */
        launcher_send_frame(l, WIRE_DONE, id, never, sizeof(never), &refused, sizeof(refused));
    }
}

struct nodejob *nodejob_inherit(struct launcher *l, uint64_t id, const void *payload, size_t len)
{
    struct nodejob *j = hmap_get_u64(l->jobs, id) ? NULL : job_create(l, id, payload, len);

    errmsg_t err;

    if (!j)
        return NULL;
    j->heir = true;
    if (backing_make(j, &err) < 0)
        nodejob_ending(j);
    l->again = true;
    return j;
}

void nodejob_destroy(void *arg)
{
    struct nodejob *j = arg;

    if (!j)
        return;
    for (uint32_t i = 0; i < j->ntasks; i++) {
        struct task *t = &j->tasks[i];

        launcher_source_close(j->l, &t->out[0].src);
        launcher_source_close(j->l, &t->out[1].src);
        launcher_source_close(j->l, &t->pmi);
        stream_stdin_close(t);
        buf_destroy(t->pmiout);
    }
    shm_remove(j);
    pmi_server_destroy(j->pmi);
    j->pmi = NULL;
    hook_destroy(j);
    cgroup_remove(j);
    while (!list_empty(&j->guests)) /* the launcher ends */
        leave_host(list_entry(list_first(&j->guests), struct nodejob, guest));
    if (j->host)
        leave_host(j);
    list_remove(&j->ending);
    list_remove(&j->spawning);
    list_remove(&j->cutting);
    buf_destroy(j->held);
    j->held = NULL;
    files_drop(j);
    tag_release(j);
    nodejob_drop(j, &j->first);
    nodejob_drop(j, &j->last);
    set_state(j, JOB_OVER);
    j->ghost = true;
    if (!j->asked) /* otherwise a hanging work still uses the strings of the job */
        ghost_free(j);
}

static void ghost_free(struct nodejob *j)
{
    files_close(j);
    tasks_forget(j);
    pmix_destroy(j);
    share_destroy(j);
    lua_destroy(j);
    job_free(j);
}

/* --- signals and ends --- */

static void job_signal_now(struct nodejob *j, int signum)
{
    /* A signal that comes before the tasks is sent to them when they have started. */
    if (j->state < JOB_RUNNING && signum > 0 && signum < _NSIG)
        j->early |= 1ull << (signum - 1);
    shm_look(j);
    for (uint32_t i = 0; i < j->ntasks; i++)
        if (j->tasks[i].pid > 0)
            kill(-j->tasks[i].pid, signum);
    if (signum == SIGTERM && j->state >= JOB_RUNNING)
        hunt_terminate(j);
}

void nodejob_signal(struct nodejob *j, int signum)
{
    starters_collect(j->l);
    job_signal_now(j, signum);
}

void nodejob_kill(struct nodejob *j)
{
    starters_collect(j->l);
    j->killed = true;
    if (j->state < JOB_SPAWNING) {
        for (uint32_t i = 0; i < j->ntasks; i++)
            if (!j->tasks[i].status)
                j->tasks[i].status = SIGKILL;
        j->killed_early = true;
        nodejob_drop(j, &j->first);
        if (j->state == JOB_PROLOG)
            hook_kill(j);
        else if (j->asked_first)
            cut(j);
        else
            nodejob_ending(j);
    } else if (j->state == JOB_SPAWNING) {
        for (uint32_t i = j->nspawned; i < j->ntasks; i++)
            j->tasks[i].status = SIGKILL;
        nodejob_drop(j, &j->first);
        if (j->asked_first)
            cut(j);
        else
            spawned(j, 0, NULL);
    } else if (j->state == JOB_ENDING && !j->given_up) {
        cut(j);
    }
    j->mercy = 0;
    job_signal_now(j, SIGKILL);
}

/* End the job after the first task that fails, if the job asked for that. */
static void check_bad_exit(struct task *t)
{
    struct nodejob *j = t->job;
    char text[128];

    if (!(j->run.flags & WIRE_F_KILLBAD) || t->status == 0 ||
        (j->state != JOB_RUNNING && j->state != JOB_SPAWNING))
        return;
    launcher_send_fail(j, spawn_status_to_code(t->status), (int32_t)t->rank, 1,
                       "task %u failed (%s), which ends the job", task_number(t),
                       spawn_status_text(t->status, text, sizeof(text)));
}

static void send_end(const struct task *t)
{
    const uint32_t fixed[2] = {(uint32_t)(t - t->job->tasks), (uint32_t)t->status};

    launcher_send_frame(t->job->l, WIRE_END, t->job->id, fixed, sizeof(fixed), NULL, 0);
}

void nodejob_ask_end(struct nodejob *j, uint32_t i)
{
    if (i >= j->ntasks)
        return;
    if (task_has_ended(&j->tasks[i]))
        send_end(&j->tasks[i]);
    else
        j->tasks[i].asked = true; /* DONE tells of one that never starts */
}

static void task_ended(struct task *t, int status)
{
    struct nodejob *j = t->job;

    t->pid = 0;
    t->status = status;
    j->running--;
    /* The pid is free now; the rest of the process group will be found among the children. */
    stream_stdin_close(t);
    pmi_task_ended(t);
    pmix_task_ended(t);
    cgroup_task_ended(t);
    if (t->asked)
        send_end(t);
    check_bad_exit(t);
    if (j->running == 0) {
        uint64_t now = clock_wall_us(); /* it is sent to other nodes */

        /* The clock may have been set back in the meantime. */
        if (now > j->times.exited)
            j->times.exited = now;
    }
    lua_task_exit(j, t);
    if (j->running == 0 && j->state == JOB_RUNNING)
        nodejob_ending(j);
}

/* Find the task of a child, which a starter may have started just now. */
static struct task *take_task(struct launcher *l, pid_t pid)
{
    struct task *t = hmap_take_u64(l->pids, (uint64_t)pid);

    if (!t && starters_have(l, pid)) {
        starters_collect(l);
        t = hmap_take_u64(l->pids, (uint64_t)pid);
    }
    return t;
}

void nodejobs_reap(struct launcher *l)
{
    pid_t pid;
    int status;

    l->childless = false;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct task *t = take_task(l, pid);

        if (t)
            task_ended(t, status);
        else if (!starters_reaped(l, pid, status) && !pmix_reaped(l, pid, status))
            hook_reaped(l, pid, status);
    }
    l->childless = (pid < 0 && errno == ECHILD);
}

static void job_done(struct nodejob *j)
{
    struct launcher *l = j->l;
    int32_t *status;
    uint8_t times[WIRE_TIMES];

    record_remove(j);
    if (j->heir) {
        hmap_del_u64(l->jobs, j->id);
        return;
    }
    if (!(status = calloc(j->ntasks, sizeof(*status)))) {
        l->stop = true;
        return;
    }
    for (uint32_t i = 0; i < j->ntasks; i++)
        status[i] = j->tasks[i].status;
    exec_wire_times_put(times, &j->times);
    launcher_send_frame(l, WIRE_DONE, j->id, times, sizeof(times), status,
                        j->ntasks * sizeof(*status));
    free(status);
    hmap_del_u64(l->jobs, j->id);
}

void nodejobs_step(struct launcher *l)
{
    bool orphans;

    l->again = false;
    l->wake = UINT64_MAX;
    hunt_tell(l);
    cut_step(l);
    if (list_empty(&l->ending))
        return;
    /* Zombies are reaped first, so a child that is found here is alive, or its end will raise
     * SIGCHLD. */
    nodejobs_reap(l);
    orphans = orphans_there(l);
    LIST_FOREACH_SAFE(it, tmp, &l->ending)
    {
        struct nodejob *j = list_entry(it, struct nodejob, ending);

        if ((orphans && hunt_leftovers(j)) ||
            (!j->given_up && (!stream_drain(j) || !files_done(j))))
            continue;
        pmix_end(j);
        if (!j->given_up && !lua_finish(j))
            continue;
        if (!list_empty(&j->guests))
            continue; /* until the last child has ended */
        j->closing = true;
        if (j->given_up || (pmix_gone(j) && !hook_epilog(j) && !backing_remove(j)))
            job_done(j);
    }
}

static int kill_one(pid_t pid, void *arg)
{
    kill(pid, SIGKILL);
    return 0;
}

struct rest {
    struct launcher *l;
    bool others; /* children that starters do not have */
};

static int look_at(pid_t pid, void *arg)
{
    struct rest *rest = arg;

    if (!starters_have(rest->l, pid) && !proctree_dead(pid))
        rest->others = true;
    return 0;
}

/* Kill all children and wait for them.  The wait for children of hanging starts is limited. */
static void kill_children(struct launcher *l, uint64_t until)
{
    const struct timespec moment = {0, 50000000};
    sigset_t set;
    pid_t pid;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (;;) {
        struct rest rest = {.l = l};

        proctree_children(kill_one, NULL);
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (pid < 0 && errno == ECHILD)
            return;
        if (clock_now_us() >= until) {
            proctree_children(look_at, &rest);
            if (!rest.others)
                return;
        }
        sigtimedwait(&set, NULL, &moment);
    }
}

void nodejobs_kill_children(struct launcher *l)
{
    kill_children(l, clock_now_us() + GIVE_UP);
}

void nodejobs_kill_all(struct launcher *l)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(l->jobs, &pos, NULL, NULL, &val)) {
        nodejob_kill(val);
        hook_interrupt(val);
    }
    nodejobs_kill_children(l);
}
