"""Run PyTorch's own tests under a driver, test by test, and compare their outcomes with the expected ones.

    python tools/upstream --source PYTORCH_CHECKOUT                      # every file of which something is expected
    python tools/upstream --source PYTORCH_CHECKOUT test_cuda.py -k graph --driver virtual
    python tools/upstream --source PYTORCH_CHECKOUT test_torch.py --sample 200 --seed 1 --also names.txt
    python tools/upstream --source PYTORCH_CHECKOUT inductor/test_cuda_repro.py --set gpu=a100 --set compile=triton
    python tools/upstream --source PYTORCH_CHECKOUT test_cuda.py --resume # what an earlier run did not come to
    python tools/upstream --source PYTORCH_CHECKOUT test_cuda.py --again  # what did not pass in an earlier run
    python tools/upstream --source PYTORCH_CHECKOUT --table               # what the results say; nothing is run
    python tools/upstream --source PYTORCH_CHECKOUT inductor/test_cuda_repro.py --driver gpu   # on a real GPU
    python tools/upstream --source PYTORCH_CHECKOUT --wide --gpu-first --together 14 --driver gpu
    python tools/upstream --source PYTORCH_CHECKOUT --wide --as-on-gpu --set gpu=h200 --together 14
    python tools/upstream --keep "NVIDIA H200, torch 2.11.0+cu130" pytest.xml gpu/inductor/test_cuda_repro.jsonl

The tests are those of the checkout, best of the release that is installed; none is kept here. ``tests/upstream`` says
what is expected of a file: which tests do not pass under which driver, what they do instead, and why. A test that no
line names is to pass, or to be skipped by its own words. Exits 1 if anything is otherwise, a test that passes against
what is expected too, and a line that no test answers to in a run of the whole file.

``FILE.gpu`` beside a file's expectations has the outcomes of a real GPU; ``--keep`` writes it from results of
``--driver gpu`` or from what ``pytest --junit-xml`` wrote there. A file that has it is compared with the GPU: every
test that passed there is to pass here, and what becomes of the others does not matter. A list that names no test that
passed is an older one: every test that it does not name passed there, or was not run there.

``--wide`` takes the files of ``tests/upstream/wide.txt``, where GPUs are tested, and as many tests as it says of each.

A process runs one test after the other and writes down what becomes of each. Where it dies, or a test takes too long,
that test is said to have crashed, or to hang, and another process goes on behind it. What fails is tried once more in a
process of its own: what the tests before it left behind is not its fault.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import itertools
import json
import random
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Its own folder is no place for imports: the modules are upstream's. Last, since tools/site.py has a module's name.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
sys.path.append(str(HERE.parent))

from upstream.expectations import ORDINARY, OUTCOMES, Expectations, GpuOutcomes, read_junit  # noqa: E402
from upstream.running import DRIVERS, ROOT, Run, UnreadableSuiteError, ending_all, read_latest, read_lines  # noqa: E402

EXPECTED = ROOT / "tests" / "upstream"
WIDE = EXPECTED / "wide.txt"
#: The head of what --table prints, for docs/compatibility.md.
HEAD = "| file | tests in it | run | passed | skipped | otherwise | of those run | of those that pass on the GPU |"


def _run(run: Run, tests: Sequence[str], results: Path, jobs: int, *, once: bool) -> None:
    """All of them, in some processes at a time, each result written as it comes."""
    lock, shares = threading.Lock(), [tests[i::jobs] for i in range(jobs)]
    done = 0

    def work(share: Sequence[str], log: Path) -> None:
        nonlocal done
        with log.open("ab") as output:
            for result in run.results(share, output):
                with lock, results.open("a") as file:
                    done += 1
                    file.write(json.dumps(result) + "\n")
                    if result["outcome"] not in ORDINARY:
                        print(f"{done}/{len(tests)} {result['test']}: {result['outcome']}", flush=True)

    def alone() -> None:
        """Run failed tests alone, since others may have caused the failure: the result alone counts."""
        failed = [
            line["test"] for line in read_latest(results) if line["outcome"] == "failed" and line["test"] in tests
        ]
        with results.with_suffix(".alone.log").open("ab") as output, results.open("a") as file:
            for result in itertools.chain.from_iterable(run.results([test], output) for test in failed):
                file.write(json.dumps(result) + "\n")
                file.flush()

    threads = [
        threading.Thread(target=work, args=(share, results.with_suffix(f".{i}.log")), daemon=True)
        for i, share in enumerate(shares)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(tests) > 1 and not once:
        alone()


def _draw(tests: Sequence[str], count: int, seed: int, *, gpu_first: bool) -> list[str]:
    """Return a sample; where asked, of the tests with a GPU's name as far as there are so many."""
    drawn = random.Random(seed).sample(tests, len(tests) if gpu_first else count)
    return sorted(drawn, key=lambda test: "cuda" not in test.partition("::")[2].lower())[:count] if gpu_first else drawn


def _chosen(run: Run, options: argparse.Namespace, count: int | None, results: Path) -> list[str]:
    """Return the tests to run now. What there are, and how they were chosen, is written down beside the results."""
    if options.again:
        return [line["test"] for line in read_latest(results) if line["outcome"] not in ORDINARY]
    tests = run.tests(options.words)
    there, part = len(tests), [f"-k {options.words}"] if options.words else []
    if options.as_on_gpu:
        gpu = Expectations.read((EXPECTED / run.suite).with_suffix(".toml")).gpu
        tests = [test for test in tests if gpu is not None and gpu.outcomes.get(test.partition("::")[2]) == "passed"]
        part.append("those that pass on the GPU")
    elif count is not None and count < there:
        kept = set(_draw(tests, count, options.seed, gpu_first=options.gpu_first))
        part += [f"{count} by seed {options.seed}"] if kept else []
        if options.also:
            kept.update(options.also.read_text().splitlines())
            part.append("some by name")
        tests = [test for test in tests if test in kept]
    if not options.resume:
        results.unlink(missing_ok=True)
    results.with_suffix(".json").write_text(json.dumps({"there": there, "part": ", ".join(part)}))
    done = {line["test"] for line in read_lines(results)}
    return [test for test in tests if test not in done]


def _row(
    suite: str, found: Sequence[Mapping[str, Any]], how: Mapping[str, Any], on_gpu: tuple[int, int] | None = None
) -> str:
    """Return a line of the published table. The ratio is of what ran: a test that skips itself says nothing of us."""
    counts = collections.Counter(line["outcome"] for line in found)
    passed, skipped, part = counts["passed"], counts["skipped"], how["part"] or "all"
    ran = len(found) - skipped
    ratio = f"{100 * passed / ran:.1f}%" if ran else "-"
    of_gpu = f"{on_gpu[1]} of {on_gpu[0]}, {100 * on_gpu[1] / max(on_gpu[0], 1):.1f}%" if on_gpu else "-"
    return f"| {suite} | {how['there']} | {part} | {passed} | {skipped} | {ran - passed} | {ratio} | {of_gpu} |"


def _keep(heading: str, paths: Sequence[Path]) -> int:
    """Write the outcomes that a GPU gave, from the files of its runs, into ``tests/upstream``."""
    found = read_junit(path for path in paths if path.suffix == ".xml")
    for line in (line for path in paths if path.suffix != ".xml" for line in read_latest(path)):
        suite, _, test = line["test"].partition("::")
        found.setdefault(suite, {})[test] = line["outcome"]
    for suite, outcomes in sorted(found.items()):
        counted = f"{list(outcomes.values()).count('passed')} of {len(outcomes)} tests pass"
        GpuOutcomes(f"{heading}: {counted}", outcomes).write((EXPECTED / suite).with_suffix(".gpu"))
        print(f"{suite}: {counted}")
    return 0


def _judge(suite: str, options: argparse.Namespace, count: int | None) -> tuple[str, bool, tuple[int, int]]:
    """Run a file's tests, so many of them, and compare.

    Return its line of the table, whether all is as expected, and how many that pass on the GPU were run and pass.
    """
    expectations = Expectations.read((EXPECTED / suite).with_suffix(".toml"))
    settings = options.set or expectations.settings
    flags = [f"--{setting}" for setting in settings]
    run = Run(options.source.resolve(), suite, options.driver, options.limit, flags)
    results = (options.folder / "-".join([options.driver, *settings]) / suite).with_suffix(".jsonl").resolve()
    results.parent.mkdir(parents=True, exist_ok=True)
    if not options.table:
        try:
            _run(run, _chosen(run, options, count, results), results, options.jobs, once=options.once)
        except UnreadableSuiteError as error:
            print(f"{suite} on {options.driver}: {error}", flush=True)
            return f"| {suite} | cannot be read |", False, (0, 0)
    if not results.with_suffix(".json").exists():
        raise SystemExit(f"nothing was run of {suite} on {options.driver} in {options.folder}")
    found, how = read_latest(results), json.loads(results.with_suffix(".json").read_text())
    wrong = list(expectations.complaints(found, options.driver, whole=not how["part"]))
    counts = collections.Counter(line["outcome"] for line in found)
    shown = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
    on_gpu = expectations.count_as_on_gpu(found)
    of_gpu = f"; {on_gpu[1]} of {on_gpu[0]} that pass on the GPU" if on_gpu else ""
    heading = f"{suite} on {options.driver}: {shown or 'no tests'}{of_gpu}; {len(wrong)} otherwise than expected"
    print("\n  ".join([heading, *wrong]), flush=True)
    return _row(suite, found, how, on_gpu), not wrong, on_gpu or (0, 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", help="files below test/ of the checkout (those in tests/upstream)")
    parser.add_argument("--source", type=Path, help="a checkout of PyTorch")
    parser.add_argument("--driver", choices=DRIVERS, default="virtual", help="gpu: a real one")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, instead of the file's"
    )
    parser.add_argument("-k", dest="words", help="tests whose names have this, as pytest's")
    parser.add_argument("--sample", type=int, help="so many of the tests, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gpu-first", action="store_true", help="a sample has tests with cuda in their names first")
    parser.add_argument("--as-on-gpu", action="store_true", help="run the tests that passed on the GPU, by its list")
    parser.add_argument("--wide", action="store_true", help="the files of tests/upstream/wide.txt")
    parser.add_argument("--together", type=int, default=1, help="files at a time (1)")
    parser.add_argument("--also", type=Path, help="a file that names tests, one a line, which a sample has besides")
    parser.add_argument("--limit", type=float, default=180, help="seconds for one test (180)")
    parser.add_argument("--once", action="store_true", help="what fails is not tried again by itself")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (1)")
    parser.add_argument("--resume", action="store_true", help="run what an earlier run did not come to")
    parser.add_argument("--again", action="store_true", help="run what did not pass in an earlier run, nothing else")
    parser.add_argument("--table", action="store_true", help="compare the results that are there; run nothing")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "upstream", help="for results and logs")
    parser.add_argument(
        "--keep", metavar="HEADING", help="keep a GPU's outcomes from the files named in tests/upstream"
    )
    options = parser.parse_args(arguments)
    if options.keep:
        return _keep(options.keep, [Path(path) for path in options.suites])
    if options.source is None:
        parser.error("--source: a checkout of PyTorch is needed")
    known = [str(path.relative_to(EXPECTED).with_suffix(".py")) for path in sorted(EXPECTED.rglob("*.toml"))]
    counts = dict.fromkeys(options.suites or known, options.sample)
    if options.wide:
        lines = [line.split() for line in WIDE.read_text().splitlines()]
        counts = {suite: None if count == "all" else int(count) for suite, count in lines}
        counts = {suite: counts[suite] for suite in options.suites or counts}
    for suite in counts:
        if not (options.source / "test" / suite).is_file():
            parser.error(f"there is no {suite} in {options.source / 'test'}")
    with concurrent.futures.ThreadPoolExecutor(options.together) as pool, ending_all():
        verdicts = list(pool.map(lambda suite: _judge(suite, options, counts[suite]), counts))
    rows, sound = [row for row, _, _ in verdicts], all(sound for _, sound, _ in verdicts)
    if options.table:
        there, here = (sum(column) for column in zip(*(on_gpu for _, _, on_gpu in verdicts), strict=True))
        print(f"\nof {there} tests that pass on the GPU, {here} pass: {100 * here / max(there, 1):.1f}%")
        print("\n".join(["", HEAD, "|---" * HEAD.count("| ") + "|", *rows]))
    return 0 if sound else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what it has started ends with it
    sys.exit(main())
