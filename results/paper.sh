#!/usr/bin/env bash
# The paper's experiments at full scale, in the order in which they are worth having. Everything can be interrupted: run the
# same command again, and it continues where it was.
#
#     results/paper.sh DIR QUEUE...      # with tfsm on the PATH; queues: pixels, small, first-person, large, probes, sweeps
#
# Two queues fit on two cores: TF_NUM_INTRAOP_THREADS=1 nice -n 19 results/paper.sh studies pixels
set -euo pipefail
base=$1
shift

# One operator of an experiment, in the directory in which `tfsm reproduce` looks for it.
operator() { # FIGURE DOMAIN OPERATOR RUNS
    # A few runs at a time, so that some end early. Checkpoints of large populations are large.
    tfsm compare "$2" --mutation "$3" --runs "$4" --profile published --out "$base/$1/$2" \
        --set engine.width=5 --checkpoint-every 10m --quiet --json >"$base/$2-$3.json"
}

for queue in "$@"; do
    mkdir -p "$base"
    case $queue in
    pixels)
        for name in sm-g-sum sm-g-so control; do operator topdown topdown-maze $name 20; done
        tfsm reproduce topdown --out "$base/topdown" --quiet
        ;;
    small)
        for name in parity robustness hard-maze simple; do
            # The robustness is that of parity's solutions.
            out=$base/${name/robustness/parity}
            tfsm reproduce $name --out "$out" --quiet
        done
        ;;
    first-person)
        for name in sm-g-so sm-g-sum control; do operator first-person first-person-maze $name 10; done
        ;;
    large)
        for name in sm-g-sum control sm-g-so; do operator large-scale hard-maze-32 $name 20; done
        for domain in hard-maze-101 hard-maze-64; do
            for name in sm-g-sum control sm-g-so; do operator large-scale $domain $name 10; done
        done
        ;;
    probes)
        # Which limit of a weight's change lets SM-G-SUM win in a large network?
        for limit in none 0.2 0.05 0.02 0.01; do
            out=$base/probes/sum-$limit
            if [ -f "$out/run.json" ]; then tfsm run --resume "$out" --quiet; continue; fi
            tfsm run hard-maze-32 --mutation sm-g-sum --runs 4 --evaluations 10000 --profile published \
                --set max_change=$limit --checkpoint-every 10m --out "$out" --quiet
        done
        ;;
    sweeps)
        tfsm sweep parity --profile published --out "$base/sweep-parity" --quiet
        tfsm sweep topdown-maze --mutation control,sm-g-sum,sm-g-so --profile published --out "$base/sweep-topdown" --quiet
        ;;
    *)
        echo "no queue named $queue: pixels, small, first-person, large, probes, sweeps" >&2
        exit 2
        ;;
    esac
done
