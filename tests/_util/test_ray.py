"""Tasks are handed out a few at a time, and paths travel to processes in other folders."""

from sitta._util.ray import absolute, in_flight


class OneAfterTheOther:
    """Ray, as far as it is used: the oldest promise is ready first."""

    def wait(self, promises):
        return promises[:1], promises[1:]


def test_never_more_tasks_run_than_there_is_room_for():
    left, most = list(range(10)), []

    def upcoming(running):
        most.append(len(running))
        while left and len(running) < 3:
            running.append(left[0])
            yield left.pop(0)

    done = list(in_flight(OneAfterTheOther(), upcoming, lambda task: f"promise {task}"))
    assert done == [(n, f"promise {n}") for n in range(10)]
    assert max(most) == 2  # one has just ended


def test_a_task_that_comes_back_is_handed_out_again():
    left, seen = [1, 2], []

    def upcoming(running):
        return [left.pop(0)] if left and not running else []

    for task, _ in in_flight(OneAfterTheOther(), upcoming, lambda task: object()):
        seen.append(task)
        if seen == [1]:
            left.insert(0, 1)
    assert seen == [1, 1, 2]


def test_files_become_absolute_and_names_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.onnx").touch()
    (tmp_path / "chest-mcu").touch()
    assert absolute("net.onnx") == str(tmp_path / "net.onnx")
    assert absolute("chest-mcu") == "chest-mcu"
    assert absolute("package.module:factory") == "package.module:factory"
    assert absolute(None) is None
