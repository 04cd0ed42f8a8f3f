/* What transform_lua.c and transform_records.c share. */
#ifndef TRANSFORM_PRIVATE_H
#define TRANSFORM_PRIVATE_H

#include <lua.h>

#include "libsandbox/sandbox.h"
#include "libstream/stream_transform.h"
#include "libtransform/tarray.h"

struct script {
    sandbox_t *sb;
    lua_State *L;                         /* of `sb` */
    const struct flux_transform_step *st; /* NULL: no step is being computed */
    uint64_t epoch;                       /* of the step */
    unsigned formats;                     /* and conversions, which are kept */
};

struct script *transform_lua_script(lua_State *L);
/* The array at `arg`; raises an error if it is none, or of an earlier step. */
const struct tarray *transform_lua_array(lua_State *L, int arg);
/* Push a table of numbers. */
void transform_lua_numbers(lua_State *L, const uint64_t *n, unsigned ndims);

/* Let files use records.  Runs protected. */
void transform_records_open(lua_State *L);
/* Push records of an input, which are valid until the step ends. */
void transform_records_push(lua_State *L, const struct flux_transform_array *a);
/* Are there records at `arg`?  Then describe them. */
bool transform_records_get(lua_State *L, int arg, struct flux_transform_array *out);

#endif
