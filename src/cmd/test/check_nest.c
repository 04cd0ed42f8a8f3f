/* check_nest.c - directives of batch scripts, addresses of sessions, frames of terminals, the screen
 * of flux top. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/test/suite.h"
#include "src/cmd/batchscript.h"
#include "src/cmd/nesturi.h"
#include "src/cmd/ptyframe.h"
#include "src/cmd/topview.h"

/* Expect the directives `want` as "LINE:TEXT|LINE:TEXT", "!" in front of late ones. */
static void expect(const char *script, const char *want)
{
    struct batchscript s;
    struct batch_directive d;
    char got[1000] = "";
    size_t n = 0;

    batchscript_init(&s, script, strlen(script));
    while (batchscript_next(&s, &d))
        n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%s%zu:%.*s", n ? "|" : "",
                              d.late ? "!" : "", d.line, (int)d.len, d.text);
    ck_assert_str_eq(got, want);
}

START_TEST(shell)
{
    expect("", "");
    expect("\n\n", "");
    expect("#!/bin/sh\n#FLUX: -N4\n", "2:-N4");
    expect("#!/bin/sh\n\n# hello\n# FLUX: -N4 --time-limit=1h \n  #FLUX:--name=x\r\necho\n",
           "4:-N4 --time-limit=1h|5:--name=x");
    expect("#FLUX:", "1:");
    expect("### FLUX: -n2", "1:-n2");
    expect("#flux: -N4\n#FLUX -N4\n# see FLUX: -N4\n#xFLUX: -N3\n", "");
    expect("#!/bin/sh\n#FLUX: -N1\necho hi\n#FLUX: -N2\n", "2:-N1|!4:-N2");
    expect("echo '\n#FLUX: -N2\n'", "!2:-N2");
    expect("FLUX: -N4\n", "");
}
END_TEST

START_TEST(languages)
{
    expect("-- FLUX: -N1\n--FLUX: -N2\nprint(1)", "1:-N1|2:-N2");
    expect("//FLUX: -N1\n// FLUX: -N2", "1:-N1|2:-N2");
    expect("% FLUX: -N1\n;; FLUX: -N2\n", "1:-N1|2:-N2");
    expect("@echo off\nREM FLUX: -N1", "!2:-N1");
    expect("REM FLUX: -N1\nrem FLUX: -N2\nREMOTE FLUX: -N3\ndnl FLUX: -N4", "1:-N1|2:-N2|!4:-N4");
    expect("/* FLUX: -N1 */\n/*\n * FLUX: -N2\n FLUX: -N3 */\nint x; /* FLUX: -N4 */",
           "1:-N1|3:-N2|4:-N3");
    expect("\"\"\"A program.\n\nFLUX: -N2\n\"\"\"\n# FLUX: -n3\nimport sys\nFLUX: -N9\n",
           "3:-N2|5:-n3");
    expect("'''FLUX: -N2'''\n#FLUX: -n1\n", "1:-N2|2:-n1");
    expect("--[[\nFLUX: -N2\n]]\n-- FLUX: -n1\n", "2:-N2|4:-n1");
    expect("=begin\nFLUX: -N2\n=end\nputs 1\n", "2:-N2");
    expect("<!-- FLUX: -N2 -->\n<!--\n FLUX: -N3\n-->", "1:-N2|3:-N3");
    expect("{- FLUX: -N1 -}\n(* FLUX: -N2 *)\n", "1:-N1|2:-N2");
    expect("/* never ends\n FLUX: -N1\nx\n", "2:-N1");
}
END_TEST

START_TEST(text)
{
    ck_assert_uint_eq(batchscript_bad_line("", 0), 0);
    ck_assert_uint_eq(batchscript_bad_line("a\nb\xc3\xa4\n", 6), 0);
    ck_assert_uint_eq(batchscript_bad_line("a\nb\xff\n", 5), 2);
    ck_assert(batchscript_dos("#!/bin/sh\r\n", 11));
    ck_assert(!batchscript_dos("#!/bin/sh\n\r\n", 12));
    ck_assert(!batchscript_dos("echo\r\n", 6));
    ck_assert(!batchscript_dos("#!/bin/sh\r", 10));
    ck_assert_uint_eq(batchscript_bad_line("a\nb\n\0", 5), 3);
    ck_assert_uint_eq(batchscript_bad_line("\x7f"
                                           "ELF\0",
                                           5),
                      1);
}
END_TEST

START_TEST(addresses)
{
    static const char *const wrong[] = {
        "",
        "flux://",
        "flux://h",
        "flux://h/",
        "flux://h/p",
        "flux://h/p?rank=",
        "flux://h/p?rank=-1",
        "flux://h/p?rank=1x",
        "flux:///p?rank=1",
        "flux://h/?rank=1",
        "local:///p?rank=1",
        "flux://h/p?rank=1&x=2",
    };
    struct nesturi u;
    errmsg_t err;
    char longer[400];

    ck_assert_int_eq(nesturi_parse("flux://node7/tmp/f-x/0/local?rank=12", &u, &err), 0);
    ck_assert_str_eq(u.host, "node7");
    ck_assert_str_eq(u.path, "/tmp/f-x/0/local");
    ck_assert_uint_eq(u.rank, 12);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        err.text[0] = '\0';
        ck_assert_int_eq(nesturi_parse(wrong[i], &u, &err), -1);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert(err.text[0] != '\0');
    }
    snprintf(longer, sizeof(longer), "flux://h/%0110d?rank=1", 1);
    ck_assert_int_eq(nesturi_parse(longer, &u, &err), -1);
    snprintf(longer, sizeof(longer), "flux://%0256d/p?rank=1", 1);
    ck_assert_int_eq(nesturi_parse(longer, &u, &err), -1);
}
END_TEST

START_TEST(paths)
{
    static const char *const wrong[] = {
        "",       "0", "/", "1/", "/1", "1//2", "a", "1/b", "-1", "1.2", "99999999999999999999",
        "1/2/3/4"};
    uint64_t ids[3];
    errmsg_t err;

    ck_assert_int_eq(nesturi_path("7", ids, 3, &err), 1);
    ck_assert_uint_eq(ids[0], 7);
    ck_assert_int_eq(nesturi_path("3/1/20", ids, 3, &err), 3);
    ck_assert_uint_eq(ids[2], 20);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ck_assert_int_eq(nesturi_path(wrong[i], ids, 3, &err), -1);
}
END_TEST

START_TEST(frames)
{
    static const char *const wrong[] = {"\0\0\0\0",   "\4\0\0\0", "\1\1\0\0",
                                        "\1\0\1\100", "\2\0\3\0", "\3\0\1\0"};
    uint8_t buf[64];
    struct ptyframe f;
    errmsg_t err;
    size_t n = 0;

    ptyframe_data(buf, 3);
    memcpy(buf + PTYFRAME_HEAD, "abc", 3);
    n = PTYFRAME_HEAD + 3;
    n += ptyframe_size(buf + n, 24, 300);
    n += ptyframe_hup(buf + n);
    for (size_t len = 0; len < PTYFRAME_HEAD + 3; len++)
        ck_assert_int_eq(ptyframe_parse(buf, len, &f, &err), 0);
    ck_assert_int_eq(ptyframe_parse(buf, n, &f, &err), 7);
    ck_assert_int_eq(f.type, PTYFRAME_DATA);
    ck_assert_uint_eq(f.len, 3);
    ck_assert_mem_eq(f.data, "abc", 3);
    ck_assert_int_eq(ptyframe_parse(buf + 7, n - 7, &f, &err), 8);
    ck_assert_int_eq(f.type, PTYFRAME_SIZE);
    ck_assert_uint_eq(f.rows, 24);
    ck_assert_uint_eq(f.cols, 300);
    ck_assert_int_eq(ptyframe_parse(buf + 15, n - 15, &f, &err), 4);
    ck_assert_int_eq(f.type, PTYFRAME_HUP);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ck_assert_int_eq(ptyframe_parse(wrong[i], 4, &f, &err), -1);
        ck_assert_int_eq(errno, EPROTO);
    }
}
END_TEST

START_TEST(times)
{
    char buf[16];

    ck_assert_str_eq(topview_time(0, buf, sizeof(buf)), "0:00");
    ck_assert_str_eq(topview_time(-5, buf, sizeof(buf)), "0:00");
    ck_assert_str_eq(topview_time(59.9, buf, sizeof(buf)), "0:59");
    ck_assert_str_eq(topview_time(3599, buf, sizeof(buf)), "59:59");
    ck_assert_str_eq(topview_time(3661, buf, sizeof(buf)), "1:01:01");
    ck_assert_str_eq(topview_time(100 * 3600, buf, sizeof(buf)), "4d04h");
}
END_TEST

static struct topline screen_lines[100];

/* The line that has `text` in it, or -1. */
static int find(size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++) {
        if (strstr(screen_lines[i].text, text))
            return (int)i;
    }
    return -1;
}

START_TEST(screen)
{
    struct toprow rows[30] = {0};
    struct topmodel m = {.size = 4,
                         .known = true,
                         .accepting = true,
                         .scheduling = true,
                         .nodes_total = 4,
                         .nodes_used = 2,
                         .cores_total = 64,
                         .cores_used = 3,
                         .run = 2,
                         .sched = 28,
                         .inactive = 7,
                         .rows = rows,
                         .nrows = 30,
                         .now = 1e9};
    size_t n;

    for (size_t i = 0; i < 30; i++) {
        rows[i].id = i + 100;
        snprintf(rows[i].name, sizeof(rows[i].name), "job%zu", i);
        strcpy(rows[i].state, i < 2 ? "RUN" : "SCHED");
        rows[i].t_run = i < 2 ? 1e9 - 65 : 0;
    }
    rows[0].session = true;
    rows[1].expiration = 1e9 + 3600;
    strcpy(rows[2].name, "bad\033[2Jname");
    strcpy(rows[2].why, "no nodes");
    n = topview_render(&m, screen_lines, 12, 80);
    ck_assert_uint_eq(n, 12);
    ck_assert_int_eq(find(n, "session, 4 brokers, level 0"), 0);
    ck_assert(strstr(screen_lines[1].text, "2 of 4 used"));
    ck_assert(strstr(screen_lines[2].text, "3 of 64 used"));
    ck_assert(strstr(screen_lines[3].text, "2 running, 28 pending, 7 ended"));
    ck_assert_int_eq(find(n, "100 > RUN"), 6);
    ck_assert_int_eq(screen_lines[6].style, TOP_SELECTED);
    ck_assert(strstr(screen_lines[7].text, "1:05   1:00:00  job1"));
    ck_assert(strstr(screen_lines[8].text, "bad?[2Jname: no nodes"));
    ck_assert(strstr(screen_lines[11].text, "q quit"));
    /* The selected row is always there. */
    m.selected = 29;
    n = topview_render(&m, screen_lines, 12, 80);
    ck_assert_int_eq(find(n, "129"), 10);
    ck_assert_int_eq(screen_lines[10].style, TOP_SELECTED);
    /* Any size. */
    for (size_t r = 0; r < 40; r++) {
        for (size_t c = 0; c < 600; c += 7) {
            n = topview_render(&m, screen_lines, r, c);
            ck_assert_uint_le(n, r ? r : 1);
            for (size_t i = 0; i < n; i++)
                ck_assert_uint_le(strlen(screen_lines[i].text), c ? c : 1);
        }
    }
    /* Nothing is known. */
    memset(&m, 0, sizeof(m));
    strcpy(m.message, "no service");
    n = topview_render(&m, screen_lines, 24, 80);
    ck_assert_int_eq(find(n, "no service"), (int)n - 1);
    ck_assert_int_eq(screen_lines[n - 1].style, TOP_ERROR);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, shell);
    tcase_add_test(tc, languages);
    tcase_add_test(tc, text);
    tcase_add_test(tc, addresses);
    tcase_add_test(tc, paths);
    tcase_add_test(tc, frames);
    tcase_add_test(tc, times);
    tcase_add_test(tc, screen);
    return run_case("nest", tc);
}
