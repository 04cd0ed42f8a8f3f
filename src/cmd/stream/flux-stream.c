/* flux-stream.c - flux stream: the streams of the session, and what is in them.
 *
 * This is a separate program because streams need libsodium, which `flux` is not linked with.
 *
 * Here are the commands that ask the module `stream` for one thing, such as a pause.  list.c has
 * ls, stat and readers, cat.c cat, describe.c format, transfer.c record, replay and tee, export.c
 * export, filter.c transform, and relay.c relay.
 *
 * Failure: an error message and exit code 1.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../cmd_private.h"
#include "libstream/knock.h"
#include "libstream/stream.h"
#include "libstream/stream_wire.h"
#include "libutil/strutil.h"
#include "cat.h"
#include "describe.h"
#include "export.h"
#include "filter.h"
#include "list.h"
#include "relay.h"
#include "transfer.h"

#define TIMEOUT 60.

/* Ask for something that has no result.  CMD_OK, or CMD_FAIL after an error message. */
static int act(struct cmd *c, const char *topic, const struct flux_schema *desc, const void *in)
{
    flux_t *h = cmd_handle(c);
    flux_future_t *f;
    int rc;

    if (!h)
        return CMD_FAIL;
    f = flux_rpc_struct(h, topic, desc, in, FLUX_NODEID_ANY, 0);
    rc = cmd_wait(c, f, TIMEOUT, topic) < 0 ? CMD_FAIL : CMD_OK;
    flux_future_destroy(f);
    return rc;
}

/* --- rm --- */

static const struct cmd_usage rm_usage = {
    "NAME",
    "End a stream: its readers get the steps that have been written, and the end; its writers an\n"
    "error with one of their next steps.",
    NULL,
    NULL,
    0,
};

static int cmd_rm(struct cmd *c, int argc, char **argv)
{
    struct stream_name in;
    const char *val;
    int key;

    if ((key = cmd_option(c, &rm_usage, argc, argv, &val)) != 0)
        return cmd_option_exit(key);
    if (argc - c->optind != 1)
        return cmd_usage_error(c, "one NAME is required");
    in.name = argv[c->optind];
    return act(c, "stream.remove", &stream_name_schema, &in);
}

/* --- policy, switch --- */

static const struct cmd_usage policy_usage = {
    "NAME READER POLICY",
    "Change the policy of a running reader: what happens to a step when its queue is full.\n"
    "'flux stream readers' prints the number READER; POLICY is as for 'flux stream cat'.",
    NULL,
    NULL,
    0,
};

static int cmd_policy(struct cmd *c, int argc, char **argv)
{
    struct stream_policy in;
    struct knock_want want;
    const char *val;
    errmsg_t err;
    int key;

    if ((key = cmd_option(c, &policy_usage, argc, argv, &val)) != 0)
        return cmd_option_exit(key);
    argv += c->optind;
    if (argc - c->optind != 3)
        return cmd_usage_error(c, "NAME, READER and POLICY are required");
    if (cmd_parse_u64(c, "READER", argv[1], &in.reader) < 0)
        return CMD_USAGE;
    if (knock_policy_parse(&want, argv[2], &err) < 0)
        return cmd_usage_error(c, "%s", err.text);
    in.name = argv[0];
    in.policy = argv[2];
    return act(c, "stream.policy", &stream_policy_schema, &in);
}

static const struct cmd_usage switch_usage = {
    "SWITCH on|off",
    "Turn on or off all readers, of all streams, that have named this switch.",
    NULL,
    NULL,
    0,
};

static int cmd_switch(struct cmd *c, int argc, char **argv)
{
    const char *val;
    errmsg_t err;
    bool on;
    flux_t *h;
    int key;

    if ((key = cmd_option(c, &switch_usage, argc, argv, &val)) != 0)
        return cmd_option_exit(key);
    argv += c->optind;
    if (argc - c->optind != 2 || str2bool(argv[1], &on) < 0)
        return cmd_usage_error(c, "the name of a switch, and on or off, are required");
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (flux_stream_switch(h, argv[0], on, &err) < 0)
        return errno == EINVAL ? cmd_usage_error(c, "%s", err.text) : cmd_error(c, "%s", err.text);
    return CMD_OK;
}

/* --- pause, resume, throttle --- */

static const struct cmd_usage pause_usage = {
    "NAME", "Pause a stream: its writers wait at the end of their next step until it is resumed.",
    NULL,   NULL,
    0,
};
static const struct cmd_usage resume_usage = {
    "NAME", "Resume a paused stream: its writers continue.", NULL, NULL, 0,
};

static int pause_or_resume(struct cmd *c, const struct cmd_usage *usage, bool paused, int argc,
                           char **argv)
{
    struct stream_pause in = {.paused = paused};
    const char *val;
    int key;

    if ((key = cmd_option(c, usage, argc, argv, &val)) != 0)
        return cmd_option_exit(key);
    if (argc - c->optind != 1)
        return cmd_usage_error(c, "one NAME is required");
    in.name = argv[c->optind];
    return act(c, "stream.pause", &stream_pause_schema, &in);
}

static int cmd_pause(struct cmd *c, int argc, char **argv)
{
    return pause_or_resume(c, &pause_usage, true, argc, argv);
}

static int cmd_resume(struct cmd *c, int argc, char **argv)
{
    return pause_or_resume(c, &resume_usage, false, argc, argv);
}

static const struct cmd_usage throttle_usage = {
    "NAME RATE", "Limit each writer of a stream to RATE steps per second; none removes the limit.",
    NULL,        NULL,
    0,
};

static int cmd_throttle(struct cmd *c, int argc, char **argv)
{
    struct stream_throttle in = {0};
    const char *val;
    int key;

    if ((key = cmd_option(c, &throttle_usage, argc, argv, &val)) != 0)
        return cmd_option_exit(key);
    argv += c->optind;
    if (argc - c->optind != 2)
        return cmd_usage_error(c, "NAME and RATE are required");
    in.name = argv[0];
    if (strcmp(argv[1], "none") != 0 &&
        (transfer_rate(argv[1], &in.limit) < 0 || in.limit < STREAM_LIMIT_MIN ||
         in.limit > STREAM_LIMIT_MAX))
        return cmd_usage_error(c, "RATE is a number of steps a second, %g to %g, or none",
                               STREAM_LIMIT_MIN, STREAM_LIMIT_MAX);
    return act(c, "stream.throttle", &stream_throttle_schema, &in);
}

static const struct cmd_sub subs[] = {
    {"ls", stream_list_ls, "[OPTION...] [NAME]", "list streams"},
    {"cat", stream_cat, "[OPTION...] NAME", "read a stream and print what is in it"},
    {"record", transfer_record, "[OPTION...] NAME FILE", "write the steps of a stream to a file"},
    {"replay", transfer_replay, "[OPTION...] FILE", "write a stream with the steps of a file"},
    {"tee", transfer_tee, "[OPTION...] NAME NEW", "write another stream with the same steps"},
    {"export", stream_export, "[OPTION...] NAME", "let a stream be read in another session"},
    {"stat", stream_list_stat, "[OPTION...] NAME", "print the counters of a stream repeatedly"},
    {"format", stream_describe, "[OPTION...] NAME",
     "print the types and formats of the variables of a stream"},
    {"transform", filter_transform, "[OPTION...] IN [IN...] --out=NAME",
     "transform the steps of streams, and write a stream of the results"},
    {"readers", stream_list_readers, "[OPTION...] NAME", "list the readers of a stream"},
    {"policy", cmd_policy, "NAME READER POLICY", "change the policy of a reader"},
    {"switch", cmd_switch, "SWITCH on|off", "turn readers on or off"},
    {"pause", cmd_pause, "NAME", "make the writers of a stream wait"},
    {"resume", cmd_resume, "NAME", "let the writers of a paused stream continue"},
    {"throttle", cmd_throttle, "NAME RATE", "limit each writer to RATE steps per second"},
    {"rm", cmd_rm, "NAME", "end a stream"},
    {"relay", stream_relay, "[OPTION...]",
     "carry streams between this host and each other one by one connection"},
    CMD_SUB_END,
};

static int stream(struct cmd *c, int argc, char **argv)
{
    return cmd_subcommand(c,
                          "Streams carry steps of data from programs to other programs while both "
                          "run.",
                          subs, argc, argv);
}

int main(int argc, char **argv)
{
    return cmd_run("stream", stream, argc, argv);
}
