#!/usr/bin/env bash
# A whole benchmark of phantoms in a temporary folder: local, then on Ray, and both must agree.
set -euo pipefail
bin="$(cd "$(dirname "$0")/../.venv/bin" && pwd)"  # made by: make bench-smoke
plan="$(cd "$(dirname "$0")" && pwd)/smoke.toml"
place="$(mktemp -d)"
trap 'rm -rf "$place"' EXIT
export OMP_NUM_THREADS=1
cd "$place"
cp "$plan" plan.toml
"$bin/sitta" data phantom data --sites alder,birch --images 6 --size 32x32
"$bin/sitta" bench plan plan.toml
"$bin/sitta" bench run plan.toml --out local --workers 2
"$bin/sitta" bench run plan.toml --out ray --ray local
for each in local ray; do
  "$bin/sitta" bench table "$each" --format csv --out "tables-$each"
done
diff -r tables-local tables-ray
"$bin/sitta" bench status ray
"$bin/sitta" bench figure local --out figures
"$bin/sitta" bench report local --out report.html
echo "bench-smoke: the tables of both runs are equal"
