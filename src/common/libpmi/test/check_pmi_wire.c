/* check_pmi_wire.c - lines that are accepted, lines that are not, and the way back. */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libpmi/pmi_wire.h"
#include "libutil/test/suite.h"

static int parse(const char *line, struct pmi_msg *m)
{
    return pmi_wire_parse(line, strlen(line), m);
}

static void check_field(const struct pmi_msg *m, const char *name, const char *want)
{
    struct pmi_slice s;

    ck_assert_msg(pmi_msg_get(m, name, &s), "%s is missing", name);
    ck_assert_msg(pmi_slice_eq(s, want), "%s is '%.*s', not '%s'", name, (int)s.len, s.p, want);
}

START_TEST(table)
{
    struct pmi_msg m;
    char line[64];

    for (int i = 0; i < PMI_CMD_COUNT; i++) {
        if (i > 0)
            ck_assert_int_lt(strcmp(pmi_cmd_name(i - 1), pmi_cmd_name(i)), 0);
        snprintf(line, sizeof(line), "cmd=%s", pmi_cmd_name(i));
        ck_assert_int_eq(parse(line, &m), 0);
        ck_assert_int_eq(m.cmd, i);
    }
    ck_assert_int_eq(pmi_cmd_response(PMI_CMD_GET), PMI_CMD_GET_RESULT);
    ck_assert_int_eq(pmi_cmd_response(PMI_CMD_ABORT), PMI_CMD_COUNT);
}
END_TEST

START_TEST(good)
{
    struct pmi_msg m;
    struct pmi_slice s;
    int n;

    ck_assert_int_eq(parse("cmd=put kvsname=kvs_1 key=-a/[1]-b value=x y=z  w ", &m), 0);
    ck_assert_int_eq(m.cmd, PMI_CMD_PUT);
    check_field(&m, "key", "-a/[1]-b");
    check_field(&m, "value", "x y=z  w ");
    ck_assert(!pmi_msg_get(&m, "y", &s));
    ck_assert_int_eq(parse("cmd=put kvsname=k key=a value=", &m), 0);
    check_field(&m, "value", "");
    ck_assert_int_eq(parse("cmd=init  pmi_version=1 pmi_subversion=-7 ", &m), 0);
    ck_assert_int_eq(pmi_msg_get_int(&m, "pmi_version", 0, 9, &n), 0);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(pmi_msg_get_int(&m, "pmi_subversion", -9, 9, &n), 0);
    ck_assert_int_eq(n, -7);
    ck_assert_int_eq(pmi_msg_get_int(&m, "pmi_subversion", 0, 9, &n), -1);
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_int_eq(pmi_msg_get_int(&m, "none", 0, 9, &n), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(parse("mcmd=spawn", &m), 0);
    ck_assert(m.block);
}
END_TEST

START_TEST(bad)
{
    static const char *const lines[] = {"",
                                        "cmd",
                                        "cmd=",
                                        " cmd=get",
                                        "get",
                                        "Cmd=get",
                                        "cmd=get x",
                                        "cmd=get =1",
                                        "cmd=get a=1 a=2",
                                        "cmd=get a=\001",
                                        "cmd=nonesuch",
                                        "cmd=get\tkey=a",
                                        "cmd=ge",
                                        "cmd=gett",
                                        "xcmd=get"};
    char nul[] = "cmd=get key=a\0b";
    char *big = malloc(PMI_WIRE_LINE_MAX + 1);
    char many[1024] = "cmd=get";
    struct pmi_msg m;

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        errno = 0;
        ck_assert_msg(parse(lines[i], &m) == -1, "accepted: '%s'", lines[i]);
        ck_assert(errno == EPROTO || errno == ENOSYS);
    }
    ck_assert_int_eq(pmi_wire_parse(nul, sizeof(nul) - 1, &m), -1);
    for (int i = 0; i <= PMI_WIRE_FIELDS_MAX; i++)
        snprintf(many + strlen(many), sizeof(many) - strlen(many), " f%d=1", i);
    ck_assert_int_eq(parse(many, &m), -1);
    ck_assert_int_eq(errno, E2BIG);
    memset(big, 'a', PMI_WIRE_LINE_MAX);
    memcpy(big, "cmd=put value=", 14);
    ck_assert_int_eq(pmi_wire_parse(big, PMI_WIRE_LINE_MAX, &m), -1);
    ck_assert_int_eq(errno, E2BIG);
    ck_assert_int_eq(pmi_wire_parse(big, PMI_WIRE_LINE_MAX - 1, &m), 0);
    free(big);
}
END_TEST

START_TEST(block)
{
    struct pmi_field f;

    ck_assert_int_eq(pmi_wire_parse_block("endcmd", 6, &f), 1);
    ck_assert_int_eq(pmi_wire_parse_block("arg1=-x y", 9, &f), 0);
    ck_assert(pmi_slice_eq(f.name, "arg1"));
    ck_assert(pmi_slice_eq(f.value, "-x y"));
    ck_assert_int_eq(pmi_wire_parse_block("", 0, &f), -1);
    ck_assert_int_eq(pmi_wire_parse_block("endcmd ", 7, &f), -1);
}
END_TEST

START_TEST(numbers)
{
    static const char *const wrong[] = {"", "-", "+1", "1x", " 1", "99999999999", "2147483648"};
    int n;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ck_assert_int_eq(
            pmi_slice_int((struct pmi_slice){wrong[i], strlen(wrong[i])}, INT32_MIN, INT32_MAX, &n),
            -1);
    ck_assert_int_eq(pmi_slice_int((struct pmi_slice){"-2147483648", 11}, INT32_MIN, 0, &n), 0);
    ck_assert_int_eq(n, INT32_MIN);
}
END_TEST

START_TEST(format)
{
    char mem[128];
    struct pmi_msg m;
    struct pmi_out o;

    pmi_out_init(&o, mem, sizeof(mem));
    pmi_out_cmd(&o, PMI_CMD_GET_RESULT);
    pmi_out_int(&o, "rc", -1);
    pmi_out_text(&o, "msg", "no such\nkey");
    pmi_out_str(&o, "value", "a b");
    pmi_out_end(&o);
    ck_assert(!o.bad);
    ck_assert_int_eq(pmi_wire_line(o.p, o.len), (ptrdiff_t)o.len - 1);
    ck_assert_int_eq(pmi_wire_parse(o.p, o.len - 1, &m), 0);
    check_field(&m, "msg", "no_such_key");
    check_field(&m, "value", "a b");
    for (size_t cap = 0; cap < o.len; cap++) {
        struct pmi_out p;
        char *small = malloc(cap + 1);

        pmi_out_init(&p, small, cap);
        pmi_out_cmd(&p, PMI_CMD_GET_RESULT);
        pmi_out_int(&p, "rc", -1);
        pmi_out_text(&p, "msg", "no such\nkey");
        pmi_out_str(&p, "value", "a b");
        pmi_out_end(&p);
        ck_assert(p.bad);
        free(small);
    }
}
END_TEST

int main(void)
{
    RUN_SUITE("pmi_wire", table, good, bad, block, numbers, format);
}
