"""Pictures and films of what champions, their mutants and populations do."""
