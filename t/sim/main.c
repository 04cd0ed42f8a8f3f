/* main.c - the simulator's command line.
 *
 * A run is one scenario with one seed and one size.  Everything follows from these three: the same
 * run gives the same trace hash, which is how a failing one is replayed:
 *
 *    sim --seed=S --size=N --scenario=NAME [--trace]
 *
 * The check is many runs: for each seed every scenario at 16 brokers, and for some of them, in
 * turn, one at 1024.  It fails at the first violation, with the line to replay it.
 */
#include "config.h"
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libutil/strutil.h"
#include "sim.h"

const struct scenario *const scenarios[] = {
    &scenario_bringup, &scenario_routing,  &scenario_events,
    &scenario_barrier, &scenario_kvs,      &scenario_history,
    &scenario_log,     &scenario_shutdown, &scenario_return,
    &scenario_live,    &scenario_heal,     &scenario_apart,
    &scenario_commit,  &scenario_many,     &scenario_launch,
    &scenario_jobs,    &scenario_feed,     &scenario_streams,
    &scenario_parted,  &scenario_disk,     NULL,
};

/* Those at the end take longer, and are run only when they are asked for by name. */
static bool apart(const struct scenario *sc)
{
    return sc == &scenario_jobs || sc == &scenario_feed || sc == &scenario_streams ||
           sc == &scenario_parted || sc == &scenario_disk;
}

struct options {
    uint64_t seed;
    uint32_t size;
    uint32_t seeds;       /* --check */
    uint32_t large;       /* size of the large runs, 0: none */
    uint32_t large_every; /* one of this many seeds has one */
    const struct scenario *scenario;
    const char *topology;
    enum sim_break broken;
    enum sim_plant plant;
    bool trace, check, figures, selftest, even;
};

struct outcome {
    bool failed;
    uint64_t trace;
    uint64_t messages;
    uint64_t broke;
    uint64_t faults;
    char failure[400];
};

static const struct {
    const char *name;
    enum sim_break broken;
} breaks[] = {{"reorder", BREAK_REORDER}, {"dup", BREAK_DUP}, {"drop", BREAK_DROP}};
#define NBREAKS (sizeof(breaks) / sizeof(breaks[0]))

static const struct {
    const char *name;
    enum sim_plant plant;
    const struct scenario *scenario; /* which notices it */
} plants[] = {
    {"lost-end", PLANT_LOST_END, &scenario_jobs},
    {"wrong-code", PLANT_WRONG_CODE, &scenario_jobs},
    {"immortal", PLANT_IMMORTAL, &scenario_jobs},
    {"double-alloc", PLANT_DOUBLE_ALLOC, &scenario_jobs},
    {"lost-alloc", PLANT_LOST_ALLOC, &scenario_jobs},
    {"lost-free", PLANT_LOST_FREE, &scenario_jobs},
    {"wrong-id", PLANT_WRONG_ID, &scenario_jobs},
    {"no-dependency", PLANT_NO_DEPENDENCY, &scenario_jobs},
    {"no-limit", PLANT_NO_LIMIT, &scenario_jobs},
    {"commit-twice", PLANT_COMMIT_TWICE, &scenario_commit},
    {"lost-twice", PLANT_LOST_TWICE, &scenario_jobs},
    {"event-twice", PLANT_EVENT_TWICE, &scenario_heal},
    {"answer-twice", PLANT_ANSWER_TWICE, &scenario_heal},
    {"forget", PLANT_FORGET, &scenario_heal},
    {"lying", PLANT_LYING, &scenario_heal},
    {"boasting", PLANT_BOASTING, &scenario_heal},
    {"stale", PLANT_STALE, &scenario_heal},
    {"zombie", PLANT_ZOMBIE, &scenario_heal},
    {"lost-join", PLANT_LOST_JOIN, &scenario_streams},
    {"double-join", PLANT_DOUBLE_JOIN, &scenario_streams},
    {"lost-leave", PLANT_LOST_LEAVE, &scenario_streams},
    {"lost-demand", PLANT_LOST_DEMAND, &scenario_streams},
    {"wrong-pause", PLANT_WRONG_PAUSE, &scenario_streams},
    {"old-step", PLANT_OLD_STEP, &scenario_streams},
    {"wrong-key", PLANT_WRONG_KEY, &scenario_streams},
    {"old-epoch", PLANT_OLD_EPOCH, &scenario_streams},
    {"old-run", PLANT_OLD_RUN, &scenario_streams},
    {"wrong-size", PLANT_WRONG_SIZE, &scenario_streams},
    {"double-leave", PLANT_DOUBLE_LEAVE, &scenario_streams},
    {"wrong-stays", PLANT_WRONG_STAYS, &scenario_streams},
    {"lost-removal", PLANT_LOST_REMOVAL, &scenario_streams},
    {"early", PLANT_EARLY, &scenario_disk},
    {"lies", PLANT_LIES, &scenario_disk},
};
#define NPLANTS (sizeof(plants) / sizeof(plants[0]))

static double seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* One run.  -1 when it could not even be made. */
static int run(const struct options *o, const struct scenario *sc, uint64_t seed, uint32_t size,
               struct outcome *out)
{
    struct sim_config cfg = {
        .seed = seed,
        .size = size,
        .topology = o->topology,
        .modules = SIM_MOD_BARRIER,
        .broken = o->broken,
        .plant = o->plant,
        .trace = o->trace,
        .even = o->even,
    };
    struct rng tuning;
    sim_t *s;

    rng_seed(&tuning, ~seed);
    if (sc->tune)
        sc->tune(&cfg, &tuning);
    if (!(s = sim_create(&cfg)))
        return -1;
    sc->run(s);
    *out = (struct outcome){s->failed, s->trace, s->messages, s->broke, s->faults, ""};
    memcpy(out->failure, s->failure, sizeof(out->failure));
    sim_destroy(s);
    return 0;
}

static void print_failure(const struct options *o, const struct scenario *sc, uint64_t seed,
                          uint32_t size, const struct outcome *out)
{
    printf("FAILED %s: %s\n", sc->name, out->failure);
    printf("replay: t/sim/sim --seed=%llu --size=%u --scenario=%s", (unsigned long long)seed, size,
           sc->name);
    if (o->topology)
        printf(" --topology=%s", o->topology);
    if (o->even)
        printf(" --even-clocks");
    for (size_t i = 0; i < NBREAKS; i++) {
        if (o->broken == breaks[i].broken)
            printf(" --break=%s", breaks[i].name);
    }
    for (size_t i = 0; i < NPLANTS; i++) {
        if (o->plant == plants[i].plant)
            printf(" --plant=%s", plants[i].name);
    }
    printf("\n");
}

/* One run; with `again`, a second time to see that it is the same.  0 when it holds. */
static int check_one(const struct options *o, const struct scenario *sc, uint64_t seed,
                     uint32_t size, bool again, struct outcome *out)
{
    struct outcome second;

    if (run(o, sc, seed, size, out) < 0)
        return -1;
    if (!out->failed && again) {
        if (run(o, sc, seed, size, &second) < 0)
            return -1;
        if (second.trace != out->trace || second.failed) {
            snprintf(out->failure, sizeof(out->failure),
                     "the same seed gave two different runs: %016llx, %016llx",
                     (unsigned long long)out->trace, (unsigned long long)second.trace);
            out->failed = true;
        }
    }
    if (out->failed)
        print_failure(o, sc, seed, size, out);
    return out->failed ? -1 : 0;
}

static int run_single(const struct options *o)
{
    struct outcome out;
    int rc = 0;

    for (size_t i = 0; scenarios[i]; i++) {
        double t = seconds();
        if (o->scenario ? scenarios[i] != o->scenario : apart(scenarios[i]))
            continue;
        if (check_one(o, scenarios[i], o->seed, o->size, false, &out) < 0)
            rc = 1;
        printf("%-9s seed %llu size %u: trace %016llx, %llu messages, %llu faults, %.3f s: %s\n",
               scenarios[i]->name, (unsigned long long)o->seed, o->size,
               (unsigned long long)out.trace, (unsigned long long)out.messages,
               (unsigned long long)out.faults, seconds() - t, out.failed ? "FAILED" : "ok");
    }
    return rc;
}

static int run_check(const struct options *o)
{
    double begin = seconds();
    uint64_t messages = 0, runs = 0, faults = 0;
    size_t nscen = 0;
    struct outcome out;

    while (scenarios[nscen] && !apart(scenarios[nscen]))
        nscen++;
    for (uint32_t k = 0; k < o->seeds; k++) {
        uint64_t seed = o->seed + k;
        bool again = k % 50 == 0;
        for (size_t i = 0; scenarios[i]; i++) {
            if (o->scenario ? scenarios[i] != o->scenario : apart(scenarios[i]))
                continue;
            if (check_one(o, scenarios[i], seed, o->size, again, &out) < 0)
                return 1;
            messages += out.messages;
            faults += out.faults;
            runs++;
        }
        if (o->large > 0 && k % o->large_every == 0) {
            const struct scenario *sc =
                o->scenario ? o->scenario : scenarios[k / o->large_every % nscen];
            if (check_one(o, sc, seed, o->large, k == 0, &out) < 0)
                return 1;
            messages += out.messages;
            faults += out.faults;
            runs++;
        }
    }
    double t = seconds() - begin;
    printf("%u seeds, %llu runs, %llu messages, %llu faults in %.1f s: %.1f seeds/s, %.2f million "
           "messages/s: all hold\n",
           o->seeds, (unsigned long long)runs, (unsigned long long)messages,
           (unsigned long long)faults, t, o->seeds / t, 1e-6 * (double)messages / t);
    return 0;
}

/* Is this fault noticed?  By the scenario that was asked for, or by one of all. */
static int noticed(const struct options *o, const char *name)
{
    struct outcome out = {0};

    for (uint64_t seed = o->seed; seed < o->seed + 200; seed++) {
        for (size_t i = 0; scenarios[i]; i++) {
            if (o->scenario ? scenarios[i] != o->scenario : apart(scenarios[i]))
                continue;
            if (run(o, scenarios[i], seed, o->size, &out) < 0)
                return -1;
            if (out.failed && out.broke > 0) {
                printf("%-13s is noticed with seed %llu by %s: %s\n", name,
                       (unsigned long long)seed, scenarios[i]->name, out.failure);
                return 0;
            }
        }
    }
    printf("%s is not noticed\n", name);
    return -1;
}

/* Does the checker notice what is broken on purpose?  It must, soon. */
static int run_selftest(const struct options *base)
{
    struct options o = *base;
    int rc = 0;

    for (size_t i = 0; i < NBREAKS && !base->scenario; i++) {
        o.broken = breaks[i].broken;
        if (noticed(&o, breaks[i].name) < 0)
            rc = 1;
    }
    o.broken = BREAK_NONE;
    for (size_t i = 0; i < NPLANTS; i++) {
        o.scenario = plants[i].scenario;
        if (base->scenario ? base->scenario != o.scenario : apart(o.scenario))
            continue;
        o.plant = plants[i].plant;
        if (noticed(&o, plants[i].name) < 0)
            rc = 1;
    }
    return rc;
}

static int usage(FILE *f)
{
    fputs(
        "Usage: sim [--seed=S] [--size=N] [--scenario=NAME] [--topology=SPEC] [--trace]\n"
        "       sim --check[=SEEDS] [--seed=FIRST] [--large=N] [--large-every=K]\n"
        "       sim --figures [--size=N] [--topology=SPEC]    messages per operation\n"
        "       sim --self-test [--scenario=NAME]             is a broken link (or service) "
        "noticed?\n"
        "  --even-clocks              no clock runs faster than another one\n"
        "  --break=reorder|dup|drop   break the link now and then\n"
        "  --plant=NAME               plant a fault in what services say: with --scenario=jobs\n"
        "      lost-end, wrong-code, immortal, double-alloc, lost-alloc, lost-free, wrong-id,\n"
        "      no-dependency, no-limit, lost-twice; with --scenario=commit commit-twice; with\n"
        "      --scenario=heal event-twice, answer-twice, forget, lying, boasting, stale, zombie;\n"
        "      with --scenario=streams lost-join, double-join, lost-leave, lost-demand,\n"
        "      wrong-pause, old-step, wrong-key, old-epoch, old-run, wrong-size, double-leave,\n"
        "      wrong-stays, lost-removal; with --scenario=disk early, lies\n"
        "Scenarios:\n",
        f);
    for (size_t i = 0; scenarios[i]; i++)
        fprintf(f, "  %-9s %s\n", scenarios[i]->name, scenarios[i]->what);
    return f == stdout ? 0 : 2;
}

static const struct scenario *find_scenario(const char *name)
{
    for (size_t i = 0; scenarios[i]; i++) {
        if (strcmp(scenarios[i]->name, name) == 0)
            return scenarios[i];
    }
    return NULL;
}

static int parse_break(const char *text, enum sim_break *out)
{
    for (size_t i = 0; i < NBREAKS; i++) {
        if (strcmp(text, breaks[i].name) == 0) {
            *out = breaks[i].broken;
            return 0;
        }
    }
    return -1;
}

static int parse_plant(const char *text, enum sim_plant *out)
{
    for (size_t i = 0; i < NPLANTS; i++) {
        if (strcmp(text, plants[i].name) == 0) {
            *out = plants[i].plant;
            return 0;
        }
    }
    return -1;
}

enum {
    OPT_SEED = 1000,
    OPT_SIZE,
    OPT_SCENARIO,
    OPT_TOPOLOGY,
    OPT_TRACE,
    OPT_EVEN,
    OPT_CHECK,
    OPT_LARGE,
    OPT_EVERY,
    OPT_FIGURES,
    OPT_SELFTEST,
    OPT_BREAK,
    OPT_PLANT,
    OPT_HELP,
};

static const struct option long_options[] = {
    {"seed", required_argument, NULL, OPT_SEED},
    {"size", required_argument, NULL, OPT_SIZE},
    {"scenario", required_argument, NULL, OPT_SCENARIO},
    {"topology", required_argument, NULL, OPT_TOPOLOGY},
    {"trace", no_argument, NULL, OPT_TRACE},
    {"even-clocks", no_argument, NULL, OPT_EVEN},
    {"check", optional_argument, NULL, OPT_CHECK},
    {"large", required_argument, NULL, OPT_LARGE},
    {"large-every", required_argument, NULL, OPT_EVERY},
    {"figures", no_argument, NULL, OPT_FIGURES},
    {"self-test", no_argument, NULL, OPT_SELFTEST},
    {"break", required_argument, NULL, OPT_BREAK},
    {"plant", required_argument, NULL, OPT_PLANT},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static int parse(int argc, char **argv, struct options *o)
{
    int c;

    while ((c = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        bool ok = true;
        switch (c) {
        case OPT_SEED:
            ok = str2u64(optarg, &o->seed) == 0;
            break;
        case OPT_SIZE:
            ok = str2u32(optarg, &o->size) == 0 && o->size >= 1;
            break;
        case OPT_SCENARIO:
            ok = (o->scenario = find_scenario(optarg)) != NULL;
            break;
        case OPT_TOPOLOGY:
            o->topology = optarg;
            break;
        case OPT_TRACE:
            o->trace = true;
            break;
        case OPT_EVEN:
            o->even = true;
            break;
        case OPT_CHECK:
            o->check = true;
            ok = !optarg || str2u32(optarg, &o->seeds) == 0;
            break;
        case OPT_LARGE:
            ok = str2u32(optarg, &o->large) == 0;
            break;
        case OPT_EVERY:
            ok = str2u32(optarg, &o->large_every) == 0 && o->large_every > 0;
            break;
        case OPT_FIGURES:
            o->figures = true;
            break;
        case OPT_SELFTEST:
            o->selftest = true;
            break;
        case OPT_BREAK:
            ok = parse_break(optarg, &o->broken) == 0;
            break;
        case OPT_PLANT:
            ok = parse_plant(optarg, &o->plant) == 0;
            break;
        case 'h':
        case OPT_HELP:
            return usage(stdout) + 1;
        default:
            return usage(stderr);
        }
        if (!ok) {
            fprintf(stderr, "sim: bad value '%s'\n", optarg);
            return usage(stderr);
        }
    }
    return optind < argc ? usage(stderr) : 0;
}

int main(int argc, char **argv)
{
    struct options o = {.seed = 1, .size = 16, .seeds = 1000, .large = 1024, .large_every = 4};
    int rc = parse(argc, argv, &o);

    if (rc > 0)
        return rc - 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (o.figures)
        return figures_print(o.size, o.topology ? o.topology : "kary:16") < 0;
    if (o.selftest)
        return run_selftest(&o);
    return o.check ? run_check(&o) : run_single(&o);
}
