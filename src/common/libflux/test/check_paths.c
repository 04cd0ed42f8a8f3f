/* check_paths.c - where files are found: in a moved installation, in a build tree, by environment.
 *
 * The location of the program decides, so this program copies itself to such places and runs there
 * with --find.
 */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libflux/paths.h"
#include "libutil/fdutil.h"
#include "libutil/test/put_file.h"
#include "libutil/test/suite.h"

static char root[64];

/* --find KIND NAME: print what is found, or the error message. */
static int find(const char *kind, const char *name)
{
    errmsg_t err = {""};
    char *path = strcmp(kind, "exec") == 0     ? flux_path_exec(name, &err)
                 : strcmp(kind, "module") == 0 ? flux_path_module(name, &err)
                 : strcmp(kind, "man") == 0    ? flux_path_man(name, &err)
                 : strcmp(kind, "pmi") == 0    ? flux_path_libpmi(&err)
                                               : flux_path_bindir();

    if (path)
        puts(path);
    else
        printf("%d %s\n", errno, err.text);
    free(path);
    return path ? 0 : 1;
}

static void make_file(const char *fmt, const char *dir, int mode)
{
    char path[PATH_MAX];
    char parent[PATH_MAX];
    FILE *f;

    snprintf(path, sizeof(path), "%s%s%s", root, dir, fmt);
    strcpy(parent, path);
    *strrchr(parent, '/') = '\0';
    ck_assert_int_eq(dir_create_parents(parent, 0755), 0);
    ck_assert((f = fopen(path, "w")) != NULL);
    fclose(f);
    ck_assert_int_eq(chmod(path, (mode_t)mode), 0);
}

static void copy_self(const char *dir, const char *name)
{
    char path[PATH_MAX];
    char *data;
    size_t len;

    make_file(name, dir, 0755);
    snprintf(path, sizeof(path), "%s%s%s", root, dir, name);
    ck_assert_int_eq(file_read_all("/proc/self/exe", 1 << 28, &data, &len), 0);
    put_file(path, data, len, 0755);
    free(data);
}

/* Run DIR/NAME --find KIND WHAT and compare what it prints with ROOT + want (or a part of it). */
static void expect(const char *program, const char *env, const char *kind, const char *what,
                   const char *want)
{
    char cmd[2 * PATH_MAX];
    char line[4 * PATH_MAX] = "";
    char full[PATH_MAX];
    FILE *p;

    snprintf(cmd, sizeof(cmd), "%s %s%s --find %s %s", env, root, program, kind, what);
    ck_assert((p = popen(cmd, "r")) != NULL);
    ck_assert(fgets(line, sizeof(line), p) != NULL);
    pclose(p);
    line[strcspn(line, "\n")] = '\0';
    snprintf(full, sizeof(full), "%s%s", want[0] == '/' ? root : "", want);
    if (want[0] == '/')
        ck_assert_str_eq(line, full);
    else
        ck_assert_msg(strstr(line, want) != NULL, "'%s' is not in '%s'", want, line);
}

static void setup(void)
{
    strcpy(root, "/tmp/check-paths-XXXXXX");
    ck_assert(mkdtemp(root) != NULL);
}

static void teardown(void)
{
    ck_assert_int_eq(dir_remove_tree(root), 0);
}

/* What all configured directories have in common, as paths.c computes it, stays out of a moved
 * tree. */
static const char *tail(const char *dir)
{
    static const char *const all[] = {PATHS_BINDIR, PATHS_EXECDIR, PATHS_MODULEDIR, PATHS_PMIDIR,
                                      PATHS_MANDIR "/man1"};
    size_t len = 0;

    for (size_t i = 0; dir[i]; i++) {
        for (size_t j = 0; j < sizeof(all) / sizeof(all[0]); j++) {
            if (all[j][i] != dir[i])
                return dir + len;
        }
        if (dir[i] == '/')
            len = i;
    }
    return dir + len;
}

START_TEST(test_moved)
{
    char program[PATH_MAX];
    char want[PATH_MAX];

    copy_self(tail(PATHS_BINDIR), "/flux");
    make_file("/flux-x", tail(PATHS_EXECDIR), 0755);
    make_file("/flux-plain", tail(PATHS_EXECDIR), 0644);
    make_file("/m.so", tail(PATHS_MODULEDIR), 0644);
    make_file("/libpmi.so", tail(PATHS_PMIDIR), 0644);
    make_file("/man1/flux-x.1", tail(PATHS_MANDIR), 0644);
    snprintf(program, sizeof(program), "%s/flux", tail(PATHS_BINDIR));
    snprintf(want, sizeof(want), "%s/flux-x", tail(PATHS_EXECDIR));
    expect(program, "", "exec", "flux-x", want);
    expect(program, "", "exec", "flux", program);
    snprintf(want, sizeof(want), "%s/m.so", tail(PATHS_MODULEDIR));
    expect(program, "", "module", "m", want);
    snprintf(want, sizeof(want), "%s/libpmi.so", tail(PATHS_PMIDIR));
    expect(program, "", "pmi", "x", want);
    snprintf(want, sizeof(want), "%s/man1/flux-x.1", tail(PATHS_MANDIR));
    expect(program, "", "man", "flux-x", want);
    expect(program, "", "exec", "flux-plain", "flux-plain is not in");
    expect(program, "", "exec", "../etc/passwd", "is not a valid name");
    expect(program, "", "exec", "''", "is not a valid name");
    expect(program, "", "module", "missing", "missing.so is not in");
    expect(program, "", "module", "./missing.so", "No such file");

    /* The same from where the helpers are. */
    copy_self(tail(PATHS_EXECDIR), "/flux-broker");
    snprintf(program, sizeof(program), "%s/flux-broker", tail(PATHS_EXECDIR));
    snprintf(want, sizeof(want), "%s/m.so", tail(PATHS_MODULEDIR));
    expect(program, "", "module", "m", want);
}
END_TEST

START_TEST(test_build_tree)
{
    static const char *const places[] = {"/b/src/cmd/flux", "/b/src/broker/flux-broker",
                                         "/b/t/sim/deep/check"};

    make_file("/config.status", "/b", 0755);
    make_file("/flux-x", "/b/src/broker", 0755);
    make_file("/m.so", "/b/src/modules/.libs", 0644);
    make_file("/other.so", "/b/src/modules/other/.libs", 0644);
    make_file("/libpmi.so", "/b/src/common/libpmi/.libs", 0644);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        copy_self("", places[i]);
        expect(places[i], "", "exec", "flux-x", "/b/src/broker/flux-x");
        expect(places[i], "", "module", "m", "/b/src/modules/.libs/m.so");
        expect(places[i], "", "module", "other", "/b/src/modules/other/.libs/other.so");
        expect(places[i], "", "pmi", "x", "/b/src/common/libpmi/.libs/libpmi.so");
        expect(places[i], "", "bindir", "x", "/b/src/cmd");
    }
}
END_TEST

START_TEST(test_environment)
{
    char env[256];

    make_file("/config.status", "/b", 0755);
    copy_self("", "/b/src/broker/prog");
    make_file("/m.so", "/b/src/modules/.libs", 0644);
    make_file("/m.so", "/first", 0644);
    make_file("/flux-x", "/second", 0755);
    snprintf(env, sizeof(env), "FLUX_MODULE_PATH=/nonexistent:%s/first FLUX_EXEC_PATH=:%s/second",
             root, root);
    expect("/b/src/broker/prog", env, "module", "m", "/first/m.so");
    expect("/b/src/broker/prog", env, "exec", "flux-x", "/second/flux-x");
}
END_TEST

/* Somewhere else altogether: what was configured. */
START_TEST(test_elsewhere)
{
    copy_self("", "/x/prog");
    expect("/x/prog", "", "module", "no-such-module", &PATHS_MODULEDIR[1]);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tc;

    if (argc == 4 && strcmp(argv[1], "--find") == 0)
        return find(argv[2], argv[3]);
    tc = tcase_create("paths");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_moved);
    tcase_add_test(tc, test_build_tree);
    tcase_add_test(tc, test_environment);
    tcase_add_test(tc, test_elsewhere);
    return run_case("paths", tc);
}
