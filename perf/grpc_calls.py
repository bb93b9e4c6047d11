#!/usr/bin/env python3
"""Makes gRPC calls of all four kinds through the gateway, with grpcio as client and server, and counts errors.

Needs grpcio (`pip install grpcio`). The gateway is the release binary; TIDEGATE_BIN names another. Prints a line per
kind and fails if a single call did not get what the server sent.
"""

import argparse
import os
import sys
import tempfile
import time
from concurrent import futures

import grpc

from harness import processes, tidegate

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SERVICE = "perf.Echo"
MESSAGES = 5


def same(message):
    return message


class Echo(grpc.GenericRpcHandler):
    """Sends back what came; `Fail` ends without a message, `Deadline` tells how much time it was given."""

    def service(self, details):
        kinds = {
            "Unary": grpc.unary_unary_rpc_method_handler(self.unary),
            "Client": grpc.stream_unary_rpc_method_handler(lambda stream, _: b"".join(stream)),
            "Server": grpc.unary_stream_rpc_method_handler(lambda message, _: iter([message] * MESSAGES)),
            "Both": grpc.stream_stream_rpc_method_handler(lambda stream, _: stream),
            "Fail": grpc.unary_unary_rpc_method_handler(self.fail),
            "Deadline": grpc.unary_unary_rpc_method_handler(
                lambda _, context: str(int(context.time_remaining())).encode()),
        }
        return kinds.get(details.method.rsplit("/", 1)[-1])

    @staticmethod
    def unary(message, context):
        context.set_trailing_metadata((("seen", str(len(message))),))
        return message

    @staticmethod
    def fail(_, context):
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "as asked")


def unary(channel):
    call = channel.unary_unary(f"/{SERVICE}/Unary", same, same)

    def one(number):
        message = b"m%d" % number * (1 + number % 50)
        answer, info = call.with_call(message, timeout=30)
        trailers = dict(info.trailing_metadata())
        return answer == message and trailers.get("seen") == str(len(message))
    return one


def client(channel):
    call = channel.stream_unary(f"/{SERVICE}/Client", same, same)

    def one(number):
        parts = [b"%d-%d " % (number, part) for part in range(MESSAGES)]
        return call(iter(parts), timeout=30) == b"".join(parts)
    return one


def server(channel):
    call = channel.unary_stream(f"/{SERVICE}/Server", same, same)

    def one(number):
        message = b"%d" % number
        return list(call(message, timeout=30)) == [message] * MESSAGES
    return one


def both(channel):
    call = channel.stream_stream(f"/{SERVICE}/Both", same, same)

    def one(number):
        parts = [b"%d-%d" % (number, part) for part in range(MESSAGES)]
        return list(call(iter(parts), timeout=30)) == parts
    return one


def check_errors(channel):
    """Status without a message, and a deadline that reaches the server."""
    try:
        channel.unary_unary(f"/{SERVICE}/Fail", same, same)(b"x", timeout=30)
        return False
    except grpc.RpcError as error:
        if (error.code(), error.details()) != (grpc.StatusCode.FAILED_PRECONDITION, "as asked"):
            print(f"Fail: {error}")
            return False
    left = channel.unary_unary(f"/{SERVICE}/Deadline", same, same)(b"x", timeout=77)
    return 60 <= int(left) <= 77


def run(kind, one, calls, threads):
    started = time.monotonic()
    errors = []

    def guarded(number):
        try:
            return one(number)
        except grpc.RpcError as error:
            errors.append(str(error))
            return False
    with futures.ThreadPoolExecutor(threads) as pool:
        good = sum(pool.map(guarded, range(calls)))
    seconds = time.monotonic() - started
    print(f"{kind:<8} {good}/{calls} calls right, {calls / seconds:.0f}/s")
    for error in errors[:3]:
        print(error)
    return good == calls


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000, help="of each kind (default %(default)s)")
    parser.add_argument("--threads", type=int, default=16, help="calls at the same time (default %(default)s)")
    parser.add_argument("--direct", action="store_true", help="without the gateway, to check the script itself")
    options = parser.parse_args()

    upstream = grpc.server(futures.ThreadPoolExecutor(options.threads * 2))
    upstream.add_generic_rpc_handlers((Echo(),))
    port = upstream.add_insecure_port("127.0.0.1:0")
    upstream.start()
    ports = {name: processes.free_port() for name in ("http", "control", "metrics")}
    resources = {"routes": [{"id": "grpc", "uri": "/*", "upstream": {
        "scheme": "grpc", "type": "roundrobin", "nodes": {f"127.0.0.1:{port}": 1}}}]}
    good = True
    with tempfile.TemporaryDirectory(prefix="tidegate-grpc-") as folder:
        command = tidegate.command(tidegate.find_binary(ROOT), folder, ports, resources)
        gateway = processes.Server("tidegate", command, processes.GATEWAY_CORE, folder)
        try:
            gateway.wait_for_port(ports["http"])
            target = port if options.direct else ports["http"]
            with grpc.insecure_channel(f"127.0.0.1:{target}") as channel:
                good &= check_errors(channel)
                for kind in (unary, client, server, both):
                    good &= run(kind.__name__, kind(channel), options.calls, options.threads)
        finally:
            gateway.stop()
    upstream.stop(None)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
