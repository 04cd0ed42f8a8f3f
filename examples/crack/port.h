/* port.h - what the stages of the pipeline have in common: they read a stream, and write another.
 *
 * Errors end the program with a sentence.  Arrays have one row for each atom, bond or number. */
#ifndef CRACK_PORT_H
#define CRACK_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct port port_t;

/* The task of its job, and how many that has: 0 of 1 outside of a job. */
struct stage {
    const char *name;
    uint32_t rank;
    uint32_t size;
};
extern struct stage stage;
void stage_init(const char *name);
_Noreturn void stage_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* An option of a stage: --NAME=NUMBER, at least `min`, or --NAME if there is a flag. */
struct stage_option {
    const char *name; /* NULL: the end of the table */
    double min;
    double *value;
    bool *flag;
};
/* Read the options; a usage error ends the program with exit code 2. */
void stage_options(int argc, char *argv[], const struct stage_option *options);
void *stage_alloc(void *old, size_t count, size_t size);

/* Read a stream; with `onoff`, only while this switch is on. */
port_t *port_read(const char *stream, const char *onoff);
/* Write a stream as the task that this is, when `readers` are there. */
port_t *port_write(const char *stream, uint32_t readers);
/* Begin the next step; false at the end of the stream. */
bool port_next(port_t *p);
uint32_t port_writers(const port_t *p);
/* Rows of an array of a writer; its elements must be of this type, and this many in a row. */
size_t port_get(port_t *p, uint32_t writer, const char *var, const char *type, uint64_t columns,
                const void **data);
void port_put(port_t *p, const char *var, const char *type, uint64_t rows, uint64_t columns,
              const void *data);
/* Publish the step, or release it. */
void port_end(port_t *p);
/* Turn a switch. */
void port_switch(port_t *p, const char *onoff, bool on);
/* Close both ends, and print how long the stage has waited, computed and written. */
void port_finish(port_t *in, port_t *out);

#endif
