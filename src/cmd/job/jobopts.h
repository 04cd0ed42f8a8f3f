/* The options that describe a job: what flux submit, wreckrun, batch and alloc have in common.
 *
 *    static const struct cmd_opt opts[] = {
 *        JOBOPTS_RESOURCES, JOBOPTS_TASKS, JOBOPTS_FILES, JOBOPTS_JOB,
 *        CMD_OPT_HEADING("This command"),
 *        {'x', ...},                                       own ones
 *        CMD_OPT_END,
 *    };
 *    jobopts_t *jo = jobopts_create(c);
 *    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
 *        int rc = jobopts_option(jo, key, val);
 *        if (rc < 0)
 *            return CMD_USAGE;                             the sentence was printed
 *        if (rc == 0)
 *            switch (key) { own ones }
 *    }
 *    jobopts_command(jo, argv + c->optind);
 *    char *spec = jobopts_jobspec(jo);                     jobspec V1; NULL after a sentence
 *
 * An option that is given twice: the last one counts, but for those that add up (--env, --pool,
 * --dependency, --requires, --rlimit, --setopt, --setattr).
 *
 * Not thread-safe.
 */
#ifndef CMD_JOBOPTS_H
#define CMD_JOBOPTS_H

#include "../cmd.h"
#include "libutil/strvec.h"

typedef struct jobopts jobopts_t;

/* Keys of options without a letter.  Commands have CMD_KEY(0) to CMD_KEY(99) for their own. */
enum {
    JOBOPTS_KEY_TASKS_PER_NODE = CMD_KEY(100),
    JOBOPTS_KEY_MEM,
    JOBOPTS_KEY_POOL,
    JOBOPTS_KEY_OVERCOMMIT,
    JOBOPTS_KEY_REQUIRES,
    JOBOPTS_KEY_RANKS,
    JOBOPTS_KEY_HOSTS,
    JOBOPTS_KEY_URGENCY,
    JOBOPTS_KEY_HOLD,
    JOBOPTS_KEY_DEPENDENCY,
    JOBOPTS_KEY_BEGIN,
    JOBOPTS_KEY_NAME,
    JOBOPTS_KEY_ENV,
    JOBOPTS_KEY_SHARE,
    JOBOPTS_KEY_CHDIR,
    JOBOPTS_KEY_STDIN,
    JOBOPTS_KEY_LAYOUT,
    JOBOPTS_KEY_CPU_AFFINITY,
    JOBOPTS_KEY_GPU_AFFINITY,
    JOBOPTS_KEY_KILL_ON_BAD_EXIT,
    JOBOPTS_KEY_SURVIVE_NODE_LOSS,
    JOBOPTS_KEY_REQUEUE,
    JOBOPTS_KEY_RLIMIT,
    JOBOPTS_KEY_MPI,
    JOBOPTS_KEY_GRACE,
    JOBOPTS_KEY_OUTPUT_LIMIT,
    JOBOPTS_KEY_SETATTR,
    JOBOPTS_KEY_DRY_RUN,
    JOBOPTS_KEY_END,
};

/* clang-format off */
#define JOBOPTS_RESOURCES                                                                         \
    CMD_OPT_HEADING("Resources"),                                                                 \
    {'N', "nodes", "N", "run on N nodes (default: any nodes with free resources)"},               \
    {'n', "ntasks", "N", "run N tasks in total (default: one per node, or one)"},                 \
    {JOBOPTS_KEY_TASKS_PER_NODE, "tasks-per-node", "N", "run N tasks on each node"},              \
    {'c', "cores-per-task", "N", "number of cores for each task (default: 1)"},                   \
    {'g', "gpus-per-task", "N", "number of GPUs for each task (default: none)"},                  \
    {JOBOPTS_KEY_MEM, "mem", "SIZE", "memory for each task (500M, 4G)"},                          \
    {'x', "exclusive", NULL, "allocate whole nodes"},                                             \
    {JOBOPTS_KEY_OVERCOMMIT, "overcommit", NULL,                                                  \
     "let tasks share cores when there are not enough"},                                \
    {JOBOPTS_KEY_POOL, "pool", "NAME=N",                                                          \
     "allocate N units of a pool of the site (power, licenses)"},                                 \
    {JOBOPTS_KEY_REQUIRES, "requires", "PROPERTY",                                                \
     "use only nodes with this property; several: A,B"},                                          \
    {JOBOPTS_KEY_RANKS, "ranks", "RANKS", "use only the nodes of these ranks"},                   \
    {JOBOPTS_KEY_HOSTS, "hosts", "HOSTS", "use only these hosts: node[0-3,7]"}

#define JOBOPTS_TASKS                                                                             \
    CMD_OPT_HEADING("Tasks"),                                                                     \
    {JOBOPTS_KEY_ENV, "env", "NAME=VALUE", "set a variable for the tasks; -NAME removes one"},    \
    {JOBOPTS_KEY_SHARE, "share-connections", NULL,                                                \
     "let streams of the tasks share one TCP connection with each host"},                         \
    {JOBOPTS_KEY_CHDIR, "chdir", "DIR",                                                           \
     "working directory of the tasks (default: the current directory)"},                          \
    {JOBOPTS_KEY_LAYOUT, "layout", "HOW",                                                         \
     "distribution of tasks over nodes: block (default), cyclic"},                                \
    {JOBOPTS_KEY_CPU_AFFINITY, "cpu-affinity", "HOW",                                             \
     "bind tasks to the job's cores on their node: on, off, or\n"                                 \
     "per-task (each task to its own share)"},                                                    \
    {JOBOPTS_KEY_GPU_AFFINITY, "gpu-affinity", "HOW", "same for gpus"},                           \
    {JOBOPTS_KEY_KILL_ON_BAD_EXIT, "kill-on-bad-exit", NULL,                                      \
     "when a task fails, terminate the others"},                                                  \
    {JOBOPTS_KEY_SURVIVE_NODE_LOSS, "survive-node-loss", NULL,                                    \
     "when a node is lost, go on with the tasks on the others"},                                  \
    {JOBOPTS_KEY_RLIMIT, "rlimit", "NAME=N",                                                      \
     "limit of the tasks: nofile=1024, core=unlimited, ...; none:\n"                              \
     "do not pass on the limits of this shell"},                                                  \
    {JOBOPTS_KEY_MPI, "mpi", "HOW",                                                               \
     "how MPI tasks find each other: both (default), pmi, pmix, none"},                           \
    {JOBOPTS_KEY_GRACE, "grace", "DURATION", "time from SIGTERM to SIGKILL (default: 5s)"}

#define JOBOPTS_FILES                                                                             \
    CMD_OPT_HEADING("Files (in names, {{id}}, {{task}}, {{node}}, {{name}}, {{cc}} are replaced)"),\
    {'i', "input", "FILE", "file that task 0 reads as standard input, on its node"},              \
    {'O', "output", "FILE", "write the standard output of the tasks to FILE"},                    \
    {'E', "error", "FILE", "write their standard error to FILE"},                                 \
    {'l', "label-io", NULL, "prefix each line with its task number"},                             \
    {JOBOPTS_KEY_STDIN, "stdin", "WHO",                                                           \
     "tasks that read standard input: first (task 0, the default),\n"                             \
     "all, none"},                                                                                \
    {JOBOPTS_KEY_OUTPUT_LIMIT, "output-limit", "SIZE", "maximum amount of output to keep"}

#define JOBOPTS_JOB                                                                               \
    CMD_OPT_HEADING("Job"),                                                                       \
    {'t', "time-limit", "DURATION",                                                               \
     "end the job after this time by SIGTERM, then SIGKILL;\n"                                    \
     "a number without a unit is in minutes"},                                                    \
    {JOBOPTS_KEY_NAME, "name", "NAME", "job name (default: the name of its program)"},            \
    {JOBOPTS_KEY_NAME, "job-name", "NAME", NULL},                                                 \
    {'q', "queue", "NAME", "queue of the job; the only queue is called default"},                 \
    {JOBOPTS_KEY_URGENCY, "urgency", "N",                                                         \
     "0 (held) to 31 (first), default 16; jobs with a higher urgency\n"                           \
     "start first"},                                                                              \
    {JOBOPTS_KEY_HOLD, "hold", NULL, "hold the job until it is released: --urgency=0"},           \
    {JOBOPTS_KEY_DEPENDENCY, "dependency", "SCHEME:ID",                                           \
     "wait for another job: after:ID (has started), afterany (has\n"                              \
     "ended), afterok (successfully), afternotok (unsuccessfully)"},                              \
    {JOBOPTS_KEY_BEGIN, "begin-time", "TIME",                                                     \
     "earliest start: +DURATION, 17:30, 2030-12-31T17:30"},                                       \
    {JOBOPTS_KEY_REQUEUE, "requeue", NULL,                                                        \
     "run the job again when a node that it has is lost"},                                        \
    {JOBOPTS_KEY_SETATTR, "setattr", "KEY=VALUE", "set an attribute of the jobspec: user.KEY"},   \
    {'o', "setopt", "KEY=VALUE", "set an option of the launcher, see flux-jobspec(5)"},           \
    {JOBOPTS_KEY_DRY_RUN, "dry-run", NULL, "print the jobspec without submitting it"}
/* clang-format on */

/* `c` is kept: for sentences, and its name.  NULL with ENOMEM, after a sentence. */
jobopts_t *jobopts_create(struct cmd *c);
void jobopts_destroy(jobopts_t *jo); /* NULL-safe, keeps errno */

/* An option of these tables was given: 1.  0: it is none of them.  -1 after a sentence. */
int jobopts_option(jobopts_t *jo, int key, const char *val);
/* A whole line of options, as of "#FLUX: -N4 --name='a b'": words are split as a shell would, with
 * quotes and backslashes, but without any expansion.  Options of the command itself, that these
 * tables do not have, go to `own` (may be NULL: refused), which returns as jobopts_option().
 * -1 after a sentence that begins with `where`. */
int jobopts_words(jobopts_t *jo, const struct cmd_usage *usage, const char *line, const char *where,
                  int (*own)(void *arg, int key, const char *val), void *arg);

/* The two halves of that: split a line into words, which are appended; take options from words, the
 * first of which does not count. */
int jobopts_split(jobopts_t *jo, const char *line, const char *where, strvec_t *words);
int jobopts_take(jobopts_t *jo, const struct cmd_usage *usage, strvec_t *words, const char *where,
                 int (*own)(void *arg, int key, const char *val), void *arg);

/* What to run: argv up to its NULL, copied.  -1 after a sentence. */
int jobopts_command(jobopts_t *jo, char *const *argv);
/* The same, or several programs with ':' between them, each but the first with options of its own
 * in front. */
int jobopts_programs(jobopts_t *jo, char *const *argv);
/* ... from a command line whose options cmd_option() has taken: after -- a ':' is an argument. */
int jobopts_operands(jobopts_t *jo, char *const *argv);
/* Programs from a line of text, whose words are split as by jobopts_words(). */
int jobopts_command_line(jobopts_t *jo, const char *line);
/* Files for output without {{...}} in their names, which all tasks share, begin empty: make them
 * so.  -1 after a sentence. */
int jobopts_empty_files(jobopts_t *jo);
/* A file which the launchers make in the job's directory before the tasks start ({{tmpdir}}/NAME).
 * Text, UTF-8.  -1 after a sentence. */
int jobopts_add_file(jobopts_t *jo, const char *name, const char *text);
/* One shell option or attribute, as by --setopt and --setattr: "nested", json_true().  `value` is
 * taken over.  -1 after a sentence. */
int jobopts_setopt(jobopts_t *jo, const char *key, json_t *value);
int jobopts_setattr(jobopts_t *jo, const char *key, json_t *value);
/* One task a node, or one in all, whatever -n says: its -n are slots, each with -c cores, which the
 * one task shares out (a session in a job). */
void jobopts_one_task_per_node(jobopts_t *jo);

/* Text of the jobspec, to be freed; checked as the service will check it.  NULL after a sentence.
 * `cc`: {{cc}} stands for a number to come (see jobopts_replace_cc), but in files, and FLUX_JOB_CC
 * is set. */
char *jobopts_jobspec(jobopts_t *jo, bool cc);
/* The exit code for that: CMD_USAGE when options do not go together. */
int jobopts_exit(const jobopts_t *jo);
/* A copy of the text with {{cc}} replaced by the number, to be freed.  NULL with ENOMEM. */
char *jobopts_replace_cc(const char *jobspec, uint32_t cc);

/* What goes beside the jobspec.  The environment belongs to `jo`: NAME=value, NULL at the end. */
char *const *jobopts_env(const jobopts_t *jo);
uint32_t jobopts_urgency(const jobopts_t *jo);
/* What was given: 0 or NULL when it was not. */
bool jobopts_dry_run(const jobopts_t *jo);
bool jobopts_label(const jobopts_t *jo);
const char *jobopts_stdin(const jobopts_t *jo);  /* "first", "all", "none" or NULL */
const char *jobopts_input(const jobopts_t *jo);  /* absolute */
const char *jobopts_output(const jobopts_t *jo); /* absolute */
const char *jobopts_error(const jobopts_t *jo);  /* absolute */
const char *jobopts_name(const jobopts_t *jo);
/* Set them otherwise; NULL: not given.  For a command that has defaults of its own, or writes
 * output itself.  -1 after a sentence. */
int jobopts_set_output(jobopts_t *jo, const char *path);
int jobopts_set_error(jobopts_t *jo, const char *path);
int jobopts_set_stdin(jobopts_t *jo, const char *who);

/* --- submission --- */

/* Flags of a submission. */
enum {
    JOBOPTS_CLIENT_OUTPUT = 1, /* who submits reads the output, */
    JOBOPTS_RETURNS = 2        /* and returns to a broker that is started again (cmd_returns()) */
};

/* Connect, once the job is ready to be sent, submit this one job and wait for its id.  -1 after a
 * sentence: why it was refused. */
int jobopts_submit(jobopts_t *jo, uint32_t flags, uint64_t *id);

#endif
