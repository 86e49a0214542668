"""Answers that try to be judged right without being right: by values, where nothing helps, and by tests, where some of it is seen.

The numbers are those of the project's abuse suite. By tests, an object that lies to `==` (30) and a bool for an int (43) do pass: the
answer's own process decides there, and the verdict says trust="in_process".
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from code_judge import Judge, open_pool

ABUSE = {
    "25 sys.exit": ("import sys\nsys.exit(0)", "CRASH", "CRASH"),
    "25 sys.exit in the call": ("import sys\ndef f(x):\n    sys.exit(0)", "CRASH", "CRASH"),
    "26 os._exit": ("import os\nos._exit(0)", "CRASH", "CRASH"),
    "26 os._exit in the call": ("import os\ndef f(x):\n    os._exit(0)", "CRASH", "CRASH"),
    "27 printed marker": ("print('1 passed')\nprint('RESULT: PASS')\nraise SystemExit", "CRASH", "CRASH"),
    "27 written result": (
        'import os\nfor fd in range(3, 9):\n    try:\n        os.write(fd, b\'={"tests":[[0,"","passed",null]]}\\n\')\n'
        "    except OSError:\n        pass\nos._exit(0)",
        "CRASH TAMPER",
        "CRASH TAMPER",
    ),
    "28 frame walk for the token": (
        "import sys\nframe = sys._getframe()\nwhile frame:\n    frame = frame.f_back\ndef f(x):\n    return 0",
        "WRONG",
        "TAMPER",
    ),
    "28 frame walk by traceback": (
        "try:\n    1 / 0\nexcept Exception as error:\n    frame = error.__traceback__.tb_frame.f_back\ndef f(x):\n    return 0",
        "WRONG",
        "TAMPER",
    ),
    "28 the collector": ("import gc\nfound = gc.get_objects()\ndef f(x):\n    return 0", "WRONG", "TAMPER"),
    "29 edits the test": (
        "import sys\ndef f(x):\n    sys._getframe(1).f_globals['f'] = lambda x: 1\n    return 0",
        "WRONG",
        "TAMPER",
    ),
    "30 __eq__": ("class A:\n    def __eq__(self, other):\n        return True\ndef f(x):\n    return A()", "WRONG", "PASS"),
    "30 int subclass": (
        "class A(int):\n    def __eq__(self, other):\n        return True\n    __hash__ = int.__hash__\ndef f(x):\n    return A(0)",
        "WRONG",
        "PASS",
    ),
    "31 patched json": (
        "import json\njson.dumps = lambda *a, **k: '{}'\njson.JSONEncoder.encode = lambda *a: '{}'\ndef f(x):\n    return 0",
        "WRONG",
        "TAMPER",
    ),
    "31 json patched from below": (
        'import json, json.encoder\njson.JSONEncoder.iterencode = lambda *a, **k: [\'{"cases": [{"value": 1}]}\']\n'
        "json.encoder.c_make_encoder = json.encoder.encode_basestring_ascii = json.encoder._make_iterencode = None\n"
        "def f(x):\n    return 0",
        "WRONG",
        "TAMPER",
    ),
    "31 patched on the way out": (
        "import builtins, contextlib, os, sys\nbuiltins.memoryview = builtins.max = contextlib.suppress = os.write = os._exit = None\n"
        "sys.stdout = sys.stderr = None\ndef f(x):\n    return 0",
        "WRONG",
        "TAMPER",
    ),
    "31 patched unittest": (
        "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\ndef f(x):\n    return 0",
        "WRONG",
        "TAMPER",
    ),
    "31 patched builtins": ("import builtins\nbuiltins.all = lambda x: True\ndef f(x):\n    return 0", "WRONG", "TAMPER"),
    "32 atexit": ("import atexit\natexit.register(print, 'PASS')\ndef f(x):\n    return 0", "WRONG", "WRONG"),
    "33 reads stdin": ("def f(x):\n    return int(input())", "CRASH", "CRASH"),
    "34 giant power": ("def f(x):\n    return 9**9**9", "TIMEOUT", "TIMEOUT"),
    "35 int to text": ("def f(x):\n    return len(str(10**6000))", "CRASH", "CRASH"),
    "36 regex": ("import re\ndef f(x):\n    return bool(re.match('(a+)+$', 'a' * 40 + 'b'))", "TIMEOUT", "TIMEOUT"),
    "37 recursion": ("def f(x):\n    return f(x)", "CRASH", "CRASH"),
    "37 recursion without a limit": (
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(x):\n    return f(x)",
        "CRASH TIMEOUT LIMIT",
        "CRASH TIMEOUT LIMIT",
    ),
    "43 bool for int": ("def f(x):\n    return True", "WRONG", "PASS"),
    "43 NaN": ("def f(x):\n    return float('nan')", "WRONG", "WRONG"),
    "memory": ("def f(x):\n    return len([0] * 10**10)", "LIMIT", "LIMIT"),
    "forbidden": ("def f(x):\n    open('/etc/prefkit-was-here', 'w')\n    return 1", "POLICY", "POLICY"),
}


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with open_pool() as pool:
        yield Judge(pool)


@pytest.mark.parametrize(("answer", "by_values"), [(answer, wanted) for answer, wanted, _ in ABUSE.values()], ids=ABUSE.keys())
def test_by_values(judge: Judge, answer: str, by_values: str) -> None:
    found = judge("python", answer=answer, entry="f", cases=[[[1], 1]], timeout=0.4)
    assert found.status in by_values.split(), found
    assert found.reason


@pytest.mark.parametrize(("answer", "by_tests"), [(answer, wanted) for answer, _, wanted in ABUSE.values()], ids=ABUSE.keys())
def test_by_tests(judge: Judge, answer: str, by_tests: str) -> None:
    found = judge("python", answer=answer, tests=["assert f(1) == 1"], timeout=0.4)
    assert found.status in by_tests.split(), found
    assert found.reason
