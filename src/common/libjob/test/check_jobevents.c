/* check_jobevents.c - event logs, and the states that they lead to. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libjob/events.h"
#include "libjob/job_wire.h"
#include "libjob/jobstate.h"
#include "libjob/submit.h"
#include "libutil/strbuf.h"
#include "libutil/test/suite.h"

static struct job_event event(enum job_event_type type)
{
    return (struct job_event){.timestamp = 1763719200.123456,
                              .event = type,
                              .priority = 77,
                              .userid = 1000,
                              .flags = 1,
                              .urgency = 31,
                              .severity = 3,
                              .count = 2,
                              .status = 256,
                              .started = 1763719100.5,
                              .exited = 1763719200.123456,
                              .type = "cancel",
                              .note = "so \"it\" is\n",
                              .description = "afterok:12"};
}

START_TEST(round_trip)
{
    strbuf_t *sb = strbuf_create(0);
    struct job_log log;
    struct job_event ev;
    errmsg_t err = {""};
    json_t *R = json_pack("{s:i}", "version", 1);

    for (int i = 1; i < JOB_EV_TYPES; i++) {
        ev = event((enum job_event_type)i);
        ev.R = R;
        ck_assert_msg(job_event_write(sb, &ev) == 0, "%s", job_event_name(ev.event));
    }
    json_decref(R);
    job_log_init(&log, strbuf_str(sb), strbuf_len(sb));
    for (int i = 1; i < JOB_EV_TYPES; i++) {
        ck_assert_msg(job_log_next(&log, &ev, &err) == 1, "%s", err.text);
        ck_assert_int_eq(ev.event, i);
        ck_assert_str_eq(ev.name, job_event_name((enum job_event_type)i));
        ck_assert_double_eq_tol(ev.timestamp, 1763719200.123456, 1e-6);
        if (i == JOB_EV_SUBMIT || i == JOB_EV_URGENCY)
            ck_assert_int_eq(ev.urgency, 31);
        if (i == JOB_EV_SUBMIT || i == JOB_EV_URGENCY || i == JOB_EV_EXCEPTION)
            ck_assert_uint_eq(ev.userid, 1000);
        if (i == JOB_EV_SUBMIT)
            ck_assert_uint_eq(ev.flags, 1);
        if (i == JOB_EV_DEP_ADD || i == JOB_EV_DEP_REMOVE)
            ck_assert_str_eq(ev.description, "afterok:12");
        if (i == JOB_EV_PRIORITY)
            ck_assert_int_eq(ev.priority, 77);
        if (i == JOB_EV_FINISH)
            ck_assert_int_eq(ev.status, 256);
        if (i == JOB_EV_FINISH)
            ck_assert_double_eq_tol(ev.started, 1763719100.5, 1e-9);
        if (i == JOB_EV_FINISH)
            ck_assert_double_eq_tol(ev.exited, 1763719200.123456, 1e-6);
        if (i == JOB_EV_REQUEUE) {
            ck_assert_uint_eq(ev.count, 2);
            ck_assert_int_eq(json_integer_value(json_object_get(ev.R, "version")), 1);
        }
        if (i == JOB_EV_EXCEPTION) {
            ck_assert_str_eq(ev.type, "cancel");
            ck_assert_str_eq(ev.note, "so \"it\" is\n");
            ck_assert_int_eq(ev.severity, 3);
        }
    }
    ck_assert_int_eq(job_log_next(&log, &ev, &err), 0);
    job_log_done(&log);
    strbuf_destroy(sb);
}
END_TEST

START_TEST(other_events)
{
    strbuf_t *sb = strbuf_create(0);
    struct job_event ev = {.event = JOB_EV_OTHER, .name = "memo"}, back;
    struct job_log log;
    errmsg_t err = {""};

    ck_assert_int_eq(job_event_write(sb, &ev), 0);
    ck_assert_str_eq(strbuf_str(sb), "{\"timestamp\":0.000000,\"name\":\"memo\"}\n");
    ev.context = json_loads("{\"uri\":[1]}", 0, NULL);
    ck_assert_int_eq(job_event_write(sb, &ev), 0);
    job_log_init(&log, strbuf_str(sb), strbuf_len(sb));
    ck_assert_int_eq(job_log_next(&log, &back, &err), 1);
    ck_assert_ptr_null(back.context);
    ck_assert_int_eq(job_log_next(&log, &back, &err), 1);
    ck_assert_int_eq(back.event, JOB_EV_OTHER);
    ck_assert_str_eq(back.name, "memo");
    ck_assert(json_equal(back.context, ev.context));
    job_log_done(&log);
    json_decref(ev.context);
    ev.context = json_integer(1);
    ck_assert_int_eq(job_event_write(sb, &ev), -1);
    json_decref(ev.context);
    strbuf_destroy(sb);
}
END_TEST

/* With and without leaf switches. */
START_TEST(alloc_events)
{
    strbuf_t *sb = strbuf_create(0);
    struct job_event ev = event(JOB_EV_ALLOC), back;
    struct job_log log;
    errmsg_t err;

    ck_assert_int_eq(job_event_write(sb, &ev), 0);
    ck_assert_ptr_null(strstr(strbuf_str(sb), "context"));
    ev.switches = "leaf[0-1]";
    ev.hops = 1.25;
    ck_assert_int_eq(job_event_write(sb, &ev), 0);
    job_log_init(&log, strbuf_str(sb), strbuf_len(sb));
    ck_assert_int_eq(job_log_next(&log, &back, &err), 1);
    ck_assert_ptr_null(back.switches);
    ck_assert_int_eq(job_log_next(&log, &back, &err), 1);
    ck_assert_int_eq(back.event, JOB_EV_ALLOC);
    ck_assert_str_eq(back.switches, "leaf[0-1]");
    ck_assert_double_eq(back.hops, 1.25);
    job_log_done(&log);
    ev.hops = -1.;
    ck_assert_int_eq(job_event_write(sb, &ev), -1);
    strbuf_destroy(sb);
}
END_TEST

START_TEST(refused_writes)
{
    strbuf_t *sb = strbuf_create(0);
    struct job_event ev = event(JOB_EV_EXCEPTION);

    ev.type = NULL;
    ck_assert_int_eq(job_event_write(sb, &ev), -1);
    ck_assert_int_eq(errno, EINVAL);
    ev.type = "";
    ck_assert_int_eq(job_event_write(sb, &ev), -1);
    ev = event(JOB_EV_EXCEPTION);
    ev.severity = 8;
    ck_assert_int_eq(job_event_write(sb, &ev), -1);
    ev = event(JOB_EV_EXCEPTION);
    ev.note = "\xff";
    ck_assert_int_eq(job_event_write(sb, &ev), -1);
    ev = event(JOB_EV_START);
    ev.timestamp = -1;
    ck_assert_int_eq(job_event_write(sb, &ev), -1);
    ev.timestamp = 1e300;
    ck_assert_int_eq(job_event_write(sb, &ev), -1);
    ev = event(JOB_EV_OTHER);
    ck_assert_int_eq(job_event_write(sb, &ev), -1);
    ev.name = "a b";
    ck_assert_int_eq(job_event_write(sb, &ev), -1);
    ck_assert_uint_eq(strbuf_len(sb), 0);
    strbuf_destroy(sb);
}
END_TEST

static const char *const bad_lines[] = {
    "",
    "{}",
    "[]",
    "x",
    "{\"timestamp\":1,\"name\":\"start\"",
    "{\"timestamp\":1}",
    "{\"name\":\"start\"}",
    "{\"timestamp\":\"1\",\"name\":\"start\"}",
    "{\"timestamp\":-1,\"name\":\"start\"}",
    "{\"timestamp\":1,\"name\":1}",
    "{\"timestamp\":1,\"name\":\"\"}",
    "{\"timestamp\":1,\"name\":\"a b\"}",
    "{\"timestamp\":1,\"name\":\"start\",\"context\":[]}",
    "{\"timestamp\":1,\"name\":\"start\",\"context\":{\"a\":1}}",
    "{\"timestamp\":1,\"name\":\"start\",\"more\":1}",
    "{\"timestamp\":1,\"timestamp\":1,\"name\":\"start\"}",
    "{\"timestamp\":1,\"name\":\"submit\"}",
    "{\"timestamp\":1,\"name\":\"submit\",\"context\":{\"userid\":1,\"urgency\":16}}",
    "{\"timestamp\":1,\"name\":\"submit\",\"context\":{\"userid\":1,\"urgency\":32,\"flags\":0}}",
    "{\"timestamp\":1,\"name\":\"submit\",\"context\":{\"userid\":-1,\"urgency\":1,\"flags\":0}}",
    "{\"timestamp\":1,\"name\":\"finish\",\"context\":{\"status\":\"0\"}}",
    "{\"timestamp\":1,\"name\":\"finish\",\"context\":{\"status\":99999999999}}",
    "{\"timestamp\":1,\"name\":\"finish\",\"context\":{\"status\":0,\"started\":1}}",
    "{\"timestamp\":1,\"name\":\"finish\",\"context\":{\"status\":0,\"exited\":1}}",
    "{\"timestamp\":1,\"name\":\"finish\",\"context\":{\"status\":0,\"started\":2,\"exited\":1}}",
    "{\"timestamp\":1,\"name\":\"finish\",\"context\":{\"status\":0,\"started\":-2,\"exited\":-1}}",
    "{\"timestamp\":1,\"name\":\"finish\",\"context\":{\"status\":0,\"started\":\"1\"}}",
    "{\"timestamp\":1,\"name\":\"alloc\",\"context\":{\"switches\":1}}",
    "{\"timestamp\":1,\"name\":\"alloc\",\"context\":{\"switches\":\"a\",\"hops\":-1}}",
    "{\"timestamp\":1,\"name\":\"exception\",\"context\":{\"severity\":0}}",
    "{\"timestamp\":1,\"name\":\"exception\",\"context\":{\"type\":\"a\"}}",
    "{\"timestamp\":1,\"name\":\"exception\",\"context\":{\"type\":\"\",\"severity\":0}}",
    "{\"timestamp\":1,\"name\":\"exception\",\"context\":{\"type\":\"a\",\"severity\":-1}}",
    "{\"timestamp\":1,\"name\":\"exception\",\"context\":{\"type\":\"a\",\"severity\":8}}",
};

START_TEST(refused_lines)
{
    struct job_event ev;
    struct job_log log;
    errmsg_t err = {""};
    char text[300];
    int n;

    ck_assert_ptr_null(job_event_read(bad_lines[_i], strlen(bad_lines[_i]), &ev, &err));
    ck_assert_int_eq(errno, EPROTO);
    ck_assert(err.text[0]);
    n = snprintf(text, sizeof(text), "{\"timestamp\":1,\"name\":\"start\"}\n%s\n", bad_lines[_i]);
    job_log_init(&log, text, (size_t)n);
    ck_assert_int_eq(job_log_next(&log, &ev, &err), 1);
    ck_assert_int_eq(job_log_next(&log, &ev, &err), -1);
    ck_assert(!strncmp(err.text, "line 2: ", 8));
    job_log_done(&log);
}
END_TEST

START_TEST(no_newline)
{
    struct job_event ev;
    struct job_log log;
    errmsg_t err = {""};

    job_log_init(&log, "{\"timestamp\":1,\"name\":\"start\"}", 30);
    ck_assert_int_eq(job_log_next(&log, &ev, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    job_log_init(&log, "", 0);
    ck_assert_int_eq(job_log_next(&log, &ev, &err), 0);
}
END_TEST

/* --- states --- */

/* Logs in short: s submit, + - dependency, d depend, p priority, u urgency, a alloc, r start,
 * f finish with 0, F with exit code 3, K killed by SIGKILL, l release, e free, c clean, o other,
 * x a fatal exception, C cancel, T timeout, w a warning. */
static const struct {
    const char *log;
    enum job_state state;
    enum job_result result;
    int code;
    const char *refused; /* of the last event; NULL: all are legal */
} logs[] = {
    {"", JOB_STATE_NEW, JOB_RESULT_NONE, 0, NULL},
    {"s", JOB_STATE_DEPEND, JOB_RESULT_NONE, 0, NULL},
    {"sd", JOB_STATE_PRIORITY, JOB_RESULT_NONE, 0, NULL},
    {"sdp", JOB_STATE_SCHED, JOB_RESULT_NONE, 0, NULL},
    {"sdpupp", JOB_STATE_SCHED, JOB_RESULT_NONE, 0, NULL},
    {"sdpa", JOB_STATE_RUN, JOB_RESULT_NONE, 0, NULL},
    {"sdpar", JOB_STATE_RUN, JOB_RESULT_NONE, 0, NULL},
    {"sdparf", JOB_STATE_CLEANUP, JOB_RESULT_COMPLETED, 0, NULL},
    {"s++--dpoarwoflecx", JOB_STATE_INACTIVE, JOB_RESULT_COMPLETED, 0,
     "event 'exception' in state INACTIVE"},
    {"sdparflec", JOB_STATE_INACTIVE, JOB_RESULT_COMPLETED, 0, NULL},
    {"sdparFlec", JOB_STATE_INACTIVE, JOB_RESULT_FAILED, 3, NULL},
    {"sdparKec", JOB_STATE_INACTIVE, JOB_RESULT_FAILED, 137, NULL},
    {"sdparxKec", JOB_STATE_INACTIVE, JOB_RESULT_FAILED, 137, NULL},
    {"sdparCKec", JOB_STATE_INACTIVE, JOB_RESULT_CANCELED, 137, NULL},
    {"sdparCfec", JOB_STATE_INACTIVE, JOB_RESULT_CANCELED, 130, NULL},
    {"sdparTKec", JOB_STATE_INACTIVE, JOB_RESULT_TIMEOUT, 124, NULL},
    {"sdparfCec", JOB_STATE_INACTIVE, JOB_RESULT_COMPLETED, 0, NULL},
    {"sdparTCKec", JOB_STATE_INACTIVE, JOB_RESULT_TIMEOUT, 124, NULL},
    {"sdpaxec", JOB_STATE_INACTIVE, JOB_RESULT_FAILED, 1, NULL},
    {"sdpaCrKec", JOB_STATE_INACTIVE, JOB_RESULT_CANCELED, 137, NULL},
    {"sCc", JOB_STATE_INACTIVE, JOB_RESULT_CANCELED, 130, NULL},
    {"s+xc", JOB_STATE_INACTIVE, JOB_RESULT_FAILED, 1, NULL},
    {"sdCc", JOB_STATE_INACTIVE, JOB_RESULT_CANCELED, 130, NULL},
    {"sdpCc", JOB_STATE_INACTIVE, JOB_RESULT_CANCELED, 130, NULL},
    {"sdparwqarqarflec", JOB_STATE_INACTIVE, JOB_RESULT_COMPLETED, 0, NULL},
    {"sdpaqarflec", JOB_STATE_INACTIVE, JOB_RESULT_COMPLETED, 0, NULL},
    {"sdparqCc", JOB_STATE_INACTIVE, JOB_RESULT_CANCELED, 130, NULL},
    {"sdparqq", JOB_STATE_SCHED, JOB_RESULT_NONE, 0, "event 'requeue' in state SCHED"},
    {"sdparqr", JOB_STATE_SCHED, JOB_RESULT_NONE, 0, "event 'start' in state SCHED"},
    {"sdparqara", JOB_STATE_RUN, JOB_RESULT_NONE, 0, "a second event 'alloc'"},
    {"sdparCq", JOB_STATE_CLEANUP, JOB_RESULT_CANCELED, 130, "event 'requeue' in state CLEANUP"},
    {"ss", JOB_STATE_DEPEND, JOB_RESULT_NONE, 0, "a second event 'submit'"},
    {"d", JOB_STATE_NEW, JOB_RESULT_NONE, 0, "event 'depend' in state NEW"},
    {"o", JOB_STATE_NEW, JOB_RESULT_NONE, 0, "event 'memo' in state NEW"},
    {"sa", JOB_STATE_DEPEND, JOB_RESULT_NONE, 0, "event 'alloc' in state DEPEND"},
    {"s-", JOB_STATE_DEPEND, JOB_RESULT_NONE, 0,
     "event 'dependency-remove' without a preceding 'dependency-add'"},
    {"s+--", JOB_STATE_DEPEND, JOB_RESULT_NONE, 0,
     "event 'dependency-remove' when no dependency is left"},
    {"s+d", JOB_STATE_DEPEND, JOB_RESULT_NONE, 0, "event 'depend' when 1 dependencies are left"},
    {"sd+", JOB_STATE_PRIORITY, JOB_RESULT_NONE, 0, "event 'dependency-add' in state PRIORITY"},
    {"sdpr", JOB_STATE_SCHED, JOB_RESULT_NONE, 0, "event 'start' in state SCHED"},
    {"sdpCr", JOB_STATE_CLEANUP, JOB_RESULT_CANCELED, 130,
     "event 'start' without a preceding 'alloc'"},
    {"sdpaa", JOB_STATE_RUN, JOB_RESULT_NONE, 0, "a second event 'alloc'"},
    {"sdparr", JOB_STATE_RUN, JOB_RESULT_NONE, 0, "a second event 'start'"},
    {"sdpaf", JOB_STATE_RUN, JOB_RESULT_NONE, 0, "event 'finish' without a preceding 'start'"},
    {"sdparff", JOB_STATE_CLEANUP, JOB_RESULT_COMPLETED, 0, "a second event 'finish'"},
    {"sdpare", JOB_STATE_RUN, JOB_RESULT_NONE, 0, "event 'free' in state RUN"},
    {"sdparxe", JOB_STATE_CLEANUP, JOB_RESULT_FAILED, 1,
     "event 'free' without a preceding 'finish'"},
    {"sdparfc", JOB_STATE_CLEANUP, JOB_RESULT_COMPLETED, 0,
     "event 'clean' without a preceding 'free'"},
    {"sdpaxc", JOB_STATE_CLEANUP, JOB_RESULT_FAILED, 1, "event 'clean' without a preceding 'free'"},
    {"sdpaxl", JOB_STATE_CLEANUP, JOB_RESULT_FAILED, 1,
     "event 'release' without a preceding 'finish'"},
    {"sdparfee", JOB_STATE_CLEANUP, JOB_RESULT_COMPLETED, 0, "a second event 'free'"},
    {"sdparfecc", JOB_STATE_INACTIVE, JOB_RESULT_COMPLETED, 0, "a second event 'clean'"},
    {"sCe", JOB_STATE_CLEANUP, JOB_RESULT_CANCELED, 130,
     "event 'free' without a preceding 'alloc'"},
    {"sCp", JOB_STATE_CLEANUP, JOB_RESULT_CANCELED, 130, "event 'priority' in state CLEANUP"},
    {"sdpau", JOB_STATE_RUN, JOB_RESULT_NONE, 0, "event 'urgency' in state RUN"},
};

static struct job_event short_event(char c)
{
    static const char letters[] = "s+-dpuarFlecxoq";
    static const enum job_event_type types[] = {
        JOB_EV_SUBMIT,  JOB_EV_DEP_ADD, JOB_EV_DEP_REMOVE, JOB_EV_DEPEND, JOB_EV_PRIORITY,
        JOB_EV_URGENCY, JOB_EV_ALLOC,   JOB_EV_START,      JOB_EV_FINISH, JOB_EV_RELEASE,
        JOB_EV_FREE,    JOB_EV_CLEAN,   JOB_EV_EXCEPTION,  JOB_EV_OTHER,  JOB_EV_REQUEUE};
    const char *at = strchr(letters, c == 'f' || c == 'K'               ? 'F'
                                     : c == 'C' || c == 'T' || c == 'w' ? 'x'
                                                                        : c);
    struct job_event ev = {.event = types[at - letters]};

    ev.name = "memo";
    ev.status = c == 'f' ? 0 : c == 'K' ? SIGKILL : 3 << 8;
    ev.type = c == 'C' ? "cancel" : c == 'T' ? "timeout" : "exec";
    ev.severity = c == 'w' ? 1 : 0;
    return ev;
}

START_TEST(states)
{
    struct jobstate s = {0};
    double t = 100;

    for (const char *p = logs[_i].log; *p; p++, t++) {
        struct job_event ev = short_event(*p);
        struct jobstate before = s;
        errmsg_t err = {""};
        int rc;

        ev.timestamp = t;
        ev.count = s.requeues + 1;
        rc = jobstate_apply(&s, &ev, &err);
        if (!p[1] && logs[_i].refused) {
            ck_assert_int_eq(rc, -1);
            ck_assert_int_eq(errno, EPROTO);
            ck_assert_str_eq(err.text, logs[_i].refused);
            ck_assert_mem_eq(&before, &s, sizeof(s));
        } else {
            ck_assert_msg(rc == 0, "%s: %s", logs[_i].log, err.text);
        }
    }
    ck_assert_int_eq(s.state, logs[_i].state);
    ck_assert_int_eq(jobstate_result(&s), logs[_i].result);
    ck_assert_int_eq(jobstate_code(&s), logs[_i].code);
}
END_TEST

START_TEST(requeues)
{
    struct jobstate s = {0};
    struct job_event ev = {.event = JOB_EV_REQUEUE, .count = 2};
    errmsg_t err;

    for (const char *p = "sdpar"; *p; p++) {
        struct job_event e = short_event(*p);

        e.timestamp = 7;
        ck_assert_int_eq(jobstate_apply(&s, &e, NULL), 0);
    }
    ck_assert_int_eq(jobstate_apply(&s, &ev, &err), -1);
    ck_assert_str_eq(err.text, "event 'requeue' number 2 after 0");
    ev.count = 1;
    ck_assert_int_eq(jobstate_apply(&s, &ev, &err), 0);
    ck_assert_uint_eq(s.requeues, 1);
    ck_assert_double_eq(s.t_run, 0);
    ck_assert_double_eq(s.t_start, 0);
    ck_assert_double_eq(s.t_submit, 7);
}
END_TEST

START_TEST(times)
{
    struct jobstate s = {0};

    for (size_t i = 0; i < 10; i++) {
        struct job_event ev = short_event("s+-dparfec"[i]);
        ev.timestamp = 1 + (double)i;
        ck_assert_int_eq(jobstate_apply(&s, &ev, NULL), 0);
    }
    ck_assert_double_eq(s.t_submit, 1);
    ck_assert_double_eq(s.t_depend, 4);
    ck_assert_double_eq(s.t_run, 6);
    ck_assert_double_eq(s.t_start, 7);
    ck_assert_double_eq(s.t_cleanup, 8);
    ck_assert_double_eq(s.t_inactive, 10);
}
END_TEST

START_TEST(words)
{
    static const char *const running[] = {
        [JOB_STATE_DEPEND] = "depend",  [JOB_STATE_PRIORITY] = "held",
        [JOB_STATE_SCHED] = "pending",  [JOB_STATE_RUN] = "running",
        [JOB_STATE_CLEANUP] = "ending", [JOB_STATE_INACTIVE] = "inactive"};

    for (int i = JOB_STATE_DEPEND; i < JOB_STATES; i++)
        ck_assert_str_eq(job_state_word((enum job_state)i, JOB_URGENCY_DEFAULT, JOB_RESULT_NONE),
                         running[i]);
    ck_assert_str_eq(job_state_word(JOB_STATE_SCHED, JOB_URGENCY_HOLD, JOB_RESULT_NONE), "held");
    ck_assert_str_eq(job_state_word(JOB_STATE_INACTIVE, JOB_URGENCY_HOLD, JOB_RESULT_TIMEOUT),
                     "timeout");
    ck_assert_ptr_null(job_state_word(JOB_STATE_NEW, JOB_URGENCY_DEFAULT, JOB_RESULT_NONE));
}
END_TEST

START_TEST(names)
{
    for (int i = 0; i < JOB_STATES; i++)
        ck_assert_int_eq(job_state_parse(job_state_name((enum job_state)i)), i);
    ck_assert_int_eq(job_state_parse("inactive"), JOB_STATE_INACTIVE);
    ck_assert_int_eq(job_state_parse("x"), -1);
    ck_assert_int_eq(job_state_parse(NULL), -1);
    for (int i = 1; i < JOB_RESULTS; i++)
        ck_assert_int_eq(job_result_parse(job_result_name((enum job_result)i)), i);
    ck_assert_int_eq(job_result_parse(""), -1);
    ck_assert_ptr_null(job_event_name(JOB_EV_OTHER));
    ck_assert_ptr_null(job_event_name(JOB_EV_TYPES));
    ck_assert_int_eq(job_status_code(0), 0);
    ck_assert_int_eq(job_status_code(5 << 8), 5);
    ck_assert_int_eq(job_status_code(SIGTERM), 143);
}
END_TEST

START_TEST(error_lists)
{
    json_t *errors = NULL, *bad = json_loads("[[1,2],[1,0,\"x\"],[-1,2,\"x\"],[1,2,3],7]", 0, NULL);
    uint64_t number;
    int errnum;
    const char *text;

    ck_assert_int_eq(job_error_add(&errors, 7, ENOENT, "no"), 0);
    ck_assert_int_eq(job_error_add(&errors, 8, EPERM, "not yours"), 0);
    ck_assert_int_eq(job_error_add(&errors, 8, EPERM, "\xff"), -1);
    ck_assert_int_eq(job_error_at(errors, 1, &number, &errnum, &text), 0);
    ck_assert_uint_eq(number, 8);
    ck_assert_int_eq(errnum, EPERM);
    ck_assert_str_eq(text, "not yours");
    ck_assert_int_eq(job_error_at(errors, 2, &number, &errnum, &text), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(job_error_at(NULL, 0, &number, &errnum, &text), -1);
    for (size_t i = 0; i < json_array_size(bad); i++) {
        ck_assert_int_eq(job_error_at(bad, i, &number, &errnum, &text), -1);
        ck_assert_int_eq(errno, EPROTO);
    }
    json_decref(errors);
    json_decref(bad);
}
END_TEST

/* Anybody may have written it: what cannot be read is told from what is not there. */
START_TEST(failed_lists)
{
    static const char *const bad[] = {
        "[-1,0,\"h\",1]",
        "[4294967296,0,\"h\",1]",
        "[0,-1,\"h\",1]",
        "[0,4294967296,\"h\",1]",
        "[0,0,\"h\",-1]",
        "[0,0,\"h\",2147483648]",
        "[0,0,1,1]",
        "[0,0,\"h\"]",
        "[0.5,0,\"h\",1]",
        "{}",
        "null",
        "[]",
    };
    static const char *const none[] = {"{}", "[]", "{\"first\":7,\"count\":-3}",
                                       "{\"count\":\"1\",\"first\":{}}"};
    struct job_failed f;
    char text[512] = "{\"count\":20,\"first\":[";
    json_t *o;

    for (int i = 0; i <= JOB_FAILED_MAX; i++) /* one more than is examined */
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s[%d,4294967295,\"n%d\",256]",
                 i ? "," : "", i, i);
    strcat(text, "]}");
    o = json_loads(text, 0, NULL);
    ck_assert_uint_eq(job_failed_count(o), 20);
    for (uint32_t i = 0; i < JOB_FAILED_MAX; i++) {
        char host[8];

        ck_assert_int_eq(job_failed_at(o, i, &f), 0);
        ck_assert_uint_eq(f.task, i);
        ck_assert_uint_eq(f.rank, UINT32_MAX);
        snprintf(host, sizeof(host), "n%u", i);
        ck_assert_str_eq(f.host, host);
        ck_assert_int_eq(f.status, 256);
    }
    ck_assert_int_eq(job_failed_at(o, JOB_FAILED_MAX, &f), -1);
    ck_assert_int_eq(errno, ENOENT);
    json_decref(o);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), "{\"first\":[%s]}", bad[i]);
        o = json_loads(text, 0, NULL);
        ck_assert_int_eq(job_failed_at(o, 0, &f), -1);
        ck_assert_msg(errno == EPROTO, "%s", bad[i]);
        ck_assert_int_eq(job_failed_at(o, 1, &f), -1);
        ck_assert_int_eq(errno, ENOENT);
        json_decref(o);
    }
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        o = json_loads(none[i], 0, NULL);
        ck_assert_uint_eq(job_failed_count(o), 0);
        ck_assert_int_eq(job_failed_at(o, 0, &f), -1);
        ck_assert_int_eq(errno, ENOENT);
        json_decref(o);
    }
    ck_assert_uint_eq(job_failed_count(NULL), 0);
    ck_assert_int_eq(job_failed_at(NULL, 0, &f), -1);
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("all");

    tcase_add_test(tc, round_trip);
    tcase_add_test(tc, other_events);
    tcase_add_test(tc, refused_writes);
    tcase_add_test(tc, alloc_events);
    tcase_add_loop_test(tc, refused_lines, 0, sizeof(bad_lines) / sizeof(bad_lines[0]));
    tcase_add_test(tc, no_newline);
    tcase_add_loop_test(tc, states, 0, sizeof(logs) / sizeof(logs[0]));
    tcase_add_test(tc, requeues);
    tcase_add_test(tc, times);
    tcase_add_test(tc, words);
    tcase_add_test(tc, names);
    tcase_add_test(tc, error_lists);
    tcase_add_test(tc, failed_lists);
    return run_case("jobevents", tc);
}
