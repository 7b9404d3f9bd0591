#!/bin/sh
# What `make demo` runs inside the local cloud, whose folder is $1.
set -eu
bin/coppice stage examples/clicks/dataset.yaml
bin/coppice sweep examples/clicks/sweep.yaml
echo
bin/coppice registry show ctr
cat <<END
Look further, for as long as $1 is there; the first serves the sweep's page and the model's until Ctrl-C:
  export COPPICE_LOCAL=$1
  bin/coppice console
  bin/coppice status
  bin/coppice leaderboard
  bin/coppice registry show ctr --history
  bin/coppice predict --model ctr --in build/demo/clicks.parquet --out build/demo/scored.csv
END
