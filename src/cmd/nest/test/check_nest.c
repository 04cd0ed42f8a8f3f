/* check_nest.c - directives of batch scripts, addresses of sessions, frames of terminals, the
 * screen of flux top. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/test/suite.h"
#include "../batchscript.h"
#include "../nesturi.h"
#include "../ptyframe.h"
#include "../sbatch.h"
#include "../../top/topview.h"

/* Expect the directives `want` as "LINE:TEXT|LINE:TEXT", "!" in front of late ones, "S" and "?" of
 * those for Slurm and for others. */
static void expect(const char *script, const char *want)
{
    struct batchscript s;
    struct batch_directive d;
    char got[1000] = "";
    size_t n = 0;

    batchscript_init(&s, script, strlen(script));
    while (batchscript_next(&s, &d))
        n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%s%s%zu:%.*s", n ? "|" : "",
                              d.late ? "!" : "", (const char *[]){"", "S", "?"}[d.kind], d.line,
                              (int)d.len, d.text);
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
    expect("#flux: -N4\n# flux: -n2\n#FLUX -N4\n# flux --nodes=3\n#Flux: -c1\n",
           "1:-N4|2:-n2|3:-N4|4:--nodes=3|5:-c1");
    expect("# see FLUX: -N4\n#xFLUX: -N3\n# flux is here\n#flux\n# flux - a manager\n"
           "# Flux: a manager\n# flux -- that is it\n# fluxion -N4\n#FLUX-N4\n",
           "");
    expect("#SBATCH -N4\n#SBATCH\n##SBATCH -N1\n# SBATCH -N2\n#SBATCHX\n#PBS -l nodes=2\n"
           "#BSUB\t-n 3\n  #SBATCH\t--exclusive\ntrue\n#SBATCH -n1\n",
           "S1:-N4|S2:|?6:#PBS -l nodes=2|?7:#BSUB\t-n 3|S8:--exclusive|!S10:-n1");
    expect("#!/bin/sh\n#FLUX: -N1\necho hi\n#FLUX: -N2\n", "2:-N1|!4:-N2");
    expect("echo '\n#FLUX: -N2\n'", "!2:-N2");
    expect("FLUX: -N4\n", "");
}
END_TEST

/* Options of sbatch become `options`; `ignored` are named.  Lines are separated by newlines. */
static void slurm(const char *lines, const char *options, const char *ignored)
{
    strvec_t *each = strvec_split(lines, '\n');
    sbatch_t *s = sbatch_create();
    char *got;
    errmsg_t err;

    for (size_t i = 0; i < strvec_count(each); i++) {
        strvec_t *words = strvec_split(strvec_at(each, i), ' ');
        char **argv = calloc(strvec_count(words) + 2, sizeof(*argv));

        argv[0] = (char *)"#SBATCH";
        for (size_t k = 0; k < strvec_count(words); k++)
            argv[k + 1] = (char *)strvec_at(words, k);
        ck_assert_msg(sbatch_line(s, (int)strvec_count(words) + 1, argv, &err) == 0, "%s: %s",
                      lines, err.text);
        free(argv);
        strvec_destroy(words);
    }
    ck_assert_int_eq(sbatch_finish(s, &err), 0);
    got = strvec_join(sbatch_options(s), " ");
    ck_assert_str_eq(got, options);
    free(got);
    got = strvec_join(sbatch_ignored(s), "|");
    ck_assert_msg(strcmp(ignored, "*") == 0 ? strlen(got) > 10 : strcmp(got, ignored) == 0,
                  "%s: %s", lines, got);
    free(got);
    sbatch_destroy(s);
    strvec_destroy(each);
}

static void slurm_refused(char *word)
{
    char *argv[] = {(char *)"#SBATCH", word, NULL};
    sbatch_t *s = sbatch_create();
    errmsg_t err = {""};

    ck_assert_msg(sbatch_line(s, 2, argv, &err) == -1, "%s was taken", word);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_uint_gt(strlen(err.text), 10);
    sbatch_destroy(s);
}

START_TEST(sbatch)
{
    slurm("-N4\n-n 16 --time=1:30:00\n-J run",
          "--time-limit=1:30:00 --name=run --nodes=4 --ntasks=16", "");
    slurm("-N4\n--nodes=2", "--nodes=2", "");
    slurm("-N2-4", "--nodes=2", "--nodes=2-4: the job gets 2 nodes, not more");
    slurm("-N2-2", "--nodes=2", "");
    slurm("-t 0", "--time-limit=inf", "");
    slurm("-t30\n-c8", "--time-limit=30 --cores-per-task=8", "");
    slurm("--ntasks-per-node=4", "--nodes=1 --tasks-per-node=4", "");
    slurm("--ntasks-per-node=4 -N2", "--nodes=2 --tasks-per-node=4", "");
    slurm("--ntasks-per-node=4 -N2 -n8", "--nodes=2 --ntasks=8", "");
    slurm("-N4 -n2", "--nodes=2 --ntasks=2", "--nodes=4: 2 tasks use at most one node each");
    slurm("--exclusive", "--nodes=1 --exclusive", "");
    slurm("--exclusive -N3", "--nodes=3 --exclusive", "");
    slurm("-n9 --exclusive", "--ntasks=9", "--exclusive requires --nodes");
    slurm("-o out-%x.%j -e %A_%a", "--output=out-{{name}}.{{id}} --error={{id}}_{{cc}}", "");
    slurm("-o 100%%-%N", "--output=100%-%N", "--output=100%%-%N: '%N' is not replaced");
    slurm("--mem=8G", "--mem=8192M", "");
    slurm("--mem=1000", "--mem=1000M", "");
    slurm("--mem=8G -N2 -n8", "--nodes=2 --ntasks=8 --mem=2048M", "");
    slurm("--mem=8G -n8", "--ntasks=8", "*");
    slurm("--mem=0", "", "*");
    slurm("--mem-per-cpu=2G -c4 -n8", "--ntasks=8 --cores-per-task=4 --mem=8192M", "");
    slurm("--gres=gpu:a100:4 -N1 -n2", "--nodes=1 --ntasks=2 --gpus-per-task=2", "");
    slurm("--gpus-per-node=2", "--gpus-per-task=2", "");
    slurm("--gres=gpu:3 -N1 -n2", "--nodes=1 --ntasks=2", "*");
    slurm("--gres=tape:3", "", "*");
    slurm("--array=1-10", "--cc=1-10", "");
    slurm("-a 0-7:3,9,11-12%2", "--cc=0,3,6,9-9,11-12", "*");
    slurm("-d afterok:7:8,after:9",
          "--dependency=afterok:7 --dependency=afterok:8 --dependency=after:9", "");
    slurm("--begin=now+2hours", "--begin-time=now+7200s", "");
    slurm("--begin=now+90 -H", "--begin-time=now+90 --hold", "");
    slurm("-C a&b -w n[1-2] -D /x", "--requires=a,b --hosts=n[1-2] --chdir=/x", "");
    slurm("-C a|b", "", "*");
    slurm("--export=ALL,A=1", "--env=A=1", "");
    slurm("--export=NONE", "", "*");
    slurm("-p debug --mail-type=END -A me", "",
          "--partition: there is one queue|--mail-type: no mail is sent|--account: there are no "
          "accounts");
    slurm("--no-requeue -Q --wait", "--wait", "");
    slurm("--frobnicate=3 -y -N2 word", "--nodes=2",
          "--frobnicate=3: unknown|-y: unknown|word: not an option");
    slurm_refused((char *)"-Nmany");
    slurm_refused((char *)"--nodes");
    slurm_refused((char *)"-n0");
    slurm_refused((char *)"--mem=lots");
    slurm_refused((char *)"--array=9-1");
    slurm_refused((char *)"--array=");
    slurm_refused((char *)"--array=1-9x");
    slurm_refused((char *)"--dependency=singleton");
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
        strcpy(rows[i].state, i < 2 ? "running" : "pending");
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
    ck_assert_int_eq(find(n, "100 > running"), 6);
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
    tcase_add_test(tc, sbatch);
    tcase_add_test(tc, languages);
    tcase_add_test(tc, text);
    tcase_add_test(tc, addresses);
    tcase_add_test(tc, paths);
    tcase_add_test(tc, frames);
    tcase_add_test(tc, times);
    tcase_add_test(tc, screen);
    return run_case("nest", tc);
}
