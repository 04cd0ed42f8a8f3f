/* Typed descriptions of JSON objects: one table defines a message, for encoding and for strict
 * decoding.  Unknown, missing, duplicate or ill-typed fields are errors that name the field.
 *
 *    struct enter { const char *name; int count; };
 *    static const struct flux_field enter_fields[] = {
 *        FLUX_FIELD_STR(struct enter, name, FLUX_FIELD_REQUIRED),
 *        FLUX_FIELD_INT(struct enter, count, FLUX_FIELD_REQUIRED),
 *        FLUX_FIELD_END,
 *    };
 *    static const struct flux_schema enter_schema = FLUX_SCHEMA(struct enter, enter_fields);
 *
 * The macros check the member's type at compile time.
 * Thread rules: descriptions are constant; the functions may be used from any thread.
 */
#ifndef FLUX_SCHEMA_H
#define FLUX_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

enum flux_field_type {
    FLUX_T_STR = 1, /* const char *: borrowed */
    FLUX_T_INT,     /* int */
    FLUX_T_I64,     /* int64_t */
    FLUX_T_U32,     /* uint32_t */
    FLUX_T_U64,     /* uint64_t, at most INT64_MAX in JSON */
    FLUX_T_DOUBLE,  /* double: JSON real or integer */
    FLUX_T_BOOL,    /* bool */
    FLUX_T_JSON,    /* json_t *: any value, borrowed */
    FLUX_T_OBJECT,  /* json_t *: an object, borrowed */
    FLUX_T_ARRAY,   /* json_t *: an array, borrowed */
};

enum {
    FLUX_FIELD_REQUIRED = 0,
    FLUX_FIELD_OPTIONAL = 1, /* absent: the member keeps the value that the caller gave it */
};

struct flux_schema;

struct flux_field {
    const char *name;
    enum flux_field_type type;
    int flags;
    size_t offset;
    const struct flux_schema *of; /* ARRAY: schema of its elements; OBJECT: its own schema; NULL:
                                     not described */
};

struct flux_schema {
    const struct flux_field *fields; /* at most 64 */
};

/* clang-format off */
#define FLUX_FIELD_OF_(S, m, T, ctype, fl, desc)                                            \
    {                                                                                       \
        #m, T, fl,                                                                          \
        offsetof(S, m) +                                                                    \
            0 * sizeof(char[__builtin_types_compatible_p(__typeof__(((S *)0)->m), ctype)    \
                                ? 1 : -1]),                                                 \
        desc                                                                                \
    }
/* clang-format on */
#define FLUX_FIELD_(S, m, T, ctype, fl) FLUX_FIELD_OF_(S, m, T, ctype, fl, NULL)
#define FLUX_FIELD_STR(S, m, fl) FLUX_FIELD_(S, m, FLUX_T_STR, const char *, fl)
#define FLUX_FIELD_INT(S, m, fl) FLUX_FIELD_(S, m, FLUX_T_INT, int, fl)
#define FLUX_FIELD_I64(S, m, fl) FLUX_FIELD_(S, m, FLUX_T_I64, int64_t, fl)
#define FLUX_FIELD_U32(S, m, fl) FLUX_FIELD_(S, m, FLUX_T_U32, uint32_t, fl)
#define FLUX_FIELD_U64(S, m, fl) FLUX_FIELD_(S, m, FLUX_T_U64, uint64_t, fl)
#define FLUX_FIELD_DOUBLE(S, m, fl) FLUX_FIELD_(S, m, FLUX_T_DOUBLE, double, fl)
#define FLUX_FIELD_BOOL(S, m, fl) FLUX_FIELD_(S, m, FLUX_T_BOOL, bool, fl)
#define FLUX_FIELD_JSON(S, m, fl) FLUX_FIELD_(S, m, FLUX_T_JSON, json_t *, fl)
#define FLUX_FIELD_OBJECT(S, m, fl) FLUX_FIELD_(S, m, FLUX_T_OBJECT, json_t *, fl)
#define FLUX_FIELD_ARRAY(S, m, fl) FLUX_FIELD_(S, m, FLUX_T_ARRAY, json_t *, fl)
/* An array of objects that `desc` describes; decoding leaves the elements to the caller. */
#define FLUX_FIELD_ARRAY_OF(S, m, fl, desc) FLUX_FIELD_OF_(S, m, FLUX_T_ARRAY, json_t *, fl, desc)
#define FLUX_FIELD_END      \
    {                       \
        NULL, 0, 0, 0, NULL \
    }
#define FLUX_SCHEMA(S, f) \
    {                     \
        f                 \
    }

/* A message of a service: topic, payloads, meaning.  Each X_wire.c has a table of these, ended by
 * FLUX_METHOD_END, from which doc/protocol.rst is generated. */
struct flux_method {
    const char *topic;
    int flags;                          /* FLUX_METHOD_* */
    const struct flux_schema *request;  /* NULL: see `takes` */
    const struct flux_schema *response; /* NULL: see `gives` */
    const char *takes;                  /* the request's payload in words; NULL: none */
    const char *gives;                  /* the response's payload in words; NULL: none */
    const char *what;                   /* a description, in words */
};
#define FLUX_METHOD_END             \
    {                               \
        .topic = NULL, .what = NULL \
    }

enum {
    FLUX_METHOD_STREAM = 1,     /* any number of responses */
    FLUX_METHOD_NORESPONSE = 2, /* no response is sent */
    FLUX_METHOD_EVENT = 4,      /* an event; `request` describes its payload */
    FLUX_METHOD_INSTANCES = 8,  /* between instances of the service, not for clients */
};

/* Decode JSON text (an object).  Returns the parsed object, which owns the values to which `out`
 * points; call json_decref() after use.  NULL with EPROTO and an error message, or ENOMEM. */
json_t *flux_schema_decode(const struct flux_schema *desc, const char *json, size_t len, void *out,
                           errmsg_t *err);
/* The same from a parsed object (not taken over): 0 or -1. */
int flux_schema_decode_json(const struct flux_schema *desc, const json_t *obj, void *out,
                            errmsg_t *err);
/* Encode to compact JSON text, malloc'd.  An optional STR or JSON member that is NULL is omitted.
 * NULL with ENOMEM, or EINVAL for a required member that is NULL, a string that is not UTF-8, or a
 * number that JSON cannot represent. */
char *flux_schema_encode(const struct flux_schema *desc, const void *in);
json_t *flux_schema_encode_json(const struct flux_schema *desc, const void *in);

#endif
