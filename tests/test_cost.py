"""Prices: the profile that is read, and what makes a kernel dearer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tegg.extract.cost import load_costs
from tegg.dtype import f16, f32
from tegg.errors import ArgumentError
from tegg.ir.template import Execution, Extents
from tegg.ir.demand import Demand, Product

COSTS = load_costs("cpu/generic")


def profile(**changes) -> str:
    """A small valid profile as TOML, with lines replaced or left out (None)."""
    lines = {"name": '"t"', "threads": "2", "launch": "1e-6", "overlap": "0.5", "store": "1.0",
             "loop_rate": "1e9", "load": "0.5", "keep": "8.0", "product_rate": "1e10",
             "product_half": "[1.0, 1.0, 1.0]", "panel": "512",
             "levels": "[{size = inf, thread = 1e9, total = 2e9}]", **changes}
    return "\n".join(f"{k} = {v}" for k, v in lines.items() if v is not None)


def written(tmp_path, text: str):
    path = tmp_path / "p.toml"
    path.write_text(text)
    return path


def loops(operations: float, rows=None) -> Demand:
    return Demand(loops=[(f32, operations)], rows=rows)


def test_shipped_profile_is_read_and_threads_can_be_set():
    assert COSTS.name == "cpu/generic" and COSTS.threads == 2
    assert load_costs("cpu/generic", threads=7).threads == 7
    assert load_costs("cpu").name == "cpu/generic"


def test_profile_from_a_file(tmp_path):
    costs = load_costs(written(tmp_path, profile()))
    assert costs.levels[0].total == 2e9 and costs.ops == {}


@pytest.mark.parametrize("text, says", [
    ("threads = [", "is not TOML"),
    (profile(colour="1"), "colour is unknown or missing"),
    (profile(panel=None), "panel is unknown or missing"),
    (profile(threads='"many"'), "invalid literal"),
    (profile(levels="3"), "not iterable"),
    (profile(levels="[]"), "at least one level"),
    (profile(loop_rate="0"), "rates, sizes, panel and templates are above 0"),
    (profile(overlap="1.5"), "overlaps are 0 to 1"),
    (profile(call="-1.0"), "above 0"),
    (profile(launch="nan"), "nan is no number"),
    (profile(levels="[{size = inf, thread = nan, total = 2e9, store = 1.0}]"), "nan is no number"),
    (profile(levels="[{size = inf, thread = 1e9, total = 2e9, store = 0.0}]"), "above 0"),
    (profile(apart="1"), "apart is true or false, not 1"),
    (profile(product_half="[1.0]"), "product_half has three numbers"),
    (profile(overlap_products=1.5), "overlaps are 0 to 1"),
    (profile(overlap_products=-0.5), "overlaps are 0 to 1"),
    (profile(template_reads="{CpuDots = 0.0}"), "templates are above 0"),
    (profile(ahead_far=-0.1), "overlaps are 0 to 1"),
    (profile(fresh=0.0), "rates, sizes"),
])
def test_a_bad_profile_is_refused(tmp_path, text, says):
    with pytest.raises(ArgumentError, match=says):
        load_costs(written(tmp_path, text))


@pytest.mark.parametrize("name, says", [
    ("mine.egg", r"mine.egg is a file of rules, which compilers take: tegg.Compiler\('mine.egg'\)"),
    ("mine.txt", "mine.txt is no .toml file"), ("folder", "folder is a folder")])
def test_what_is_no_profile_is_told_by_what_it_is(tmp_path, name, says):
    path = tmp_path / name
    path.mkdir() if name == "folder" else path.write_text("(ruleset mine)")
    with pytest.raises(ArgumentError, match=f"{says}; a cost profile .TEGG_COSTS. is a .toml file"):
        load_costs(str(path))


def test_a_missing_profile_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="no cost profile .*cpu/generic"):
        load_costs(tmp_path / "none.toml")
    with pytest.raises(ArgumentError, match="no cost profile abacus/old"):
        load_costs("abacus/old")


def test_storage_forms_have_sizes():
    assert COSTS.itemsize(f32) == 4 and COSTS.itemsize(f32, "f16") == 2
    assert replace(COSTS, forms={"q8": 1.25}).itemsize(f16, "q8") == 1.25
    with pytest.raises(ArgumentError, match="no size for the storage form 'q8'"):
        COSTS.itemsize(f32, "q8")


def test_bytes_count_under_a_compute_bound_kernel():
    """A roofline by max alone would price these two the same."""
    work = loops(1e9)
    assert COSTS.seconds(work, [1e6], []) < COSTS.seconds(work, [8e6], [])
    flat = replace(COSTS, overlap=1.0)
    assert flat.seconds(work, [1e6], []) == flat.seconds(work, [8e6], [])


def test_products_hide_more_than_loops():
    costs = replace(COSTS, overlap=0.0, overlap_products=1.0)
    extents = Extents(1, 64, 64, 64, f32)
    work, loop = Demand(products=[Product(extents, "Contract")]), loops(1e6)
    alone, least = costs.seconds(work, [], []), costs.launch
    assert costs.seconds(work, [1e3], []) == alone
    assert costs.seconds(loop, [1e3], []) > costs.seconds(loop, [], [])
    plain = replace(costs, overlap_products=None)  # as loops then
    assert plain.seconds(work, [1e3], []) == pytest.approx(
        alone + plain.seconds(Demand(), [1e3], []) - least)


def test_a_form_that_reads_slowly_pays_for_what_it_reads():
    """Arguments and weights, and not for what it writes."""
    costs = replace(COSTS, overlap=0.0, template_reads={"Slow": 1.5})
    slow, plain = (Demand(products=[Product(Extents(1, 64, 64, 64, f32), op)])
                   for op in ("Slow", "Contract"))
    read, rest = COSTS.memory(1e8, 2), pytest.approx(costs.seconds(plain, [], [1e7], [1e8], 1e8))
    assert costs.seconds(slow, [], [1e7], [1e8], 1e8) - 0.5 * read == rest
    assert costs.seconds(slow, [1e8], [1e7]) - 0.5 * read == rest


def test_weights_come_from_where_all_of_them_lie():
    """One fits a cache, all that a run reads do not."""
    near = COSTS.seconds(Demand(), [], [], [1e6], 1e6)
    assert near == COSTS.seconds(Demand(), [1e6], [])
    assert COSTS.seconds(Demand(), [], [], [1e6], 1e9) > 2 * near
    assert COSTS.memory(1e9, 1, among=1e6) == COSTS.memory(1e9, 1)


def test_a_launch_is_the_least_a_kernel_costs():
    assert COSTS.seconds(Demand(), [], []) == COSTS.launch


def test_one_row_keeps_one_thread_busy():
    assert COSTS.seconds(loops(1e6, rows=1), [], []) > 1.9 * (
        COSTS.seconds(loops(1e6, rows=2), [], []) - COSTS.launch)


def test_bytes_that_fit_in_a_cache_are_cheaper():
    assert 1000 * COSTS.memory(1e6, 2) < COSTS.memory(1e9, 2)


def test_one_kernel_reads_no_slower_than_two():
    together = COSTS.seconds(Demand(), [9e5, 9e5, 9e5], [9e5, 9e5])
    apart = COSTS.seconds(Demand(), [9e5, 9e5], [9e5]) + COSTS.seconds(Demand(), [9e5], [9e5])
    assert together == pytest.approx(apart - COSTS.launch)


def test_written_bytes_cost_more_than_read_ones_unless_they_go_past_the_caches():
    assert COSTS.seconds(Demand(), [], [1e7]) > COSTS.seconds(Demand(), [1e7], [])
    assert COSTS.seconds(Demand(), [], [1e8]) == COSTS.seconds(Demand(), [1e8], [])


def test_thin_products_run_at_a_lower_rate():
    thick, thin = (Product(Extents(*e, 512, 512, f32)) for e in ((1, 512), (512, 1)))
    assert thick.extents.flops == thin.extents.flops
    assert COSTS.product(thin) > 2 * COSTS.product(thick)


def test_a_template_is_priced_by_what_it_executes():
    square = Extents(1, 512, 512, 512, f32)

    def product(op="CpuPacked", ready=False, **more):
        return Product(square, op, Execution(square.flops, **more), ready)

    def seconds(p):
        return COSTS.seconds(Demand(products=[p]), [], [])

    plain = COSTS.product(product())
    assert COSTS.product(product(speed=0.5)) == pytest.approx(2 * plain)
    assert COSTS.product(product(packed=10**6)) > plain
    kept = product(packed=10**6, kept=10**6), product(packed=10**6, kept=10**6, ready=True)
    assert seconds(kept[0]) > seconds(kept[1]) > seconds(product())
    assert COSTS.product(product(packed=10**6, ready=True)) > COSTS.product(kept[1])
    assert seconds(product(stages=1)) == pytest.approx(seconds(product()) + COSTS.launch)
    assert seconds(product(aside=10**8)) > seconds(product())
    slow = replace(COSTS, templates={"CpuPacked": 3.0})
    assert slow.product(product()) == pytest.approx(3 * plain)
    assert slow.product(product("CpuRows")) == plain


def test_a_copy_of_a_weight_that_no_cache_holds_has_to_earn_its_memory():
    free = replace(COSTS, ahead=0.0, ahead_far=0.0)

    def each(costs, elements):
        """What a run pays of packing so many elements ahead, by element."""
        work = Product(Extents(1, 1, 1, elements, f32), "CpuPacked",
                       Execution(2.0 * elements, packed=elements, kept=elements), ready=True)
        return (costs.seconds(Demand(products=[work]), [], [])
                - free.seconds(Demand(products=[work]), [], [])) / elements

    assert each(COSTS, 1 << 24) > 4 * each(COSTS, 1 << 20) > 0
    fresh = replace(COSTS, fresh=COSTS.fresh / 2)
    assert each(fresh, 1 << 24) > each(COSTS, 1 << 24)


def test_what_one_thread_does_sooner_is_left_to_it():
    known = replace(COSTS, launch=2e-6, call=1e-7)
    tiny, large = loops(1e3), loops(1e8)
    assert known.seconds(tiny, [], []) == known.with_threads(1).seconds(tiny, [], []) < 2e-7
    assert known.seconds(large, [], []) < 0.6 * known.with_threads(1).seconds(large, [], [])
    assert known.start == 1e-7 and COSTS.start == COSTS.launch


def test_the_seconds_from_which_threads_share_a_kernel_agree_with_its_price():
    known = replace(COSTS, launch=2e-6, call=0.0)
    for operations in (1e4, 3e4, 1e5, 1.1e5, 1.2e5, 3e5):
        work = loops(operations)
        price, alone = (c.seconds(work, [], []) for c in (known, known.with_threads(1)))
        assert (price < known.serial) == (price == alone)
    assert COSTS.serial == COSTS.with_threads(1).serial == 2e-6


def test_a_level_may_have_a_price_of_its_own_for_stores():
    levels = tuple(replace(v, store=3.0) for v in COSTS.levels)
    own = replace(COSTS, levels=levels)
    assert own.written(1e5, 1) == pytest.approx(3.0 * own.memory(1e5, 1))
    assert COSTS.written(1e5, 1) == pytest.approx(COSTS.store * COSTS.memory(1e5, 1))


def test_a_profile_is_read_again_only_where_its_file_has_changed(tmp_path):
    path = written(tmp_path, profile())
    first = load_costs(path)
    assert load_costs(path) is first and load_costs(path, 3).threads == 3
    written(tmp_path, profile(panel="1024"))
    assert load_costs(path).panel == 1024


def test_a_profile_says_what_differs_from_a_shipped_one(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('base = "cpu/generic"\nname = "mine"\npack = 7.0\n[templates]\nCpuPairs = 0.5\n')
    mine = load_costs(path)
    assert mine == replace(COSTS, name="mine", pack=7.0,
                           templates={**COSTS.templates, "CpuPairs": 0.5})
    assert load_costs("cpu/zen4").templates["CpuPairs"] < COSTS.templates["CpuPairs"]


@pytest.mark.parametrize("base", ['"cpu/none"', '"mine.toml"', "3"])
def test_a_base_is_a_shipped_profile(tmp_path, base):
    path = tmp_path / "mine.toml"
    path.write_text(f"base = {base}\n")
    with pytest.raises(ArgumentError, match="mine.toml: base is the name of a shipped profile"):
        load_costs(path)
