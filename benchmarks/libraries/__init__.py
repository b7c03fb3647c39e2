"""One Gaussian-mutation genetic algorithm on recurrent parity, in several libraries, each in its own process."""
