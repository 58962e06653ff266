"""Clusters of real processes, started when a test first asks for them."""

import os
import shutil
from pathlib import Path

import pytest

from tests.distributed import _clusters

HERE = Path(__file__).parent

WARNINGS = [
    # of every call that exchanges Arrow batches
    "ignore:PySpark does not yet fully support pandas >= 3:FutureWarning",
]


def pytest_collection_modifyitems(items):
    """What others warn of here is no error here, and remains one everywhere else."""
    for item in items:
        if HERE in item.path.parents:
            for warning in WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


def _need_java():
    pytest.importorskip("pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        if os.environ.get("STREAMBAYES_SPARK") == "required":
            pytest.fail("Java is not installed")
        pytest.skip("Java is not installed")


@pytest.fixture(scope="package")
def standalone(tmp_path_factory):
    """A Spark master and two workers, that all tests share; none may kill its workers."""
    _need_java()
    with _clusters.StandaloneCluster(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def spark(standalone, tmp_path_factory):
    """A classic session on the shared cluster."""
    folder = tmp_path_factory.mktemp("spark")
    with _clusters.classic_session(folder, standalone.url) as session:
        _clusters.wait_for_executors(session, 2)
        yield session


@pytest.fixture
def mortal(spark, standalone):
    """The shared cluster, for a test that kills its workers: it has two again afterwards."""
    yield standalone
    standalone.restore()
    _clusters.wait_for_executors(spark, 2)


@pytest.fixture(scope="package")
def connect_server(tmp_path_factory):
    """The address of a Spark Connect server, with two executors in processes of their own."""
    _need_java()
    folder = tmp_path_factory.mktemp("connect")
    with _clusters.ConnectServer(folder, "local-cluster[2,1,1024]") as server:
        yield server.url


@pytest.fixture(scope="package")
def _connect_session(connect_server):
    with _clusters.connect_session(connect_server) as session:
        yield session


@pytest.fixture
def connect(_connect_session, monkeypatch):
    """A Spark Connect session; in its test, ``pyspark.sql.functions`` are those of Connect."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    return _connect_session


@pytest.fixture(scope="package")
def dask_client():
    """A client of two Dask workers, in processes of their own."""
    pytest.importorskip("distributed")
    with _clusters.dask_cluster() as client:
        yield client
