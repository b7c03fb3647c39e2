"""Drawing, films and replays of what champions and their mutants do."""
