"""CUDA's language in C++: what is found, what is rewritten, what is left alone, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchdevice_cuda.cuda_cpp import flags, plain, refusals, tokens, translation

FORTY = Path(__file__).with_name("forty.cu")


def translated(source: str) -> str:
    return "".join(translation.rewritten(tokens.tokenize(source)))


def launches(source: str) -> list[str]:
    """List the launches, as an error message names them."""
    parts = translated(source).split('::host_cuda::launcher("')[1:]
    return [part.split('"')[0] for part in parts]


@pytest.mark.parametrize("file", [FORTY, *sorted(FORTY.parent.glob("*.py"))], ids=lambda path: path.name)
def test_tokens_are_the_text_again(file: Path) -> None:
    text = file.read_text()
    assert "".join(token.text for token in tokens.tokenize(text)) == text


def test_lines_are_those_of_the_text() -> None:
    found = tokens.tokenize('a /* b\n c */ "d\\"e"\nR"(f\ng)" h')
    assert [(t.text, t.line) for t in found if t.kind == "name"] == [("a", 1), ("h", 4)]


@pytest.mark.parametrize(
    ("source", "callee"),
    [
        ("void f() { k<<<1, 2>>>(x); }", ["k"]),
        ("void f() { k<float, 3><<<dim3(1, 2), 2, n * sizeof(float), s>>>(x); }", ["k<float, 3>"]),
        ("void f() { k<A<B<int>>><<<1, 2>>>(x); }", ["k<A<B<int>>>"]),
        ("void f() { k<(a > b)><<<1, 2>>>(x); }", ["k<(a > b)>"]),
        ("void f() { return ns::inner::k<T><<<1, 2>>>(x); }", ["ns::inner::k<T>"]),
        ("void f() { if (a << b) (*p)<<<1, 2>>>(x); else t[3]<<<1, 2>>>(x); }", ["(*p)", "t[3]"]),
        ('void f() { g("k<<<1, 2>>>(x)"); /* k<<<1>>>() */ // k<<<1>>>()\n}', []),
        ("void f() { g(R\"x(k<<<1, 2>>>(x))x\"); h('<'); }", []),
        ("#define LAUNCH(g) k<<<g, 1>>>(x)\nvoid f() { LAUNCH(2); }", []),
        ("void f() { ::k<<<1, 2>>>(x); }", ["::k"]),
    ],
)
def test_launches_are_found(source: str, callee: list[str]) -> None:
    assert launches(source) == callee


def test_a_launch_keeps_its_arguments_and_its_lines() -> None:
    source = "void f() {\n  k<T>\n    <<<1,\n       2>>>(a,\n  b);\n}"
    made = translated(source)
    assert made.endswith("(a,\n  b);\n}")
    assert "k<T>(host_cuda_arguments...)" in made


def test_a_kernel_is_a_function_of_its_thread() -> None:
    made = translated("template <typename T> __global__ void __launch_bounds__(256, 2) k(T* x) { x[threadIdx.x] = 1; }")
    assert "__global__" not in made
    assert "run_block<true>([=](const uint3 threadIdx" in made
    assert made.rstrip().endswith("}); }")
    assert translated("__global__ void k(int* x);").strip() == "void k(int* x);"


def test_functions_that_kernels_call_ask_the_worker() -> None:
    made = translated("__device__ int me() { return threadIdx.x; }")
    assert "worker->thread" in made


@pytest.mark.parametrize(
    ("declaration", "made"),
    [
        ("__shared__ float a[16][17], b[4];", ["auto& a", "auto& b", "float a [ 16 ] [ 17 ] , b [ 4 ];"]),
        ("__shared__ typename F<int, 3>::T storage;", ["auto& storage"]),
        ("static __shared__ int n;", ["auto& n"]),
        ("extern __shared__ float s[];", ["float* s = reinterpret_cast<float*>(::host_cuda::dynamic_shared())"]),
        ("extern __shared__ float s[][4 + 1];", ["::std::add_pointer_t<float[ 4 + 1 ]> s = reinterpret_cast"]),
        (
            "extern __shared__ __attribute__((aligned(16))) unsigned char s[];",
            ["unsigned char* s = reinterpret_cast<unsigned char*>"],
        ),
        ("extern volatile __shared__ T s[];", ["volatile T* s = "]),
    ],
)
def test_shared_memory(declaration: str, made: list[str]) -> None:
    text = translated("__global__ void k() { " + declaration + " }")
    assert "__shared__" not in text
    for part in made:
        assert part in text


def test_shared_memory_outside_of_a_function() -> None:
    assert "DynamicShared<float> s" in translated("namespace n { extern __shared__ float s[]; }")


@pytest.mark.parametrize(
    ("source", "is_plain"),
    [
        ("__global__ void k(int* x) { x[threadIdx.x] = 1; }", True),
        ("__global__ void k(int* x) { __syncthreads(); }", False),
        ("__device__ int g() { return 1; } __global__ void k(int* x) { x[threadIdx.x] = g(); }", True),
        ("__device__ int g() { return threadIdx.x; } __global__ void k(int* x) { x[0] = g(); }", False),
        ("__device__ void h() { __syncwarp(); } __device__ void g() { h(); } __global__ void k() { g(); }", False),
        ("struct S { __device__ int operator()() { return threadIdx.x; } }; "
         "template <class F> __global__ void k(F f) { f(); }", False),
        ("__global__ void k(int* x) { __shared__ int s[4]; x[0] = s[0]; }", False),
        ("__global__ void a() { __syncthreads(); } __global__ void k(int* x) { x[threadIdx.x] = 1; }", True),
    ],
)  # fmt: skip
def test_kernels_without_synchronization_are_plain_loops(source: str, is_plain: bool) -> None:
    found = tokens.tokenize(source)
    kernels = list(translation.kernels(found))
    reach = plain.Reach(found, [(kernel.body, kernel.end) for kernel in kernels])
    assert reach.is_plain(kernels[-1].body, kernels[-1].end) == is_plain


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("auto g = cg::this_cluster(); g.sync();", "cluster"),
        ("float v = tex2D<float>(t, 0, 0);", "texture"),
    ],
)
def test_unsupported_code_is_refused_with_its_line(line: str, words: str) -> None:
    text = f'# 1 "user.cu"\n__global__ void k() {{\n  int x;\n  {line}\n}}\n'
    with pytest.raises(refusals.Refused, match=rf"user\.cu:3: error: .*{words}"):
        translation.translate(text, lambda file: False)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('asm volatile("wgmma.fence.sync.aligned;");', "the PTX instruction wgmma.fence.sync.aligned is not supported"),
        ('asm volatile("mov.u32 %0, %%envreg3;" : "=r"(x));', "the special register %envreg3"),
        ('asm volatile("again: bra again;");', "the label again"),
        ('asm("mov.b64 %0, 0;" : "=q"(x));', 'the constraint \\"=q\\"'),
    ],
)
def test_unsupported_assembly_is_an_error_where_it_is_compiled(line: str, words: str) -> None:
    text = f'# 1 "user.cu"\nnamespace host_ptx;\n__global__ void k() {{\n  {line}\n}}\n'
    made = translation.translate(text, lambda file: False).splitlines()[3]
    assert words in made
    assert "__attribute__((error(" in made


def test_assembly_keeps_its_lines_and_leaves_the_hosts_alone() -> None:
    text = '# 1 "user.cu"\nnamespace host_ptx;\nasm("pause");\nasm volatile("" ::: "memory");\n'
    text += 'asm("mov.u32 %0,"\n" 1;" : "=r"(x)); int after;\n'
    made = translation.translate(text, lambda file: False).splitlines()
    assert made[2:4] == ['asm("pause");', 'asm volatile("" ::: "memory");']
    assert made[5].endswith("; int after;")
    assert "::host_ptx::put(ptx_o0" in made[4]


def test_assembly_of_a_file_that_was_not_found_needs_a_flag() -> None:
    with pytest.raises(refusals.Refused, match="compile with -DHOST_CUDA_PTX"):
        translation.translate('# 1 "user.cu"\nasm("mov.u32 %0, 1;" : "=r"(x));\n', lambda file: False)


def test_other_peoples_headers_are_left_alone() -> None:
    text = '# 1 "/usr/include/a.h" 1 3\nasm("nop;");\n# 2 "user.cu" 2\nint NULLs;\n'
    assert translation.translate(text, lambda file: file.startswith("/usr/")) == text


def test_flags_of_nvcc() -> None:
    line = (
        "-MD -MF x.d -gencode=arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 --use_fast_math -lineinfo "
    )
    line += "-Xcompiler -fPIC,-Wall --fmad true --expt-relaxed-constexpr -Iinc -isystem sys -DA=1 -O2 "
    line += "-std=c++17 -c k.cu -o k.o"
    command = flags.read(line.split())
    assert command.sources == ["k.cu"]
    assert command.output == "k.o"
    assert command.architecture == 900
    assert command.reading == ["-MD", "-MF", "x.d", "-Iinc", "-isystem", "sys", "-DA=1", "-std=c++17"]
    assert command.compiling == [
        "-ffast-math",
        "-fno-finite-math-only",
        "-fPIC",
        "-Wall",
        "-ffp-contract=fast",
        "-O2",
        "-std=c++17",
    ]


@pytest.mark.parametrize("flag", ["--fatbin", "--nonsense", "-cubin"])
def test_a_flag_that_is_not_known_is_refused_by_name(flag: str) -> None:
    with pytest.raises(flags.Unknown, match=flag):
        flags.read([flag, "k.cu"])
