"""Programs on two sides: generated step by step while both execute them, or replayed."""

from __future__ import annotations

import collections
import dataclasses
import random
from typing import Any

import differentiating
import torch
from calls import TABLE, Call
from comparing import Difference, compare, compare_values, have_same_bits
from drawing import LIMIT, Draw, Skip
from explained import explain
from program import Step
from sides import (
    HALVES,
    LAID_OUT,
    OF_GRADIENTS,
    Failed,
    Observation,
    Outcome,
    Side,
    lay_out_plainly,
    overlaps,
    settled,
    widen,
)

#: How often a step is kept that the reference refuses: the device has to refuse it, too.
_REFUSED = 0.06
_NOT_FINITE = 0.15


UNDEFINED = "torch leaves open what a write gives where elements share memory"
#: Whose values depend on how a tensor is laid out, or that are random in that way.
_OF_LAYOUTS = ("as_strided", "view_dtype", "register_hook", "retain_grad")


@dataclasses.dataclass
class Settings:
    """Properties of the generated programs."""

    #: the reference and the device, as rows of explained differences name them
    pair: str
    dtypes: tuple[str, ...]
    steps: int = 10
    differentiates: bool = False
    #: families of the table that are used; all of them, if none is named
    families: tuple[str, ...] = ()


@dataclasses.dataclass
class Finding:
    """A difference that nothing explains, in the last of these steps."""

    steps: list[Step]
    difference: Difference


@dataclasses.dataclass
class Counts:
    """Counts of a run."""

    programs: int = 0
    operators: int = 0
    refused: int = 0
    #: programs in which a gradient was compared
    differentiated: int = 0
    #: that a compiler made
    graphs: int = 0
    explained: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    ops: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)


class Stop(Exception):
    """End a program early: the sides can no longer be brought together."""


class Session:
    """Two sides, and the program that both execute."""

    def __init__(self, reference: Side, device: Side, settings: Settings, counts: Counts | None = None) -> None:
        self.reference, self.device, self.settings = reference, device, settings
        self.counts = counts or Counts()
        self.steps: list[Step] = []
        self.findings: list[Finding] = []

    # ------------------------------------------------------------------ generating
    def generate(self, seed: str) -> list[Finding]:
        """Make the program of a seed, executing it; what nothing explains."""
        self._start()
        self._is_generating = True
        rng = random.Random(seed)
        self._made = 0
        known = self.reference.tensors
        draw = Draw(rng, known, self._add_leaf, self.settings.dtypes, self.settings.differentiates)
        rows = [
            (weight, function)
            for family, table in TABLE.items()
            if (not self.settings.families or family in self.settings.families)
            and (family != "autograd" or self.settings.differentiates)
            for weight, function in table
        ]
        weights = [weight for weight, _ in rows]
        wanted, tries = rng.randint(3, 2 * self.settings.steps - 3), 0
        try:
            while wanted and tries < 200 and not self.findings:
                tries += 1
                try:
                    call = rng.choices(rows, weights)[0][1](draw)
                except Skip:
                    continue
                if self._propose(call, rng):
                    wanted -= 1
            if self.settings.differentiates and not self.findings:
                call = differentiating.final(known, draw.key())
                if call is not None:
                    self._propose(call, rng)
        except Stop:
            pass
        self._end()
        return self.findings

    def _add_leaf(self, code: str, op: str) -> str:
        name = f"v{self._made}"
        self._made += 1
        step = Step(f"{name} = {code}", op, (name,))
        self._check(step, self.reference.run(step))
        if name not in self.reference.tensors:
            raise Skip
        return name

    def _propose(self, call: Call, rng: random.Random) -> bool:
        """Execute a call on the reference, and if that is of use on the device."""
        if call.writes and self._is_undefined(call.code):
            return False
        gives = tuple(f"v{self._made + n}" for n in range(call.gives))
        self._made += call.gives
        code = f"{', '.join(gives)} = {call.code}" if gives else call.code
        step = Step(code, call.op, gives, call.writes, call.is_open)
        before = self._keep_before(step)
        failed = self.reference.run(step)
        # One that writes may have changed something before it failed.
        stays = call.writes or call.stays
        if failed is not None and not stays and rng.random() >= _REFUSED and not _is_of_dtypes(failed):
            return False
        if failed is None and not stays:
            values = [self.reference.tensors[name] for name in gives if name in self.reference.tensors]
            wild = any(_is_wild(value) for value in values)
            if any(value.numel() > LIMIT for value in values) or (wild and rng.random() >= _NOT_FINITE):
                self.reference.drop(gives)
                return False
        self._check(step, failed, before)
        return True

    def _is_undefined(self, code: str) -> bool:
        """Tell whether a call writes where elements share memory: torch leaves open what becomes of them."""
        for name in Step(code, "").reads:
            value = self.device.tensors.get(name)
            if value is not None and overlaps(value):
                return True
        return False

    # ------------------------------------------------------------------ replaying
    def replay(self, steps: list[Step]) -> list[Finding]:
        """Execute a program that is there; what nothing explains."""
        self._start()
        self._is_generating, self._ahead = False, steps
        try:
            for step in steps:
                before = self._keep_before(step)
                self._check(step, self.reference.run(step), before)
                if self.findings:
                    break
        except Stop:
            pass
        self._end()
        return self.findings

    def _start(self) -> None:
        self.reference.reset()
        self.device.reset()
        self.steps, self.findings = [], []

    def _end(self) -> None:
        self.counts.programs += 1
        self.counts.differentiated += any(step.op in OF_GRADIENTS for step in self.steps)

    def _keep_before(self, step: Step) -> dict[str, torch.Tensor] | None:
        """Keep what is there before a step that writes, to compute what it gives in float32, or laid out plainly."""
        tensors = self.reference.tensors
        reads = [tensors[name] for name in step.reads if name in tensors] if step.writes else []
        if all(value.dtype not in HALVES and _is_plain(value) for value in reads):
            return None
        return {name: value.detach().clone() for name, value in tensors.items()}

    def _check(self, step: Step, failed: Failed | None, before: dict[str, torch.Tensor] | None = None) -> None:
        """Execute a step on the device, too, and compare."""
        self.steps.append(step)
        if step.op != "leaf":
            self.counts.operators += 1
            self.counts.ops[step.op] += 1
        mine = self.device.run(step)
        reference: Outcome = failed or self.reference.observe(step)
        device: Outcome = mine or self.device.observe(step)
        truth = _Truth(self, step, before)
        self.reference.keep(reference, self.reference.observe(step) if failed and step.writes else {})
        truth.coarsest = self._find_coarsest() if step.op in OF_GRADIENTS else None
        differences = compare(reference, device, step, truth)
        if failed is not None and mine is None and _is_of_dtypes(failed):
            differences += self._compare_with_truth(step, device, truth)
        self.counts.refused += isinstance(reference, Failed) and isinstance(device, Failed)
        if not differences and mine is None and failed is None:
            differences = self._compare_plainly(step, device, truth, before)
        for difference in differences:
            reason = explain(self.steps, difference, self.settings.pair)
            if difference.field == "values" and step.writes and self._is_undefined(step.code):
                self.counts.explained[UNDEFINED] += 1
                raise Stop
            if reason is None:
                self.findings.append(Finding(list(self.steps), difference))
                return
            self.counts.explained[reason] += 1
        self._bring_together(step, reference, device, differences)

    def _find_coarsest(self) -> torch.dtype | None:
        """Find the dtype of the least precision through which a gradient may have gone."""
        dtypes = {value.dtype for value in self.reference.tensors.values()}
        for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.complex64):
            if dtype in dtypes:
                return dtype
        return None

    def _compare_with_truth(self, step: Step, device: Any, truth: Any) -> list[Difference]:
        """Compare what the device gives in half precision, and the reference cannot, with what float32 gives."""
        found = []
        for name in step.gives:
            wide, got = truth(name), device[name].values
            if isinstance(wide, torch.Tensor) and isinstance(got, torch.Tensor) and got.dtype in HALVES:
                rounded = settled(wide).to(got.dtype)
                if rounded.shape == got.shape and (difference := compare_values(name, rounded, got, step, truth)):
                    found.append(difference)
        return found

    def _compare_plainly(self, step: Step, device: Any, truth: Any, before: Any) -> list[Difference]:
        """Compare with what the reference gives for contiguous tensors of these values."""
        tensors, compared = self.reference.tensors, step.gives
        if step.op in _OF_LAYOUTS:
            return []
        if step.writes:
            reads = {name: before[name] for name in step.reads if name in before} if before else {}
            if not reads or self._share_memory([*reads]):
                return []
            names = lay_out_plainly([step], self.reference, reads)
            compared = tuple(reads)
        elif step.op in OF_GRADIENTS:
            if any(done.writes or done.op in _OF_LAYOUTS for done in self.steps):
                return []
            names = lay_out_plainly(self.steps, self.reference, None)
        else:
            reads = {name: tensors[name] for name in step.reads if name in tensors}
            if all(_is_plain(value) for value in reads.values()):
                return []
            names = lay_out_plainly([step], self.reference, reads)
        found = []
        for name in compared:
            expected, got = (names or {}).get(name), device[name].values
            if not isinstance(expected, torch.Tensor) or not isinstance(got, torch.Tensor):
                continue
            plain = settled(expected)
            if (plain.shape, plain.dtype) == (got.shape, got.dtype) and (
                difference := compare_values(name, plain, got, step, truth)
            ):
                found.append(dataclasses.replace(difference, field="layout"))
        return found

    def _share_memory(self, names: list[str]) -> bool:
        """Tell whether variables share memory with one another, or elements of one do."""
        tensors = [self.device.tensors[name] for name in names]
        return len({value.untyped_storage()._cdata for value in tensors}) < len(tensors) or any(map(overlaps, tensors))

    def _bring_together(self, step: Step, reference: Outcome, device: Outcome, differences: list[Difference]) -> None:
        """Have both sides go on from the same values."""
        if isinstance(reference, Failed) or isinstance(device, Failed):
            if step.writes and differences:
                raise Stop
            if step.writes:
                # What a call leaves behind that is refused is nobody's promise.
                self._take_over(self.reference.observe(step), self.device.observe(step))
            self.reference.drop(step.gives)
            self.device.drop(step.gives)
            return
        if any(difference.field in ("kind", "dtype", "shape", "aliases") for difference in differences):
            raise Stop
        if any(None in (*seen.flags, *device[name].flags) for name, seen in reference.items()):
            raise Stop  # torch itself no longer knows what this tensor is
        for difference in differences:
            if difference.field == "stride":
                self._lay_out(difference.name)
        self._take_over(reference, device)

    def _take_over(self, reference: dict[str, Observation], device: dict[str, Observation]) -> None:
        for name, expected in reference.items():
            if expected.kind != "Tensor":
                continue
            if name not in device or expected.shape != device[name].shape:
                raise Stop
            if have_same_bits(expected.values, device[name].values):
                continue
            if not self.device.take_over(name, expected.values):
                raise Stop

    def _lay_out(self, name: str) -> None:
        """Make a variable contiguous on both sides, by a step of the program's own."""
        step = Step(f"{name} = {name}.contiguous().resolve_conj().resolve_neg()", LAID_OUT, (name,))
        if self._is_generating:
            self._check(step, self.reference.run(step))
        elif step not in self._ahead:
            raise Stop


class _Truth:
    """A step's result in float32 if the program is in half precision; computed on demand."""

    def __init__(self, session: Session, step: Step, before: dict[str, torch.Tensor] | None) -> None:
        self._session, self._step, self._before = session, step, before
        self._names: dict[str, Any] | None = None
        #: of a program that differentiates, the dtype of the least precision
        self.coarsest: torch.dtype | None = None

    def __call__(self, name: str) -> Any:
        if self._names is None:
            side = self._session.reference
            if self._step.op in OF_GRADIENTS:
                self._names = widen(self._session.steps, side)
            else:
                starts = self._before or {
                    own: value for own, value in side.tensors.items() if own not in self._step.gives
                }
                self._names = widen([self._step], side, starts)
        return self._names.get(name)


def _is_of_dtypes(failed: Failed) -> bool:
    """Tell whether the reference has no kernel for a dtype in half precision, which the device may have."""
    return "not implemented for 'Half'" in failed.message or "not implemented for 'BFloat16'" in failed.message


def _is_wild(value: torch.Tensor) -> bool:
    if not (value.is_floating_point() or value.is_complex()):
        return False
    size = value.detach().abs()
    return bool((~(size < 1e4)).any())


def _is_plain(value: torch.Tensor) -> bool:
    return value.is_contiguous() and not value.is_conj() and not value.is_neg()
