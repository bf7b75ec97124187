"""The benchmarks: what they count, how they judge it, and what they write of it."""

import subprocess
import sys
from argparse import ArgumentTypeError
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from itertools import chain
from xml.etree import ElementTree

import psutil
import pytest

from bench import __main__ as command, cluster, report, soak
from bench.capacity import Costs, Need, compute_alone, compute_need
from bench.charts import Bar, draw_bars
from bench.figures import Figure, Results, Section, format_number, make_figure, summarize
from bench.load import BenchError, Proxy, UsageLog, background, tree_cpu_s, upstream
from bench.options import Options
from bench.peers import Peer, Start, check_response, install_peer
from bench.programmes import make_attack_figures, make_fault_figures
from bench.storage import Size, bytes_per_call, make_figures as make_storage_figures, read_size
from bench.turns import Programs, rotate
from bench.workers import Round, make_figures as make_worker_figures, measure_checks
from store.traces.database import TraceDatabase
from tests.store.traffic import make_entry

BUSY_S = 0.3
GRANDCHILD = f"""
import sys, time
while time.process_time() < {BUSY_S}: pass
print(flush=True)
sys.stdin.read()
"""
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {GRANDCHILD!r}])"
COUNTED_S = BUSY_S - 0.02  # the kernel counts in ticks of 0.01 s


@pytest.mark.slow
def test_the_time_of_grandchildren_counts_while_they_run_and_when_they_have_ended():
    before_s = tree_cpu_s(psutil.Process())
    with subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin
        assert child.stdout
        child.stdout.readline()
        assert tree_cpu_s(psutil.Process()) - before_s >= COUNTED_S
        child.stdin.close()
        child.wait(30)
    assert tree_cpu_s(psutil.Process()) - before_s >= COUNTED_S


def test_a_measurement_fails_with_what_was_to_go_on_beside_it():
    def fail(_is_over):
        raise OSError("gone")

    def go_on(is_over):
        is_over.wait()

    measured = []
    with pytest.raises(BenchError, match="gone"), background(fail, go_on):
        measured.append(1)
    assert measured == [1]


def test_rows_that_cannot_be_read_are_not_taken_for_good_ones(tmp_path):
    with closing(UsageLog(tmp_path / "traces.db")) as log:
        for _ in range(2):
            assert log.count() == 0
            with pytest.raises(BenchError, match="cannot be read"):
                log.count_bad()
            log.path.touch()  # and then there is a file, and no view


def make_one(value, target=None, *, is_least=False):
    return Figure(row="row", title="title", value=value, target=target, is_least=is_least)


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (make_one(0.5, 0.5), "met"),
        (make_one(0.51, 0.5), "NOT MET"),
        (make_one(20, 20, is_least=True), "met"),
        (make_one(19, 20, is_least=True), "NOT MET"),
        (make_one(None, 0.5), "not measured"),
        (make_one(7), ""),
    ],
)
def test_a_figure_says_whether_its_target_is_met(figure, verdict):
    assert figure.verdict == verdict


def test_a_summary_counts_targets_and_names_those_that_are_open():
    figures = [make_one(1, 2), make_one(3, 2), make_one(None, 2), make_one(4)]
    assert summarize(figures) == ("1 of 3 targets met\n  NOT MET: title\n  not measured: title")


def test_a_figure_of_several_rounds_is_their_median_with_their_range():
    figure = make_figure("row", "title", [3.0, 1.0, 2.5])
    assert (figure.value, figure.low, figure.high) == (2.5, 1.0, 3.0)
    assert make_figure("row", "title", []).value is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.4567, "0.46"),
        (4.567, "4.57"),
        (45.67, "45.7"),
        (4567.8, "4,568"),
        (0.0, "0"),
        (500, "500"),
    ],
)
def test_numbers_have_the_digits_that_matter(value, text):
    assert format_number(value) == text


def test_a_run_is_read_back_as_it_was_written(tmp_path):
    section = Section(name="cpu", seconds=1.5, others_share=0.2, figures=[make_one(1, 2)])
    results = Results(state={"commit": "abc"}, sections=[section])
    results.write(tmp_path / "results.json")
    assert Results.read(tmp_path / "results.json") == results
    (tmp_path / "other.json").write_text('{"state": {}}')
    with pytest.raises(ValueError, match="not a file of results"):
        Results.read(tmp_path / "other.json")


def test_each_program_begins_as_many_rounds_as_the_others():
    firsts = [rotate("abc", number)[0] for number in range(6)]
    assert {firsts.count(each) for each in "abc"} == {2}
    assert all(sorted(rotate("abc", number)) == list("abc") for number in range(6))


def test_the_most_that_workers_can_make_is_bound_by_the_processors():
    one = Round(calls_per_s=1000, proxy_ms=1.0, others_ms=0.25)
    several = Round(calls_per_s=1500, proxy_ms=1.1, others_ms=0.25)
    rate, possible = make_worker_figures([(one, several)], processors=2)
    assert (rate.value, possible.value) == (1.5, 1.6)


COSTS = Costs(
    title="call",
    alone_proxy=1.0,
    alone_recorder=1.0,
    parts={"proxy": 2.0, "shipper": 0.4, "redis": 0.3, "receiver": 0.6, "recorder": 1.2},
    memory=10.0,
    received=8.0,
    stored=5.0,
)


def test_what_a_rate_needs_follows_from_what_a_call_costs_each_part():
    assert compute_need(COSTS, 1_000) == Need(
        proxy_nodes=2,
        redis_processors=0.5,
        redis_memory_mb=600.0,
        redis_mb_s=8.0,
        recorder_nodes=2,
        disk_gb=432.0,
    )
    assert compute_need(COSTS, 10_000).proxy_nodes == 10
    assert compute_need(COSTS, 1).proxy_nodes == 2


def test_one_machine_records_no_more_than_its_recorder_does():
    assert [compute_alone(COSTS, count) for count in (1, 2, 4)] == [300, 600, 600]


def test_the_costs_of_a_cluster_are_read_from_the_figures_that_its_benchmark_makes():
    case = cluster.CASES[0]
    round_ = cluster.Round(per_s=100.0, parts_ms={**COSTS.parts, "web": 0.0})
    measured = cluster.Measured(
        alone=[round_],
        cluster=[round_],
        backlog=cluster.Backlog(memory=10_000, received=8_000, per_s=500.0),
        stored=5_000,
        idle={"proxy": 0.01},
        idle_commands=25.0,
    )
    section = Section(
        name="cluster",
        seconds=1.0,
        others_share=0.0,
        figures=list(cluster.make_figures(case, measured)),
    )
    found = Costs.read(Results(state={}, sections=[section]), case)
    expected = replace(COSTS, title=case.title, alone_proxy=2.0, alone_recorder=1.2)
    assert found == expected
    assert Costs.read(Results(state={}, sections=[section]), cluster.CASES[1]) is None


def test_the_bytes_of_responses_are_no_part_of_what_a_call_takes():
    start = Size(calls=10, used_bytes=100_000, response_bytes=20_000)
    end = Size(calls=20, used_bytes=200_000, response_bytes=40_000)
    assert bytes_per_call(start, end) == 8_000


def test_the_parts_of_what_a_call_takes_add_up_to_it(tmp_path):
    sizes = []
    with TraceDatabase(tmp_path / "traces.db") as traces:
        for texts in (b"12345", bytes(range(65, 91)), bytes(range(97, 123))):
            bodies = [b"%c" % letter * 3_000 for letter in texts]
            traces.insert([make_entry(request_body=each, response_body=each) for each in bodies])
            sizes.append(read_size(traces.path))
    if not sizes[-1].parts:
        pytest.skip("this SQLite counts no pages; one that was built with dbstat runs this")
    figures = {figure.row: figure for figure in make_storage_figures(*sizes, raw_bytes=3_000)}
    whole = figures.pop("storage/call").value
    del figures["storage/growth"]
    assert len(figures) == 6
    assert sum(figure.value or 0 for figure in figures.values()) == pytest.approx(whole)
    assert figures["storage/text"].value == 3.0


def test_what_faults_do_is_counted_apart_from_what_kills_do():
    case = {"calls": 100, "lost": 0, "double": 0, "wrong": [], "disturbed": 0, "details": []}
    case |= {"p99_ms": None, "control_p99_ms": None}
    report = {
        "cases": [
            case | {"case": "kill -9 of up", "lost": 1, "details": ["call 7: no row"]},
            case | {"case": "kill -9 of a worker", "wrong": ["one", "two"]},
            case | {"case": "upstream floods", "double": 3},
        ],
        "skipped": {"small disk": "it needs root"},
        "p99_target_ms": 100.0,
    }
    figures = {figure.row: figure for figure in make_fault_figures(report)}
    values = {row: figure.value for row, figure in figures.items() if figure.value}
    assert values == {"kills/lost": 1, "kills/wrong": 2, "faults/doubled": 3}
    assert figures["kills/lost"].note == (
        "2 cases, 2 times in all, 200 calls; kill -9 of up: call 7: no row;"
        " kill -9 of a worker: one; kill -9 of a worker: two"
    )
    assert figures["faults/skipped/small disk"].note == "it needs root"


def test_clients_wait_for_a_fault_as_long_as_in_the_median_of_its_runs():
    case = {"calls": 1000, "lost": 0, "double": 0, "wrong": [], "disturbed": 0, "details": []}
    report = {
        "cases": [
            case | {"case": "upstream floods", "p99_ms": 300.0, "control_p99_ms": 200.0},
            case | {"case": "upstream floods", "p99_ms": 90.0, "control_p99_ms": 10.0},
            case | {"case": "upstream floods", "p99_ms": 80.0, "control_p99_ms": 8.0},
            case | {"case": "kill -9 of up", "p99_ms": None, "control_p99_ms": None},
        ],
        "skipped": {},
        "p99_target_ms": 100.0,
    }
    figures = {figure.row: figure for figure in make_fault_figures(report)}
    floods, kill = figures["faults/p99/upstream floods"], figures["faults/p99/kill -9 of up"]
    assert (floods.value, floods.low, floods.high, floods.verdict) == (90.0, 80.0, 300.0, "met")
    assert floods.note == "3,000 calls; 10 ms without the fault meanwhile"
    assert (kill.verdict, kill.note) == ("not measured", "1,000 calls")


def test_an_attack_is_judged_where_enough_others_called_meanwhile_and_named_where_it_did_harm():
    attack = {"harm": None, "p99_ms": None, "control_p99_ms": None}
    attack |= {"pages_p99_ms": None, "control_pages_p99_ms": None}
    attacks = [
        attack | {"name": "slow heads", "calls": 500, "p99_ms": 130.0, "control_p99_ms": 90.0},
        attack | {"name": "two lengths", "calls": 9, "harm": "two seen"},
        attack | {"name": "a large head", "calls": 9},
        attack
        | {"name": "endless", "calls": 9, "pages_p99_ms": 60.0, "control_pages_p99_ms": 20.0},
    ]
    counts = {"cases": 3, "calls": 509, "harmful": 1, "lost": 0, "double": 0}
    report = {"attacks": attacks, "p99_target_ms": 100.0} | counts
    slow, two, pages, harmful, *others = make_attack_figures(report)
    assert (slow.verdict, two.verdict, harmful.verdict) == ("NOT MET", "", "NOT MET")
    assert pages.note == "9 calls; 20 ms without the attack meanwhile"
    assert (pages.row, pages.verdict) == ("attacks/pages_p99/endless", "met")
    assert slow.note == "500 calls; 90 ms without the attack meanwhile"
    assert two.note == "9 calls; HARMFUL: two seen"
    assert all(figure.verdict == "met" for figure in others)


def fail(_):
    raise BenchError("no such package")


def make_peer(**fields):
    does_nothing = {"install": lambda _: None, "read_version": lambda _: "1.0"}
    ends = {"start": lambda *_: Start(command=[sys.executable, "-c", "print('port in use')"])}
    return Peer(**{"name": "peer", "title": "Peer"} | does_nothing | ends | fields)


def test_a_peer_that_cannot_be_installed_or_started_says_why(tmp_path):
    absent = install_peer(
        make_peer(name="absent", install=fail), tmp_path / "environments" / "absent"
    )
    ends = install_peer(make_peer(), tmp_path / "environments" / "peer")
    with ExitStack() as stack:
        direct = stack.enter_context(upstream())
        assert check_response(direct, direct, "small", "") == "same bytes"
        programs = Programs({"direct": direct})
        programs.start_peers(stack, [absent, ends], tmp_path, direct)
    assert programs.failures == {
        "absent": "cannot be installed: no such package",
        "peer": "does not start: port in use",
    }


def test_a_peer_that_fails_is_left_out_and_our_own_program_ends_the_run():
    proxy = Proxy(port=1, paths=[], pids={})
    programs = Programs({"ours": proxy})
    programs.running["peer"] = proxy
    measured = []

    def measure(name, _):
        measured.append(name)
        if name == "peer":
            raise BenchError("cut")

    for number in range(3):
        programs.take_turns(number, measure)
    assert (programs.failures, measured.count("peer"), measured.count("ours")) == (
        {"peer": "cut"}, 1, 3,
    )  # fmt: skip
    with pytest.raises(BenchError, match="broken"):
        programs.take_turns(0, lambda *_: fail_with("broken"))


def fail_with(text):
    raise BenchError(text)


def test_a_section_that_fails_keeps_its_figures_and_the_exit_status_says_so(
    monkeypatch, tmp_path, capsys
):
    def measure(_):
        yield make_one(1, 2)
        raise BenchError("a call is missing")

    monkeypatch.setattr(command, "SECTIONS", {"cpu": measure})
    path = tmp_path / "results.json"
    assert command.main(["--quick", "--only", "cpu/2kb", "--json", str(path)]) == 1
    assert [figure.value for figure in Results.read(path).figures] == [1]
    assert "cpu: a call is missing" in capsys.readouterr().err


def make_section(name, *rows, **more):
    figures = [Figure(row=f"{name}/{row}", title=row, value=1.0) for row in rows]
    return Section(name=name, seconds=2.0, others_share=0.5, figures=figures, **more)


def run_sections(monkeypatch, path, *options, commit="abc", pages=1.0):
    """Run a benchmark of two sections, and return its rows in the file with their values."""

    def measure_pages(_):
        if pages is None:
            raise KeyboardInterrupt
        yield Figure(row="pages/home", title="home", value=pages)

    sections = {"cpu": lambda _: iter([make_one(pages or 0.0)]), "pages": measure_pages}
    monkeypatch.setattr(command, "SECTIONS", sections)
    monkeypatch.setattr(command, "find_commit", lambda: commit)
    with suppress(KeyboardInterrupt):
        command.main(["--json", str(path), *options])
    return {figure.row: figure.value for figure in Results.read(path).figures}


def test_an_interrupted_run_keeps_its_sections_and_the_next_one_makes_the_others(
    monkeypatch, tmp_path
):
    path = tmp_path / "results.json"
    assert run_sections(monkeypatch, path, pages=None) == {"row": 0.0}
    assert run_sections(monkeypatch, path, pages=2.0) == {"row": 0.0, "pages/home": 2.0}
    again = run_sections(monkeypatch, path, "--only", "pages", pages=3.0)
    assert again == {"row": 0.0, "pages/home": 3.0}
    assert Results.read(path).state["command"] == "./run.sh bench && ./run.sh bench --only pages"


def test_a_run_of_another_commit_is_not_continued(monkeypatch, tmp_path):
    path = tmp_path / "results.json"
    run_sections(monkeypatch, path)
    with pytest.raises(SystemExit, match="with commit abc, not def"):
        run_sections(monkeypatch, path, commit="def")


def test_a_part_that_is_measured_again_replaces_its_rows_alone():
    whole = Results(state={}, sections=[make_section("cpu", "2kb", "300kb"), make_section("pages")])
    part = make_section("cpu", "300kb", "new", is_whole=False)
    cpu, _ = whole.with_section(part).sections
    assert [figure.title for figure in cpu.figures] == ["2kb", "300kb", "new"]
    assert (cpu.seconds, cpu.others_share, cpu.is_whole) == (4.0, 0.5, True)
    assert (
        whole.with_section(make_section("cpu", "2kb")).figures == make_section("cpu", "2kb").figures
    )


def test_places_of_this_machine_are_no_part_of_the_command_that_is_told():
    given = ["--quick", "--dir", "/srv/bench", "--json=/srv/r.json", "--only", "cpu/2kb"]
    assert [*command.drop_paths(given)] == ["--quick", "--only", "cpu/2kb"]


def test_sections_and_parts_that_there_are_not_are_refused_with_those_there_are():
    assert command.parse_names("cpu/2kb,cpu/300kb,pages") == {"cpu": ["2kb", "300kb"], "pages": []}
    with pytest.raises(ArgumentTypeError, match="there is no cups; sections are cpu"):
        command.parse_names("cups")
    with pytest.raises(ArgumentTypeError, match="there is no cpu/3kb; parts of cpu: 2kb"):
        command.parse_names("cpu/3kb")


def test_a_run_of_a_section_gives_its_figures(monkeypatch, capsys):
    monkeypatch.setattr(command, "SECTIONS", {"checks": lambda _: measure_checks(300)})
    section, failure = command.run_section("checks", Options(is_quick=True))
    assert failure is None
    assert all(figure.value and figure.value > 0 for figure in section.figures)
    assert capsys.readouterr().out.count("a check of the rate limit") == 2


def test_bars_are_a_picture_with_their_figures_as_text():
    document = draw_bars("Pages & more", [Bar(name="home", value=24, unit="ms", target=100)])
    root = ElementTree.fromstring(document)  # noqa: S314 - our own
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["Pages & more", "home", "24 ms"]


def test_the_plots_in_the_documentation_are_of_its_json():
    drawn = dict(report.draw_plots(Results.read(report.RESULTS)))
    stored = {path.name: path.read_text() for path in report.PLOTS_FOLDER.glob("*.svg")}
    assert stored == drawn


def test_every_row_of_the_short_table_is_one_that_a_run_gives():
    rows = {figure.row for figure in Results.read(report.RESULTS).figures}
    sections = {row.partition("/")[0] for row in rows}  # a run may be of some alone
    assert "cpu" in sections
    wanted = {row for row in report.SUMMARY if row.partition("/")[0] in sections}
    assert {row for row in wanted if "/peer/" not in row} <= rows


def test_every_section_is_described_in_the_documentation():
    page = (report.DOCS / "performance.md").read_text()
    titles = [line.removeprefix("### ").split(", ") for line in page.splitlines() if "### " in line]
    assert set(command.SECTIONS) <= set(chain.from_iterable(titles))


def test_a_soak_is_described_with_its_commit_what_it_found_and_the_memory_of_each_process():
    samples = [
        {"minute": each, "memory_mb": {"recorder": 90.0 + each, "up": 20.0}} for each in range(1, 9)
    ]
    report = {
        "title": "9,000 calls at 50 a second for 3 minutes",
        "at": "2026-01-31T14:03:27.000Z",
        "commit": "0123abc",
        "command": "python -m tests.faults.soak --minutes 3 --rate 50",
        "totals": {"calls": 9000, "lost": 1, "double": 0, "wrong": 0, "disturbed": 0, "verify": 2},
        "growth": ["descriptors of up: 9 to 30"],
        "bytes_per_call": 5480,
        "samples": samples,
    }
    text = soak.describe(report)
    assert "Measured on 2026-01-31 at commit `0123abc` by `python -m tests.faults.soak" in text
    assert (
        "lost 1, double 0, wrong 0, disturbed 0; faults that `taximeter verify` found 2; " in text
    )
    assert "; descriptors of up: 9 to 30; 5.5 KB" in text
    assert "| recorder | 94 MB | 98 MB |" in text
    assert "; nothing grew;" in soak.describe(report | {"growth": []})
