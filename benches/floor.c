/* floor FILE COMMAND [ARG]...
 *
 * The yardstick of a first run: the least that any correct idem must do. A claim on disk before the command starts, the
 * command's output through a pipe (it has to be recorded), the end on disk before the exit. No key, no look-up, no lock,
 * no replay: what idem takes beyond this is the price of idem.
 *
 * Both writes go over bytes that are there already once FILE has been used, so that a sync has no file size to journal:
 * the cheapest sync there is. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, COPY = 65536 };

extern char **environ;

static void fail(const char *what)
{
    perror(what);
    exit(125);
}

static void record(int ledger, off_t at)
{
    static char page[PAGE];
    if (pwrite(ledger, page, PAGE, at) != PAGE)
        fail("write");
    if (fdatasync(ledger) != 0)
        fail("fdatasync");
}

static void put(const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(STDOUT_FILENO, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            fail("write");
        bytes += n;
        size -= (size_t)n;
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: floor FILE COMMAND [ARG]...\n", stderr);
        return 125;
    }
    int ledger = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (ledger < 0)
        fail(argv[1]);
    record(ledger, 0);

    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0)
        fail("pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    pid_t pid;
    errno = posix_spawnp(&pid, argv[2], &actions, NULL, argv + 2, environ);
    if (errno != 0)
        fail(argv[2]);
    close(out[1]);

    static char bytes[COPY];
    for (;;) {
        ssize_t n = read(out[0], bytes, COPY);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            fail("read");
        if (n == 0)
            break;
        put(bytes, (size_t)n);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            fail("wait");
    record(ledger, PAGE);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
