"""Who has to wait for a lock says for what."""

import threading

from bertha.locks import locked


def test_waiting_is_said(tmp_path, capsys):
    file, order, waiting = tmp_path / "lock", [], threading.Event()

    def second():
        waiting.set()
        with locked(file, "does something"):
            order.append("second")

    with locked(file, "does something"):
        thread = threading.Thread(target=second)
        thread.start()
        waiting.wait()
        thread.join(0.3)  # it can't have the lock
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    streams = capsys.readouterr()
    assert streams.err == f"waiting for another process that does something (it holds {file})\n"
    assert streams.out == ""


def test_a_free_lock_is_taken_in_silence(tmp_path, capsys):
    for _ in range(2):
        with locked(tmp_path / "lock", "does something"):
            pass
    assert capsys.readouterr() == ("", "")
