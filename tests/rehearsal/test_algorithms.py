"""The model of times: sizes at which PyTorch takes other algorithms, and what no recording has."""

from __future__ import annotations

from torchdevice_cuda.rehearsal.calls import Call, Shape
from torchdevice_cuda.rehearsal.families import find_cost
from torchdevice_cuda.rehearsal.model import DEFAULTS, Rates, time_work
from torchdevice_cuda.rehearsal.prediction import as_cuda_calls, key_of, read_efficiency
from torchdevice_cuda.settings import gpus

RATES = Rates.of(gpus.find("h200"))


def compute(call: Call) -> float:
    """Return the microseconds of a call by its formula, not by similar recordings."""
    work = find_cost(call)
    return time_work(work, RATES, {**DEFAULTS, **read_efficiency()[key_of(work)]["coefficients"]}) / 1e3


def take(name: str, shape: tuple[int, ...], *arguments: object, kind: str = "float") -> float:
    """Return the microseconds of an operator on one tensor."""
    return compute(Call(name, (Shape(shape, kind), *arguments)))


def test_a_block_sorts_as_many_elements_as_it_has_places_for() -> None:
    # Recorded: 702 us for 32,768 rows of 256, whose blocks have 1,024 places; 88 for 16,384 rows of 128.
    assert take("sort", (30000, 200), -1) > 3 * take("sort", (30000, 128), -1)
    assert abs(take("sort", (20000, 900), -1) / take("sort", (20000, 600), -1) - 1) < 0.3


def test_rows_are_sorted_by_passes_beyond_4096_elements() -> None:
    names = [
        find_cost(Call("sort", (Shape(sizes, "float"), -1))).key for sizes in ((512, 4096), (512, 4097), (64, 4097))
    ]
    assert names == ["sort short rows", "sort rows", "sort4"]
    # The row's number is one more digit; rows of a million elements follow each other.
    assert take("sort", (64, 65536), -1) > 1.1 * take("sort", (64 * 65536,), -1)
    assert 3 < take("sort", (4, 1 << 20), -1) / take("sort", (1 << 20,), -1) < 5


def test_many_short_rows_are_summed_up_by_a_block_each() -> None:
    # Recorded: 765 us for 131,072 rows of 64, 37 for 32,768 of 256.
    assert take("cumsum", (120000, 64), 1) > 10 * take("cumsum", (30000, 256), 1)


def test_columns_are_summed_up_one_element_after_the_other() -> None:
    assert take("cumsum", (20000, 128), 0) > 50 * take("cumsum", (200, 12800), 0)


def test_few_columns_are_reduced_by_many_blocks() -> None:
    # Recorded: 36 us for 131,072 rows of 64, 5 for 64 of 65,536.
    assert take("sum", (100000, 64), (0,)) > 1.5 * take("sum", (64, 100000), (0,))


def test_lengths_with_large_primes_are_transformed_slowly() -> None:
    shape = (4096, 1024), (1,), 0, True
    whole, prime = (
        take("_fft_c2c", *shape, kind="c10::complex<float>"),
        take("_fft_c2c", (4096, 1021), (1,), 0, True, kind="c10::complex<float>"),
    )
    assert prime > 3 * whole


def test_attention_pads_its_tiles() -> None:
    def attend(length: int) -> float:
        heads = Shape((32, 16, length, 64), "float")
        return compute(Call("_scaled_dot_product_efficient_attention", (heads, heads, heads, None, True, 0.0, False)))

    assert abs(attend(200) / attend(256) - 1) < 0.15
    assert attend(256) > 1.2 * attend(192)


def test_losses_wait_for_each_row_of_a_thread() -> None:
    def lose(rows: int, width: int) -> float:
        scores, targets = Shape((rows, width), "float"), Shape((rows,), "long int")
        return compute(Call("nll_loss_forward", (scores, targets, None, 1, -100)))

    # Recorded: 2.3 us for 64 rows, 17 to 20 for 512 to 8,192 of them that are not in the cache.
    assert lose(6000, 30000) < 2 * lose(700, 40000)
    assert lose(700, 40000) > 3 * lose(64, 40000)


def test_images_without_weights_are_not_normalized_by_cudnn() -> None:
    image, weight = Shape((128, 64, 28, 28), "float"), Shape((64,), "float")
    for weights, name in (((weight, weight), "cudnn_batch_norm"), ((None, None), "native_batch_norm")):
        call = Call("native_batch_norm", (image, *weights, None, None, True, 0.1, 1e-5))
        assert as_cuda_calls(call).name == name


def test_tensors_of_two_types_are_added_slowly() -> None:
    half, single = Shape((1 << 24,), "c10::BFloat16"), Shape((1 << 24,), "float")
    mixed, alike = (compute(Call("add", (first, other, 1))) for first, other in ((half, single), (single, single)))
    assert mixed > 1.1 * alike  # though it moves 10 bytes, not 12


def test_a_chain_of_kernels_moves_before_it_computes() -> None:
    work = find_cost(Call("sort", (Shape((8192, 4096), "float"), -1)))
    c = {**DEFAULTS, "start": 0.0}
    moving, computing = (
        time_work(work, RATES, {**c, **other}) for other in ({"each": 0.0, "row": 0.0}, {"hbm": 1e9, "l2": 1e9})
    )
    assert abs(time_work(work, RATES, c) / (moving + computing) - 1) < 1e-6
