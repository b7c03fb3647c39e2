from __future__ import annotations

from benchmarks.search_passes import summarize


def test_passes_are_averaged_over_operators_where_the_target_is_reached() -> None:
    rows = [
        {"network": name, "operator": operator, "divergence": "1%", "passes": passes, "by_divergence_alone": alone}
        | {"unreached": unreached}
        for name, operator, passes, alone, unreached in (
            ("cnn", "control", "2", "4", "0"),
            ("cnn", "sm-g-sum", "3", "8", "0"),
            ("gru", "control", "1", "1", "0"),
            ("gru", "sm-g-sum", "40", "40", "2"),
        )
    ]
    _, _, cnn, gru, mean = summarize(rows)
    assert cnn == "| cnn | 2.5 |  |  | 6.0 |  |  |"
    assert gru == "| gru | 1.0 |  |  | 1.0 |  |  |"
    assert mean == "| mean | 2.0 |  |  | 4.3 |  |  |"
