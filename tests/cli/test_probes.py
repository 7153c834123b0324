"""The fate of a fact that left the context: it is there, a search finds it, or it is lost."""

from siltstone.cli.replay import Probe, Retention, probes_of, retention

TEXT = """The build took 184,512 milliseconds on the second machine.
It is written to /srv/data/out/report.json every night.
TypeError: cannot add a str to an int in the parser
We decided to use the exact index instead of the graph."""


def test_numbers_paths_errors_and_decisions_are_found_and_no_query_has_its_answer():
    probes = {probe.kind: probe for probe in probes_of([TEXT])}
    assert {kind: probe.text for kind, probe in probes.items()} == {
        "numbers": "184,512",
        "paths": "/srv/data/out/report.json",
        "errors": "TypeError: cannot add a str to an int in the parser",
        "decisions": "We decided to use the exact index instead of the graph.",
    }
    assert all(probe.text not in probe.query and probe.query for probe in probes.values())


def test_a_probe_is_in_the_context_found_or_lost():
    probes = [Probe("numbers", text, text) for text in ("1111", "2222", "3333")]
    kept = retention(probes, "it says 1111", lambda query, limit: ["2222 is here"][:limit])
    assert kept["numbers"] == Retention(in_context=1, found=1, lost=1)
    assert kept["paths"].total == 0


def test_a_text_without_facts_has_no_probes():
    assert probes_of(["", "Hello there.", "12 34"]) == []
