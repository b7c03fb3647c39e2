"""One Gaussian-mutation genetic algorithm on recurrent parity, in several libraries, each in a process of its own."""
