#!/bin/sh
# What `make demo` runs inside the local cloud, whose folder is $1.
set -eu
bin/launcher stage examples/clicks/dataset.yaml
bin/launcher sweep examples/clicks/sweep.yaml
echo
bin/launcher registry show ctr
cat <<END
Look further, for as long as $1 is there; the first serves the sweep's page and the model's until Ctrl-C:
  bin/localemu exec --data $1 -- bin/launcher console
  bin/localemu exec --data $1 -- bin/launcher status
  bin/localemu exec --data $1 -- bin/launcher registry show ctr
  bin/localemu exec --data $1 -- bin/launcher registry show ctr --history
  bin/localemu exec --data $1 -- bin/launcher predict --model ctr --in build/demo/clicks.parquet --out build/demo/scored.csv
END
