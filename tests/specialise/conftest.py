import pytest

from bertha.models.encoder import load_model
from bertha.models.tasks import read_task
from bertha.specialise.parts import training_parts
from tests.specialise.tasks import tiny_folder, tuned_folder, write_task


@pytest.fixture(scope="session")
def task(tmp_path_factory):
    return write_task(tmp_path_factory.mktemp("task") / "films")


@pytest.fixture(scope="session")
def training(task):
    return training_parts(read_task(task))


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def tuned(model, training, tmp_path_factory):
    return tuned_folder(model, training, tmp_path_factory.mktemp("tuned"))


@pytest.fixture
def encoder(tuned):
    return load_model(tuned)
