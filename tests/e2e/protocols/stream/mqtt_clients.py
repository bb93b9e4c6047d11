"""Clients of MQTT (paho-mqtt), driven line by line: `more COUNT` connects so many, `round` lets each publish to itself.

Answers `connected ALL` or `round MISSING LOST`: messages that did not come back, and connections that were lost so far.
"""

import select
import sys
import time

import paho.mqtt.client as mqtt

PORT, PATIENCE = int(sys.argv[1]), 60
clients, by_socket, waiting = [], {}, select.epoll()
lost, subscribed, got = set(), set(), set()


def add(number):
    name = f"client-{number}"
    client = mqtt.Client(client_id=name, protocol=mqtt.MQTTv311)
    client.on_connect = lambda client, *_: client.subscribe(f"to/{name}", qos=1)
    client.on_subscribe = lambda *_: subscribed.add(name)
    client.on_message = lambda _client, _data, message: got.add((name, message.payload))
    client.on_disconnect = lambda *_: lost.add(name)
    client.connect("127.0.0.1", PORT, keepalive=600)
    clients.append((name, client))
    by_socket[client.socket().fileno()] = client
    waiting.register(client.socket().fileno(), select.EPOLLIN)


def work(is_done):
    end = time.monotonic() + PATIENCE
    while not is_done() and time.monotonic() < end:
        for _, client in clients:
            if client.want_write():
                client.loop_write()
        for number, _ in waiting.poll(0.05):
            client = by_socket[number]
            client.loop_read()
            if client.socket() is None:
                # Closed: the number may be another one's next.
                del by_socket[number]


def main():
    rounds = 0
    for line in sys.stdin:
        words = line.split()
        if words[0] == "more":
            for _ in range(int(words[1])):
                add(len(clients))
                # The broker's queue is short.
                if len(clients) % 100 == 0:
                    work(lambda: len(subscribed) + len(lost) == len(clients))
            work(lambda: len(subscribed) + len(lost) == len(clients))
            print("connected", len(subscribed), flush=True)
        else:
            rounds += 1
            text = f"round {rounds}".encode()
            for name, client in clients:
                client.publish(f"to/{name}", text, qos=1)
            wanted = {(name, text) for name, _ in clients}
            work(lambda: wanted <= got)
            print("round", len(wanted - got), len(lost), flush=True)
            got.clear()


main()
