/* What stream.c, stream_join.c, stream_open.c, stream_writer.c, stream_reader.c, stream_global.c,
 * stream_pin.c, stream_schedule.c, stream_view.c, stream_sift.c and stream_file.c share. */
#ifndef STREAM_PRIVATE_H
#define STREAM_PRIVATE_H

#include <stdbool.h>

#include "libflux/future.h"
#include "libstream/array.h"
#include "libstream/block.h"
#include "libstream/chain.h"
#include "libstream/inlet.h"
#include "libstream/knock.h"
#include "libstream/outlet.h"
#include "libstream/stream.h"
#include "libstream/stream_way.h"
#include "libstream/stream_wire.h"
#include "libstream/tape.h"
#include "libutil/hmap.h"

#define STREAM_OPEN_TIMEOUT 30.
#define STREAM_WHY_SECONDS 2. /* that the module may take to say why a writer has gone */

/* A step that was taken, and is not the one that is needed. */
struct stream_parked {
    inlet_t *in; /* from which it has come */
    struct inlet_step step;
};

/* A reader's end of one writer: see stream_reader.c. */
struct stream_source {
    inlet_t *in;  /* NULL: this writer has not come yet, or its steps are in a file */
    bool joining; /* see stream_connect.c */
    uint64_t writer;
    uint64_t epoch; /* of this writer, */
    uint64_t run;   /* and the run to which its steps belong */
    char *address;  /* by which it is known again */
    json_t *next;   /* stream_member: who has taken its rank; NULL: nobody */
    char *gone;     /* why it has left, as the module says; NULL: it has not */
    bool more;      /* the module will say that again */
    uint64_t last;  /* number of the last step that has come, plus 1; 0: none */
    bool polled;    /* in the set of flux_stream_pollfd() */
    /* Until when the module is waited for, to say why it has left; 0: nobody has asked. */
    double why_until;
    /* Of a member of a group, and a writer that follows: see stream_group.c. */
    uint64_t claimed; /* the step that was claimed, plus 1; 0: none */
    uint64_t told;    /* the floor that the writer knows */
    bool closed;      /* nothing more comes */
    struct stream_parked *parked;
    size_t nparked;
    size_t parked_room;
    inlet_t *old; /* of a writer that is gone, whose steps are parked; NULL: none */
    bool has[2];
    inlet_t *from;              /* of the head; NULL: a file */
    struct inlet_step steps[2]; /* HEAD, and what follows it if that was looked for */
    block_t *block;             /* of the head, once it was asked for */
    block_t *pinned;            /* the last that was asked for, */
    struct inlet_step pin;      /* its number and bytes */
};

/* The value of a variable that was put. */
struct stream_put {
    const void *data;              /* NULL: its place is all that was asked for */
    const stream_format_t *format; /* of records that are encoded when the step has its place; */
    uint64_t n;                    /* their number */
};

struct flux_stream {
    flux_t *h;
    char *name;
    enum flux_stream_mode mode;
    flux_future_t *f; /* stream.write or stream.read: open as long as this is; see stream_join.c */
    char *join;       /* the payload of its request */
    bool answered;    /* there was a response to it */
    uint64_t step;    /* see flux_stream_step() */
    uint64_t epoch;   /* see flux_stream_epoch() */
    uint64_t id;      /* of this writer or reader; 0: the module does not know it */
    double counted;   /* time of the last count that was sent to the module */

    /* Writer. */
    outlet_t *out;
    block_t *vars;          /* of the step, */
    struct stream_put *put; /* and their values */
    size_t room;            /* of `put` */
    unsigned reserved;      /* values that have no data */
    bool alone;             /* the only writer of the stream */
    bool launched;          /* its rank and size come from its launcher */
    bool opening;           /* the module names the members of groups that stay: */
    uint32_t shares;        /* their number, */
    uint32_t named;         /* and that of those it has named */
    char *placed;           /* the step, begun in the outlet; NULL: not yet */
    double listened;        /* time at which it last checked for messages of the module */
    uint64_t copied;        /* bytes of values */
    hmap_t *attrs;          /* values of attributes, by name; NULL: none */
    hmap_t *pins;           /* names of variables that are pinned; NULL: none */
    block_t *pinned;        /* their newest values; NULL: none yet */
    char *pinned_at;        /* where the block is */
    uint64_t copied_from;   /* flux_stream_put_all(): the writer of the pin block that was copied */
    uint64_t copied_pin;    /* last, and the number of that block */
    bool paused;            /* what the module says, as in stream_written */
    double limit;
    double due;                   /* when the next step may be published; 0: now */
    bool cleared;                 /* it may, and waits for readers */
    struct stream_async *pending; /* see stream_async.c; NULL: none */
    double held;                  /* seconds that steps have waited for either */
    bool failed;                  /* see flux_stream_fail() */

    /* Reader. */
    struct knock_want want;
    struct stream_way way;
    const char *secure;            /* the option, during opening */
    int encrypts;                  /* see stream_way_secure(); -1: not known yet */
    struct stream_took took;       /* without its name and number; the run is the newest */
    uint64_t born;                 /* see stream_members; 0: not known yet */
    struct stream_source *sources; /* by rank of the writer */
    uint32_t nsources;
    json_t *coming;   /* of stream_member: writers of a run of another size; NULL: none follows */
    uint32_t ncoming; /* that size */
    uint64_t floor;   /* of the group, as former writers of rank 0 have told */
    int poll_fd;      /* flux_stream_pollfd(), plus 1; 0: not asked for */
    bool begun;
    flux_stream_t *other; /* that it meets: see stream_meet.c; NULL: none */
    bool meets;           /* a step was begun, and waits for that one */
    bool stay;            /* the option */
    errmsg_t died;        /* the end, if a writer has died and it does not stay; "": not yet */
    int heard_end;        /* errno of the last message of the module; 0: more may come */
    inlet_t **left;       /* of writers that are gone, whose memory may still be in use */
    size_t nleft;
    tape_t *tape;                    /* the steps are in a file: see stream_file.c */
    struct tape_block *blocks;       /* for a step of it, of each writer */
    struct tape_pin *tape_pins;      /* the same of what is pinned */
    uint64_t *tape_owners;           /* numbers of the writers that have pinned it */
    size_t next;                     /* index of the step behind the last one that was begun */
    struct stream_request *requests; /* see stream_schedule.c */
    size_t nrequests;
    size_t requests_room;
    hmap_t *arrays;   /* by name of the variable: see stream_global.c; NULL: none yet */
    hmap_t *converts; /* see stream_records.c; NULL: none yet */
    struct stream_converted *converted; /* records, for the step */

    hmap_t *formats; /* of records, by id, on both sides; NULL: none yet */
    hmap_t *natives; /* the same, by the id of another host's format; NULL: none yet */

    stream_chain_t *chain;    /* transforms of this side; NULL: none */
    struct stream_view *view; /* what a reader sees through them: see stream_view.c */
    uint32_t rank;            /* of this writer; see stream_sift.c: */
    bool sifted;              /* the transforms have had the step */
    char *own;                /* the step, which has its place in memory of this process */
    char *attach;             /* transforms for the next step; NULL: no others; stream_attach.c */
    uint32_t attached;        /* what the module says, as in stream_written */
    errmsg_t fault;           /* why transforms were detached, */
    uint32_t faults;          /* and how often */
    void *memory;             /* of the steps of a writer that has left: `memory_len` bytes */
    size_t memory_len;
};

/* The variables that a writer has put into the current step; NULL with an error message. */
block_t *stream_reader_block(flux_stream_t *s, uint32_t writer, errmsg_t *err);
/* A variable that a reader finds in a step. */
struct stream_found {
    const struct block_var *var;
    const struct inlet_step *step; /* or its pin block */
    inlet_t *in;                   /* from which the value comes; NULL: it is here */
    struct inlet_value val;
    bool made; /* by a transform of this reader */
};
/* Find a variable of a writer in the step that was begun, or else in its pin block.  1; 0: there is
 * none; -1 with an error message. */
int stream_reader_find(flux_stream_t *s, uint32_t writer, const char *var, struct stream_found *f,
                       errmsg_t *err);
/* A value was not sent: say which, for the errno that is set; and if the writer has died, why, as
 * far as the module knows.  -1 with this errno. */
int stream_reader_unread(flux_stream_t *s, uint32_t writer, const char *var, const errmsg_t *lost,
                         errmsg_t *err);
/* The pin block of a source as of the step that was begun.  1; 0: there is none; -1 with an error
 * message. */
int stream_pin_read(struct stream_source *src, errmsg_t *err);
/* Make a new pin block if the step has pinned variables.  1, and outlet_pin_commit() follows before
 * the step is published; 0: there are none; -1 with an error message. */
int stream_pin_update(flux_stream_t *s, errmsg_t *err);
void stream_attr_close(flux_stream_t *s);
/* Wait for a step that is pending, if there is one.  0, or -1 with ETIMEDOUT, or the error with
 * which it was lost, and an error message. */
int stream_async_wait(flux_stream_t *s, double timeout, errmsg_t *err);
/* Send the request by which the process takes part in the stream: s->f.  -1 with an error
 * message. */
int stream_join(flux_stream_t *s, const struct flux_schema *desc, const void *in, errmsg_t *err);
/* Which task of which job is this process?  *job is 0 if it is none. */
void stream_join_task(uint64_t *job, uint32_t *task);
/* Note a response to it. */
void stream_join_answered(flux_stream_t *s);
/* Send the request again, so that it is answered as for the first time.  0, or -1 with errno. */
int stream_join_anew(flux_stream_t *s);
/* Has it ended because a broker on its way was lost?  Then it was sent again, and there is another
 * s->f. */
bool stream_join_again(flux_stream_t *s);
/* Hear of the responses while a step is pending. */
void stream_async_listen(flux_stream_t *s);
/* What the module says has changed; errnum > 0: give up. */
void stream_async_update(flux_stream_t *s, int errnum);
/* Wait for it at most `seconds`, and then give it up. */
void stream_async_close(flux_stream_t *s, double seconds);
int stream_async_fd(flux_stream_t *s, errmsg_t *err);
/* stream_reader_block(), and have the values of all its variables in their places. */
block_t *stream_reader_whole(flux_stream_t *s, uint32_t writer, errmsg_t *err);

/* Open the stream that a reader meets.  0, or -1 with an error message. */
int stream_meet_open(flux_stream_t *s, const struct flux_stream_opts *opts, errmsg_t *err);
/* A step was begun: begin the same one of the other stream.  1; or, with the step ended, 0, -1 with
 * an error message, or AGAIN: it has to be another step; or -1 with ETIMEDOUT: it is not begun. */
#define STREAM_MEET_AGAIN 2
int stream_meet_begin(flux_stream_t *s, uint64_t which, double until, errmsg_t *err);

/* Note what the module says of transforms, as in stream_written. */
void stream_attach_heard(flux_stream_t *s, uint32_t attached, const char *transforms);
/* Use them, between two steps. */
void stream_attach_use(flux_stream_t *s);
/* Give a reader transforms, in place of those that it has; "": none.  0, or -1 with an error
 * message. */
int stream_view_create(flux_stream_t *s, const char *transforms, errmsg_t *err);
void stream_view_destroy(flux_stream_t *s);
/* Transform the step that was begun.  1; 0: it was dropped, and is ended; -1 with an error message,
 * and the step is not begun any more. */
int stream_view_begin(flux_stream_t *s, errmsg_t *err);
void stream_view_end(flux_stream_t *s);     /* the step has ended */
void stream_view_resized(flux_stream_t *s); /* between two steps: there are other writers */
/* Has a transform failed before?  0, or -1 with an error message. */
int stream_view_failed(const flux_stream_t *s, errmsg_t *err);
/* Does the view answer for stream_reader_find()?  Then *rc is the answer. */
bool stream_view_find(flux_stream_t *s, uint32_t writer, const char *var, struct stream_found *f,
                      int *rc);
bool stream_view_on(const flux_stream_t *s);
/* Is the variable of this name in the step as it has come not shown? */
bool stream_view_hides(const flux_stream_t *s, const char *var);
/* flux_stream_var(), while the view is on. */
const char *stream_view_name(flux_stream_t *s, uint32_t writer, size_t i);
/* The block of what a reader sees of a writer, and its bytes: those of the step, or a copy, which
 * has the pinned variables too.  NULL with an error message. */
block_t *stream_view_whole(flux_stream_t *s, uint32_t writer, const void **data, uint64_t *len,
                           errmsg_t *err);

/* Transform what was put, once in a step.  false: the step is dropped. */
bool stream_sift(flux_stream_t *s);
/* Give the step its place in memory of this process.  0, or -1 with ENOMEM and an error message. */
int stream_sift_place(flux_stream_t *s, errmsg_t *err);
/* Put what is in that place. */
void stream_sift_unplace(flux_stream_t *s);
/* The description (block.h) of what a transform has put; `alone`: no other writer has a piece; `f`:
 * the format of its records, or NULL.  0, or -1 with an error message. */
int stream_sift_describe(const char *var, const struct flux_transform_array *a, bool alone,
                         const stream_format_t *f, uint8_t *desc, size_t *len, errmsg_t *err);

/* Count the bytes that the reader has requested, and those of them that were copied. */
static inline void stream_reader_asked(flux_stream_t *s, uint64_t asked, uint64_t copied)
{
    s->took.asked += asked;
    s->took.copied += copied;
}

/* Make a format of records known to the readers of a stream that is written.  0, or -1. */
int stream_records_define(flux_stream_t *s, const stream_format_t *f, errmsg_t *err);
/* Tell another instance of the module the formats that readers may ask for. */
void stream_records_repeat(flux_stream_t *s);
/* The id of the format of a variable that is described by these bytes; 0: it does not have records,
 * or nobody can read it.  0, or -1 with ENOMEM. */
int stream_records_id(const void *desc, size_t desc_len, uint64_t *id, errmsg_t *err);
/* The format with this id, which a reader asks for when it sees the id for the first time: a
 * reference of the stream.  NULL with an error message. */
const stream_format_t *stream_records_format(flux_stream_t *s, uint64_t id, errmsg_t *err);
/* That format as it is laid out for structs of this host.  NULL with an error message. */
const stream_format_t *stream_records_native(flux_stream_t *s, const stream_format_t *f,
                                             errmsg_t *err);
/* Let stream_records_format() find a format that the module need not know.  0, or -1 with
 * ENOMEM. */
int stream_records_know(flux_stream_t *s, const stream_format_t *f, errmsg_t *err);
/* Records that were put as bytes, with this description, as structs of stream_records_native():
 * *f, and *structs, which are in memory that the caller frees, *own, unless that is NULL.  0, or -1
 * with an error message. */
int stream_records_structs(flux_stream_t *s, const struct block_var *v, const void *body,
                           const stream_format_t **f, const void **structs, void **own,
                           errmsg_t *err);
/* Give memory of malloc(3) to the step, with which it is freed.  0, or -1 with ENOMEM, and it is
 * freed at once. */
int stream_records_own(flux_stream_t *s, void *p, errmsg_t *err);
void stream_records_release(flux_stream_t *s); /* the step has ended */
void stream_records_close(flux_stream_t *s);
/* The step has ended: forget what was scheduled. */
void stream_schedule_forget(flux_stream_t *s);
void stream_schedule_close(flux_stream_t *s);
/* Describe a variable of the step as a whole: NULL with an error message. */
stream_array_t *stream_global_array(flux_stream_t *s, const char *var, errmsg_t *err);
/* The description (block.h) of an array, in BLOCK_DESC_MAX bytes, its number of elements and the
 * bytes of each.  0, or -1 with an error message. */
int stream_global_describe(const char *var, const struct flux_stream_array *array, uint8_t *desc,
                           size_t *len, uint64_t *elems, size_t *elem, errmsg_t *err);
/* The number of elements of a writer in it. */
uint64_t stream_global_elems(const stream_array_t *a, uint32_t writer);

/* 0, or -1 with errno and an error message. */
int stream_writer_open(flux_stream_t *s, const struct flux_stream_opts *opts, errmsg_t *err);
int stream_writer_put(flux_stream_t *s, const char *var, const void *desc, size_t desc_len,
                      const void *data, size_t len, errmsg_t *err);
/* The same for `n` records, which are encoded into the place of the step. */
int stream_writer_put_records(flux_stream_t *s, const char *var, const void *desc, size_t desc_len,
                              const stream_format_t *f, const void *recs, uint64_t n,
                              errmsg_t *err);
int stream_writer_end(flux_stream_t *s, double timeout, errmsg_t *err);
/* The bytes of the step, as they will be in their place; NULL with an error message. */
char *stream_writer_image(flux_stream_t *s, errmsg_t *err);
/* Determine the sizes of the records of the step, which are encoded later.  0, or -1. */
int stream_writer_measure(flux_stream_t *s, errmsg_t *err);
/* Write the value of variable `i` of the step, which has data, to `to`, which has room for it.  0,
 * or -1 with an error message. */
int stream_writer_value(flux_stream_t *s, size_t i, void *to, errmsg_t *err);
/* When a throttled stream may have its next step, which is spent. */
double stream_writer_due(flux_stream_t *s);
/* The step is ended: begin the next one. */
void stream_writer_next(flux_stream_t *s);
/* Give up the variables of the step, and its place.  Keeps errno. */
void stream_writer_forget(flux_stream_t *s);
/* Wait for a step that is pending; what is left of *timeout.  0; or -1 with ETIMEDOUT, or the error
 * with which it was lost, and then the variables of this step are given up as well. */
int stream_writer_settle(flux_stream_t *s, double *timeout, errmsg_t *err);
/* Read what the module has said.  0, or -1 if the stream was removed. */
int stream_writer_take(flux_stream_t *s, errmsg_t *err);
/* Notify and hear the module, each if it is time for it.  0, or -1 if the stream was removed. */
int stream_writer_report(flux_stream_t *s, errmsg_t *err);
void stream_writer_close(flux_stream_t *s);
/* End it, but for the memory of steps, which stream_writer_close() unmaps. */
void stream_writer_leave(flux_stream_t *s);
/* Connect to a writer that the module has named; or to all writers of a response: the number of
 * writers that are missing.  -1 with the errors of inlet_connect() and inlet_connect_far(), and an
 * error message. */
int stream_connect_one(flux_stream_t *s, const struct stream_member *m, double timeout,
                       errmsg_t *err);
int stream_connect_all(flux_stream_t *s, const struct stream_members *ms, double timeout,
                       errmsg_t *err);
/* Get sources for the writers of the run that follows, `coming`, in place of those of this one, of
 * which no step can be complete any more.  0, or -1 with ENOMEM and an error message. */
int stream_connect_resize(flux_stream_t *s, errmsg_t *err);
/* Note from which instance of the module a message comes.  Another one does not know the run that
 * this reader reads, and calls it 0. */
void stream_reader_instance(flux_stream_t *s, const struct stream_members *ms);
/* Note which writers have left, as a message of the module says. */
void stream_reader_gone(flux_stream_t *s, const struct stream_members *ms);
/* Free the sources, and what has come from them. */
void stream_reader_forget(flux_stream_t *s);
/* The module names the writer of a source once more; another instance of it gives other numbers. */
void stream_reader_known(flux_stream_t *s, const struct stream_member *m);
/* The head of a source comes from this inlet. */
void stream_reader_from(struct stream_source *src, inlet_t *in);
/* The writer of a source is gone, and this reader stays.  0, or -1 with ENOMEM. */
int stream_reader_lost(flux_stream_t *s, struct stream_source *src, errmsg_t *err);
/* Take a step of a source as its head, or the next one.  1; 0: none has come; -1. */
int stream_reader_take(flux_stream_t *s, struct stream_source *src, int slot, errmsg_t *err);
/* Release the head of a source, if it has one; or all that was taken. */
void stream_reader_release(struct stream_source *src);
void stream_reader_drop(struct stream_source *src);
/* Is this reader a member of a group, and are there several writers? */
static inline bool stream_group_shared(const flux_stream_t *s)
{
    return s->want.group[0] != '\0' && s->nsources > 1;
}
/* Make the heads of all sources the next step of the group for this member.  1; 0: not now; -1 with
 * an error message, and ENODATA at the end of the stream. */
int stream_group_agree(flux_stream_t *s, errmsg_t *err);
/* The step has ended: keep what writers that follow have given of it, if members divide steps. */
void stream_group_keep(flux_stream_t *s);
/* Pass on to the writers that follow which steps are done. */
void stream_group_tell(flux_stream_t *s);
/* The source gets another writer. */
void stream_group_reset(struct stream_source *src);
/* The writer of a source is gone; the caller has its end. */
void stream_group_leave(flux_stream_t *s, struct stream_source *src);
/* Read messages of the module for `seconds`.  0; -1: there is none, and errno is ETIMEDOUT if one
 * may still come, ECANCELED if the stream was removed. */
int stream_reader_hear(flux_stream_t *s, double seconds);
int stream_reader_open(flux_stream_t *s, const struct flux_stream_opts *opts, errmsg_t *err);
int stream_reader_end(flux_stream_t *s, errmsg_t *err);
void stream_reader_leave(flux_stream_t *s);
void stream_reader_close(flux_stream_t *s);
/* flux_stream_begin_step() of a file. */
int stream_file_begin(flux_stream_t *s, uint64_t which, uint64_t *step, errmsg_t *err);
void stream_file_close(flux_stream_t *s);

#endif
