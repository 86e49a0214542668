"""The same work by one process with a thread for each core, and by one process for each core with one thread.

    python benchmarks/processes.py [--quick] [--json FILE]

The work is sampling (answers to prompts) and training (gradients of an adapter), each alone on the machine and beside a busy program.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from _timing import arguments, cores, finish, in_turns, prompt_ids, quiet

KINDS = ("sample", "train")


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        work(threads=int(sys.argv[2]))
        return
    parser = arguments(str(__doc__).splitlines()[0], rounds=5)
    parser.add_argument("--amount", type=int, default=16, help="prompts in one measurement, shared out over the processes")
    given = parser.parse_args()
    count = max(2, cores())
    if given.quick:
        given.rounds, given.amount = 1, 2 * count
    with pool(1, count) as one, pool(count, 1) as many:
        figures: dict[str, Any] = {}
        for kind in KINDS:
            for beside in (False,) if given.quick else (False, True):
                where = ", beside a busy program" if beside else ""
                with busy() if beside else nullcontext():
                    cases = {
                        f"{kind}: 1 process, {count} threads{where}": lambda kind=kind: together(one, kind, given.amount),
                        f"{kind}: {count} processes, 1 thread each{where}": lambda kind=kind: together(many, kind, given.amount),
                    }
                    figures |= in_turns(cases, given.rounds, "tokens")
    finish("Processes", {"cores": cores(), "prompts": given.amount, "rounds": given.rounds}, figures, given.json)


@contextmanager
def pool(processes: int, threads: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that have loaded the model and wait for work."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, "--worker", str(threads)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, bufsize=1)
        for _ in range(processes)
    ]
    try:
        for process in started:
            said(process, "ready")
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def said(process: subprocess.Popen[str], word: str) -> list[str]:
    """The next line of a worker, which begins with `word`."""
    assert process.stdout is not None
    line = process.stdout.readline().split()
    if line[:1] != [word]:
        raise SystemExit(f"a worker said {line} instead of {word}")
    return line[1:]


def together(processes: list[subprocess.Popen[str]], kind: str, amount: int) -> int:
    """Share `amount` prompts out; how many tokens were done."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(f"{kind} {amount // len(processes)}\n")
        process.stdin.flush()
    return sum(int(said(process, "done")[0]) for process in processes)


@contextmanager
def busy() -> Iterator[None]:
    """One more program that wants a core."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait()


def work(threads: int) -> None:
    """Load the model, then do what each line says: "sample 8" or "train 8"."""
    protocol = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    quiet()
    import torch

    from prefkit.models.generate import sample, stream_seed
    from prefkit.models.load import LoraSpec, ModelSpec, end_ids, load_base, new_adapter
    from prefkit.resources import cache_dir

    torch.set_num_threads(threads)
    spec = ModelSpec(cache=str(cache_dir()))
    model, tokenizer = load_base(spec)
    policy = new_adapter(load_base(spec)[0], LoraSpec(), seed=0).train()
    prompts, end = prompt_ids(tokenizer, 64, databases=1), end_ids(model, tokenizer)
    protocol.write("ready\n")
    for line in sys.stdin:
        kind, amount = line.split()[0], int(line.split()[1])
        asked = [prompts[number % len(prompts)] for number in range(amount)]
        if kind == "sample":
            seeds = [[stream_seed(0, str(number), k) for k in range(8)] for number in range(amount)]
            done = sum(len(answer.ids) for group in sample(model, asked, seeds, end_ids=end, max_new_tokens=16) for answer in group)
        else:
            done = 0
            for prompt in asked:
                ids = torch.tensor([prompt])
                with torch.autocast("cpu", torch.bfloat16):
                    policy(input_ids=ids, labels=ids).loss.backward()
                done += len(prompt)
            policy.zero_grad()
        protocol.write(f"done {done}\n")


if __name__ == "__main__":
    main()
