/* check_fdutil.c - descriptors, files and directories; works in a private directory. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libutil/fdutil.h"
#include "libutil/test/put_file.h"
#include "libutil/test/suite.h"

static char *base;
static char path[4096];

static const char *in_base(const char *name)
{
    snprintf(path, sizeof(path), "%s/%s", base, name);
    return path;
}

/* What was synchronized last. */
static ino_t synced[32];
static size_t nsynced;
static int sync_errno;

int fsync(int fd)
{
    struct stat st;

    if (sync_errno) {
        errno = sync_errno;
        return -1;
    }
    if (fstat(fd, &st) == 0)
        synced[nsynced++ % 32] = st.st_ino;
    return (int)syscall(SYS_fsync, fd);
}

static bool was_synced(const char *dir)
{
    struct stat st;
    bool found = false;

    ck_assert_int_eq(stat(dir, &st), 0);
    for (size_t i = 0; i < nsynced && i < 32; i++)
        found = found || synced[i] == st.st_ino;
    return found;
}

static void setup(void)
{
    base = dir_create_runtime("check-fdutil", NULL);
    ck_assert_ptr_nonnull(base);
}

static void teardown(void)
{
    ck_assert_int_eq(dir_remove_tree(base), 0);
    ck_assert_int_eq(access(base, F_OK), -1);
    free(base);
}

#define BIG (1 << 20)

static void *writer(void *arg)
{
    int fd = *(int *)arg;
    char *data = malloc(BIG);

    memset(data, 'x', BIG);
    ck_assert_int_eq(fd_write_all(fd, data, BIG), 0);
    close(fd);
    free(data);
    return NULL;
}

/* Both ends non-blocking and far more data than a pipe holds. */
START_TEST(pipe_through)
{
    int fds[2];
    pthread_t thread;
    char *data;
    size_t len;

    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(fd_set_nonblock(fds[0], 1), 0);
    ck_assert_int_eq(fd_set_nonblock(fds[1], 1), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, writer, &fds[1]), 0);
    ck_assert_int_eq(fd_read_all(fds[0], BIG, &data, &len), 0);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(len, BIG);
    ck_assert(data[0] == 'x' && data[BIG - 1] == 'x' && data[BIG] == '\0');
    free(data);
    close(fds[0]);
}
END_TEST

START_TEST(files)
{
    char *data = NULL;
    size_t len = 0;

    put_file(in_base("f"), "hello", 5, 0640);
    ck_assert_int_eq(file_read_all(path, 5, &data, &len), 0);
    ck_assert_uint_eq(len, 5);
    ck_assert_str_eq(data, "hello");
    free(data);
    ck_assert_int_eq(file_read_all(path, 4, &data, &len), -1);
    ck_assert_int_eq(errno, EFBIG);
    put_file(path, "", 0, 0600);
    ck_assert_int_eq(file_read_all(path, 0, &data, &len), 0);
    ck_assert_uint_eq(len, 0);
    free(data);
    ck_assert_int_eq(file_read_all(in_base("none"), 10, &data, &len), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(file_read_all(base, 10, &data, &len), -1);
    ck_assert_int_eq(errno, EISDIR);
    ck_assert_int_eq(unlink(in_base("f")), 0);
    ck_assert_int_eq(rmdir(base), 0);
    ck_assert_int_eq(mkdir(base, 0700), 0);
}
END_TEST

START_TEST(flags)
{
    int fds[2];

    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(fd_set_cloexec(fds[0], 1), 0);
    ck_assert_int_eq(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(fd_set_cloexec(fds[0], 0), 0);
    ck_assert_int_eq(fcntl(fds[0], F_GETFD), 0);
    ck_assert_int_eq(fd_set_nonblock(fds[0], 1), 0);
    ck_assert(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
    ck_assert_int_eq(fd_set_nonblock(fds[0], 0), 0);
    ck_assert(!(fcntl(fds[0], F_GETFL) & O_NONBLOCK));
    close(fds[0]);
    close(fds[1]);
    ck_assert_int_eq(fd_set_cloexec(-1, 1), -1);
    ck_assert_int_eq(errno, EBADF);
    ck_assert_int_eq(fd_set_nonblock(-1, 1), -1);
}
END_TEST

START_TEST(standard)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        /* 1 is there, the others are not. */
        char byte;
        close(0);
        close(2);
        fd_reserve_standard();
        bool ok = read(0, &byte, 1) < 0 && errno == EBADF && fcntl(1, F_GETFD) >= 0 &&
                  write(2, "x", 1) < 0 && errno == EBADF && dup(1) > 2;
        close(1);
        fd_reserve_standard();
        ok = ok && write(1, "x", 1) < 0 && errno == EBADF && dup(1) > 2;
        _exit(ok ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(runtime_dir)
{
    struct stat st;
    errmsg_t err = {""};
    char *dir;
    char longname[200];

    ck_assert_int_eq(stat(base, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0700);
    setenv("XDG_RUNTIME_DIR", base, 1);
    dir = dir_create_runtime("x", &err);
    ck_assert_ptr_nonnull(dir);
    ck_assert_mem_eq(dir, base, strlen(base));
    free(dir);
    /* A base that does not serve is passed over. */
    setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
    setenv("TMPDIR", base, 1);
    dir = dir_create_runtime("y", &err);
    ck_assert_ptr_nonnull(dir);
    ck_assert_mem_eq(dir, base, strlen(base));
    free(dir);
    ck_assert_ptr_null(dir_create_runtime("a/b", &err));
    ck_assert_int_eq(errno, EINVAL);
    memset(longname, 'n', sizeof(longname));
    longname[sizeof(longname) - 1] = '\0';
    ck_assert_ptr_null(dir_create_runtime(longname, &err));
    ck_assert_int_eq(errno, ENAMETOOLONG);
    ck_assert_uint_gt(strlen(err.text), 10);
}
END_TEST

START_TEST(parents)
{
    struct stat st;

    ck_assert_int_eq(dir_create_parents(in_base("a/b//c"), 0700), 0);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0700);
    ck_assert_int_eq(dir_create_parents(path, 0700), 0);
    put_file(in_base("a/f"), "", 0, 0600);
    ck_assert_int_eq(dir_create_parents(path, 0700), -1);
    ck_assert_int_eq(errno, ENOTDIR);
    ck_assert_int_eq(dir_create_parents(in_base("a/f/g"), 0700), -1);
}
END_TEST

/* A loss of power must not take the names of directories that something was made durable in. */
START_TEST(parents_durable)
{
    nsynced = 0;
    ck_assert_int_eq(dir_create_parents(in_base("d/e//f/"), 0700), 0);
    ck_assert(was_synced(base));
    ck_assert(was_synced(in_base("d")));
    ck_assert(was_synced(in_base("d/e")));
    ck_assert(was_synced(in_base("d/e/f")));
    nsynced = 0;
    ck_assert_int_eq(dir_create_parents(in_base("d/g"), 0700), 0);
    ck_assert(was_synced(in_base("d")));
    ck_assert(was_synced(base)); /* the creator of "d" may have failed before that */
    ck_assert_int_eq(chdir(base), 0);
    nsynced = 0;
    ck_assert_int_eq(dir_create_parents("h", 0700), 0);
    ck_assert(was_synced("h"));
    ck_assert(was_synced(base));
    ck_assert_int_eq(chdir("/"), 0);
    sync_errno = EIO;
    ck_assert_int_eq(dir_create_parents(in_base("i/j"), 0700), -1);
    ck_assert_int_eq(errno, EIO);
    /* They are there by now, but not durably: that is tried again. */
    ck_assert_int_eq(dir_create_parents(path, 0700), -1);
    ck_assert_int_eq(errno, EIO);
    sync_errno = 0;
    nsynced = 0;
    ck_assert_int_eq(dir_create_parents(path, 0700), 0);
    ck_assert(was_synced(path));
    ck_assert(was_synced(in_base("i")));
    ck_assert(was_synced(base));
    sync_errno = EINVAL; /* no file system for that */
    ck_assert_int_eq(dir_create_parents(in_base("k/l"), 0700), 0);
    sync_errno = 0;
}
END_TEST

/* The name of a file becomes durable with its directory. */
START_TEST(sync_dir_of_file)
{
    nsynced = 0;
    ck_assert_int_eq(file_sync_dir(in_base("file")), 0);
    ck_assert(was_synced(base));
    ck_assert(!was_synced("/"));
    nsynced = 0;
    ck_assert_int_eq(file_sync_dir("/file"), 0);
    ck_assert(was_synced("/"));
    nsynced = 0;
    ck_assert_int_eq(chdir(base), 0);
    ck_assert_int_eq(file_sync_dir("file"), 0);
    ck_assert(was_synced(base));
    ck_assert_int_eq(chdir("/"), 0);
    sync_errno = EINVAL; /* no file system for that */
    ck_assert_int_eq(file_sync_dir(in_base("file")), 0);
    sync_errno = EIO;
    ck_assert_int_eq(file_sync_dir(path), -1);
    ck_assert_int_eq(errno, EIO);
    sync_errno = 0;
    ck_assert_int_eq(file_sync_dir(in_base("none/file")), -1);
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

START_TEST(remove_tree)
{
    int fd;
    char keep[4096];

    /* Deep and broad, with a link to something outside that must survive. */
    ck_assert_int_eq(dir_create_parents(in_base("t/a/b/c/d"), 0700), 0);
    snprintf(keep, sizeof(keep), "%s/keep", base);
    ck_assert_int_eq(mkdir(keep, 0700), 0);
    put_file(in_base("keep/f"), "x", 1, 0600);
    ck_assert_int_eq(symlink(keep, in_base("t/a/link")), 0);
    for (int i = 0; i < 500; i++) {
        char name[32];

        snprintf(name, sizeof(name), "t/a/b/f%d", i);
        fd = open(in_base(name), O_CREAT | O_WRONLY, 0600);
        ck_assert_int_ge(fd, 0);
        close(fd);
    }
    ck_assert_int_eq(dir_remove_tree(in_base("t")), 0);
    ck_assert_int_eq(access(path, F_OK), -1);
    ck_assert_int_eq(access(in_base("keep/f"), F_OK), 0);
    ck_assert_int_eq(dir_remove_tree(path), 0); /* a file */
    ck_assert_int_eq(dir_remove_tree(path), 0); /* nothing: no error */
    ck_assert_int_eq(symlink(keep, in_base("link")), 0);
    ck_assert_int_eq(dir_remove_tree(path), 0); /* the link, not what it leads to */
    ck_assert_int_eq(access(keep, F_OK), 0);
}
END_TEST

/* Deeper than there are descriptors, with something to the side of the way at each level. */
START_TEST(remove_deep)
{
    int fd;

    ck_assert_int_eq(mkdir(in_base("deep"), 0700), 0);
    fd = open(path, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 1500; i++) {
        int next;
        int beside = openat(fd, "file", O_WRONLY | O_CREAT, 0600);

        ck_assert_int_ge(beside, 0);
        close(beside);
        ck_assert_int_eq(mkdirat(fd, ".deep-1", 0700), 0);

        ck_assert_int_eq(mkdirat(fd, "d", 0700), 0);
        next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
        close(fd);
        fd = next;
    }
    close(fd);
    ck_assert_int_eq(dir_remove_tree(path), 0);
    ck_assert_int_lt(access(path, F_OK), 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, pipe_through);
    tcase_add_test(tc, files);
    tcase_add_test(tc, flags);
    tcase_add_test(tc, standard);
    tcase_add_test(tc, runtime_dir);
    tcase_add_test(tc, parents);
    tcase_add_test(tc, parents_durable);
    tcase_add_test(tc, sync_dir_of_file);
    tcase_add_test(tc, remove_tree);
    tcase_add_test(tc, remove_deep);
    return run_case("fdutil", tc);
}
