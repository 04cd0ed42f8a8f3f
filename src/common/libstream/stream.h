/* Streams pass data between running programs.
 *
 *    flux_stream_t *s = flux_stream_open(h, "heat", FLUX_STREAM_WRITE, NULL, &err);
 *    while (...) {
 *        flux_stream_put(s, "T", T, sizeof(T), &err);
 *        flux_stream_end_step(s, -1., &err);
 *    }
 *    flux_stream_close(s);
 *
 *    flux_stream_t *s = flux_stream_open(h, "heat", FLUX_STREAM_READ, NULL, &err);
 *    while (flux_stream_begin_step(s, FLUX_STREAM_NEXT, -1., &step, &err) == 1) {
 *        flux_stream_get(s, 0, "T", &T, &len, &err);       the writer's memory itself
 *        flux_stream_end_step(s, -1., &err);
 *    }
 *    flux_stream_close(s);
 *
 * A stream is written by a group of processes, each with a rank in it, and read by any others.  A
 * step consists of the variables that each writer put, and has the same number at all writers; a
 * reader sees a step as a whole, when all writers have ended it.  Data go directly from process to
 * process, through shared memory on one host, and by TCP between hosts.
 *
 * Publish and subscribe among the programs of a workflow, with M writers and N readers, is the idea
 * of FLEXPATH [J. Dayal et al., "Flexpath: Type-Based Publish/Subscribe System for Large-Scale
 * Science Analytics", CCGrid 2014].
 *
 * Thread rules: one thread at a time, that of the handle.  Opening and closing wait for the broker,
 * so these calls are for programs: inside a module they fail with EDEADLK.  An open stream
 * of a writer has a thread of its own, which never calls back.
 */
#ifndef FLUX_STREAM_H
#define FLUX_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libflux/handle.h"
#include "libstream/format.h"

typedef struct flux_stream flux_stream_t;

enum flux_stream_mode {
    FLUX_STREAM_WRITE = 1,
    FLUX_STREAM_READ,
};

/* Options; 0, or NULL, stands for the default.  The settings of the stream in the file that the
 * environment variable FLUX_STREAM_CONFIG names (flux-stream(1)) override the options. */
struct flux_stream_opts {
    /* This process, in a group of processes that opens this side together; of readers, in a
     * `team`.  `size` 0: as flux_stream_rank() says, so that the tasks of a job, or the processes
     * of an MPI program, are one group; 1: it writes alone. */
    uint32_t rank;
    uint32_t size;
    /* Timeout of opening, in seconds: a reader waits for all writers, a writer for `readers`
     * readers (30; < 0: no limit). */
    double timeout;
    /* Writer: readers to wait for (0).  If one of these stayed when an earlier writer of this rank
     * had gone, the first step is the one after the last complete step that they have had, which
     * the session does not know of a writer that was killed.  The only writer of a stream that
     * continues it waits for all readers that stay, at most 2 seconds, also without this.  Members
     * of groups that stay are awaited in any case: see `stay`. */
    uint32_t readers;
    /* Writer: evict readers that make it wait for this many seconds without releasing a step
     * (never); number of steps kept for later readers (0, at most 512). */
    double evict;
    uint32_t keep;
    /* Reader: the policy when the queue is full: "block", "drop-oldest", "drop-newest", "latest" or
     * "sample:K" ("block"); maximum number of steps in the queue (1024); maximum of their bytes, if
     * there are more than 2 steps (64 MiB).  There is a queue for each writer, which may limit it:
     * writers have the option `depth`, too, for readers that are in no group. */
    const char *policy;
    uint32_t depth;
    uint64_t bytes;
    /* Reader: name of a group, 1 to 63 characters.  Each step goes to one member of the group,
     * which acknowledges it by flux_stream_end_step(); steps that a member has not ended when it
     * closes the stream, or dies, go to another one.  `depth` is then for this member, and 1 by
     * default: it gets the next step when it has ended the last one; `bytes` is for the group, and
     * set by its first member. `key`: a variable; of steps with equal values of it, one is begun
     * only when the preceding one was ended.  If there are several writers, rank 0 hands out the
     * steps, its values of `key` count, and a step that not all of them have goes to nobody. */
    const char *group;
    const char *key;
    /* Reader: what the members of the group share: "step" (NULL), as above; or "record": they
     * divide the records of each step, and flux_stream_mine() says which ones this member has.  A
     * step is done when each of them has ended its own; those of a member that has not go to
     * another one, which may begin the same step several times, each time with other records.
     * `key` is then a field of the records, such as "id" or "at.x": an integer, `bool`, or text or
     * bytes.  All records of one value of it go to one member, until that has ended them, and in
     * order.  All members have the same `by`.  Not with `stay` (EINVAL): a restarted writer learns
     * the last step that a member was given, and not which records of it are done. */
    const char *by;
    /* Reader: seconds, at most 65535, for which writers go on giving steps to the group when it has
     * no member, until its queue is full, and then wait (0).  So a reader that is the only member
     * of a group, and is started again within this time, goes on after the last step that it has
     * ended; a step that it had begun comes again.  One that comes later misses steps: `flux stream
     * readers` shows how many. */
    double resume;
    /* Reader: name of the team of `size` readers that this one belongs to, 1 to 63 characters.  All
     * members see the same steps with FLUX_STREAM_NEXT, also if they join while the stream runs:
     * from the first step on that each writer ends after all members have connected to it, and the
     * steps that it keeps then.  They have the same policy, and a step is dropped for all of them
     * or for none, which each writer decides by itself; so none is taken back: "drop-oldest" is
     * like "drop-newest", and "latest" like that with 2 steps in the queue.  A member that has
     * gone, or was evicted, delays nobody, and its place can be taken; but a writer that joins then
     * waits with the team for it. */
    const char *team;
    /* The transport of the data: "auto" (shared memory on one host, else TCP), "tcp" or "ring"
     * (environment FLUX_STREAM_TRANSPORT, else "auto"); whether TCP is encrypted: "yes" or "no"
     * (environment FLUX_STREAM_SECURE, else as for brokers).  It is encrypted if one end requests
     * that. */
    const char *transport;
    const char *secure;
    /* Do connections between hosts go through one that all processes of the two hosts share: "yes"
     * or "no" (environment FLUX_STREAM_SHARE, else as the attribute stream.share of the session,
     * which `flux start --share-connections` sets)?  Both ends have to want it. */
    const char *share;
    /* Reader: name of a switch, of 1 to 128 bytes without blanks.  While the switch is off, no
     * steps are offered to the reader, so it costs the writers nothing.  A switch is off until a
     * program turns it on (flux_stream_switch()).  NULL: none. */
    const char *onoff;
    /* Reader: called with `arg` several times a second while opening waits; true ends it (EINTR).
     * For bindings to languages that check for signals themselves. */
    bool (*interrupted)(void *arg);
    void *arg;
    /* Reader: when a writer has closed its end, or died, wait for a writer that takes its rank, and
     * continue with its steps, whose numbers are larger than all before.  When all have gone, there
     * may be more writers next, or fewer: flux_stream_writers().  The stream ends only when it is
     * removed.  If members of a group stay, that writer begins with the first step that the
     * group still needs, and no number comes to two members that live; steps are handed out when
     * all of these members have ended what they had. */
    bool stay;
    /* Transforms of the steps, separated by '|': each is a file in Lua, if its name ends with
     * ".lua", or else a shared object FILE[:ARGUMENT] (flux/stream_transform.h), which nobody but
     * its owner can have changed; each gets the steps that the one before has made.
     *
     * Reader: flux_stream_begin_step() runs them, and the step that it begins has the variables
     * that were put, as those of the writer of rank 0, and those that were kept, of all writers,
     * where these have put them.  What was put is aligned for its type only.  A step that is
     * dropped is released, and the next one is begun.
     *
     * Writer: flux_stream_end_step() runs them, so that what is dropped does not travel; not for a
     * step that nobody would see, unless the stream is paused or throttled.  They see what this
     * writer has put.  In a writer that is not the only one, arrays that they put are of this
     * writer only, unless they are pieces; and a step must be dropped by all writers, or by none.
     * If they fail the stream goes on without them: flux_stream_fault().
     *
     * `flux stream transform --at` attaches others while the program runs. */
    const char *transforms;
    /* Reader: name of another stream, which is the second input of the transforms.  A step is begun
     * when both streams have it, by its number; steps that one of them does not have are passed
     * over.  The second stream is read with the same options, and the end of one is the end of
     * both.  Not for members of groups and teams. */
    const char *join;
    /* Writer: how it begins when the stream has had writers before, and readers have stayed.
     * "append": it continues the stream, with the next number.  "anew": the stream begins a new run
     * with step 0; readers that stay read what has come of the former run, and then the steps of
     * this one, whose flux_stream_epoch() is larger; not while a writer of the former run, or a
     * member of a group that stays, is there (EBUSY).  NULL: a writer that is restarted continues
     * the stream, which is one of the same job, or of no job as those before; but the steps of
     * another job are not continued (EEXIST). */
    const char *start;
};

/* The rank of this process among the `*size` processes that were started with it, as the launcher
 * says in the environment: that of flux (FLUX_TASK_RANK and FLUX_JOB_SIZE), of PMI (PMI_RANK and
 * PMI_SIZE) or of Open MPI (OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE), whichever is the first
 * of more than one process; else 0 of 1.  Thread rules: those of getenv(3).  0, or -1 with an error
 * message and EINVAL: the values are malformed. */
int flux_stream_rank(uint32_t *rank, uint32_t *size, errmsg_t *err);

/* Join a stream.  `name`: 1 to 128 bytes without blanks.  `opts` may be NULL.  NULL with an error
 * message and EEXIST (there is a writer of this rank, or another job has written the stream: see
 * `start`), EBUSY (it cannot begin anew), EINVAL (a bad name or option, or a transform
 * that cannot be loaded; also EPERM or an error of reading it), ETIMEDOUT
 * (not all writers, or readers, have come), EHOSTUNREACH (a writer cannot be reached from here),
 * EEXIST (the group has another key, or the team a reader of this rank), EINVAL (the group shares
 * the work by something else, or the team has another size or policy), EINTR, ENOSYS (the session
 * has no module `stream`), or another errno. */
flux_stream_t *flux_stream_open(flux_t *h, const char *name, enum flux_stream_mode mode,
                                const struct flux_stream_opts *opts, errmsg_t *err);
/* Close a stream.  Readers of a closed writer get the steps that it has ended, and then the end.
 * NULL-safe, keeps errno.  To be called before the handle is closed.  A writer first reports its
 * last step to the session, within at most 10 seconds; the next writer continues after that step.
 * Then it waits for readers on other hosts, until they have released all steps, or have neither
 * read nor released anything for 30 seconds; other readers are not notified of its end meanwhile,
 * and the stream may already have its next writer. */
void flux_stream_close(flux_stream_t *s);
/* Writer: the program has failed, so its steps do not end where they should.  flux_stream_close(),
 * which still has to be called, then says so: readers get the steps that were ended, and then an
 * error, ECONNRESET, as if the process had died, and readers that stay wait for the next writer.  A
 * process that ends without closing the stream needs no such call.  NULL-safe, keeps errno; no
 * effect on a reader. */
void flux_stream_fail(flux_stream_t *s);
/* Leave the stream: a reader, so that no writer waits for it; a writer as flux_stream_close() does.
 * Memory from flux_stream_get(), and that of flux_stream_at() if it is lasting, stays mapped, but
 * its bytes may change, until flux_stream_close(), the only function that may be called
 * afterwards.  For bindings to languages in which the end of the use of memory is not
 * known.  Keeps errno. */
void flux_stream_leave(flux_stream_t *s);

/* Turn all readers that have named this switch on or off, in all streams of the session, by an
 * event, stream.switch, which any program can publish.  0, or -1 with errno and an error
 * message. */
int flux_stream_switch(flux_t *h, const char *name, bool on, errmsg_t *err);

/* --- writing --- */

/* Add a variable to the step: `len` bytes at `data`, which flux_stream_end_step() reads, once; they
 * must not change until then.  `var`: 1 to 127 bytes of printable ASCII without blanks.  0, or -1
 * with an error message and EINVAL, EEXIST (the step has this variable already), E2BIG or
 * ENOMEM. */
int flux_stream_put(flux_stream_t *s, const char *var, const void *data, size_t len, errmsg_t *err);
/* An array, or a single value, of elements of a type. */
struct flux_stream_array {
    const char
        *type;      /* "i8" to "i64", "u8" to "u64", "f32", "f64", "c64", "c128" (complex), "bool",
                         "char", "bytes" (of one byte) */
    unsigned ndims; /* 0: one element; at most 16 */
    const uint64_t *shape;  /* extents of the global array that contains this piece; NULL: an array
                            * of this writer only */
    const uint64_t *offset; /* of the piece; NULL without `shape` */
    const uint64_t *count;  /* elements of the piece, or of the array */
    bool columns; /* the first dimension is the fastest, as in Fortran; else the last one */
    /* The elements are records of this format: structs as it says (`type` is not used).  NULL: they
     * are not. */
    const stream_format_t *format;
};
/* flux_stream_put() of elements without gaps in memory.  All writers describe an array in the same
 * way, except for their piece, and pieces must not overlap.  -1 with EINVAL also for a piece that
 * is not inside the array, and EEXIST for a second piece: a writer has one piece of a variable in a
 * step.  A process that has several opens the stream once for each of them, with ranks of their own
 * (`rank` and `size` of the options).
 *
 * Records without pointers are copied, or made in their place, like other elements.  Records with
 * pointers can be a value, or an array of this writer, but not a piece of a global array: that has
 * elements of one size, so that readers get boxes of it (-1 with EOPNOTSUPP).  Pointers are
 * followed when the step ends, unless nobody would see it.  What is wrong with them
 * (flux-stream-encode(3)) is then an error of flux_stream_end_step(), or flux_stream_place(), and
 * the step is forgotten.  The first time that a stream has records of a format, this sends the
 * format to the session and waits for the response: -1 also with EBUSY, if the session has no room
 * for it. */
int flux_stream_put_array(flux_stream_t *s, const char *var, const struct flux_stream_array *array,
                          const void *data, errmsg_t *err);
/* Keep the newest value of a variable for readers that come later: from now on, when a step has it,
 * its value is copied to memory of this writer once more, and readers find it in this step and in
 * each step after it (flux_stream_get(), flux_stream_inquire(), flux_stream_get_box()), as of that
 * step, without the step that it was put into.  What is kept ends with the writer: one that takes
 * its place pins its own variables.  `var` is copied; a variable is pinned until the stream is
 * closed, and pinning it again has no effect.  The values that are kept have at most 64 MiB, to be
 * seen in the column PINNED of `flux stream ls`; a step that would pass that fails with ENOSPC.
 * 0, or -1 with EINVAL (not a name of a variable, or a reader), E2BIG (4096 are pinned) or ENOMEM,
 * and an error message. */
int flux_stream_pin(flux_stream_t *s, const char *var, errmsg_t *err);
/* Writer: an attribute of a variable, or of the stream if `var` is NULL, such as "units": a text,
 * which is copied.  Readers find it in this step and all that follow, until it gets another value:
 * it is a pinned variable, "@VAR/NAME" or "@NAME", of `char`.  An attribute of a format of records
 * belongs to the format (flux-stream-format(3)).  0, or -1 with an error message and the errors of
 * flux_stream_put_array() and flux_stream_pin(); EEXIST if it has a value in this step already. */
int flux_stream_put_attr(flux_stream_t *s, const char *var, const char *name, const char *value,
                         errmsg_t *err);
/* Values that are made in their place are not copied: put with `data` NULL reserves room.  When all
 * variables are put, flux_stream_place() lays out the step, which waits like flux_stream_end_step()
 * and copies the values that have data.  Then flux_stream_at() says where to write a variable
 * (NULL: there is no such variable, or no place yet), and flux_stream_end_step() publishes.  0, or
 * -1 with the errors of flux_stream_end_step(), or EINVAL (it was done before), and an error
 * message. */
int flux_stream_place(flux_stream_t *s, double timeout, errmsg_t *err);
void *flux_stream_at(flux_stream_t *s, const char *var);
/* Does the memory of flux_stream_at() stay mapped until flux_stream_close()?  What transforms are
 * to make a step of is freed by flux_stream_end_step(). */
bool flux_stream_lasting(const flux_stream_t *s);

/* Describe the variables, in a text for people and readers (`flux stream format`).  0, or -1 with
 * an error message. */
int flux_stream_define(flux_stream_t *s, const char *format, errmsg_t *err);
/* Wait until there are at least `readers`, for at most `timeout` seconds (< 0: no limit).  Members
 * of a team count when all of them are there.  0, or -1 with an error message and ETIMEDOUT or
 * EINVAL. */
int flux_stream_wait_readers(flux_stream_t *s, uint32_t readers, double timeout, errmsg_t *err);
/* Writer: would any reader see the step, or is it kept?  If not, a program need not compute it. */
bool flux_stream_wanted(const flux_stream_t *s);
/* Writer: let the next step have at least this number, at most 2^53 - 1; the numbers before it are
 * left out.  All writers of the stream do the same.  Also reports to the session, and hears from
 * it, as the end of a step does, for programs that end no step for long.  0, or -1 with an error
 * message and EINVAL (a variable was put, or a step is pending) or ECANCELED (the stream was
 * removed). */
int flux_stream_skip(flux_stream_t *s, uint64_t step, errmsg_t *err);
/* Add all variables that a writer has put into the step that `from` has begun, which must not be
 * ended before that of `to`.  What this writer has pinned is pinned in `to` as well, and its value
 * is added if it is not the one that is kept there, since steps of `from` were passed over.  0, or
 * -1 with the errors of flux_stream_put() and flux_stream_get(). */
int flux_stream_put_all(flux_stream_t *to, flux_stream_t *from, uint32_t writer, errmsg_t *err);

/* Add one variable of a writer like this. */
int flux_stream_put_from(flux_stream_t *to, flux_stream_t *from, uint32_t writer, const char *var,
                         errmsg_t *err);

/* Writer: publish the step.  Waits, at most `timeout` seconds (< 0: any), for readers that block;
 * after ETIMEDOUT it may be called again.  Copies the variables; does nothing if nobody would see
 * the step.  Reader: release the step, of which no pointer may be used any longer.  0, or -1 with
 * an error message and ECANCELED (the stream was removed), ETIMEDOUT, ENOSPC (the step is larger
 * than what is left of the addresses of the stream, or its pinned variables are too large), ENOMEM
 * or EINVAL (a reader without a step, or a variable without data).  After ECANCELED, ENOSPC and
 * ENOMEM the variables are forgotten: put those of a step that may fit. */
int flux_stream_end_step(flux_stream_t *s, double timeout, errmsg_t *err);
/* Writer: the same without waiting.  1: the step is published.  0: it will be, by a thread of the
 * stream, when the stream is not paused and readers have room; all that was put is copied, so that
 * the program can go on at once, and put the variables of the next step.  One step may be pending
 * (else -1 with EBUSY), and whatever ends, or places, the next one waits for it.  -1 with the other
 * errors of flux_stream_end_step(), too. */
int flux_stream_end_step_async(flux_stream_t *s, errmsg_t *err);
/* Writer: wait until the step that is pending is published, at most `timeout` seconds (< 0: any); 0
 * at once if there is none.  -1 with an error message and ETIMEDOUT, or the error with which the
 * step was lost; if another call has waited for it, that call fails with this error, and its own
 * step is given up as well.  A program with a loop of its own waits for flux_stream_pollfd(), and
 * calls this with a timeout of 0; it goes on serving its handle, by which it learns that the stream
 * is paused, resumed or removed.  Closing the stream waits for the step at most 10 seconds, and
 * then gives it up. */
int flux_stream_wait_step(flux_stream_t *s, double timeout, errmsg_t *err);
/* Writer: leave out the step, whose number no step has then: what was put is forgotten.  So a
 * program that must not wait drops a step for which readers have no room (ETIMEDOUT of
 * flux_stream_end_step() with a timeout of 0).  Readers of several writers pass over a step that
 * not all of them have.  0, or -1 with an error message and EINVAL (a reader) or ECANCELED (the
 * stream was removed). */
int flux_stream_drop_step(flux_stream_t *s, errmsg_t *err);
/* Writer: wait until members of groups have ended all steps that were given to groups, at most
 * `timeout` seconds (< 0: no limit).  When the stream is closed, waiting steps are given to members
 * at once; a step that a member does not end afterwards is lost.  0, or -1 with an error message
 * and ETIMEDOUT or EINVAL. */
int flux_stream_drain(flux_stream_t *s, double timeout, errmsg_t *err);
/* Number of the step that a writer's next flux_stream_end_step() ends, or that a reader has begun.
 * That of the only writer of a stream may rise by more than 1 with flux_stream_end_step() and
 * flux_stream_wait_readers(), when a reader has joined that has had later steps of an earlier
 * writer. */
uint64_t flux_stream_step(const flux_stream_t *s);
/* Writer: why its transforms were detached: a sentence with step, file and line, which is also in
 * the log of the session.  NULL: they were not. */
const char *flux_stream_fault(const flux_stream_t *s);
/* How often the stream was begun, when a writer has joined, or by the step that a reader has: a
 * number that is 1 for the first writers, and rises when one of them is restarted, and takes its
 * rank again, or when writers come after all have left.  Writers that are restarted when all have
 * ended have one epoch; the epoch of a step is the largest one of its writers, and never falls from
 * step to step.  It begins with 1 again when the last process, of either side, has left the stream.
 * 0: a reader that has begun no step, or a file. */
uint64_t flux_stream_epoch(const flux_stream_t *s);

/* --- reading --- */

/* The step for flux_stream_begin_step(); any other value is the number of a step. */
#define FLUX_STREAM_NEXT UINT64_MAX
#define FLUX_STREAM_NEWEST (UINT64_MAX - 1)

/* Begin a step that all writers have ended.  Earlier ones that wait are released.  Waits at most
 * `timeout` seconds (< 0: any).  1 with its number in *step (which may be NULL); 0 at the end of
 * the stream: its writers have closed it, or, for a reader that stays, it was removed; -1 with an
 * error message and ETIMEDOUT, ENOENT (the step of this number cannot come any more, because this
 * reader has begun a later one, or a writer has ended a later one without it, which is reported at
 * once; or it was dropped by a transform), ENOTRECOVERABLE (a transform has failed: in which step
 * and line; this reader has left the stream, and can only be closed), ECONNRESET (a writer has died
 * or failed: which one, in which step and how, as far as the session knows it 2 seconds later),
 * ESTALE (this reader was evicted), EINVAL (the last step was not ended, or a member of a group
 * asks for another one than the next) or EPROTO.  In a group, numbers fall when a step is given
 * again. */
int flux_stream_begin_step(flux_stream_t *s, uint64_t which, double timeout, uint64_t *step,
                           errmsg_t *err);
/* For programs with a loop of their own: a descriptor that becomes readable when
 * flux_stream_begin_step() may go on, to be asked for each time that this has found no step with a
 * timeout of 0.  Of a writer it becomes readable when the step of flux_stream_end_step_async() is
 * published, or lost; it is another one for each step.  It belongs to the stream.  -1 with an error
 * message and EAGAIN (it may go on now, or no step is pending), EINVAL (a file, or a reader that
 * has begun a step, or that stays) or another errno. */
int flux_stream_pollfd(flux_stream_t *s, errmsg_t *err);
/* Number of writers; their ranks are below this number.  If the reader stays, it may be another one
 * after flux_stream_begin_step(). */
uint32_t flux_stream_writers(const flux_stream_t *s);
/* Name of the i-th variable that a writer put into the step; NULL beyond the last one. */
const char *flux_stream_var(flux_stream_t *s, uint32_t writer, size_t i);
/* Name of the i-th variable that a writer has pinned by this step; NULL: there are not as many.
 * These are found like those of the step, which come first. */
const char *flux_stream_pinned(flux_stream_t *s, uint32_t writer, size_t i);
/* The bytes of a variable of a writer, where the writer has put them, aligned to 64 bytes;
 * read-only, and constant until flux_stream_end_step().  Of a writer on another host they are sent
 * now, if they are not here yet, and ECONNRESET means that it has ended before.  0, or -1 with
 * ENOENT, EINVAL or ECONNRESET and an error message. */
int flux_stream_get(flux_stream_t *s, uint32_t writer, const char *var, const void **data,
                    size_t *len, errmsg_t *err);

/* An attribute, as of the step that was begun: that of a writer has `*len` bytes at *value, without
 * a NUL, valid until flux_stream_end_step(); with FLUX_STREAM_ALL that of the first writer that has
 * it.  If no writer has put it, the one of the format of the records of `var`, or of a field of
 * them, such as "atoms.at.x".  0, or -1 with an error message and ENOENT, EINVAL (not a text, which
 * other languages can put: get the variable "@VAR/NAME"; or no step was begun), or the errors of
 * flux_stream_get().  All of them are found among flux_stream_var() and flux_stream_pinned(), and
 * in the format. */
int flux_stream_attr(flux_stream_t *s, uint32_t writer, const char *var, const char *name,
                     const char **value, size_t *len, errmsg_t *err);

/* Has a transform of this reader put the variable of this name into the step?  Its memory is that
 * of the transform, and freed some time after flux_stream_end_step(), not only by
 * flux_stream_close(). */
bool flux_stream_derived(const flux_stream_t *s, const char *var);

#define FLUX_STREAM_DIMS_MAX 16
struct flux_stream_info {
    const char *type; /* as in struct flux_stream_array, or "record" */
    size_t elem;      /* bytes of an element; of a record, without what it points to */
    uint64_t format;  /* id of the format of records; else 0 */
    bool swapped;     /* records are in the other byte order than that of this host */
    bool global;
    bool columns;
    unsigned ndims;
    uint64_t shape[FLUX_STREAM_DIMS_MAX];  /* of the global array, or of the array of the writer */
    uint64_t offset[FLUX_STREAM_DIMS_MAX]; /* of the writer's piece; 0 */
    uint64_t count[FLUX_STREAM_DIMS_MAX];
};
/* Describe a variable of the step: the piece of a writer, whose elements flux_stream_get() finds;
 * or with FLUX_STREAM_ALL a whole global array.  0, or -1 with an error message and ENOENT, EINVAL
 * (FLUX_STREAM_ALL for a variable that is not global, or a variable of bytes without description),
 * EPROTO (writers do not agree, or their pieces overlap) or ENOMEM. */
#define FLUX_STREAM_ALL UINT32_MAX
int flux_stream_inquire(flux_stream_t *s, uint32_t writer, const char *var,
                        struct flux_stream_info *info, errmsg_t *err);
/* Copy a box of a global array, from all writers that have parts of it, to `buf` of `size` bytes,
 * without gaps and in the array's order: in each dimension `count` elements at distances of
 * `stride`, from `start` on.  `start` and `count` NULL: the whole array; `stride` NULL: 1.  -1 with
 * an error message and the errors of flux_stream_inquire(), ERANGE (outside of the array), ENOBUFS
 * (`size` is too small), ENODATA (elements are in no piece; the others were copied), or ECONNRESET
 * (a writer on another host has ended before).  Writers on other hosts send only the elements of
 * the box. */
int flux_stream_get_box(flux_stream_t *s, const char *var, const uint64_t *start,
                        const uint64_t *count, const uint64_t *stride, void *buf, size_t size,
                        errmsg_t *err);

/* Several requests at once: schedule each, and perform them all.  Writers on other hosts are asked
 * for all parts that they have in one exchange, and send at the same time.  `writer`:
 * FLUX_STREAM_ALL for a box of a global array, as flux_stream_get_box() has it; or a rank, for the
 * piece of this writer, or its own array, in which case `start` and `count` are NULL, and the
 * strides count from its first element on.  `box` NULL: all of it.  `buf` belongs to the caller;
 * its elements are there when flux_stream_perform() has returned 0, and nothing is written to it
 * after that call, or after flux_stream_end_step(), which forgets what was not performed.
 *
 * flux_stream_schedule(): 0, or -1 with an error message and the errors of flux_stream_inquire(),
 * EINVAL, ERANGE, ENOBUFS (see flux_stream_get_box()), or E2BIG (4096 are scheduled); then it is
 * not scheduled.  flux_stream_perform(): 0, also without requests; or -1 with an error message and
 * the first error of any of them, after which none is scheduled: ENODATA, when all others were
 * copied, ECONNRESET, EPROTO or ENOMEM. */
struct flux_stream_box {
    const uint64_t *start;
    const uint64_t *count;
    const uint64_t *stride;
};
int flux_stream_schedule(flux_stream_t *s, const char *var, uint32_t writer,
                         const struct flux_stream_box *box, void *buf, size_t size, errmsg_t *err);
int flux_stream_perform(flux_stream_t *s, errmsg_t *err);

/* A box of a global array where its writer has put it, without a copy: the element (i, j, ...) is
 * `i * stride[0] + j * stride[1] + ...` bytes behind `data`; read-only, and constant until
 * flux_stream_end_step().  `box` NULL: the whole array.  1: there it is.  0: it is not in one
 * place, so flux_stream_get_box() copies it: several writers have parts of it, nobody has some of
 * it, its writer is on another host, it has records, or it is empty.  -1 with an error message and
 * the errors of flux_stream_inquire(), EINVAL, or ERANGE. */
struct flux_stream_view {
    const void *data;
    size_t stride[FLUX_STREAM_DIMS_MAX];
};
int flux_stream_view_box(flux_stream_t *s, const char *var, const struct flux_stream_box *box,
                         struct flux_stream_view *view, errmsg_t *err);

/* The format in which the writers have put the records of a variable.  A reader that sees the id of
 * a format for the first time asks the session for it, once.  Valid until flux_stream_end_step(),
 * unless the caller takes a reference.  NULL with an error message and the errors of
 * flux_stream_inquire(), EINVAL (not records), ENODATA (the session does not know the format) or
 * EPROTO. */
const stream_format_t *flux_stream_format(flux_stream_t *s, const char *var, errmsg_t *err);
/* The records of a writer as `*n` structs of the format `f`, one after the other, which are valid
 * until flux_stream_end_step() and read-only.  If layouts and byte orders agree and there are no
 * pointers, these are the bytes where the writer has put them; otherwise they are converted, field
 * by field and by name: what is absent at the writer has its default, what only the writer has is
 * skipped.  0, or -1 with an error message and the errors of flux_stream_format() and
 * flux_stream_get(), EINVAL (a field that cannot be converted without loss: which one), or EPROTO
 * (the bytes are not records). */
int flux_stream_get_records(flux_stream_t *s, uint32_t writer, const char *var,
                            const stream_format_t *f, const void **recs, size_t *n, errmsg_t *err);
/* Which records of a variable of a writer this reader has to do: `*n` ranges of their indices,
 * rising and apart, which are valid until flux_stream_end_step().  A variable without description
 * counts as one record, and the elements of an array of numbers are its records.  If the reader
 * shares the work of a group by record, each record of a step is at one member, and there may be
 * none here; without a key these are those in one part, or a few, of all records of the writers,
 * one rank after the other; with a key this call reads the values of it in all records of the
 * variable.  For any other reader it is all of them.  0, or -1 with an error message and the errors
 * of flux_stream_get_records(), EINVAL (the variable does not have records, or `key` is a field of
 * another type) or ENOENT (the records do not have this field). */
struct flux_stream_range {
    uint64_t start;
    uint64_t count;
};
int flux_stream_mine(flux_stream_t *s, uint32_t writer, const char *var,
                     const struct flux_stream_range **ranges, size_t *n, errmsg_t *err);
/* flux_stream_get_box() of a global array of records, as structs of the format `f`, which has no
 * pointers.  -1 with the errors of both. */
int flux_stream_get_record_box(flux_stream_t *s, const char *var, const uint64_t *start,
                               const uint64_t *count, const uint64_t *stride,
                               const stream_format_t *f, void *buf, size_t size, errmsg_t *err);

/* --- recordings --- */

/* Read a file that `flux stream record` has written, as a reader, without a session.  Steps can be
 * begun in any order: FLUX_STREAM_NEXT is the step after the last one, FLUX_STREAM_NEWEST the last
 * step of the file, and no call waits.  The steps are those that were complete when the file was
 * opened; the file must not be truncated until it is closed.  NULL with an error message and EPROTO
 * (not a recording), ENOMEM or an error of open(2). */
flux_stream_t *flux_stream_open_file(const char *path, errmsg_t *err);
struct flux_stream_file {
    const char *name;   /* of the stream; valid until flux_stream_close() */
    const char *format; /* of flux_stream_define(); NULL: none */
    uint64_t steps;     /* in the file */
    bool complete;      /* false: the recording was interrupted, or is in progress */
};
/* Describe the file.  0, or -1 with EINVAL: the stream is not a file. */
int flux_stream_file(const flux_stream_t *s, struct flux_stream_file *info);
/* Number of the i-th step of the file, from 0 on, and the time of its recording, in seconds since
 * 1970. 0, or -1 with EINVAL (the stream is not a file) or ENOENT (beyond the last step). */
int flux_stream_file_step(const flux_stream_t *s, uint64_t i, uint64_t *step, double *time);

#endif
