/* rss FILE COMMAND [ARG]...
 *
 * Runs a command and writes its peak memory in KiB to FILE. A program of its own, and a small one, because the kernel
 * counts the memory of the process that was forked too, and std has no wait4. The peak is that of the largest single
 * process: the command's or one of its children that it has waited for. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: rss FILE COMMAND [ARG]...\n", stderr);
        return 125;
    }
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (pid < 0 || wait4(pid, &status, 0, &usage) < 0) {
        perror("rss");
        return 125;
    }
    FILE *file = fopen(argv[1], "w");
    if (file == NULL || fprintf(file, "%ld\n", usage.ru_maxrss) < 0 || fclose(file) != 0) {
        perror(argv[1]);
        return 125;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
