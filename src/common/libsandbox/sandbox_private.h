/* Declarations that the files of the sandbox share. */
#ifndef SANDBOX_SANDBOX_PRIVATE_H
#define SANDBOX_SANDBOX_PRIVATE_H

#include <stdbool.h>

#include "sandbox.h"

struct sandbox {
    lua_State *L;
    struct sandbox_limits limits;
    enum sandbox_kind kind;
    size_t memory;
    int64_t steps;  /* of the current call */
    double started; /* the thread's processor time at its start */
    char error[96];
};

/* Fill the globals; runs protected (sandbox_list.c). */
int sandbox_open_libs(lua_State *L);

/* string.find, match, gmatch, gsub with a bounded matcher (sandbox_pattern.c). */
int sandbox_find(lua_State *L);
int sandbox_match(lua_State *L);
int sandbox_gmatch(lua_State *L);
int sandbox_gsub(lua_State *L);

#endif
