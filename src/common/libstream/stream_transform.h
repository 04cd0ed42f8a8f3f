/* Transforms of streams as shared objects: functions that compute steps from steps.
 *
 * A transform is a shared object that exports one table under the name `flux_transform`:
 *
 *    #include <flux/stream_transform.h>
 *    static int step(void *state, const struct flux_transform_step *st, char *text, size_t size)
 *    {
 *        struct flux_transform_array a;
 *        if (st->get(st, 0, "T", FLUX_TRANSFORM_ALL, &a) < 0)
 *            return -1;                                 the host reports the reason
 *        return st->put(st, "T", &a) < 0 ? -1 : 1;      1: publish, 0: drop the step
 *    }
 *    const struct flux_transform flux_transform = {FLUX_TRANSFORM_ABI, "same", NULL, step, NULL};
 *
 *    cc -shared -fPIC -o same.so same.c
 *    flux stream transform heat --out=same --so=./same.so
 *
 * A transform runs in a process of its own, as here, or in the programs that read or write a stream
 * (`transforms` in struct flux_stream_opts, flux/stream.h).  In a writer, its input is what that
 * writer has put.
 *
 * This header requires no other part of Flux.  All functions are called from one thread.
 */
#ifndef FLUX_STREAM_TRANSFORM_H
#define FLUX_STREAM_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FLUX_TRANSFORM_ABI 3
#define FLUX_TRANSFORM_DIMS 16
/* Rank of a variable: a whole global array, or the array of the only writer.  In a writer: what
 * that writer has put. */
#define FLUX_TRANSFORM_ALL UINT32_MAX

/* Elements without gaps in memory. */
struct flux_transform_array {
    const char
        *type;      /* "i8" to "i64", "u8" to "u64", "f32", "f64", "c64", "c128", "bool", "char", or
                * "bytes": without a description; "record": structs, see `format` */
    unsigned ndims; /* 0: one element */
    uint64_t count[FLUX_TRANSFORM_DIMS];
    bool columns; /* the first dimension is the fastest, as in Fortran; else the last one */
    const void *data;
    size_t size; /* bytes, without what structs point to; put() ignores it */
    /* In one of several writers: this is the piece of a global array.  An array that is put is such
     * a piece as well, or else an array of that writer alone; but anywhere else, where nobody has
     * another piece, each array that is put is a whole global array. */
    bool piece;
    uint64_t shape[FLUX_TRANSFORM_DIMS];
    uint64_t offset[FLUX_TRANSFORM_DIMS];
    /* The text of the format of records (flux-stream-format(3)).  The elements are structs of this
     * host, which may point to more: fields are nested, optional or of variable size as the format
     * says.  In a text that is put, what a C compiler decides may be left out:
     *
     *    struct atom { uint64_t id; uint32_t n; double *near; };
     *    a.format = "record atom\n field id u64\n field n u32\n field near f64[n]\n";
     *
     * Records with pointers cannot be pieces, and are no global arrays when they are put. */
    const char *format;
};

/* A step, valid during the call. */
struct flux_transform_step {
    uint64_t number; /* of the step of all inputs */
    unsigned inputs;
    /* Name of the i-th variable of an input (of its writer 0); NULL beyond the last one. */
    const char *(*name)(const struct flux_transform_step *st, unsigned input, size_t i);
    /* A variable of an input; its memory is read-only, and valid during the call.  With '.' and the
     * name of a field, that field of all records of a variable: a number, or an array of a fixed
     * shape.  Records come with all their fields, laid out for this host.  0, or -1: it does not
     * exist; why() has the error message. */
    int (*get)(const struct flux_transform_step *st, unsigned input, const char *var, uint32_t rank,
               struct flux_transform_array *out);
    /* The same of a variable of records, as structs of the format with this text: fields by name,
     * as a reader gets them that was compiled with its own version of the struct (a projection, if
     * there are less).  -1 also if there is no such conversion. */
    int (*get_records)(const struct flux_transform_step *st, unsigned input, const char *var,
                       uint32_t rank, const char *format, struct flux_transform_array *out);
    /* Add a variable to the result.  Its data, and what structs point to, must stay until the next
     * call for a step, or destroy(), and may be those of an input.  The text of a format is copied,
     * and parsed once.  0, or -1 as above. */
    int (*put)(const struct flux_transform_step *st, const char *var,
               const struct flux_transform_array *a);
    /* Let the result have a variable of the first input as it is, records too, or all variables
     * (`var` is NULL).  What is put under the name of one replaces it.  Without this, the result
     * has only what is put.  0, or -1 as above. */
    int (*keep)(const struct flux_transform_step *st, const char *var);
    /* The error message of a failed get(), put() or keep(). */
    const char *(*why)(const struct flux_transform_step *st);
};

struct flux_transform {
    int abi; /* FLUX_TRANSFORM_ABI */
    const char *name;
    /* Create a state, from the text after ':' in the name of the file (NULL: none); NULL with an
     * error message in `text` of `size` bytes.  The function may be NULL: then the state is
     * NULL. */
    void *(*create)(const char *arg, char *text, size_t size);
    /* Compute a step.  1: its variables are those that were put or kept; 0: drop the step; -1 with
     * an error message in `text`, or with an empty one after get(), put() or keep() has failed. */
    int (*step)(void *state, const struct flux_transform_step *st, char *text, size_t size);
    void (*destroy)(void *state); /* may be NULL */
};

#ifdef __cplusplus
}
#endif

#endif
