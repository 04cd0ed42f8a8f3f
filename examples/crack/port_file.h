/* port_file.h - the steps of a stream as files, to compare with. */
#ifndef CRACK_PORT_FILE_H
#define CRACK_PORT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct port_file port_file_t;

port_file_t *port_file_read(const char *dir, const char *stream);
port_file_t *port_file_write(const char *dir, const char *stream);
/* Read the files of the next step; false if there is none. */
bool port_file_next(port_file_t *f);
uint32_t port_file_writers(const port_file_t *f);
/* As port_get() and port_put(). */
size_t port_file_get(port_file_t *f, uint32_t writer, const char *var, const char *type,
                     uint64_t columns, const void **data, size_t *len);
void port_file_put(port_file_t *f, const char *var, const char *type, uint64_t rows,
                   uint64_t columns, const void *data);
/* Close the file of the step. */
void port_file_end(port_file_t *f);
void port_file_close(port_file_t *f);

#endif
