/* flux kap, the tester of the key-value store's access patterns: what its parts share.
 *
 *    cmd_kap.c    the command: options, results
 *    kap_plan.c   which process does what: pure functions
 *    kap_run.c    the coordinator, in the command
 *    kap_work.c   a worker: many simulated processes in a real one, one of which runs on each rank
 *
 * The coordinator starts the workers as flux exec does, and they talk by events:
 *
 *    kap.ID.go    coordinator to all workers: struct kap_go, do this step
 *    kap.ID.at    a worker to the coordinator: struct kap_at, mine have done it
 *
 * KAP is the FLUX paper's (ICPP 2014, section V): producers put, all synchronize, consumers get.
 */
#ifndef CMD_KAP_H
#define CMD_KAP_H

#include "../cmd.h"

enum kap_step {
    KAP_READY = 0, /* connections are there; not asked for */
    KAP_PRODUCE,   /* put */
    KAP_SYNC,      /* fence, or commit */
    KAP_WAIT,      /* after commits: wait for the version */
    KAP_CONSUME,   /* get, and look at every byte */
    KAP_END,       /* leave; not answered */
};

enum { KAP_PHASES = 3 }; /* producer, synchronization, consumer */
extern const char *const kap_phase_names[KAP_PHASES];

struct kap_config {
    const char *id;    /* of this test: names its events, fences and directory */
    const char *ns;    /* namespace; "" for the primary one */
    const char *ranks; /* idset: where workers are */
    uint32_t nprocs;   /* simulated processes; the first ones are on the first rank */
    uint32_t producers, consumers;
    uint32_t value_size;
    uint32_t puts; /* by each producer */
    uint32_t gets; /* by each consumer */
    uint32_t stride;
    uint32_t dir_keys; /* keys in a directory; 0: all in one */
    bool redundant;    /* all values are the same */
    bool commit;       /* commit and wait for the version, instead of a fence */
    double timeout;    /* of a step */
};
extern const struct flux_schema kap_config_schema;

struct kap_go {
    uint32_t run;
    uint32_t step;
    uint64_t version; /* KAP_WAIT */
};
extern const struct flux_schema kap_go_schema;

/* Latencies of processes in seconds. */
struct kap_stat {
    uint64_t n;
    double sum, min, max;
};
struct kap_at {
    uint32_t rank;
    uint32_t run;
    uint32_t step;
    uint64_t version;  /* KAP_SYNC with commits: the highest */
    const char *error; /* NULL, or it is over */
    uint64_t n;        /* of the phase that has ended, if any */
    double sum, min, max;
};
extern const struct flux_schema kap_at_schema;

/* --- kap_plan.c --- */

#define KAP_NOBODY UINT32_MAX
#define KAP_KEY_MAX 96

/* Which producer process number `i` is, KAP_NOBODY for none; which consumer. */
uint32_t kap_producer(const struct kap_config *cfg, uint32_t i);
uint32_t kap_consumer(const struct kap_config *cfg, uint32_t i);
/* The processes of worker number `w` of `n`. */
void kap_share(const struct kap_config *cfg, uint32_t w, uint32_t n, uint32_t *first,
               uint32_t *count);
/* Keys that producers put in all, and the one that a consumer's get number `j` reads. */
uint64_t kap_keys(const struct kap_config *cfg);
uint64_t kap_wanted(const struct kap_config *cfg, uint32_t consumer, uint32_t j);
/* Directory of a test; of a run; key number `k` of a run. */
void kap_top(const struct kap_config *cfg, char buf[KAP_KEY_MAX]);
void kap_dir(const struct kap_config *cfg, uint32_t run, char buf[KAP_KEY_MAX]);
void kap_key(const struct kap_config *cfg, uint32_t run, uint64_t k, char buf[KAP_KEY_MAX]);
/* The value of key number `k`, cfg->value_size bytes. */
void kap_value(const struct kap_config *cfg, uint32_t run, uint64_t k, uint8_t *buf);
/* Position of the first byte that is not as it should be; `len` when all are. */
size_t kap_compare(const struct kap_config *cfg, uint32_t run, uint64_t k, const void *data,
                   size_t len);

void kap_stat_add(struct kap_stat *s, double seconds);
void kap_stat_merge(struct kap_stat *s, const struct kap_stat *more);

/* --- kap_work.c --- */

/* A worker's life; `json` is the configuration.  An exit code. */
int kap_work(struct cmd *c, const char *json);

/* --- kap_run.c --- */

struct kap_result {
    struct kap_stat phase[KAP_PHASES];
    /* What the fence brought to the broker of the master: messages and bytes from other brokers,
     * and bytes from clients of its own. */
    uint64_t fence_msgs, fence_bytes, fence_local;
};
/* Do it `repeat` times; `results` has room for as many.  0, or -1 after an error message. */
int kap_run(struct cmd *c, flux_t *h, const struct kap_config *cfg, uint32_t repeat,
            struct kap_result *results);

#endif
