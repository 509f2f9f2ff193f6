#!/usr/bin/env bash
# search_fuzz.sh [SECONDS [SEED]]: searches with every fuzz target for SECONDS (default 30) each, from
# its seeds and what is kept in tests/fuzz/corpus on. What is found is printed, as a file to keep
# there, and fails. SEED (default: from the commit) starts libFuzzer's random numbers: a commit is
# searched alike wherever its checks run, so that what passed does not fail later by chance.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
seconds=${1:-30}
seed=${2:-$((16#$(git rev-parse --short=7 HEAD)))}

mapfile -t targets < <(bazel query --noshow_progress 'attr(name, "_search$", //tests/fuzz:all)' \
  2>/dev/null </dev/null)
[[ ${#targets[@]} -gt 0 ]] || { echo "fuzz: there is no target" >&2; exit 1; }
bazel build --config=asan --noshow_progress "${targets[@]}" </dev/null
bin=$(bazel info --config=asan bazel-bin 2>/dev/null </dev/null)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

search() {
  local name=$1
  local found=$work/$name.found kept=tests/fuzz/corpus/${name%_search}
  mkdir "$name.corpus"
  # libFuzzer's choices depend on addresses too.
  if ! setarch --addr-no-randomize "$bin/tests/fuzz/$name" --seeds="$name.corpus" \
    --kept="$root/$kept" "$name.corpus" -max_total_time="$seconds" -seed="$seed" -timeout=10 \
    -rss_limit_mb=2048 -print_final_stats=1 -exact_artifact_path="$found" >"$name.log" 2>&1; then
    tail -n 40 "$name.log" >&2
    echo "fuzz: $name found something (seed $seed)" >&2
    if [[ -e $found ]]; then
      echo "fuzz: so that it stays tested, put this into $kept/, in a file that says what it is:" >&2
      od -An -v -w32 -tx1 "$found" >&2
    fi
    return 1
  fi
  grep -q ' seed corpus: files: [1-9]' "$name.log" || { echo "fuzz: $name has no seeds" >&2; return 1; }
  printf 'fuzz: %-22s %12s executions, nothing found\n' "$name" \
    "$(awk '/stat::number_of_executed_units/ {print $2}' "$name.log")"
}
export -f search
export bin root seconds seed work
# One search a core; all of them run, also after one has found something.
printf '%s\n' "${targets[@]##*:}" | xargs -P "$(nproc)" -I{} bash -c 'search {}'
