/* check_filetrust.c - which users can change a file: owner, mode, links, directories above.
 *
 * Files are given to another user if the test runs as root; otherwise only modes can be tested.
 */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libutil/fdutil.h"
#include "libutil/filetrust.h"
#include "libutil/test/put_file.h"
#include "libutil/test/suite.h"

#define STRANGER 54321 /* a user and a group that do not exist */

static char *base;

static const char *at(const char *name)
{
    static char path[8][PATH_MAX];
    static unsigned next;
    char *p = path[next++ % 8];

    snprintf(p, PATH_MAX, "%s/%s", base, name);
    return p;
}

static void make_file(const char *name, mode_t mode)
{
    put_file(at(name), "x", 1, mode);
    ck_assert_int_eq(chmod(at(name), mode), 0);
}

static void make_dir(const char *name, mode_t mode)
{
    ck_assert_int_eq(mkdir(at(name), mode), 0);
    ck_assert_int_eq(chmod(at(name), mode), 0);
}

static void trusted(const char *name)
{
    errmsg_t err = {""};

    ck_assert_msg(file_is_trusted(at(name), &err), "%s", err.text);
}

/* Refused, with an error message that contains this. */
static void refused(const char *name, int errnum, const char *text)
{
    errmsg_t err = {""};

    errno = 0;
    ck_assert(!file_is_trusted(at(name), &err));
    ck_assert_int_eq(errno, errnum);
    ck_assert_msg(strstr(err.text, text) != NULL, "%s", err.text);
    ck_assert(!file_is_trusted(at(name), NULL));
}

static void give(const char *name, uid_t uid, gid_t gid)
{
    ck_assert_int_eq(lchown(at(name), uid, gid), 0);
}

static void setup(void)
{
    base = dir_create_runtime("check-filetrust", NULL);
    ck_assert_ptr_nonnull(base);
}

static void teardown(void)
{
    ck_assert_int_eq(dir_remove_tree(base), 0);
    free(base);
}

START_TEST(modes)
{
    make_file("file", 0644);
    trusted("file");
    make_file("mine", 0600);
    trusted("mine");
    make_file("all", 0646);
    refused("all", EPERM, "everybody (mode 0646)");
    make_dir("dir", 0755);
    trusted("dir");
    make_dir("open", 0757);
    refused("open", EPERM, "everybody (mode 0757)");
    /* The sticky bit helps a directory that is passed through only. */
    make_dir("sticky", 01777);
    refused("sticky", EPERM, "everybody (mode 1777)");
    make_file("sticky/file", 0644);
    trusted("sticky/file");
    refused("none", ENOENT, "none");
    refused("file/none", ENOTDIR, "none");
}
END_TEST

START_TEST(parents)
{
    make_dir("a", 0755);
    make_dir("a/b", 0755);
    make_file("a/b/file", 0644);
    trusted("a/b/file");
    ck_assert_int_eq(chmod(at("a"), 0757), 0);
    refused("a/b/file", EPERM, "/a' can be changed by everybody");
    /* Not by way of dots either, though the way leads out of it again. */
    make_file("file", 0644);
    refused("a/b/../../file", EPERM, "/a' can be changed by everybody");
    ck_assert_int_eq(chmod(at("a"), 0755), 0);
    trusted("a/./b//../../file");
}
END_TEST

START_TEST(links)
{
    char relative[PATH_MAX];

    make_dir("good", 0755);
    make_file("good/file", 0644);
    make_dir("bad", 0757);
    make_file("bad/file", 0644);
    ck_assert_int_eq(symlink("good/file", at("link")), 0);
    trusted("link");
    ck_assert_int_eq(symlink(at("good"), at("absolute")), 0);
    trusted("absolute/file");
    ck_assert_int_eq(symlink("bad/file", at("to_bad")), 0);
    refused("to_bad", EPERM, "/bad' can be changed by everybody");
    /* A link that others can replace, to a file that they cannot change. */
    ck_assert_int_eq(symlink("../good/file", at("bad/link")), 0);
    refused("bad/link", EPERM, "/bad' can be changed by everybody");
    ck_assert_int_eq(symlink("loop", at("loop")), 0);
    refused("loop", ELOOP, "loop");
    ck_assert_int_eq(symlink("none", at("dangling")), 0);
    refused("dangling", ENOENT, "dangling");

    ck_assert_int_eq(chdir(at("good")), 0);
    ck_assert(file_is_trusted("file", NULL));
    snprintf(relative, sizeof(relative), "../bad/%s", "file");
    ck_assert(!file_is_trusted(relative, NULL));
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert(file_is_trusted("/", NULL));
    ck_assert(file_is_trusted(".", NULL));
}
END_TEST

START_TEST(owners)
{
    if (geteuid() != 0)
        return;
    make_file("file", 0644);
    give("file", STRANGER, 0);
    refused("file", EPERM, "belongs to user 54321, neither to user 0 nor to root");
    make_dir("dir", 0755);
    make_file("dir/file", 0644);
    give("dir", STRANGER, 0);
    refused("dir", EPERM, "belongs to user 54321");
    refused("dir/file", EPERM, "/dir' belongs to user 54321");
    make_dir("sticky", 01777);
    make_file("sticky/file", 0644);
    trusted("sticky/file");
    give("sticky/file", STRANGER, 0);
    refused("sticky/file", EPERM, "belongs to user 54321");
    ck_assert_int_eq(symlink("/etc/passwd", at("sticky/link")), 0);
    trusted("sticky/link");
    give("sticky/link", STRANGER, 0);
    refused("sticky/link", EPERM, "/sticky/link");
    /* A sticky directory protects its entries from everybody but its owner. */
    give("sticky", STRANGER, 0);
    make_file("sticky/other", 0644);
    refused("sticky/other", EPERM, "/sticky' belongs to user 54321");
}
END_TEST

START_TEST(groups)
{
    if (geteuid() != 0)
        return;
    make_file("file", 0664);
    give("file", 0, STRANGER);
    refused("file", EPERM, "group 54321 (mode 0664)");
    ck_assert_int_eq(chmod(at("file"), 0644), 0);
    trusted("file");
    make_dir("dir", 0775);
    make_file("dir/file", 0644);
    trusted("dir/file"); /* root's private group */
    give("dir", 0, STRANGER);
    refused("dir/file", EPERM, "/dir' can be changed by group 54321");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("filetrust");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, modes);
    tcase_add_test(tc, parents);
    tcase_add_test(tc, links);
    tcase_add_test(tc, owners);
    tcase_add_test(tc, groups);
    return run_case("filetrust", tc);
}
