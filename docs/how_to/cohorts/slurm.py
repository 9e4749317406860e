"""Workers of a cohort through Slurm: start this where jobs may be submitted, and leave it running.

pip install 'duotomo[cluster]' dask-jobqueue
python slurm.py 20                      # 20 jobs; it prints the address for duotomo cohort --scheduler
"""

from __future__ import annotations

import sys
import time

from dask_jobqueue import SLURMCluster


def main() -> None:
    """Keep a scheduler here, and so many jobs with one worker each."""
    # One case at once for each job: processes=1 and one thread of Dask. Let cores be what --threads says.
    cluster = SLURMCluster(cores=1, processes=1, memory="16GB", job_cpu=4, queue="short", walltime="08:00:00")
    cluster.scale(jobs=int(sys.argv[1]))
    print(f"duotomo cohort women.csv --out results --threads 4 --scheduler {cluster.scheduler_address}")
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
