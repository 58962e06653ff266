"""Real clusters on loopback, whose processes the tests start, kill and wait for."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path
from unittest import mock

import psutil

SOURCES = str(Path(__file__).parents[2] / "src")

START = 180.0  # seconds that a process has to say that it is ready
STOP = 30.0  # and to end, before it is killed


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def spark_home():
    import pyspark

    return Path(pyspark.__file__).parent


def spark_environment(folder, **more):
    """Variables under which Spark's processes stay on loopback, in ``folder``, with this Python."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_"))
    }
    return inherited | {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        **more,
    }


def settings(folder):
    """Spark's settings of an application that shares two cores with others."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "768m",
        "spark.executor.cores": "1",
        "spark.executorEnv.PYTHONPATH": SOURCES,
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }


def family(process):
    """A process and all that descend from it."""
    try:
        parent = psutil.Process(process.pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def gone(process):
    """Whether a process is over; one that nobody has waited for yet is."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(condition, seconds, otherwise):
    """Ask again and again; a TimeoutError says what was not so in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(otherwise)
        time.sleep(0.05)


def kill(processes):
    """SIGKILL, at once to all, and wait until they are gone."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    wait_until(lambda: all(map(gone, processes)), STOP, f"one survives SIGKILL of {processes}")


def end(process):
    """SIGTERM to a subprocess, SIGKILL to what is left of its family, and wait for all."""
    processes = family(process)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP)
    with contextlib.suppress(TimeoutError):
        wait_until(lambda: all(map(gone, processes)), 5.0, "some go on")
    kill(processes)
    process.wait(STOP)


class _Daemon:
    """A process of Spark which writes to a log, and says there when it is ready."""

    def __init__(self, name, folder, command, environment):
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment,
            )

    def wait_for(self, phrase):
        deadline = time.monotonic() + START
        while phrase not in (said := self.log.read_text(errors="replace")):
            ended = self.process.poll()
            if ended is not None or time.monotonic() > deadline:
                end(self.process)
                state = "is late" if ended is None else f"ended with {ended}"
                message = f"{self.log.name}: {state}, no {phrase!r} in its log:\n{said}"
                raise TimeoutError(message)
            time.sleep(0.05)


class StandaloneCluster:
    """A standalone Spark master and its workers, each of which runs one executor in a process."""

    def __init__(self, folder, num_workers=2, cores=1, memory="1g"):
        self.url = None
        self._folder = folder
        self._num_workers = num_workers
        self._resources = ["--cores", cores, "--memory", memory]
        self._master = None
        self._workers = []

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        port = free_port()
        command = ["master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", 0]
        self._master = self._launch("master", command)
        try:
            self._master.wait_for("I have been elected leader! New state: ALIVE")
            self.url = f"spark://127.0.0.1:{port}"
            self.restore()
        except BaseException:
            self.stop()
            raise

    def start_worker(self):
        """Start one more worker; the number by which to kill it, once the master knows it."""
        number = self._launch_worker()
        self._await_worker(number)
        return number

    def restore(self):
        """Start workers until there are as many as in the beginning."""
        missing = self._num_workers - len(self.alive)
        started = [self._launch_worker() for _ in range(missing)]
        for number in started:
            self._await_worker(number)

    @property
    def alive(self):
        """The numbers of the workers that were not killed."""
        return [number for number, worker in enumerate(self._workers) if worker is not None]

    def kill_worker(self, number):
        """SIGKILL to a worker, to its executor and to the executor's Python processes."""
        worker, self._workers[number] = self._workers[number].process, None
        kill(family(worker))
        worker.wait(STOP)

    def executors(self, number):
        """The process ids of the executors of a worker."""
        children = psutil.Process(self._workers[number].process.pid).children()
        return [child.pid for child in children if not gone(child)]

    def stop(self):
        with contextlib.ExitStack() as stack:  # the workers first, and all, whatever happens
            for daemon in (self._master, *self._workers):
                if daemon is not None:
                    stack.callback(end, daemon.process)
        self._workers, self._master = [], None

    def _launch(self, name, command):
        self._folder.mkdir(parents=True, exist_ok=True)
        script = spark_home() / "bin" / "spark-class"
        main, *arguments = command
        environment = spark_environment(self._folder, SPARK_DAEMON_MEMORY="256m")
        command = [script, f"org.apache.spark.deploy.{main}", *arguments]
        return _Daemon(name, self._folder, command, environment)

    def _launch_worker(self):
        number = len(self._workers)
        folder = self._folder / f"work-{number}"
        command = ["worker.Worker", self.url, "--host", "127.0.0.1", "--webui-port", 0]
        command += [*self._resources, "--work-dir", folder]
        self._workers.append(self._launch(f"worker-{number}", command))
        return number

    def _await_worker(self, number):
        self._workers[number].wait_for(f"Successfully registered with master {self.url}")


@contextlib.contextmanager
def classic_session(folder, master, conf=None):
    """A session whose driver is a child of this process, of which a process can have but one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    folder.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.master(master).appName("streambayes")
    builder = builder.config(map=settings(folder) | (conf or {}))
    try:
        with (
            mock.patch.dict(os.environ, spark_environment(folder), clear=True),
            warnings.catch_warnings(),
        ):
            # Java is started by a fork, of which JAX warns and Python does from 3.12 on
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
            spark = builder.getOrCreate()
        yield spark
        spark.stop()
    finally:
        gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()
            end(gateway.proc)


def wait_for_executors(spark, number):
    """Until that many executors have registered with the driver of a classic session."""
    context = spark.sparkContext._jsc.sc()  # which counts the driver among them
    wait_until(
        lambda: context.getExecutorMemoryStatus().size() == number + 1,
        START,
        f"the session has not got {number} executors",
    )


class ConnectServer:
    """A Spark Connect server in a process of its own: the driver of the sessions at its ``url``."""

    def __init__(self, folder, master):
        self.url = None
        self._folder = folder
        self._master = master
        self._daemon = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self._folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        conf = settings(self._folder) | {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": port,
            "spark.log.level": "INFO",
        }
        command = [spark_home() / "bin" / "spark-submit", "--master", self._master]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        environment = spark_environment(self._folder, SPARK_CONNECT_MODE="0")
        self._daemon = _Daemon("connect", self._folder, command, environment)
        self._daemon.wait_for("Spark Connect server started at")
        self.url = f"sc://127.0.0.1:{port}"

    def stop(self):
        if self._daemon is not None:
            end(self._daemon.process)
        self._daemon = None


@contextlib.contextmanager
def connect_session(url):
    """A session on a Spark Connect server; unlike two classic ones, it can stand beside others."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(url).create()
    try:
        yield session
    finally:
        session.stop()


@contextlib.contextmanager
def dask_cluster(num_workers=2):
    """A client of Dask workers, each of which runs one task at a time."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=num_workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs="CRITICAL",
        ) as cluster,
        Client(cluster, timeout=START) as client,
    ):
        client.wait_for_workers(num_workers, timeout=START)
        yield client


def kill_dask_worker(client, address=None):
    """SIGKILL to one of a client's workers, at once; its nanny starts another, elsewhere."""
    pids = client.run(os.getpid)
    address = address or min(pids)
    os.kill(pids[address], signal.SIGKILL)
    return address


def wait_for_dask_workers(client, number, dead=()):
    """Until the scheduler knows of that many workers, and no more of the dead."""

    def complete():
        alive = client.scheduler_info(n_workers=-1)["workers"]
        return len(alive) == number and not set(dead) & set(alive)

    wait_until(complete, START, f"the scheduler has not got {number} workers")


def run_script(source, *arguments, env=None, timeout=120.0):
    """What a Python program prints, which runs in a process of its own, and must end in time."""
    process = subprocess.Popen(
        [sys.executable, "-c", source, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCES, **(env or {})},
        text=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        kill(family(process))
        out, err = process.communicate(timeout=STOP)
        message = f"not over after {timeout:g} seconds:\n{out}\n{err}"
        raise TimeoutError(message) from None
    if process.returncode:
        message = f"ended with {process.returncode}:\n{out}\n{err}"
        raise AssertionError(message)
    return out
