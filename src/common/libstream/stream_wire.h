/* Messages of the service "stream" (src/modules/stream), which manages the streams of a session:
 * their names, writers and readers.  It does not process the data of steps. */
#ifndef STREAM_WIRE_H
#define STREAM_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "libschema/schema.h"

/* Can this be the name of a stream, or of a switch?  It has 1 to STREAM_TITLE_MAX bytes, and
 * neither blanks nor control characters, which could change the display of a message. */
#define STREAM_TITLE_MAX 128
bool stream_title_ok(const char *name, size_t len);

/* A process begins to write. */
struct stream_write {
    const char *name;
    uint32_t rank; /* of `size` processes that write the stream together */
    uint32_t size;
    const char *host;
    const char *place;   /* of host and network namespace: hostnet_get() */
    const char *address; /* where readers of this place connect */
    const char *far;     /* where others do, far_addr.h; "": they cannot */
    const char *key;     /* of which their capabilities are made: hexadecimal digits */
    uint64_t job;        /* of which it is a task; 0: none */
    uint32_t task;       /* its number there */
    bool launched;       /* rank and size are those that its launcher has set */
    const char *start;   /* the option; "": none */
};
extern const struct flux_schema stream_write_schema;

struct stream_written {
    uint64_t writer;        /* its number, among those of all streams */
    uint64_t step;          /* that it begins with */
    uint64_t epoch;         /* see flux_stream_epoch() */
    double clock;           /* time at the module, by which the grants of readers expire */
    bool paused;            /* no step is to be published */
    double limit;           /* maximum number of steps a second; 0: no limit */
    uint32_t stays;         /* number of readers that stay, */
    uint32_t shares;        /* and of those of them that are members of groups */
    uint32_t attached;      /* how often transforms were attached while it runs; 0: never */
    const char *transforms; /* the last ones, as in flux_stream_opts; "": none */
    json_t *readers; /* readers whose options have changed since they joined, and members of groups
                      * that stay, of stream_demand: those of which this writer was not yet
                      * notified, or that have changed again */
    json_t *gone;    /* numbers of such readers that have left */
};
extern const struct flux_schema stream_written_schema;

/* The present options of a reader. */
struct stream_demand {
    uint64_t reader;
    const char *policy; /* or "group:" and the name of a group */
    bool off;           /* no steps are offered */
};
extern const struct flux_schema stream_demand_schema;

/* A reader, for one writer: see struct outlet_queue. */
struct stream_queue {
    uint64_t reader;
    uint64_t queue;   /* bytes that it has not released */
    uint64_t dropped; /* steps that it did not get, */
    double blocked;   /* and seconds that the writer waited for it, since the last count with it */
};
extern const struct flux_schema stream_queue_schema;
#define STREAM_QUEUES_MAX 16 /* in a count */

/* The progress of a writer. */
struct stream_count {
    const char *name;
    uint64_t writer;
    uint64_t step; /* the next */
    uint64_t need; /* the first that a group may still need of this writer; `step`: none before */
    uint64_t epoch;
    uint64_t steps;
    uint64_t bytes;
    uint64_t copied; /* those of them that were copied; the others were computed in place */
    uint64_t dropped;
    uint64_t queue;       /* bytes that readers have not released */
    uint64_t pinned;      /* bytes that are kept for readers that come later */
    double blocked;       /* seconds */
    double held;          /* seconds that it was paused, or waited for its limit */
    uint32_t faults;      /* how often its transforms were detached since they failed */
    uint64_t sent;        /* bytes sent by TCP, */
    uint32_t connections; /* and number of readers that it has by TCP */
    bool failed;          /* the writer is about to leave, since it has failed */
    json_t *queues;       /* of stream_queue: readers that have not released everything, or with new
                           * counts; at most STREAM_QUEUES_MAX, which take turns */
};
extern const struct flux_schema stream_count_schema;

#define STREAM_ID_LEN 16 /* digits of the id of a format of records */

struct stream_define {
    const char *name;
    const char *format;
    const char *id; /* of the records of which `format` is the canonical text; NULL: it describes
                       the steps, in any words */
};
extern const struct flux_schema stream_define_schema;

struct stream_ask_format {
    const char *name;
    const char *id; /* NULL: the description of the steps */
};
extern const struct flux_schema stream_ask_format_schema;

struct stream_name {
    const char *name;
};
extern const struct flux_schema stream_name_schema;

struct stream_pause {
    const char *name;
    bool paused;
};
extern const struct flux_schema stream_pause_schema;

struct stream_throttle {
    const char *name;
    double limit; /* steps a second; 0: any number */
};
extern const struct flux_schema stream_throttle_schema;
#define STREAM_LIMIT_MIN 1e-6 /* for a limit that is not 0 */
#define STREAM_LIMIT_MAX 1e9

/* Transforms for all writers of a stream, for one reader, or for all of them, from their next step
 * on. */
struct stream_attach {
    const char *name;
    uint64_t reader;        /* 0: the writers; */
    bool readers;           /* or all readers, those that come later too */
    const char *transforms; /* "": none */
};
extern const struct flux_schema stream_attach_schema;

struct stream_text {
    const char *format; /* "": only formats of records were defined */
    json_t *ids;        /* of these, hexadecimal digits, if no id was asked for; NULL: none */
};
extern const struct flux_schema stream_text_schema;

struct stream_read {
    const char *name;
    uint64_t reader; /* its number, which it has chosen at random, so that it stays the same for any
                      * instance of the module */
    const char *place;
    bool far; /* use the address for readers of other places, whatever the place is */
    const char *host;
    uint32_t pid;
    const char *policy; /* or "group:" and the name of a group */
    const char *onoff;  /* name of the switch that turns it on and off; "": none */
    bool stay;          /* it waits for the next writer when one has gone */
    uint64_t job;       /* of which it is a task; 0: of none */
};
extern const struct flux_schema stream_read_schema;

/* The progress of a reader. */
struct stream_took {
    const char *name;
    uint64_t reader;
    uint64_t run;         /* that it reads */
    uint64_t step;        /* of that run, all steps before it are released */
    uint64_t steps;       /* number of steps that it has begun */
    uint64_t asked;       /* bytes of values and boxes */
    uint64_t copied;      /* those of them that were copied; the others were used in place */
    double waited;        /* seconds that it has waited for steps */
    uint64_t received;    /* bytes received by TCP, */
    uint32_t connections; /* and number of writers that it has by TCP */
};
extern const struct flux_schema stream_took_schema;

struct stream_policy {
    const char *name;
    uint64_t reader;
    const char *policy;
};
extern const struct flux_schema stream_policy_schema;

/* The event stream.switch. */
struct stream_switch {
    const char *name;
    bool on;
};
extern const struct flux_schema stream_switch_schema;

struct stream_reader {
    uint64_t reader;
    uint32_t rank; /* of its broker */
    const char *host;
    uint32_t pid;
    const char *policy;
    const char *onoff;
    bool off;
    uint64_t step;
    uint64_t lag; /* number of steps that it is behind the writers */
    uint64_t steps;
    uint64_t asked;
    uint64_t copied;
    double waited;
    uint64_t received;
    uint32_t connections;
    uint64_t queue;         /* bytes that it has not released, of all writers */
    uint64_t dropped;       /* steps that it did not get, counted by each writer */
    double blocked;         /* seconds that writers have waited for it */
    uint64_t job;           /* of which it is a task; 0: of none */
    const char *transforms; /* that were attached to it; NULL: none */
};
extern const struct flux_schema stream_reader_schema;

struct stream_readers {
    json_t *readers;
};
extern const struct flux_schema stream_readers_schema;

struct stream_member {
    uint64_t writer;
    uint32_t rank;
    uint64_t epoch;
    uint64_t run; /* number of the run to which its steps belong: larger than those before */
    const char *host;
    const char *address; /* for this reader */
    const char *key;     /* the capability, hexadecimal digits: the writer's; or, if it is far, the
                      * secret of far_key_grant(), with the members of its grant: */
    bool far;
    uint64_t reader;
    uint64_t expires; /* seconds of stream_written.clock */
};
extern const struct flux_schema stream_member_schema;

struct stream_gone {
    uint64_t writer;
    const char *why; /* "rank 3 of the writers has died" */
    bool more;       /* a second notice follows, with what is known then: "rank 3 of writer job 12
                        ended by signal 9" */
};
extern const struct flux_schema stream_gone_schema;

struct stream_members {
    uint32_t size;     /* processes that write the stream together */
    json_t *writers;   /* writers that have joined */
    json_t *gone;      /* writers that have left */
    bool off;          /* this reader is turned off */
    uint64_t born;     /* when the instance of the service began, in milliseconds: another one does
                        * not know the run, and begins with 0 again */
    uint32_t attached; /* as in stream_written, for this reader */
    const char *transforms;
};
extern const struct flux_schema stream_members_schema;

struct stream_item {
    const char *name;
    uint32_t writers;
    uint32_t size;
    uint32_t readers;
    uint64_t step;
    uint64_t epoch;
    uint64_t steps;
    uint64_t bytes;
    uint64_t copied; /* by writers and readers */
    uint64_t asked;
    uint64_t dropped;
    uint64_t queue;
    uint64_t pinned;
    uint64_t lag;         /* of the slowest reader */
    uint64_t sent;        /* by TCP, */
    uint32_t connections; /* and number of TCP connections */
    double blocked;
    double held;
    double rate; /* steps a second, of the fastest writer */
    bool paused;
    double limit;
    uint32_t faults;
    const char *transforms; /* that were attached to its writers; NULL: none */
    const char *cause;      /* why the last writer that died has; NULL: none has, or its place was
                          taken */
};
extern const struct flux_schema stream_item_schema;

struct stream_list {
    json_t *streams;
};
extern const struct flux_schema stream_list_schema;

struct stream_stats {
    uint64_t streams;
    uint64_t writers;
    uint64_t readers;
    uint64_t opened; /* total number of writers and readers so far */
};
extern const struct flux_schema stream_stats_schema;

extern const struct flux_method stream_methods[];

#endif
