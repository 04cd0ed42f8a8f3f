/* Spawning: what arrives in the child, and what comes back when it cannot start. */
#include <check.h>
#include <errno.h>
#include <sched.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libsubprocess/process.h"
#include "libsubprocess/proctree.h"
#include "libutil/fdutil.h"
#include "libutil/test/suite.h"

static char *const env_min[] = {(char *)"PATH=/usr/bin:/bin", (char *)"COLOR=blue", NULL};

/* Run `sh -c script`, gather standard output, return the status. */
static int shell(const char *script, struct process_params *pp, char *out, size_t size)
{
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
    errmsg_t err;
    process_t *p;
    char *text;
    size_t len;
    int status = -1;

    pp->spawn.path = "/bin/sh";
    pp->spawn.argv = argv;
    pp->spawn.envp = env_min;
    pp->pipes |= PROCESS_STDOUT;
    p = process_create(pp, &err);
    ck_assert_msg(p != NULL, "%s", err.text);
    ck_assert_int_eq(fd_read_all(process_fd(p, 1), 1 << 20, &text, &len), 0);
    snprintf(out, size, "%s", text);
    free(text);
    while (process_reap(p, &status) == 0)
        ;
    process_destroy(p);
    return status;
}

START_TEST(environment_and_directory)
{
    struct process_params pp = {.spawn.cwd = "/usr"};
    char out[256];

    ck_assert_int_eq(shell("echo $COLOR $(pwd)", &pp, out, sizeof(out)), 0);
    ck_assert_str_eq(out, "blue /usr\n");
}
END_TEST

START_TEST(exit_codes)
{
    struct process_params pp = {0};
    char out[256], text[128];
    int status;

    status = shell("exit 3", &pp, out, sizeof(out));
    ck_assert_int_eq(spawn_status_to_code(status), 3);
    ck_assert_str_eq(spawn_status_text(status, text, sizeof(text)), "exit code 3");
    status = shell("kill -SEGV $$", &pp, out, sizeof(out));
    ck_assert_int_eq(spawn_status_to_code(status), 128 + SIGSEGV);
    ck_assert_ptr_nonnull(strstr(spawn_status_text(status, text, sizeof(text)), "signal 11"));
    ck_assert_int_eq(spawn_errno_to_code(ENOENT), 127);
    ck_assert_int_eq(spawn_errno_to_code(EACCES), 126);
}
END_TEST

START_TEST(only_listed_descriptors)
{
    struct process_params pp = {0};
    char out[256];
    int leak = open("/dev/null", O_RDONLY); /* without close-on-exec */
    int high = fcntl(leak, F_DUPFD, 200);
    struct spawn_fd map[] = {{leak, 0}, {leak, 2}, {leak, 5}};

    ck_assert_int_ge(high, 200);
    pp.spawn.fds = map;
    pp.spawn.nfds = 3;
    ck_assert_int_eq(shell("exec ls /proc/self/fd", &pp, out, sizeof(out)), 0);
    /* One more is that of ls itself. */
    ck_assert_str_eq(out, "0\n1\n2\n3\n5\n");
    close(leak);
    close(high);
}
END_TEST

START_TEST(crossed_descriptors)
{
    struct process_params pp = {0};
    char out[256];
    int a[2], b[2];

    ck_assert_int_eq(pipe2(a, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(b, O_CLOEXEC), 0);
    ck_assert_int_eq(write(a[1], "a\n", 2), 2);
    ck_assert_int_eq(write(b[1], "b\n", 2), 2);
    struct spawn_fd map[] = {{a[0], b[0]}, {b[0], a[0]}};

    pp.spawn.fds = map;
    pp.spawn.nfds = 2;
    char script[128];

    snprintf(script, sizeof(script), "read x <&%d; read y <&%d; echo $x$y", b[0], a[0]);
    ck_assert_int_eq(shell(script, &pp, out, sizeof(out)), 0);
    ck_assert_str_eq(out, "ab\n");
    for (int i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
}
END_TEST

START_TEST(signals_are_reset)
{
    struct process_params pp = {0};
    char out[256];
    sigset_t set;

    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    ck_assert_int_eq(
        shell("grep -E 'Sig(Blk|Ign)' /proc/self/status | cut -f2 | uniq", &pp, out, sizeof(out)),
        0);
    ck_assert_str_eq(out, "0000000000000000\n");
    /* And the caller's mask is as it was. */
    sigprocmask(SIG_BLOCK, NULL, &set);
    ck_assert(sigismember(&set, SIGUSR1));
    ck_assert(!sigismember(&set, SIGTERM));
}
END_TEST

START_TEST(own_group_and_session)
{
    struct process_params pp = {.spawn.flags = SPAWN_PGRP};
    char out[256];
    int pid, group, session;

    ck_assert_int_eq(
        shell("set -- $(cut -d' ' -f1,5,6 /proc/$$/stat); echo $*", &pp, out, sizeof(out)), 0);
    ck_assert_int_eq(sscanf(out, "%d %d %d", &pid, &group, &session), 3);
    ck_assert_int_eq(pid, group);
    ck_assert_int_eq(session, getsid(0));
}
END_TEST

START_TEST(failures_have_reasons)
{
    char *argv[] = {(char *)"x", NULL};
    struct spawn_params sp = {.argv = argv, .envp = env_min};
    char dir[] = "/tmp/check_spawn.XXXXXX", file[64];
    errmsg_t err;
    int fd;

    sp.path = "/no/such/program";
    ck_assert_int_eq(spawn_process(&sp, &err), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "/no/such/program"));

    sp.path = "/etc/passwd";
    ck_assert_int_eq(spawn_process(&sp, &err), -1);
    ck_assert_int_eq(errno, EACCES);

    sp.path = "/bin/true";
    sp.cwd = "/no/such/dir";
    ck_assert_int_eq(spawn_process(&sp, &err), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "working directory '/no/such/dir'"));
    sp.cwd = NULL;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(file, sizeof(file), "%s/script", dir);
    fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    ck_assert_int_eq(write(fd, "#!/no/interpreter\n", 18), 18);
    close(fd);
    sp.path = file;
    ck_assert_int_eq(spawn_process(&sp, &err), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "interpreter"));

    /* No zombie is left by any of these. */
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);

    /* A script without an interpreter line goes to the shell. */
    fd = open(file, O_WRONLY | O_TRUNC | O_CLOEXEC);
    ck_assert_int_eq(write(fd, "exit 7\n", 7), 7);
    close(fd);
    int status, pid = spawn_process(&sp, &err);

    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(spawn_status_to_code(status), 7);
    unlink(file);
    rmdir(dir);
    sp.argv = argv + 1;
    ck_assert_int_eq(spawn_process(&sp, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
}
END_TEST

/* 0 and what it ended with, or -1 as spawn_process(). */
static int search(const char *name, const char *path, const char *cwd, char **found, errmsg_t *err)
{
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)"exit 3", NULL}, *envp[] = {NULL};
    bool lost = false;
    struct spawn_params sp = {.path = name,
                              .search = path,
                              .cwd = cwd,
                              .argv = argv,
                              .envp = envp,
                              .found = found,
                              .lost = &lost};
    int status, pid = spawn_process(&sp, err), errnum = errno;

    ck_assert(lost == (pid < 0));
    errno = errnum;
    if (pid < 0)
        return -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(spawn_status_to_code(status), 3);
    return 0;
}

START_TEST(find_program)
{
    errmsg_t err;
    char *file;

    ck_assert_int_eq(search("sh", "/no/such:/usr/bin:/bin", NULL, &file, &err), 0);
    ck_assert_str_eq(file, "/usr/bin/sh");
    free(file);
    ck_assert_int_eq(search("sh", "no:bin", "/usr", &file, &err), 0);
    ck_assert_str_eq(file, "bin/sh");
    free(file);
    ck_assert_int_eq(search("sh", "no:", "/usr/bin", &file, &err), 0);
    ck_assert_str_eq(file, "./sh");
    free(file);
    ck_assert_int_eq(search("bin/sh", SPAWN_DEFAULT_PATH, "/usr", &file, &err), 0);
    ck_assert_str_eq(file, "bin/sh");
    free(file);
    ck_assert_int_eq(search("no-such-thing", SPAWN_DEFAULT_PATH, NULL, &file, &err), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_ptr_null(file);
    ck_assert_str_eq(err.text, "cannot run 'no-such-thing': no such program in PATH");
    ck_assert_int_eq(search("passwd", "/no:/etc:/no", NULL, &file, &err), -1);
    ck_assert_int_eq(errno, EACCES);
    ck_assert_int_eq(search("/usr", "", NULL, &file, &err), -1);
    ck_assert_int_eq(errno, EACCES);
}
END_TEST

/* The child opens them, from its directory, with its umask, and without waiting for a reader. */
START_TEST(files)
{
    char dir[] = "/tmp/check_spawn.XXXXXX", file[64], fifo[64], text[16] = "";
    char *argv[] = {(char *)"sh", (char *)"-c",
                    (char *)"read a; echo $a; ls /proc/self/fd >&2; exit 4", NULL};
    char *envp[] = {(char *)"PATH=/usr/bin:/bin", NULL};
    struct spawn_file f[3] = {{"in", "in", O_RDONLY, 0},
                              {"out", "out", O_WRONLY | O_CREAT | O_TRUNC, 1},
                              {"err", "err", O_WRONLY | O_CREAT | O_APPEND, 2}};
    struct spawn_params sp = {
        .path = "/bin/sh", .argv = argv, .envp = envp, .files = f, .nfiles = 3, .mask = 1 + 027};
    struct stat st;
    errmsg_t err;
    int status, pid, fd;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    sp.cwd = dir;
    snprintf(file, sizeof(file), "%s/in", dir);
    fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(fd, "hello\n", 6), 6);
    close(fd);
    ck_assert_int_gt(pid = spawn_process(&sp, &err), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(spawn_status_to_code(status), 4);
    unlink(file);
    snprintf(file, sizeof(file), "%s/out", dir);
    ck_assert_int_eq(stat(file, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0640);
    fd = open(file, O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(read(fd, text, sizeof(text)), 6);
    ck_assert_str_eq(text, "hello\n");
    close(fd);
    unlink(file);
    /* Nothing else is open: 3 is what ls reads. */
    snprintf(file, sizeof(file), "%s/err", dir);
    fd = open(file, O_RDONLY | O_CLOEXEC);
    memset(text, 0, sizeof(text));
    ck_assert_int_eq(read(fd, text, sizeof(text)), 8);
    ck_assert_str_eq(text, "0\n1\n2\n3\n");
    close(fd);
    unlink(file);

    snprintf(fifo, sizeof(fifo), "%s/out", dir);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    sp.files = f + 1;
    sp.nfiles = 1;
    ck_assert_int_eq(spawn_process(&sp, &err), -1);
    ck_assert_int_eq(errno, ENXIO);
    ck_assert_str_eq(err.text, "cannot open 'out': it has no reader");
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    unlink(fifo);
    rmdir(dir);
}
END_TEST

static int remember(pid_t pid, void *arg)
{
    *(pid_t *)arg = pid;
    return 1;
}

/* While a process becomes another program its environment is not there: EAGAIN. */
static int has_env(pid_t pid, const char *assignment)
{
    int rc;

    while ((rc = proctree_has_env(pid, assignment)) < 0 && errno == EAGAIN)
        sched_yield();
    return rc;
}

START_TEST(family)
{
    char *argv[] = {(char *)"sleep", (char *)"100", NULL};
    struct process_params pp = {
        .spawn = {.path = "/bin/sleep", .argv = argv, .envp = env_min, .pdeathsig = SIGKILL}};
    errmsg_t err;
    process_t *p = process_create(&pp, &err);
    pid_t seen = 0, pid = 0;
    struct timespec now;
    int status;

    ck_assert_msg(p != NULL, "%s", err.text);
    ck_assert_int_eq(proctree_children(remember, &pid), 1);
    ck_assert_int_eq(proctree_parent(pid), getpid());
    clock_gettime(CLOCK_BOOTTIME, &now);
    now.tv_sec++;
    ck_assert(proctree_older(pid, &now));
    ck_assert(!proctree_older(pid, &(struct timespec){.tv_sec = 0}));
    ck_assert(proctree_older(1, &now));
    ck_assert_int_eq(has_env(pid, "COLOR=blue"), 1);
    ck_assert_int_eq(has_env(pid, "COLOR=blu"), 0);
    ck_assert_int_eq(has_env(pid, "COLOR="), 1);
    ck_assert_int_eq(has_env(pid, "COLOU="), 0);
    ck_assert_int_eq(has_env(pid, "OLOUR=blue"), 0);
    ck_assert(!proctree_dead(pid));
    ck_assert_int_eq(process_reap(p, &status), 0);
    process_destroy(p);
    ck_assert(proctree_dead(pid));
    ck_assert_int_eq(proctree_parent(pid), -1);
    ck_assert(!proctree_older(pid, &now));
    ck_assert_int_eq(proctree_children(remember, &seen), 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("spawn");

    tcase_add_test(tc, environment_and_directory);
    tcase_add_test(tc, exit_codes);
    tcase_add_test(tc, only_listed_descriptors);
    tcase_add_test(tc, crossed_descriptors);
    tcase_add_test(tc, signals_are_reset);
    tcase_add_test(tc, own_group_and_session);
    tcase_add_test(tc, failures_have_reasons);
    tcase_add_test(tc, find_program);
    tcase_add_test(tc, files);
    tcase_add_test(tc, family);
    return run_case("spawn", tc);
}
