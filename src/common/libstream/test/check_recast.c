/* check_recast.c - structs from one format to another in memory: what comes out, what is refused,
 * bounds, and lack of memory. */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libstream/recast.h"
#include "libutil/test/fail_at.h"
#include "libutil/test/suite.h"

struct atom {
    uint32_t id;
    uint32_t n;
    double *near;
    char *name;
    int32_t *charge;
};
static const char atom_text[] = "record atom\nfield id u32\nfield n u32\nfield near f64[n]\n"
                                "field name string\nfield charge i32 optional\n";
struct part {
    uint64_t id;
    char *name;
    float weight;
};
static const char part_text[] = "record part\nfield id u64\nfield name string\n"
                                "field weight f32\nattr default \"1.5\"\n";

static double near[] = {0.5, 1.5};
static int32_t charge = -1;
static const struct atom atoms[] = {{1, 2, near, (char *)"Cu", NULL},
                                    {2, 0, NULL, (char *)"Zn", &charge}};
static errmsg_t err;

static const stream_format_t *format(recast_t *r, const char *text)
{
    const stream_format_t *f = recast_format(r, text, &err);

    ck_assert_msg(f != NULL, "%s", err.text);
    return f;
}

START_TEST(projection)
{
    recast_t *r = recast_create();
    const stream_format_t *atom = format(r, atom_text), *part = format(r, part_text);
    const struct part *out;
    void *own;

    ck_assert_ptr_eq(recast_format(r, atom_text, &err), atom);
    ck_assert_int_eq(recast_structs(r, atom, part, atoms, 2, (const void **)&out, &own, &err), 0);
    ck_assert_ptr_eq(out, own);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(out[i].id, atoms[i].id);
        ck_assert_str_eq(out[i].name, atoms[i].name);
        ck_assert(out[i].weight == 1.5f);
    }
    free(own);
    /* Nothing is made of what is right already, or of nothing. */
    ck_assert_int_eq(recast_structs(r, atom, atom, atoms, 2, (const void **)&out, &own, &err), 0);
    ck_assert(own == NULL && (const void *)out == atoms);
    ck_assert_int_eq(recast_structs(r, atom, part, atoms, 0, (const void **)&out, &own, &err), 0);
    free(own);
    recast_destroy(r);
    recast_destroy(NULL);
}
END_TEST

START_TEST(refused)
{
    static const struct {
        const char *text;
        const char *why;
    } wrong[] = {
        {"", "no record"},
        {"record r\nfield x u65\n", "line 2"},
        {"flux-format 1 pointers 4\nrecord r size 4 align 4\nfield s string at 0\n",
         "not one of structs of this host"},
    };
    recast_t *r = recast_create();
    const stream_format_t *atom = format(r, atom_text);
    const stream_format_t *narrow = format(r, "record r\nfield id u8\n");
    const stream_format_t *part = format(r, part_text);
    const struct atom bad = {1, 1, NULL, (char *)"Cu", NULL};
    const void *out;
    void *own;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ck_assert_ptr_null(recast_format(r, wrong[i].text, &err));
        ck_assert_msg(errno == EINVAL && strstr(err.text, wrong[i].why), "%s", err.text);
    }
    ck_assert_int_eq(recast_structs(r, atom, narrow, atoms, 2, &out, &own, &err), -1);
    ck_assert_msg(errno == EINVAL && strstr(err.text, "field r.id is of type u8"), "%s", err.text);
    ck_assert_ptr_null(own);
    ck_assert_int_eq(recast_structs(r, atom, part, &bad, 1, &out, &own, &err), -1);
    ck_assert_msg(errno == EINVAL && strstr(err.text, "field atom.near is NULL"), "%s", err.text);
    ck_assert_ptr_null(own);
    recast_destroy(r);
}
END_TEST

/* A step has a bounded number of formats; they are forgotten between steps, and not before. */
START_TEST(bounded)
{
    recast_t *r = recast_create();
    const stream_format_t *first = format(r, atom_text);
    char text[100];
    int n = 1;

    for (;; n++) {
        snprintf(text, sizeof(text), "record r%d\nfield x u8\n", n);
        if (!recast_format(r, text, &err))
            break;
        recast_renew(r); /* there is room yet */
        ck_assert_ptr_eq(recast_format(r, atom_text, &err), first);
        if (n == 510)
            break;
    }
    ck_assert_int_eq(n, 510);
    ck_assert_ptr_nonnull(recast_format(r, "record last\nfield x u8\n", &err));
    ck_assert_ptr_null(recast_format(r, "record more\nfield x u8\n", &err));
    ck_assert_int_eq(errno, E2BIG);
    ck_assert_ptr_eq(recast_format(r, atom_text, &err), first);
    recast_renew(r);
    ck_assert_ptr_nonnull(recast_format(r, "record more\nfield x u8\n", &err));
    recast_destroy(r);
}
END_TEST

START_TEST(no_memory)
{
    bool all = false;

    for (unsigned k = 1; !all; k++) {
        const stream_format_t *atom = NULL, *part = NULL;
        const void *out;
        void *own = NULL;
        recast_t *r;
        int errnum;
        int rc = -1;

        fail_at = k;
        if ((r = recast_create()) && (atom = recast_format(r, atom_text, &err)) &&
            (part = recast_format(r, part_text, &err)))
            rc = recast_structs(r, atom, part, atoms, 2, &out, &own, &err);
        errnum = errno;
        all = stop_failing() > 0;
        ck_assert_msg(all ? rc == 0 : rc == -1 && errnum == ENOMEM, "%u: %s", k, strerror(errnum));
        free(own);
        recast_destroy(r);
    }
}
END_TEST

int main(void)
{
    RUN_SUITE("recast", projection, refused, bounded, no_memory);
}
