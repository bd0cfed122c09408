"""Celery on the Redis at $SOCKET: single sends, what a queued task takes, a drain, and waits at 200
a second. Each figure is a line "name value". Arguments: tasks, seconds of waits. The worker is a
process of its own, which loads this file too."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import redis
from celery import Celery

SOCKET = os.environ["SOCKET"]
TEXT = "x" * 90
app = Celery("celery_load", broker=f"redis+socket://{SOCKET}")
app.conf.update(
    task_acks_late=True,  # acknowledged when done, so that a dead worker loses nothing
    task_ignore_result=True,
    worker_prefetch_multiplier=100,
    broker_pool_limit=64,
    broker_connection_retry_on_startup=True,
)


@app.task
def run(text):
    """Does nothing."""


@app.task
def timed(text, sent):
    """Notes how long it took to come; the clock is the same in every process."""
    waited = (time.monotonic_ns() - sent) / 1e6
    with open(os.environ["WAITS"], "a", encoding="ascii") as waits:
        waits.write(f"{waited}\n")


def main():
    count, seconds = int(sys.argv[1]), int(sys.argv[2])
    server = redis.Redis(unix_socket_path=SOCKET)
    tell_rate("submit", count, submit(count))
    print("bytes", server.memory_usage("celery", samples=0) // count, flush=True)
    with tempfile.NamedTemporaryFile("r") as waits:
        worker = start_worker(waits.name)
        try:
            tell_rate("drain", count, drain(server, count))
            send_by_the_clock(200 * seconds)
            wait_until(lambda: left(server) == 0)
            tell_waits(sorted(float(line) for line in waits))
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait()


def submit(count):
    """Sends by 64 threads; gives the seconds it took."""
    with ThreadPoolExecutor(64) as threads:
        begun = time.monotonic()
        for answer in [threads.submit(run.delay, TEXT) for _ in range(count)]:
            answer.result()
        return time.monotonic() - begun


def start_worker(waits):
    command = [sys.executable, "-m", "celery", "-A", "celery_load", "worker", "--loglevel=ERROR"]
    command += [f"--concurrency={os.cpu_count()}", "--without-gossip", "--without-mingle"]
    return subprocess.Popen(
        command,
        cwd=os.path.dirname(os.path.abspath(__file__)),
        env={**os.environ, "WAITS": waits},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def drain(server, count):
    """The seconds from the first task that is taken to the last that is acknowledged."""
    wait_until(lambda: server.llen("celery") < count)
    begun = time.monotonic()
    wait_until(lambda: left(server) == 0)
    return time.monotonic() - begun


def left(server):
    """What waits or is not acknowledged."""
    return server.llen("celery") + server.hlen("unacked")


def wait_until(true):
    while not true():
        time.sleep(0.005)


def send_by_the_clock(count):
    begun = time.monotonic()
    for number in range(count):
        time.sleep(max(0, begun + number * 0.005 - time.monotonic()))
        timed.delay(TEXT, time.monotonic_ns())


def tell_rate(name, count, seconds):
    print(name, round(count / seconds), flush=True)


def tell_waits(times):
    for name, share in [("pickup_p50_ms", 0.5), ("pickup_p99_ms", 0.99)]:
        print(name, f"{times[int((len(times) - 1) * share)]:.3f}", flush=True)


if __name__ == "__main__":
    main()
