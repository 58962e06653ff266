"""Real servers on loopback, started and stopped by the tests."""

import contextlib
import os
import shutil
import socket
import subprocess
import time

import pytest
import redis


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class RedisServer:
    """A Redis server that can be killed and started again on the same port, with its data."""

    def __init__(self, folder):
        self._folder = folder
        self._port = free_port()
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self._process = None

    def start(self):
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(self._port)]
        command += ["--dir", str(self._folder), "--save", "", "--appendonly", "yes"]
        command += ["--appendfsync", "always"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(redis.ConnectionError), self.client() as client:
                client.ping()
                return
            time.sleep(0.02)
        message = "redis-server does not answer"
        raise TimeoutError(message)

    def client(self):
        return redis.Redis.from_url(self.url)

    def kill(self):
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    if shutil.which("redis-server") is None:
        if os.environ.get("STREAMBAYES_REDIS") == "required":
            pytest.fail("redis-server is not installed")
        pytest.skip("redis-server is not installed")
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def kafka():
    """The client's own mock cluster: its producer, and the address of its broker."""
    from confluent_kafka import Producer

    producer = Producer(
        {"test.mock.num.brokers": 1, "bootstrap.servers": "ignored", "log_level": 2}
    )
    broker = next(iter(producer.list_topics(timeout=30).brokers.values()))
    yield producer, f"{broker.host}:{broker.port}"
    producer.flush(30)
