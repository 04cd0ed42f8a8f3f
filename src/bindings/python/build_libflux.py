"""Build the C part of the package: flux._libflux, the functions of libflux that the package calls.

    python3 build_libflux.py FILE    write its C source; `make` compiles it
    installed_builder()              for setup.py: against the libflux that pkg-config finds

The declarations below are compiled against the public headers of libflux, so a difference is an
error of the compiler.
"""

import os
import subprocess
import sys

from cffi import FFI

CDEF = """
/* libutil/errmsg.h */
typedef struct errmsg {
    char text[256];
} errmsg_t;

/* libflux */
typedef ... flux_t;
typedef ... flux_msg_t;
typedef ... flux_future_t;
#define FLUX_NODEID_ANY ...
#define FLUX_POLLIN ...
#define FLUX_POLLOUT ...
#define FLUX_MSGF_NORESPONSE ...
#define FLUX_MSGF_STREAMING ...
#define FLUX_MSGF_UPSTREAM ...
#define FLUX_MSGF_RING ...
#define FLUX_MSGF_RAW ...
flux_t *flux_open(const char *uri, void *r, errmsg_t *err);
void flux_close(flux_t *h);
uint32_t flux_rank(flux_t *h);
uint32_t flux_size(flux_t *h);
int flux_handle_wait(flux_t *h, double timeout);
int flux_handle_pollfd(flux_t *h, int *events);
void flux_log_set_source(flux_t *h, const char *name);
void flux_log(flux_t *h, int level, const char *fmt, ...);
int flux_log_level_parse(const char *name);

void flux_msg_destroy(flux_msg_t *msg);
flux_msg_t *flux_msg_incref(const flux_msg_t *msg);
const char *flux_msg_topic(const flux_msg_t *msg);
bool flux_msg_has_flag(const flux_msg_t *msg, unsigned flag);
uint32_t flux_msg_nodeid(const flux_msg_t *msg);
uint64_t flux_msg_seq(const flux_msg_t *msg);
uint32_t flux_msg_userid(const flux_msg_t *msg);
const void *flux_msg_payload(const flux_msg_t *msg, size_t *len);

flux_future_t *flux_rpc(flux_t *h, const char *topic, const char *json, uint32_t nodeid,
                        unsigned flags);
flux_future_t *flux_rpc_raw(flux_t *h, const char *topic, const void *data, size_t len,
                            uint32_t nodeid, unsigned flags);
flux_future_t *flux_mrpc(flux_t *h, const char *topic, const char *json, const uint32_t *ranks,
                         size_t nranks, unsigned flags);
uint32_t flux_mrpc_rank(const flux_future_t *f);
void flux_future_destroy(flux_future_t *f);
bool flux_future_ready(const flux_future_t *f);
int flux_future_next(flux_future_t *f);
int flux_future_errnum(const flux_future_t *f);
const char *flux_future_error(const flux_future_t *f);
const flux_msg_t *flux_rpc_get_msg(flux_future_t *f);

flux_future_t *flux_event_publish(flux_t *h, const char *topic, const char *json);
flux_future_t *flux_event_publish_raw(flux_t *h, const char *topic, const void *data, size_t len);
int flux_event_get_seq(flux_future_t *f, uint64_t *seq, errmsg_t *err);
int flux_event_send(flux_t *h, const char *topic, const char *json);
int flux_event_send_raw(flux_t *h, const char *topic, const void *data, size_t len);
flux_future_t *flux_event_subscribe(flux_t *h, const char *prefix);
flux_future_t *flux_event_unsubscribe(flux_t *h, const char *prefix);

/* libkvs */
typedef ... flux_kvs_txn_t;
#define FLUX_KVS_RECURSIVE ...
#define FLUX_KVS_MUST_EXIST ...
#define FLUX_KVS_READLINK ...
#define FLUX_KVS_VALUES ...
#define FLUX_KVS_TAG ...
#define FLUX_KVS_INFO ...
#define FLUX_KVS_WATCH_APPEND ...
#define FLUX_KVS_WATCH_DIFF ...
#define FLUX_KVS_VALUE ...
#define FLUX_KVS_DIR ...
#define FLUX_KVS_LINK ...
#define FLUX_KVS_ADDED ...
#define FLUX_KVS_CHANGED ...
#define FLUX_KVS_REMOVED ...
#define FLUX_KVS_STORE_MAX ...
#define FLUX_KVS_OWNER_SELF ...
flux_kvs_txn_t *flux_kvs_txn_create(void);
void flux_kvs_txn_destroy(flux_kvs_txn_t *txn);
void flux_kvs_txn_clear(flux_kvs_txn_t *txn);
size_t flux_kvs_txn_count(const flux_kvs_txn_t *txn);
int flux_kvs_txn_put_raw(flux_kvs_txn_t *txn, const char *key, const void *data, size_t len,
                         errmsg_t *err);
int flux_kvs_txn_append(flux_kvs_txn_t *txn, const char *key, const void *data, size_t len,
                        errmsg_t *err);
int flux_kvs_txn_unlink(flux_kvs_txn_t *txn, const char *key, int flags, errmsg_t *err);
int flux_kvs_txn_mkdir(flux_kvs_txn_t *txn, const char *key, errmsg_t *err);
int flux_kvs_txn_symlink(flux_kvs_txn_t *txn, const char *key, const char *target, errmsg_t *err);
int flux_kvs_txn_copy(flux_kvs_txn_t *txn, const char *from, const char *to, errmsg_t *err);
int flux_kvs_txn_move(flux_kvs_txn_t *txn, const char *from, const char *to, errmsg_t *err);
int flux_kvs_txn_guard(flux_kvs_txn_t *txn, const char *key, const char *tag, errmsg_t *err);
int flux_kvs_txn_put_chunks(flux_kvs_txn_t *txn, const char *key, uint64_t size,
                            const void *digests, size_t n, size_t dsize, errmsg_t *err);
flux_future_t *flux_kvs_commit(flux_t *h, const char *ns, const flux_kvs_txn_t *txn);
flux_future_t *flux_kvs_commit_durable(flux_t *h, const char *ns, const flux_kvs_txn_t *txn);
flux_future_t *flux_kvs_fence_ranks(flux_t *h, const char *ns, const char *name, uint32_t nprocs,
                                    const char *ranks, const flux_kvs_txn_t *txn);
int flux_kvs_commit_get(flux_future_t *f, uint64_t *version, const char **rootref, errmsg_t *err);
flux_future_t *flux_kvs_version(flux_t *h, const char *ns);
flux_future_t *flux_kvs_wait_version(flux_t *h, const char *ns, uint64_t version);
flux_future_t *flux_kvs_snapshot(flux_t *h, const char *ns, const char *rootref);
flux_future_t *flux_kvs_lookup(flux_t *h, const char *ns, const char *key, int flags,
                               const char *rootref);
flux_future_t *flux_kvs_lookup_range(flux_t *h, const char *ns, const char *key,
                                     const char *rootref, uint64_t offset, uint32_t len);
int flux_kvs_lookup_get(flux_future_t *f, const char **data, size_t *len, errmsg_t *err);
struct flux_kvs_info {
    int type;
    uint64_t version;
    uint64_t size;
    char tag[72];
    ...;
};
int flux_kvs_lookup_get_info(flux_future_t *f, struct flux_kvs_info *info, errmsg_t *err);
flux_future_t *flux_kvs_readdir_page(flux_t *h, const char *ns, const char *key, int flags,
                                     const char *rootref, const char *after, uint32_t count);
struct flux_kvs_dirent {
    char name[256];
    int type;
    uint64_t size;
    const char *data;
    ...;
};
int flux_kvs_readdir_next(flux_future_t *f, size_t *pos, struct flux_kvs_dirent *e, errmsg_t *err);
bool flux_kvs_readdir_more(flux_future_t *f);
flux_future_t *flux_kvs_watch(flux_t *h, const char *ns, const char *key, int flags);
bool flux_kvs_watch_absent(flux_future_t *f);
bool flux_kvs_watch_whole(flux_future_t *f);
struct flux_kvs_change {
    char key[1025];
    int change;
    int type;
    uint64_t size;
    const char *data;
    ...;
};
int flux_kvs_change_next(flux_future_t *f, size_t *pos, struct flux_kvs_change *c, errmsg_t *err);
flux_future_t *flux_kvs_store(flux_t *h, const char *ns, const void *data, size_t len);
int flux_kvs_store_get(flux_future_t *f, const uint8_t **digests, size_t *n, size_t *dsize,
                       errmsg_t *err);
flux_future_t *flux_kvs_namespace_create(flux_t *h, const char *ns, uint32_t owner, uint32_t rank);
flux_future_t *flux_kvs_namespace_remove(flux_t *h, const char *ns);
flux_future_t *flux_kvs_namespace_list(flux_t *h);
struct flux_kvs_namespace {
    char name[65];
    uint32_t owner;
    uint32_t rank;
    bool lost;
    ...;
};
int flux_kvs_namespace_next(flux_future_t *f, size_t *pos, struct flux_kvs_namespace *n,
                            errmsg_t *err);

/* libjob; texts of JSON are read by Python, so jansson is needed for building jobspecs only */
typedef ... json_t;
typedef ... submit_writer_t;
#define JOB_URGENCY_DEFAULT ...
#define JOB_URGENCY_MAX ...
submit_writer_t *submit_writer_create(void);
void submit_writer_destroy(submit_writer_t *w);
int submit_writer_env(submit_writer_t *w, const char *const *environ);
int submit_writer_job(submit_writer_t *w, int env, int urgency, unsigned flags, const char *jobspec,
                      size_t len, errmsg_t *err);
void submit_writer_clear(submit_writer_t *w);
size_t submit_writer_count(const submit_writer_t *w);
size_t submit_writer_size(const submit_writer_t *w);
flux_future_t *flux_job_submit_batch(flux_t *h, submit_writer_t *w);
struct job_list {
    const char *ids;
    const char *name;
    uint32_t states;
    int64_t user;
    uint32_t max;
    double since;
    bool estimates;
    ...;
};
flux_future_t *flux_job_list(flux_t *h, const struct job_list *query);
void flux_job_list_init(struct job_list *query);
flux_future_t *flux_job_wait(flux_t *h, const char *ids);
flux_future_t *flux_job_watch(flux_t *h, const char *ids);
flux_future_t *flux_job_cancel(flux_t *h, const char *ids, const char *note);
flux_future_t *flux_job_raise(flux_t *h, const char *ids, const char *type, int severity,
                              const char *note);
flux_future_t *flux_job_kill(flux_t *h, const char *ids, int signum);
flux_future_t *flux_job_urgency(flux_t *h, const char *ids, uint32_t urgency);
flux_future_t *flux_job_queue(flux_t *h, const char *op, const char *reason);
int job_state_parse(const char *name);
int job_result_parse(const char *name);
const char *job_state_word(int s, int urgency, int r);
int job_stdin_parse(const char *s);
int job_layout_parse(const char *s);
int job_affinity_parse(const char *s);
int job_mpi_parse(const char *s);
int job_rlimit_parse(const char *name);
int job_limit_parse(const char *s, double *seconds, errmsg_t *err);
int job_grace_parse(const char *s, double *seconds, errmsg_t *err);
int job_dep_parse(const char *s);
#define JOBSPEC_NO_LIMIT ...
struct job_rlimit {
    int resource;
    const char *name;
    uint64_t value;
    ...;
};
struct joboptions {
    const char *output;
    const char *error;
    const char *input;
    bool label;
    bool kill_on_bad_exit;
    bool survive_node_loss;
    bool requeue;
    int stdin_mode;
    int layout;
    int cpu_affinity;
    int gpu_affinity;
    int mpi;
    double grace;
    uint64_t output_limit;
    const struct job_rlimit *rlimits;
    size_t nrlimits;
    const struct job_rlimit *softlimits;
    size_t nsoftlimits;
    int umask;
    ...;
};
struct jobspec_dep {
    int scheme;
    uint64_t id;
    ...;
};
struct jobspec_program {
    const char *const *argv;
    uint32_t ntasks;
    const json_t *env;
    ...;
};
struct jobspec_pool {
    const char *name;
    uint64_t count;
    ...;
};
struct jobspec_parts {
    const char *const *argv;
    const struct jobspec_program *programs;
    size_t nprograms;
    uint32_t nnodes;
    uint32_t nslots;
    uint32_t min_slots;
    uint32_t cores;
    uint32_t gpus;
    uint64_t memory;
    bool exclusive;
    const struct jobspec_pool *pools;
    size_t npools;
    uint32_t ntasks;
    uint32_t per_slot;
    double duration;
    double begin;
    const char *cwd;
    const char *name;
    const char *ranks;
    const char *hosts;
    const char *const *properties;
    const struct jobspec_dep *deps;
    size_t ndeps;
    const json_t *files;
    struct joboptions options;
    ...;
};
void jobspec_parts_init(struct jobspec_parts *p);
json_t *jobspec_build(const struct jobspec_parts *p, errmsg_t *err);
char *jobspec_encode(const json_t *spec, size_t *len);
void json_decref(json_t *json);
json_t *pyflux_json(const char *text, size_t len);
void free(void *p);

/* libstream */
typedef ... flux_stream_t;
#define FLUX_STREAM_WRITE ...
#define FLUX_STREAM_READ ...
#define FLUX_STREAM_NEXT ...
#define FLUX_STREAM_NEWEST ...
struct flux_stream_opts {
    uint32_t rank;
    uint32_t size;
    double timeout;
    uint32_t readers;
    double evict;
    uint32_t keep;
    const char *policy;
    uint32_t depth;
    uint64_t bytes;
    const char *group;
    const char *key;
    const char *by;
    bool (*interrupted)(void *arg);
    void *arg;
    const char *transport;
    const char *secure;
    const char *share;
    const char *onoff;
    const char *team;
    double resume;
    bool stay;
    const char *transforms;
    const char *join;
    const char *start;
    ...;
};
int flux_stream_switch(flux_t *h, const char *name, bool on, errmsg_t *err);
int flux_stream_rank(uint32_t *rank, uint32_t *size, errmsg_t *err);
flux_stream_t *flux_stream_open(flux_t *h, const char *name, int mode,
                                const struct flux_stream_opts *opts, errmsg_t *err);
void flux_stream_close(flux_stream_t *s);
void flux_stream_fail(flux_stream_t *s);
void flux_stream_leave(flux_stream_t *s);
int flux_stream_put(flux_stream_t *s, const char *var, const void *data, size_t len, errmsg_t *err);
typedef ... stream_format_t;
#define STREAM_OPTIONAL ...
struct stream_attr {
    const char *name;
    const char *value;
};
struct stream_extent {
    uint64_t fixed;
    size_t field;
};
struct stream_field {
    const char *name;
    int type;
    unsigned flags;
    size_t offset;
    const stream_format_t *of;
    unsigned ndims;
    struct stream_extent dims[8];
    const struct stream_attr *attrs;
    size_t elem;
    bool slot;
    bool pointers;
    ...;
};
stream_format_t *stream_format_sketch(const char *text, errmsg_t *err);
stream_format_t *stream_format_native(const stream_format_t *f, errmsg_t *err);
void stream_format_destroy(stream_format_t *f);
const char *stream_format_text(const stream_format_t *f);
uint64_t stream_format_id(const stream_format_t *f);
const char *stream_format_name(const stream_format_t *f);
size_t stream_format_size(const stream_format_t *f);
bool stream_format_flat(const stream_format_t *f);
size_t stream_format_count(const stream_format_t *f);
const struct stream_field *stream_format_field(const stream_format_t *f, size_t i);
const struct stream_attr *stream_format_attrs(const stream_format_t *f);
const char *stream_format_lookup(const struct stream_attr *attrs, const char *name);
const char *stream_elem_name(int type);
struct flux_stream_array {
    const char *type;
    unsigned ndims;
    const uint64_t *shape;
    const uint64_t *offset;
    const uint64_t *count;
    bool columns;
    const stream_format_t *format;
    ...;
};
int flux_stream_put_array(flux_stream_t *s, const char *var, const struct flux_stream_array *array,
                          const void *data, errmsg_t *err);
int flux_stream_pin(flux_stream_t *s, const char *var, errmsg_t *err);
int flux_stream_attr(flux_stream_t *s, uint32_t writer, const char *var, const char *name,
                     const char **value, size_t *len, errmsg_t *err);
int flux_stream_place(flux_stream_t *s, double timeout, errmsg_t *err);
void *flux_stream_at(flux_stream_t *s, const char *var);
bool flux_stream_lasting(const flux_stream_t *s);
int flux_stream_wait_readers(flux_stream_t *s, uint32_t readers, double timeout, errmsg_t *err);
bool flux_stream_wanted(const flux_stream_t *s);
int flux_stream_define(flux_stream_t *s, const char *format, errmsg_t *err);
int flux_stream_end_step(flux_stream_t *s, double timeout, errmsg_t *err);
int flux_stream_end_step_async(flux_stream_t *s, errmsg_t *err);
int flux_stream_wait_step(flux_stream_t *s, double timeout, errmsg_t *err);
int flux_stream_drop_step(flux_stream_t *s, errmsg_t *err);
int flux_stream_drain(flux_stream_t *s, double timeout, errmsg_t *err);
uint64_t flux_stream_step(const flux_stream_t *s);
uint64_t flux_stream_epoch(const flux_stream_t *s);
int flux_stream_begin_step(flux_stream_t *s, uint64_t which, double timeout, uint64_t *step,
                           errmsg_t *err);
int flux_stream_pollfd(flux_stream_t *s, errmsg_t *err);
extern "Python" bool pyflux_interrupted(void *arg);
uint32_t flux_stream_writers(const flux_stream_t *s);
const char *flux_stream_var(flux_stream_t *s, uint32_t writer, size_t i);
const char *flux_stream_pinned(flux_stream_t *s, uint32_t writer, size_t i);
bool flux_stream_derived(const flux_stream_t *s, const char *var);
const char *flux_stream_fault(const flux_stream_t *s);
int flux_stream_get(flux_stream_t *s, uint32_t writer, const char *var, const void **data,
                    size_t *len, errmsg_t *err);

#define FLUX_STREAM_ALL ...
struct flux_stream_info {
    const char *type;
    size_t elem;
    uint64_t format;
    bool global;
    bool columns;
    unsigned ndims;
    uint64_t shape[16];
    uint64_t offset[16];
    uint64_t count[16];
    ...;
};
int flux_stream_inquire(flux_stream_t *s, uint32_t writer, const char *var,
                        struct flux_stream_info *info, errmsg_t *err);
int flux_stream_get_box(flux_stream_t *s, const char *var, const uint64_t *start,
                        const uint64_t *count, const uint64_t *stride, void *buf, size_t size,
                        errmsg_t *err);
struct flux_stream_box {
    const uint64_t *start;
    const uint64_t *count;
    const uint64_t *stride;
};
int flux_stream_schedule(flux_stream_t *s, const char *var, uint32_t writer,
                         const struct flux_stream_box *box, void *buf, size_t size, errmsg_t *err);
int flux_stream_perform(flux_stream_t *s, errmsg_t *err);
struct flux_stream_view {
    const void *data;
    size_t stride[16];
};
int flux_stream_view_box(flux_stream_t *s, const char *var, const struct flux_stream_box *box,
                         struct flux_stream_view *view, errmsg_t *err);
const stream_format_t *flux_stream_format(flux_stream_t *s, const char *var, errmsg_t *err);
int flux_stream_get_records(flux_stream_t *s, uint32_t writer, const char *var,
                            const stream_format_t *f, const void **recs, size_t *n, errmsg_t *err);
struct flux_stream_range {
    uint64_t start;
    uint64_t count;
};
int flux_stream_mine(flux_stream_t *s, uint32_t writer, const char *var,
                     const struct flux_stream_range **ranges, size_t *n, errmsg_t *err);
int flux_stream_get_record_box(flux_stream_t *s, const char *var, const uint64_t *start,
                               const uint64_t *count, const uint64_t *stride,
                               const stream_format_t *f, void *buf, size_t size, errmsg_t *err);
int flux_stream_put_all(flux_stream_t *to, flux_stream_t *from, uint32_t writer, errmsg_t *err);
flux_stream_t *flux_stream_open_file(const char *path, errmsg_t *err);
struct flux_stream_file {
    const char *name;
    const char *format;
    uint64_t steps;
    bool complete;
    ...;
};
int flux_stream_file(const flux_stream_t *s, struct flux_stream_file *info);
int flux_stream_file_step(const flux_stream_t *s, uint64_t i, uint64_t *step, double *time);

/* libidset */
typedef ... idset_t;
idset_t *idset_create(void);
void idset_destroy(idset_t *ids);
int idset_set(idset_t *ids, uint32_t id);
idset_t *idset_parse(const char *s, errmsg_t *err);
char *idset_format(const idset_t *ids, int flags);
size_t idset_count(const idset_t *ids);
uint32_t idset_first(const idset_t *ids);
uint32_t idset_next(const idset_t *ids, uint32_t id);
#define IDSET_NONE ...

/* glue.h */
typedef ... pyflux_queue_t;
typedef ... pyflux_watch_t;
typedef ... pyflux_events_t;
pyflux_queue_t *pyflux_queue_create(flux_t *h);
void pyflux_queue_destroy(pyflux_queue_t *q);
uint64_t pyflux_queue_next(pyflux_queue_t *q);
pyflux_watch_t *pyflux_watch_create(pyflux_queue_t *q, flux_future_t *f, uint64_t id);
void pyflux_watch_destroy(pyflux_watch_t *w);
pyflux_events_t *pyflux_events_create(pyflux_queue_t *q, const char *prefix, size_t max,
                                      size_t max_bytes, uint64_t id);
void pyflux_events_destroy(pyflux_events_t *ev);
flux_msg_t *pyflux_events_take(pyflux_events_t *ev);
uint64_t pyflux_events_dropped(pyflux_events_t *ev);
int pyflux_leave_at_exit(flux_stream_t *s);
const char *pyflux_version(void);
"""

SOURCE = """
#include <stdlib.h>
#include "libflux/flux.h"
#include "libidset/idset.h"
#include "libjob/job.h"
#include "libjob/jobspec_build.h"
#include "libkvs/kvs.h"
#include "glue.h"
"""


def make_builder(**options):
    """The builder; `options` are those of a setuptools.Extension."""
    builder = FFI()
    builder.cdef(CDEF)
    builder.set_source("flux._libflux", SOURCE, **options)
    return builder


def pkg_config(*arguments):
    """The words that pkg-config says about libflux."""
    command = ["pkg-config", *arguments, "flux"]
    try:
        return subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.split()
    except (OSError, subprocess.CalledProcessError) as e:
        sys.exit(
            f"{e}\nThe package needs an installed libflux: run `make install` of Flux "
            "first, and set PKG_CONFIG_PATH to its lib/pkgconfig."
        )


def installed_builder():
    """What setuptools compiles: against an installed libflux."""
    version = pkg_config("--modversion")[0]
    return make_builder(
        sources=["glue.c"],
        include_dirs=["."],
        define_macros=[("PYFLUX_VERSION", f'"{version}"')],
        extra_compile_args=pkg_config("--cflags"),
        extra_link_args=[*pkg_config("--libs"), "-ljansson"],
        runtime_library_dirs=pkg_config("--variable=libdir"),
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {os.path.basename(sys.argv[0])} FILE")
    make_builder().emit_c_code(sys.argv[1])
