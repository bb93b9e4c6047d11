/* The least an open-model client can do: one thread, epoll, one absolute timer. Prints the p99.9 of the time between
 * the moment at which a request was due and the moment at which its answer had been read, in milliseconds.
 *
 *     bare_client PORT RATE CONNECTIONS SECONDS
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static const char REQUEST[] = "GET / HTTP/1.1\r\nHost: bare\r\n\r\n";

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static int open_connection(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int yes = 1, socket_fd = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket_fd, (struct sockaddr *)&address, sizeof address)) { perror("connect"); exit(1); }
    setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return socket_fd;
}

int main(int count, char **words) {
    if (count != 5) return 2;
    int port = atoi(words[1]), rate = atoi(words[2]), connections = atoi(words[3]), total = rate * atoi(words[4]);
    int64_t *due = calloc(connections, sizeof *due), *took = calloc(total, sizeof *took), step = 1000000000LL / rate;
    int *sockets = calloc(connections, sizeof *sockets), *idle = calloc(connections, sizeof *idle);
    int idles = 0, sent = 0, done = 0, poller = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = -1}, events[64];
    epoll_ctl(poller, EPOLL_CTL_ADD, timer, &event);
    for (int one = 0; one < connections; one++) {
        sockets[one] = open_connection(port);
        event.data.fd = one;
        epoll_ctl(poller, EPOLL_CTL_ADD, sockets[one], &event);
        idle[idles++] = one;
    }
    int64_t start = now() + 10000000;
    char buffer[4096];
    while (done < total) {
        while (sent < total && idles > 0 && start + sent * step <= now()) {
            int one = idle[--idles];
            due[one] = start + sent++ * step;
            if (write(sockets[one], REQUEST, sizeof REQUEST - 1) < 0) { perror("write"); return 1; }
        }
        int64_t next = start + sent * step;
        struct itimerspec alarm = {.it_value = {next / 1000000000LL, next % 1000000000LL}};
        if (sent == total || idles == 0) memset(&alarm, 0, sizeof alarm);
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &alarm, NULL);
        int ready = epoll_wait(poller, events, 64, -1);
        for (int at = 0; at < ready; at++) {
            int one = events[at].data.fd;
            if (one < 0) { uint64_t ticks; if (read(timer, &ticks, sizeof ticks) < 0) continue; continue; }
            if (read(sockets[one], buffer, sizeof buffer) <= 0) { fprintf(stderr, "closed\n"); return 1; }
            took[done++] = now() - due[one];
            idle[idles++] = one;
        }
    }
    qsort(took, total, sizeof *took, by_size);
    printf("%f\n", took[(int)((total - 1) * 0.999)] / 1e6);
    return 0;
}
